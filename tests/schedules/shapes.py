"""Shapes for tests: one per placement, and hypothesis strategies over them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from explorer.actions import Place, Shape


def chain(p: int) -> tuple[tuple[int, int], ...]:
    return tuple((s, s + 1) for s in range(p - 1))


def line(p: int, m: int, *, training: bool = True) -> Shape:
    """Stage i on lane i."""
    return looped(p, m, 1, training=training)


def looped(p: int, m: int, chunks: int, *, training: bool = True) -> Shape:
    """Stage i on lane i mod p."""
    return Shape(
        stages=p * chunks,
        edges=chain(p * chunks),
        lanes=tuple(tuple(Place(r + p * c, 0, 0) for c in range(chunks)) for r in range(p)),
        microbatches=(m,) * (p * chunks),
        training=training,
    )


def bidirectional(p: int, m: int, *, training: bool = True) -> Shape:
    """Copy 0 of stage i and copy 1 of stage p-1-i on lane i."""
    return Shape(
        stages=p,
        edges=chain(p),
        lanes=tuple(tuple(sorted((Place(i, 0, 0), Place(p - 1 - i, 1, 0)))) for i in range(p)),
        microbatches=(m,) * p,
        copies=2,
        training=training,
    )


def workers(n: int, m: int, stages: int, *, training: bool = True) -> Shape:
    """Every lane one whole copy."""
    return Shape(
        stages=stages,
        edges=chain(stages),
        lanes=tuple(tuple(Place(s, w, 0) for s in range(stages)) for w in range(n)),
        microbatches=(m,) * stages,
        copies=n,
        training=training,
    )


def placed(placement: str, p: int, m: int, chunks: int = 1) -> Shape:
    """The shape that a closed form is about."""
    if placement == "bidirectional":
        return bidirectional(p, m)
    if placement == "workers":
        return workers(p, m, chunks)
    return looped(p, m, chunks)


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
def shapes_for(draw: st.DrawFn, placement: str) -> Shape:
    """Shapes that a schedule of this placement must order."""
    training = draw(st.integers(0, 4)) > 0
    p = draw(st.integers(1, 5))
    if placement == "looped":
        return looped(p, p * draw(st.integers(1, 3)), draw(st.integers(1, 3)), training=training)
    if placement == "bidirectional":
        return bidirectional(2 * p, 2 * draw(st.integers(1, 9)), training=training)
    if placement == "workers":
        return workers(p, p * draw(st.integers(1, 3)), draw(st.integers(1, 5)), training=training)
    return draw(dags(training=training))
