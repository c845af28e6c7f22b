"""Traces: what a hand-written one says, operator by operator, and how malformed ones are met."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import ExplorerError, InputError
from explorer.calibrate.estimate import MODEL_SD, estimate
from explorer.calibrate.files import read_evidence, read_json
from explorer.calibrate.kineto import FEWEST_LAUNCHES, trace_evidence
from explorer.calibrate.numbers import shifted
from explorer.calibrate.operators import graph_of, product
from explorer.calibrate.torch_operators import operator_of
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds
from tests.calibrate.machines import CPU, GPU, machine
from tests.calibrate.traces import call, collective, span, trace

SIZES = [(64, 64, 64), (512, 1024, 256), (4096, 4096, 1024), (8192, 8192, 8192)]


def products_of(truth: Cluster) -> list[dict[str, Any]]:
    """Three calls of each product, one of them disturbed, as they would take on a machine."""
    events = []
    for i, (m, n, k) in enumerate(SIZES):
        seconds = product(m, n, k, precision="bf16").device_seconds(truth, GPU)
        for j, slower in enumerate((1.0, 1.0, 30.0)):
            events += call(10 * i + j, "aten::mm", [[m, k], [k, n]], seconds * slower * 1e6)
    return events


def test_products_of_a_trace_bring_the_profile_to_the_machine() -> None:
    truth = shifted(machine(), {f"{GPU}.matmul": 0.8})
    evidence = trace_evidence(trace(*products_of(truth)), machine(), name="t.json")
    assert len(evidence.observations) == len(SIZES), "equal calls are one observation"
    found = estimate(machine(), [evidence])
    assert found.error_after_pct < found.error_before_pct / 3
    (matmul,) = (item for item in found.changes if item.number.name == "matmul")
    assert 0.8 < matmul.after / matmul.number.value < 0.9, "shrunk towards the profile"


def test_kernels_of_one_operator_add_up_and_the_median_of_calls_counts() -> None:
    first = call(1, "aten::addmm", [[32], [16, 8], [8, 32]], 10.0)
    split = span("splitKreduce", "kernel", 40.0, 5.0, **{"External id": 1})
    rest = [e for i in (2, 3) for e in call(i, "aten::addmm", [[32], [16, 8], [8, 32]], 15.0 + i)]
    (seen,) = trace_evidence(trace(*first, split, *rest), machine(), name="t").observations
    assert seen.measured_s == pytest.approx(17e-6)
    assert seen.sd >= MODEL_SD


def test_without_kernels_a_trace_is_of_a_processor() -> None:
    event = span("aten::mm", "cpu_op", 0.0, 40.0, **{
        "External id": 1, "Input Dims": [[8, 8], [8, 8]], "Input type": ["float", "float"]
    })  # fmt: skip
    (seen,) = trace_evidence(trace(event, device=None), machine(CPU), name="t").observations
    assert seen.measured_s == pytest.approx(40e-6)
    with pytest.raises(InputError, match="seconds of the one say nothing about the other"):
        trace_evidence(trace(event), machine(GPU), name="t")


@pytest.mark.parametrize(
    ("device", "said"), [("NVIDIA H200", "NVIDIA H200"), ("NVIDIA GeForce RTX 3090", "RTX 3090")]
)
def test_a_trace_of_another_device_is_refused(device: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        trace_evidence(trace(*products_of(machine()), device=device), machine(), name="t")


def test_an_unnamed_accelerator_is_taken_for_the_only_one_and_said() -> None:
    evidence = trace_evidence(trace(*products_of(machine()), device=None), machine(), name="t")
    assert f"the trace does not name its device; taken for {GPU}" in evidence.remarks


@pytest.mark.parametrize(
    ("name", "dims", "more", "flops", "moved"),
    [
        ("mm", [[4, 5], [5, 6]], {}, 240, 20 + 30 + 24),
        ("addmm", [[6], [4, 5], [5, 6]], {}, 240, 20 + 30 + 24),
        ("bmm", [[3, 4, 5], [3, 5, 6]], {}, 720, 3 * (20 + 30 + 24)),
        ("gelu", [[4, 8]], {}, 32, 64),
        ("add", [[4, 8], [4, 8], []], {}, 32, 96),
        ("copy_", [[4, 8], [4, 8]], {}, 32, 64),
        (
            "_scaled_dot_product_flash_attention", [[2, 4, 8, 16]] * 3,
            {"Concrete Inputs": ["", "", "", "0.", "True"]}, 2 * 4 * 4 * 8 * 8 * 16, 2 * 4 * 4 * 8 * 16,
        ),
        (
            "cudnn_convolution", [[2, 3, 8, 8], [6, 3, 3, 3]],
            {"Concrete Inputs": ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"]},
            2 * 2 * 6 * 4 * 4 * 27, 2 * (3 * 64 + 6 * 16),
        ),
    ],
)  # fmt: skip
def test_work_of_an_operator_follows_from_its_dimensions(
    name: str, dims: list[list[int]], more: dict[str, Any], flops: float, moved: float
) -> None:
    args = {"Input Dims": dims, "Input type": ["float"] * len(dims), **more}
    operator = operator_of(f"aten::{name}", args)
    assert operator is not None
    work = graph_of(operator).layers[-1].forward
    assert work.flops * operator.samples == flops
    assert work.moved_elements * operator.samples == moved
    assert operator.causal is (name == "_scaled_dot_product_flash_attention")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten::linear", {"Input Dims": [[4, 5], [6, 5]], "Input type": ["float", "float"]}),
        ("aten::mm", {"Input Dims": [[4, 5], [6, 7]], "Input type": ["float", "float"]}),
        ("aten::mm", {"Input Dims": [[4, 5]], "Input type": ["float"]}),
        ("aten::mm", {"Input Dims": [[4, 5], [5, 0]], "Input type": ["float", "float"]}),
        ("aten::mm", {"Input Dims": "4x5", "Input type": ["float"]}),
        ("aten::mm", {"Input Dims": [[4, 5], [5, 6]], "Input type": ["quantised", "float"]}),
        ("aten::mm", {}),
        ("aten::_flash_attention_forward", {"Input Dims": [[2, 4, 8, 16]] * 3, "Input type": ["float"] * 3}),
        ("mm", {"Input Dims": [[4, 5], [5, 6]], "Input type": ["float", "float"]}),
    ],
)
def test_an_operator_whose_work_is_not_known_is_left_out(name: str, args: dict[str, Any]) -> None:
    assert operator_of(name, args) is None


def test_tf32_is_told_by_the_kernel() -> None:
    args = {"Input Dims": [[4, 5], [5, 6]], "Input type": ["float", "float"]}
    found = operator_of("aten::mm", args, kernel="cutlass_80_tensorop_s1688gemm_TF32_tn")
    assert found is not None
    assert found.precision == "tf32"


def test_of_equal_collectives_the_shortest_counts() -> None:
    """A rank that comes early waits inside the kernel."""
    events = [collective("allreduce", us, 4, 2**20) for us in (900.0, 120.0, 4000.0)]
    (seen,) = trace_evidence(trace(*events), machine(), name="t").observations
    assert seen.measured_s == pytest.approx(120e-6)
    assert seen.predict(machine()) == collective_seconds(machine(), "all_reduce", (0, 1, 2, 3), 2.0**21)
    gathered = trace_evidence(trace(collective("_allgather_base", 9.0, 4, 8)), machine(), name="t")
    assert "all_gather of 64 bytes over 4 devices" in gathered.observations[0].name


def test_collectives_that_cannot_be_placed_are_counted() -> None:
    far = collective("allreduce", 10.0, 8, 64)
    bare = span("ncclKernel_AllReduce_RING", "kernel", 0.0, 10.0)
    evidence = trace_evidence(trace(far, bare, bare), machine(), name="t")
    assert not evidence.observations
    assert "t: 2 collectives without their size or group left out" in evidence.remarks
    assert "t: 1 collectives over more devices than small has" in evidence.remarks


def test_the_host_is_timed_by_its_launches() -> None:
    launches = [span("cudaLaunchKernel", "cuda_runtime", 6.0 * i, 3.0) for i in range(FEWEST_LAUNCHES + 1)]
    kernel = span("k", "kernel", 0.0, 1.0)
    (seen,) = trace_evidence(trace(kernel, *launches), machine(), name="t").observations
    assert (seen.measured_s, seen.about) == (pytest.approx(6e-6), f"{GPU}.host_issue_s")
    assert not trace_evidence(trace(kernel, *launches[:9]), machine(), name="t").observations


def test_broken_events_are_counted_and_the_others_used() -> None:
    broken: list[Any] = [
        7, {"ph": "X"}, {"ph": "X", "name": 3, "ts": 1, "dur": 1},
        {"ph": "X", "name": "n", "ts": 1, "dur": -1}, {"ph": "X", "name": "n", "ts": "soon", "dur": 1},
        {"ph": "X", "name": "n", "ts": 0, "dur": 1, "args": []},
    ]  # fmt: skip
    evidence = trace_evidence(trace(*broken, *products_of(machine())), machine(), name="t")
    assert len(evidence.observations) == len(SIZES)
    assert f"t: {len(broken)} events are not spans with a name and a duration" in evidence.remarks


def test_packed_and_plain_files_are_read_and_others_refused(tmp_path: Path) -> None:
    text = json.dumps(trace(*products_of(machine())))
    (tmp_path / "t.json").write_text(text, encoding="utf-8")
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("t.json", "t.json.gz"):
        assert len(read_evidence(tmp_path / name, machine()).observations) == len(SIZES)
    refused = {
        "cut.json": (text[:-9].encode(), "not JSON"),
        "cut.json.gz": (gzip.compress(text.encode())[:-20], "cannot read"),
        "plain.json.gz": (text.encode(), "cannot read"),
        "nan.json": (b'{"traceEvents": [NaN]}', "NaN is no number"),
        "deep.json": (b"[" * 100_000, "not JSON"),
        "other.json": (b'{"schema": "explorer.plan/1"}', "neither a run nor a trace"),
        "text.json": (b'"hello"', "neither a run nor a trace"),
        "bytes.json": (b"\xff\xfe\x00", "not JSON"),
        "events.json": (b'{"traceEvents": {}}', "no list of events"),
    }
    for name, (content, said) in refused.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=said) as error:
            read_evidence(tmp_path / name, machine())
        assert name in str(error.value)
    with pytest.raises(InputError, match="cannot read the file"):
        read_evidence(tmp_path / "missing.json", machine())


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b"0" * 10_000_000))
    with pytest.raises(InputError, match="too long"):
        read_json(tmp_path / "bomb.json.gz", most=1_000_000)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["ph", "name", "ts", "dur", "args", "cat", "External id", "Input Dims"]),
        inner | st.sampled_from(["X", "kernel", "cpu_op", "aten::mm"]), max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(events=st.lists(JSON, max_size=6))
def test_whatever_stands_in_a_trace_it_is_read_or_refused_in_words(events: list[Any]) -> None:
    try:
        evidence = trace_evidence({"traceEvents": events}, machine(CPU), name="t")
    except ExplorerError:
        return
    assert all(0 < item.measured_s < math.inf for item in evidence.observations)
