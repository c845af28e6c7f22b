"""Corrections of a profile: from a calibration whose answer is known, or refused with a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.cluster import Cluster, Curve, DeviceKind, Level, Link, NodeGroup
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.costs.compute import layer_times
from explorer.costs.update_time import update_seconds
from explorer.run.judging.calibrate import Calibrated, calibrate
from explorer.run.judging.profile_correction import correct, same_device
from explorer.run.model import model_graph, transformer
from explorer.run.spec import Calibration
from explorer.workload import Job

MODEL = transformer(2, d_model=64, seq=16)
JOB = Job(global_batch=8, precision="fp32", optimizer="adam")


def cpu_cluster(**fields: Any) -> Cluster:
    """Two nodes of two processors with numbers that somebody guessed."""
    kind = DeviceKind(
        name="cpu", memory_bytes=4e9, memory_bandwidth_bytes_per_s=1e12, peak_flops_per_s=(("fp32", 5e11),),
        efficiency=(("matmul", Curve(points=((1e6, 0.3), (1e9, 0.6)))),),
    )  # fmt: skip
    known: dict[str, Any] = {
        "name": "two-cpus",
        "device_kinds": (kind,),
        "nodes": (NodeGroup(count=2, device_kind="cpu", devices_per_node=2),),
        "levels": (
            Level(name="host", kind="shared_memory", scope="node", latency_s=1e-5, bandwidth_bytes_per_s=9e9),
            Level(name="lan", kind="ethernet", scope="all", latency_s=1e-4, bandwidth_bytes_per_s=1e9),
        ),
    }
    return Cluster(**known | fields)


def seconds_of_update(kind: DeviceKind) -> float:
    elements = sum(item.elements for item in model_graph(MODEL).parameters)
    return update_seconds(kind, elements=elements, optimizer="adam", precision="fp32")


def observed(kind: DeviceKind, *, slower: float = 1.0, precision: str = "fp32") -> Calibrated:
    """What a run would measure if the processors were as `kind` says, and updates so many times slower."""
    plain = model_graph(MODEL)
    like = replace(
        plain,
        layers=tuple(replace(x, kind="linear" if x.kind == "attention" else x.kind) for x in plain.layers),
    )
    times = layer_times(like, kind, samples=4, precision=precision)
    units = [[float(a), float(b + c)] for a, b, c in times.T]
    update_s = slower * seconds_of_update(kind)
    row = {
        "units": {"4": units},
        "update_s": update_s,
        "cpu_share": 1.0,
        "messages": {"4": 1e-4, "1000004": 1.1e-3},
        "reduces": {"4": 2e-4, "1000000": 3e-3},
    }
    known = calibrate(Calibration(model=MODEL, samples=(), optimizer="adam"), [[row], [row]], ranks=2)
    return replace(known, precision=precision)


@settings(max_examples=25, deadline=None)
@given(share=st.floats(0.05, 0.95))
def test_a_factor_that_was_put_in_is_found_again(share: float) -> None:
    """Processors that reach `share` of a peak with a flat curve of 0.5: products come out at `share`."""
    kind = replace(cpu_cluster().device_kinds[0], efficiency=(("matmul", Curve(points=((1.0, 0.5),))),))
    real = replace(kind, efficiency=(("matmul", Curve(points=((1.0, share),))),))
    found = correct(cpu_cluster(device_kinds=(kind,)), JOB, observed(real), device="cpu")
    change = next(item for item in found.changes if item.what == "matmul")
    assert (change.before, change.after) == (0.5, pytest.approx(share, rel=1e-6))


def test_links_and_memory_come_out_as_measured_and_the_rest_is_named(tmp_path: Path) -> None:
    cluster = cpu_cluster()
    known = observed(cluster.device_kinds[0], slower=3.0)
    found = correct(cluster, JOB, known, device="cpu")
    made = found.cluster
    assert made is not None
    assert made.name == "two-cpus calibrated"
    path = made.path(0, 1)
    assert path.latency_s + 1000004 / path.bandwidth_bytes_per_s == pytest.approx(1.1e-3, rel=1e-3)
    assert seconds_of_update(made.kind_of(0)) == pytest.approx(3 * seconds_of_update(cluster.kind_of(0)))
    assert made.path(0, 2) == cluster.path(0, 2), "nothing was sent between nodes"
    assert "lan: the run stayed within one machine" in found.kept
    save_cluster(made, tmp_path / "made.yaml")
    assert load_cluster(tmp_path / "made.yaml") == made


def test_correcting_twice_names_it_once_and_changes_nothing_more() -> None:
    known = observed(cpu_cluster().device_kinds[0])
    once = correct(cpu_cluster(), JOB, known, device="cpu").cluster
    assert once is not None
    again = correct(once, JOB, known, device="cpu")
    assert again.cluster is not None
    assert again.cluster.name == once.name
    assert all(item.after == pytest.approx(item.before, rel=1e-6) for item in again.changes)


def test_no_fraction_becomes_more_than_one() -> None:
    slow = replace(cpu_cluster().device_kinds[0], peak_flops_per_s=(("fp32", 1e9),))
    found = correct(
        cpu_cluster(device_kinds=(slow,)), JOB, observed(cpu_cluster().device_kinds[0]), device="cpu"
    )
    assert found.cluster is not None
    assert max(share for _, curve in found.cluster.kind_of(0).efficiency for _, share in curve.points) <= 1
    assert any(text.startswith("cpu.matmul: measured at more") for text in found.kept)


def test_compute_stays_where_the_plan_computes_otherwise() -> None:
    known = observed(cpu_cluster().device_kinds[0])
    found = correct(cpu_cluster(), replace(JOB, precision="bf16"), known, device="cpu")
    assert "matmul" not in {item.what for item in found.changes}
    assert "compute: the run computes in fp32, the plan in bf16" in found.kept


def test_what_ran_in_bf16_is_compared_with_rates_of_bf16() -> None:
    """Four times the rate of fp32 at an efficiency of 0.3: no other rate gives 0.3 back."""
    peaks = (("fp32", 1e11), ("bf16", 4e11))
    kind, real = (
        replace(
            cpu_cluster().device_kinds[0], peak_flops_per_s=peaks,
            efficiency=(("matmul", Curve(points=((1.0, share),))),),
        )
        for share in (0.5, 0.3)
    )  # fmt: skip
    known, cluster = observed(real, precision="bf16"), cpu_cluster(device_kinds=(kind,))
    found = correct(cluster, replace(JOB, precision="bf16"), known, device="cpu")
    change = next(item for item in found.changes if item.what == "matmul")
    assert (change.before, change.after) == (0.5, pytest.approx(0.3, rel=1e-6))
    other = correct(cluster, JOB, known, device="cpu")
    assert "matmul" not in {item.what for item in other.changes}
    assert "compute: the run computes in bf16, the plan in fp32" in other.kept


def test_links_that_are_listed_one_by_one_stay() -> None:
    links = (Link(source=0, target=1, kind="pcie", latency_s=1e-5, bandwidth_bytes_per_s=1e9),)
    found = correct(cpu_cluster(links=links), JOB, observed(cpu_cluster().device_kinds[0]), device="cpu")
    assert found.cluster is not None
    assert found.cluster.levels == cpu_cluster().levels
    assert any("listed one by one" in text for text in found.kept)


def test_accelerators_are_never_corrected_from_processors() -> None:
    known = observed(cpu_cluster().device_kinds[0])
    found = correct(load_cluster("dgx-a100"), JOB, known, device="cpu")
    assert found.cluster is None
    assert not found.changes
    for words in ("a100-sxm-80gb", "processors of this machine", "To calibrate, run"):
        assert words in found.refusal


@pytest.mark.parametrize(
    ("kind", "device", "same"),
    [
        ("h100-sxm-80gb", "NVIDIA H100 80GB HBM3", True),
        ("h100-sxm-80gb", "NVIDIA H200", False),
        ("a100-sxm-80gb", "NVIDIA A10", False),
        ("cpu", "NVIDIA H200", False),
        ("cpu_avx512", "cpu", True),
    ],
)
def test_which_devices_are_the_same(kind: str, device: str, same: bool) -> None:
    assert same_device(kind, device) is same


def test_of_accelerators_only_links_are_corrected() -> None:
    known = observed(cpu_cluster().device_kinds[0])
    found = correct(load_cluster("dgx-a100"), JOB, known, device="NVIDIA A100-SXM4-80GB")
    assert found.cluster is not None
    assert {item.quantity for item in found.changes} == {"bytes_per_s", "seconds", "fraction"}
    assert "matmul" not in {item.what for item in found.changes}
    assert any("far too small" in text for text in found.kept)
