"""Bands of predictions: closed forms, what encloses what, and coverage of truths drawn from a profile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.calibrate.between_sources import time_band
from explorer.calibrate.history import Learned
from explorer.calibrate.numbers import numbers_of, shifted
from explorer.calibrate.posterior import sd_of
from explorer.cluster import Cluster, Curve, Level, Source
from explorer.cluster_profiles import cluster_names
from explorer.costs.collectives import transfer_seconds
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.strategy import Strategy
from explorer.sweep.bands import (
    ADDITIVE,
    HISTORY,
    PROFILE,
    SOURCES,
    Band,
    Shift,
    combined,
    ends,
    learned,
    report_bands,
    report_figures,
    shifting,
    uncertain,
)
from explorer.workload import Workload, default_workload
from tests.calibrate.machines import GPU, machine

GRAPH = load_model("gpt2-small")


def planned(
    cluster: Cluster, graph: LayerGraph = GRAPH, **shape: int
) -> tuple[LayerGraph, Cluster, Workload, Strategy]:
    work = default_workload(graph).with_job(global_batch=8)
    strategy = explorer.uniform(graph, cluster, work.job, **(shape or {"stages": 2, "replicas": 2}))  # type: ignore[arg-type]
    return graph, cluster, work, strategy


def step_s(graph: LayerGraph, cluster: Cluster, work: Workload, strategy: Strategy) -> float:
    return explorer.simulate(graph, cluster, work, strategy).step_time_s


@pytest.mark.parametrize("name", cluster_names())
def test_bands_enclose_the_prediction(name: str) -> None:
    cluster = explorer.load_cluster(name)
    plan = planned(cluster, stages=2, replicas=min(2, cluster.device_count // 2))
    own, bands = report_figures(explorer.simulate(*plan)), report_bands(*plan)
    assert set(bands) == set(own)
    keys = ["step_time_s", "throughput_samples_per_s", "mfu"]
    if any(item.name == "reserved_bytes" for item in uncertain(cluster)):
        keys.append("peak_memory_bytes")
    for key in keys:
        assert bands[key].low < own[key] < bands[key].high, key
        assert bands[key].basis == SOURCES
        assert bands[key].causes, key
        assert bands[key].about
    assert {bands[key].basis for key in ADDITIVE} == {PROFILE}
    for key, value in own.items():
        assert 0 <= bands[key].low <= value <= bands[key].high


def test_one_number_that_all_depends_on_gives_its_own_band() -> None:
    """A latency of 30 % is a step of 30 % where the step is latency."""
    level = Level(name="far", kind="internet", scope="all", latency_s=1e-3, bandwidth_bytes_per_s=1e15,
                  sources=(Source(key="latency_s", how="assumed", reference="x", band=0.3),))  # fmt: skip
    kinds = tuple(replace(kind, sources=()) for kind in machine().device_kinds)
    cluster = replace(machine(), device_kinds=kinds, levels=(level,))

    def evaluate(devices: Cluster) -> Mapping[str, float]:
        return {"step": transfer_seconds(devices.path(0, 1), 1.0), "nothing": 0.0}

    shifts = [shift for shift in shifting(cluster, evaluate) if shift is not None]
    found = combined(evaluate(cluster), shifts, additive=frozenset({"nothing"}))
    assert found["step"].high == pytest.approx(1.3e-3)
    assert found["step"].low == pytest.approx(1e-3 / 1.3)
    assert [number.key for number in found["step"].causes] == ["far.latency_s"]
    assert (found["nothing"].low, found["nothing"].high, found["nothing"].causes) == (0.0, 0.0, ())


def test_independent_numbers_add_up_as_squares() -> None:
    one, other = (item for item in uncertain(machine()) if item.name in ("matmul", "memory"))
    shifts = [
        Shift(number=one, less={"x": 2 * math.exp(-0.3)}, more={"x": 2 * math.exp(0.3)}),
        Shift(number=other, less={"x": 2 * math.exp(0.4)}, more={"x": 2 * math.exp(-0.4)}),
    ]
    band = combined({"x": 2.0}, shifts)["x"]
    assert (band.low, band.high) == pytest.approx((2 * math.exp(-0.5), 2 * math.exp(0.5)))
    assert band.causes == (other, one)
    sums = combined({"x": 2.0}, [replace(s, less={"x": 1.7}, more={"x": 2.4}) for s in shifts],
                    additive=frozenset({"x"}))["x"]  # fmt: skip
    assert (sums.low, sums.high) == pytest.approx((2 - 0.3 * 2**0.5, 2 + 0.4 * 2**0.5))


@pytest.mark.parametrize(("shape", "seed"), [({"stages": 2, "replicas": 2}, 6), ({"replicas": 4}, 7)])
def test_bands_cover_four_fifths_of_the_truths_of_a_profile(shape: dict[str, int], seed: int) -> None:
    """Truths drawn from the profile's bands: the step lies in its band in 70 to 90 of 100 cases.

    What other sources teach of unknown machines is another band (tests/score/test_between).
    """
    graph, cluster, work, strategy = planned(machine(), **shape)

    def evaluate(devices: Cluster) -> dict[str, float]:
        return {"step_time_s": step_s(graph, devices, work, strategy)}

    shifts = [shift for shift in shifting(cluster, evaluate) if shift is not None]
    band = combined(evaluate(cluster), shifts)["step_time_s"]
    numbers = [item for item in numbers_of(cluster) if item.band]
    rng = np.random.default_rng(seed)
    inside, draws = 0, 200
    for _ in range(draws):
        factors = np.exp(rng.normal(0.0, [sd_of(item.band) for item in numbers])).tolist()
        truth = shifted(cluster, dict(zip([item.key for item in numbers], factors, strict=True)))
        inside += band.low <= step_s(graph, truth, work, strategy) <= band.high
    assert 0.7 <= inside / draws <= 0.9


def test_ends_of_a_fraction_stay_fractions() -> None:
    kind = replace(machine().device_kinds[0], efficiency=(("matmul", Curve(points=((1.0, 0.9),))),))
    cluster = replace(machine(), device_kinds=(kind,))
    (number,) = (item for item in uncertain(cluster) if item.key == f"{GPU}.matmul")
    shares = [item.device_kinds[0].efficiency[0][1].at(1.0) for item in ends(cluster, number)]
    assert shares == pytest.approx([0.9 / 1.3, 1.0]), "never above the peak"


def test_without_bands_and_runs_only_other_sources_tell() -> None:
    kinds = tuple(replace(kind, sources=()) for kind in machine().device_kinds)
    levels = tuple(replace(level, sources=()) for level in machine().levels)
    plan = planned(replace(machine(), device_kinds=kinds, levels=levels))
    known = report_bands(*plan)
    assert {band.basis for band in known.values()} == {SOURCES}
    limit = time_band(plan[1]).log_error
    own = step_s(*plan)
    assert (known["step_time_s"].low, known["step_time_s"].high) == pytest.approx(
        (own * math.exp(-limit), own * math.exp(limit))
    )
    few = {"step_time_s": Learned((0.1, 0.2, -0.1), whole=True)}
    assert report_bands(*plan, history=few) == known, "three runs are too few"
    enough = {"step_time_s": Learned((0.1, 0.2, -0.1, -0.3), whole=True)}
    band = report_bands(*plan, history=enough)["step_time_s"]
    assert (band.low, band.high) == pytest.approx((own * math.exp(-0.3), own * math.exp(0.3)))
    assert (band.basis, band.runs) == (HISTORY, 4)


def test_runs_replace_the_profile_or_add_to_it() -> None:
    profile = Band(low=1 / math.exp(0.4), high=math.exp(0.4), basis=PROFILE)
    ratios = (0.3, -0.3, 0.1, 0.2)
    assert learned(1.0, None, profile) is profile
    assert learned(1.0, Learned(ratios[:3], whole=True), profile) is profile, "too few: the profile's"
    whole = learned(1.0, Learned(ratios, whole=True), profile)
    parts = learned(1.0, Learned(ratios, whole=False), profile)
    assert whole is not None
    assert parts is not None
    assert math.log(whole.high) == pytest.approx(0.3)
    assert math.log(parts.high) == pytest.approx(0.5), "what the profile may be off comes on top"
    assert math.log(parts.low) == pytest.approx(-0.5)
