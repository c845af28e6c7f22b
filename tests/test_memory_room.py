"""Whether plans fit, may fit or do not fit: borders by band, verdicts of reports, margins of searches."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.cluster import SURELY, Cluster, DeviceKind, NodeGroup, Software, Source
from explorer.cluster.memory_room import (
    DOES_NOT_FIT,
    FITS,
    MAY_FIT,
    SURE,
    VERDICTS,
    memory_room,
    with_margin,
    worst,
)
from explorer.explain import explain
from explorer.explain.memory import tightest
from explorer.models.synthetic import mlp
from explorer.search import Problem, search
from explorer.workload import Job, Workload

GB = 1e9


def kind(
    memory: float = 80 * GB, reserved: float = 2 * GB, band: float = 0.05, reserved_band: float = 0.5
) -> DeviceKind:
    return DeviceKind(
        name="made", memory_bytes=memory, memory_bandwidth_bytes_per_s=1e12,
        peak_flops_per_s=(("bf16", 1e14),), reserved_bytes=reserved, software=Software(memory_band=band),
        sources=(Source(key="reserved_bytes", how="assumed", reference="made", band=reserved_band),),
    )  # fmt: skip


sizes = st.floats(1e9, 1e12)
shares = st.floats(0.0, 0.3)


@given(memory=sizes, reserved=st.floats(0.0, 0.5), band=shares, reserved_band=shares)
def test_borders_are_where_the_ends_of_the_band_meet_the_memory(memory, reserved, band, reserved_band):
    made = kind(memory, reserved * memory, band, reserved_band)
    room = memory_room(made)
    for border, way in ((room.fits_bytes, 1), (room.may_fit_bytes, -1)):
        tensors = border - made.reserved_bytes
        spread = math.hypot(SURE * band * tensors, SURE * reserved_band * made.reserved_bytes)
        if tensors > 0:
            assert border + way * spread == pytest.approx(memory, rel=1e-9)


@given(
    memory=sizes, reserved=st.floats(0.0, 0.2), band=shares, more=shares, peak=st.floats(0.0, 2.0)
)  # fmt: skip
def test_a_wider_band_never_makes_a_verdict_surer(memory, reserved, band, more, peak):
    narrow, wide = (
        memory_room(kind(memory, reserved * memory, share, 0.1)).verdict(peak * memory)
        for share in (band, band + more)
    )
    assert wide in (narrow, MAY_FIT)


@given(peak=st.floats(0.0, 2.0), more=st.floats(0.0, 1.0))
def test_more_bytes_never_make_a_verdict_better(peak, more):
    room = memory_room(kind())
    first, then = (VERDICTS.index(room.verdict(size * 80 * GB)) for size in (peak, peak + more))
    assert first <= then


def test_without_bands_both_borders_are_the_memory():
    room = memory_room(kind(band=0.0, reserved_band=0.0))
    assert room.fits_bytes == room.may_fit_bytes == room.limit_bytes == 80 * GB
    assert [room.verdict(size * GB) for size in (80, 80.1)] == [FITS, DOES_NOT_FIT]


def test_the_margin_says_which_border_counts():
    made = kind()
    room, strict = memory_room(made), memory_room(replace(made, memory_margin=SURELY))
    assert room.limit_bytes == room.may_fit_bytes > 80 * GB > room.fits_bytes == strict.limit_bytes
    with pytest.raises(InputError, match="unknown memory margin 'maybe'"):
        replace(made, memory_margin="maybe")
    with pytest.raises(InputError, match="unknown memory margin 'maybe'"):
        with_margin(cluster_of(made), "maybe")


def test_the_worst_verdict_counts():
    assert worst((FITS, MAY_FIT, FITS)) == MAY_FIT
    assert worst((DOES_NOT_FIT, MAY_FIT)) == DOES_NOT_FIT
    assert worst(()) == FITS


def cluster_of(made: DeviceKind) -> Cluster:
    return Cluster(
        name="made", device_kinds=(made,), nodes=(NodeGroup(count=1, device_kind="made", devices_per_node=1),)
    )


GRAPH = mlp(4, width=512)
WORK = Workload(jobs=(Job(global_batch=8, precision="bf16", optimizer="adam"),))


def report_on(room_over_peak: float, margin: str = "likely") -> explorer.Report:
    """Simulate a model on one device with so much memory over what is predicted, all of it tensors."""
    cluster = cluster_of(kind(1e15, 0.0))
    plan = explorer.uniform(GRAPH, cluster, WORK.job)
    peak = max(explorer.simulate(GRAPH, cluster, WORK, plan).peak_memory_bytes)
    cluster = with_margin(cluster_of(kind(peak * room_over_peak, 0.0)), margin)
    return explorer.simulate(GRAPH, cluster, WORK, plan)


@pytest.mark.parametrize(
    ("room", "verdict"), [(1.2, FITS), (1.03, MAY_FIT), (0.97, MAY_FIT), (0.8, DOES_NOT_FIT)]
)
def test_reports_say_fits_may_fit_or_does_not_fit(room, verdict):
    report = report_on(room)
    assert report.memory_verdict == verdict
    assert report.feasible == (verdict != DOES_NOT_FIT)
    assert bool(report.overflows) == (verdict == DOES_NOT_FIT)
    assert (tightest(report) is not None) == (verdict == MAY_FIT)
    strict = report_on(room, SURELY)
    assert strict.memory_verdict == verdict
    assert strict.feasible == (verdict == FITS)
    assert strict.peak_memory_bytes == report.peak_memory_bytes


def test_what_is_over_is_said_of_the_memory_and_under_a_margin_of_what_fits_for_sure():
    report = report_on(0.8)
    (over,) = report.overflows
    assert over.over_bytes == pytest.approx(report.peak_memory_bytes[0] - report.capacity_bytes[0])
    strict = report_on(0.97, SURELY)
    (over,) = strict.overflows
    assert over.over_bytes == pytest.approx(strict.peak_memory_bytes[0] - strict.rooms[0].fits_bytes)


def test_searchers_take_what_may_fit_unless_asked():
    cluster = cluster_of(kind(1e15, 0.0))
    plan = explorer.uniform(GRAPH, cluster, WORK.job, microbatches=8)
    peak = max(explorer.simulate(GRAPH, cluster, WORK, plan).peak_memory_bytes)
    tight = cluster_of(kind(peak * 0.97, 0.0))

    def best(margin: str) -> explorer.Report | None:
        problem = Problem(graph=GRAPH, cluster=with_margin(tight, margin), workload=WORK)
        *_, last = search(problem, "exhaustive", max_evaluations=200)
        return last.best.report if last.best is not None else None

    taken, refused = best("likely"), best(SURELY)
    assert taken is not None
    assert taken.memory_verdict in (FITS, MAY_FIT)
    assert refused is None or refused.memory_verdict == FITS
    assert refused is None or refused.step_time_s >= taken.step_time_s


def test_the_sentence_on_memory_names_both_borders():
    cluster = cluster_of(kind(1e15, 0.0))
    plan = explorer.uniform(GRAPH, cluster, WORK.job)
    peak = max(explorer.simulate(GRAPH, cluster, WORK, plan).peak_memory_bytes)
    tight = cluster_of(kind(peak, 0.0))
    said = explain(GRAPH, tight, WORK, plan, explorer.simulate(GRAPH, tight, WORK, plan))
    (memory,) = [item.text for item in said if item.topic == "memory"]
    assert memory.startswith("**May fit.** Device 0 needs about ")
    assert " fits, above " in memory
