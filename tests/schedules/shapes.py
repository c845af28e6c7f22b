"""Shapes for tests: of every placement and stage DAG, and hypothesis strategies over them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from explorer.actions import Place, Shape
from explorer.schedules import Schedule
from explorer.schedules.placements import BIDIRECTIONAL, LINE, LOOP, PLACEMENTS, WORKERS


def line(p: int, m: int, *, training: bool = True) -> Shape:
    """Stage i on lane i."""
    return LINE.shape(LINE.grid(p), m, training=training)


def looped(p: int, m: int, chunks: int, *, training: bool = True) -> Shape:
    """Stage i on lane i mod p."""
    return LOOP.shape(LOOP.grid(p, chunks), m, training=training)


def bidirectional(p: int, m: int, *, training: bool = True) -> Shape:
    """Copy 0 of stage i and copy 1 of stage p-1-i on lane i."""
    return BIDIRECTIONAL.shape(BIDIRECTIONAL.grid(p), m, training=training)


def workers(n: int, m: int, stages: int, *, training: bool = True) -> Shape:
    """Every lane one whole copy."""
    return WORKERS.shape(WORKERS.grid(n, stages), m, training=training)


def replicated(
    edges: Sequence[tuple[int, int]],
    microbatches: Sequence[int],
    replicas: Sequence[int],
    round_robin: Sequence[bool],
    lane_of: Sequence[int] | None = None,
    *,
    training: bool = True,
) -> Shape:
    """Stages with replicas; those of equal `lane_of` share lanes, replica by replica."""
    groups = range(len(microbatches)) if lane_of is None else lane_of
    lanes: dict[tuple[int, int], list[Place]] = {}
    for stage, count in enumerate(replicas):
        for replica in range(count):
            lanes.setdefault((groups[stage], replica), []).append(Place(stage, 0, replica))
    return Shape(
        stages=len(microbatches),
        edges=tuple(edges),
        lanes=tuple(tuple(places) for places in lanes.values()),
        microbatches=tuple(microbatches),
        replicas=tuple(replicas),
        round_robin=tuple(round_robin),
        training=training,
    )


@st.composite
def dags(draw: st.DrawFn, *, training: bool | None = None) -> Shape:
    """Stage DAGs with different microbatch sizes, replicas of both kinds and several stages on a lane."""
    p = draw(st.integers(1, 6))
    edges = {(s, t) for s in range(p) for t in range(s + 1, p) if draw(st.integers(0, 3)) == 0}
    edges |= {(s, s + 1) for s in range(p - 1) if draw(st.booleans())}
    base = draw(st.integers(1, 4))
    microbatches = [base * draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in range(p)]
    replicas = [draw(st.integers(1, 3)) for _ in range(p)]
    turns = [draw(st.booleans()) for _ in range(p)]
    lane_of = [draw(st.integers(0, p - 1)) for _ in range(p)] if draw(st.booleans()) else None
    trains = draw(st.booleans()) if training is None else training
    return replicated(sorted(edges), microbatches, replicas, turns, lane_of, training=trains)


@st.composite
def placed(draw: st.DrawFn, schedule: Schedule | None = None) -> Shape:
    """Even pipelines in the schedule's placement, or in any, whether or not they meet its needs."""
    placement = schedule.placement if schedule else draw(st.sampled_from(PLACEMENTS))
    small = schedule is not None and schedule.costly
    p, m = draw(st.integers(1, 3 if small else 6)), draw(st.integers(1, 4 if small else 18))
    chunks = draw(st.none() | st.integers(1, 4))
    return placement.shape(placement.grid(p, chunks), m, training=draw(st.integers(0, 4)) > 0)


@st.composite
def shapes_for(draw: st.DrawFn, schedule: Schedule) -> Shape:
    """Shapes that meet the needs of a schedule: in its placement, or stage DAGs where it orders them."""
    if draw(st.booleans()):
        shape = draw(dags())
        if not schedule.unmet(shape):
            return shape
    return draw(placed(schedule).filter(lambda shape: not schedule.unmet(shape)))
