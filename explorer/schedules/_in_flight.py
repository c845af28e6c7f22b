"""Microbatches that positions hold when memory peaks, by schedule, for many steps at once."""

from __future__ import annotations

import numpy as np

from explorer.schedules.pipelines import FloatArray, InFlight, IntArray, Moments, one_of_each
from explorer.schedules.placements import Grid, Placement


def clocked(times: int = 1, *, beside: int = 0, versions: int | None = 0) -> Moments:
    """Return the moments of 1F1B with `times` as many forwards ahead: before the first backward.

    Args:
        times: forwards ahead, in multiples of those of 1F1B.
        beside: forwards that run beside the first backward.
        versions: further versions of the weights; None for one per further microbatch under way.
    """

    def moments(
        placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
    ) -> tuple[InFlight, ...]:
        if grid.chunks > 1 or grid.copies > 1:
            return one_of_each(placement, grid, microbatches, at)
        ahead = times * (grid.positions - 1.0 - at)[:, None]
        saved = np.minimum(ahead + 1 + beside, microbatches)
        kept = ahead + 0 * microbatches if versions is None else np.full_like(saved, versions)
        return (InFlight(saved[:, None], again=0, versions=kept if versions != 0 else None),)

    return moments


def all_at_once(
    placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
) -> tuple[InFlight, ...]:
    """Return the moment at which every position has run all its forwards, and no backward."""
    held = placement.held(grid)
    saved = np.broadcast_to(microbatches, (len(at), len(held[0]), len(microbatches)))
    return (InFlight(saved / grid.copies, again=len(held[0]) - 1),)


def then_waiting(before: Moments) -> Moments:
    """Return the moments of a schedule whose weight gradients come at the end of the step."""

    def moments(
        placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
    ) -> tuple[InFlight, ...]:
        first = before(placement, grid, microbatches, at)
        all_m = np.broadcast_to(microbatches / grid.copies, first[0].saved.shape)
        last = [item._replace(waiting=np.maximum(all_m - item.saved, 0.0)) for item in first]
        return (*first, *(last if grid.chunks == 1 else ()), InFlight(np.zeros_like(all_m), all_m))

    return moments


def in_rounds(
    _placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
) -> tuple[InFlight, ...]:
    """Return the moments of interleaved 1F1B before a position's first backward.

    It has run 2 (p - r - 1) + (v - 1) q + 1 forwards, q microbatches of one chunk after the other.
    """
    p, v, m = grid.positions, grid.chunks, microbatches
    per_round = m / np.maximum(1, m // p)
    ahead = 2 * (p - at[:, None] - 1) + (v - 1) * per_round + 1
    return (InFlight(after_forwards(ahead, v, m, per_round), again=v - 1),)


def after_forwards(
    done: FloatArray, chunks: int, microbatches: FloatArray, per_round: FloatArray
) -> FloatArray:
    """Return the (P, chunks, N) microbatches of each chunk among the first (P, N) forwards of rounds of q."""
    whole, rest = np.divmod(np.minimum(done, microbatches * chunks), per_round * chunks)
    begun = np.arange(chunks)[:, None] * per_round
    return np.asarray((whole * per_round)[:, None] + np.clip(rest[:, None] - begun, 0, per_round))


def opposed(placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray) -> tuple[InFlight, ...]:
    """Return the moments of 1F1B in each of several copies: of one copy alone, and of all together.

    Several pairs run units of stages / copies microbatches of each copy, of which the first is under way.
    """
    held, stages = placement.held(grid), placement.stages(grid)
    behind = np.array([[stages - stage for stage, _ in held[r]] for r in at], dtype=float)[:, :, None]
    each = np.minimum(behind, microbatches / grid.copies)
    if grid.copies > 2:
        each = np.minimum(each, max(1, stages // grid.copies))
    alone = []
    for k in range(each.shape[1]):
        saved = np.zeros_like(each)
        saved[:, k] = each[:, k]
        alone.append(InFlight(saved, again=k))
    together = each * np.minimum(1.0, grid.positions / each.sum(axis=1, keepdims=True))
    unit = turned(placement, grid, np.minimum(microbatches, float(stages)), at)
    return (*alone, unit, InFlight(together, again=0, sure=False))


def turned(placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray) -> InFlight:
    """Return what is held where ways turn round at every position, before the first backward.

    A position holds the stages of several ways, there and back: of the last one as many microbatches as there
    are stages from it on, of the first as many as the way is long less these, of those between half of them.
    """
    held, stages = placement.held(grid), placement.stages(grid)
    half = grid.positions / grid.copies
    behind = np.array([stages - held[r][-1][0] for r in at], dtype=float)
    most = np.full((len(at), len(held[0])), half)
    most[:, 0], most[:, -1] = 2 * half - behind, behind
    return InFlight(np.minimum(most[:, :, None], microbatches / grid.copies), again=len(held[0]) - 1)


def waves(placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray) -> tuple[InFlight, ...]:
    """Return `level`, and of more microbatches than positions, which seconds do not order, `turned`."""
    found = turned(placement, grid, microbatches, at)
    saved = np.where(microbatches > grid.positions, found.saved, np.minimum(found.saved, 1.0))
    return (*level(placement, grid, microbatches, at), found._replace(saved=saved))


def level(placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray) -> tuple[InFlight, ...]:
    """Return one microbatch of each stage for sure, and as a guess as many of each as there are positions."""
    (sure,) = one_of_each(placement, grid, microbatches, at)
    most = np.maximum(sure.saved, np.minimum(microbatches, grid.positions))
    return (sure, InFlight(most, again=most.shape[1] - 1, sure=False))


def turned_round(
    placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
) -> tuple[InFlight, ...]:
    """Return `turned`: no position of opposed copies there and back ever holds more."""
    return (turned(placement, grid, microbatches, at),)
