"""Runs: what a launch timed corrects its profile, parts where only these are known, and wrong files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import InputError
from explorer.base.plain_data import to_plain
from explorer.calibrate.estimate import estimate
from explorer.calibrate.files import read_evidence
from explorer.calibrate.numbers import shifted
from explorer.calibrate.runs import SCHEMA, LayerTime, MachineTimes, machine_evidence, run_evidence
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds, transfer_seconds
from explorer.costs.update_time import update_seconds
from explorer.graph import Work
from tests.calibrate.machines import CPU, GPU, machine

WORK = Work(flops=2e9, moved_elements=1e5)


def times(truth: Cluster, device: str = "cpu") -> MachineTimes:
    """What a run would time on a machine."""
    layer = LayerTime(
        name="layers.0", kind="attention", works=(WORK, WORK, WORK), samples=4.0, seconds=1.0,
        parameter_elements=1e6,
    )  # fmt: skip
    seconds = 1.0
    if device == "cpu":
        probe = MachineTimes(device="cpu", ranks=2, layers=(layer,))
        seconds = machine_evidence(probe, truth, name="x").observations[-1].predict(truth)
    update_s = update_seconds(truth.device_kinds[0], elements=1e8, optimizer="adam", precision="fp32")
    return MachineTimes(
        device=device,
        ranks=2,
        layers=(replace(layer, seconds=seconds),),
        update_elements=1e8,
        update_s=update_s,
        optimizer="adam",
        messages=tuple((str(n), transfer_seconds(truth.path(0, 1), n)) for n in (4, 10**8)),
        reduces=tuple(
            (str(n), collective_seconds(truth, "all_reduce", (0, 1), n, algorithm="ring")) for n in (4, 10**9)
        ),
    )  # fmt: skip


def run_file(**fields: Any) -> dict[str, Any]:
    parts = {"compute": 2.0, "communication": 0.5, "bubble": 0.1, "overhead": 0.0}
    return {
        "schema": SCHEMA, "engine": "interpreter", "verdict": "confirmed",
        "parts": {"predicted": parts, "measured": dict(parts)},
    } | fields  # fmt: skip


def test_what_a_run_timed_of_its_machine_corrects_the_profile(tmp_path: Path) -> None:
    put_in = {
        f"{CPU}.matmul": 0.9, f"{CPU}.memory": 1.1, "link.latency_s": 1.2, "link.bandwidth_bytes_per_s": 0.9
    }  # fmt: skip
    data = run_file(machine=to_plain(times(shifted(machine(CPU, band=5.0), put_in))))
    (tmp_path / "run.json").write_text(json.dumps(data), encoding="utf-8")
    found = estimate(machine(CPU, band=5.0), [read_evidence(tmp_path / "run.json", machine(CPU))])
    factors = {item.number.key: item.after / item.number.value for item in found.changes}
    for key, factor in put_in.items():
        assert factors[key] == pytest.approx(factor, rel=0.02), "hardly held back by so wide bands"
    assert found.error_after_pct < 1


def test_of_accelerators_a_likeness_tells_links_alone() -> None:
    evidence = machine_evidence(times(machine(), "NVIDIA A100-SXM4-80GB"), machine(), name="r")
    assert len(evidence.observations) == 4
    assert any("far too small" in text for text in evidence.remarks)
    with pytest.raises(InputError, match="seconds of the one say nothing about the other"):
        machine_evidence(times(machine(CPU)), machine(GPU), name="r")


def test_parts_that_were_predicted_from_the_profile_shift_all_classes_alike() -> None:
    """Compute twice as slow as predicted: the geometric mean of the efficiencies is halved."""
    parts = {"predicted": {"compute": 1.0}, "measured": {"compute": 2.0, "overhead": 0.1}}
    wide = machine(band=1e6)
    found = estimate(wide, [run_evidence(run_file(engine="slice", parts=parts), wide, name="r")])
    factors = [item.after / item.number.value for item in found.changes]
    assert factors == pytest.approx([0.5] * 3, rel=1e-3)
    assert any("overhead of 0.1 s, of which the profile predicts nothing" in text for text in found.kept)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"verdict": "too noisy"}, "too busy"),
        ({"verdict": "wrong numbers"}, "wrong numbers"),
        ({}, "does not hold what it timed"),
        ({"engine": "dry"}, "nothing was computed"),
        ({"engine": "slice", "parts": None}, "without parts"),
        ({"engine": "slice", "parts": {"predicted": {"compute": "long"}}}, "no duration"),
        ({"engine": "slice", "parts": {"predicted": {"compute": -1.0}}}, "no duration"),
        ({"engine": "slice", "parts": {"predicted": {"compute": 1.0}}}, "without parts"),
        ({"machine": {"device": "cpu"}}, "missing"),
        ({"machine": {"device": "cpu", "ranks": "two"}}, "not valid"),
        ({"machine": {"device": "cpu", "ranks": 2, "messages": {"far": 1.0}}}, "no size"),
        ({"machine": {"device": "cpu", "ranks": 2, "update_s": -1.0}}, "out of range"),
        ({"machine": {"device": "cpu", "ranks": 2, "fans": 3}}, "unknown key"),
    ],
)
def test_runs_that_say_nothing_are_refused_in_words(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        run_evidence(run_file(**fields), machine(CPU), name="r")
