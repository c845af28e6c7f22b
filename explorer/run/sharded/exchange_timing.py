"""Timing of exchanges of flat weights (ZeRO): what this thread does for them, and what goes on beside it.

Of a scatter of gradients this thread fills the flat tensor and, when parts have come, adds them up; of a
gather it lays out its own part. What is under way between is done by threads of messages, which take their
share of this rank's core if it computes meanwhile. So of everything under way two times are taken while this
thread waits: how long it lasts, and how long the core worked for it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from explorer.run.sharded.communicators import ready_group
from explorer.run.sharded.flat_weights import FlatWeights, ShardLines
from explorer.run.sharded.mesh import Meter
from explorer.run.spec import FlatGroup

WEIGHTS = "weights"
"""Name of the only parameter of flat weights that are timed."""
Clocks = Callable[[], tuple[float, float]]
"""The wall's seconds, and those that the core worked for all threads of this process."""


def open_lines(group: FlatGroup, ranks: int) -> ShardLines | None:
    """Make process groups of so many parts and copies among the first ranks; None for a rank without a part.

    Every rank calls it, in one order.
    """
    k, me = group.parts, dist.get_rank()
    rows = [list(range(low, low + k)) for low in range(0, ranks - k + 1, k)]
    if not rows:
        return None
    inner = [ready_group(row) for row in rows]
    copies = min(group.copies, len(rows))
    blocks = [rows[low : low + copies] for low in range(0, len(rows) - copies + 1, copies)]
    outer = {tuple(c): ready_group(c) for block in blocks for c in zip(*block, strict=True)}
    row, place = divmod(me, k)
    mine = next((key for key in outer if me in key), None)
    if row >= len(rows) or mine is None:
        return None
    return ShardLines(inner=inner[row], place=place, size=k, outer=outer[mine], copies=copies)


def time_exchanges(flat: FlatWeights, clocks: Clocks) -> dict[str, float]:
    """Return the seconds of one scatter and one gather of flat weights by part, after one of each."""
    gradient = flat.part.new_zeros(flat.weights[WEIGHTS].shape, dtype=flat.gradient_dtype or flat.part.dtype)
    _scatter(flat, gradient, clocks)
    _gather(flat, clocks)
    return _scatter(flat, gradient, clocks) | _gather(flat, clocks)


def flat_weights(
    group: FlatGroup, lines: ShardLines, *, like: torch.Tensor, gradient_dtype: torch.dtype | None
) -> FlatWeights:
    """Make flat weights of one size, all zero.

    Args:
        group: their size.
        lines: where their parts are.
        like: a weight of the same data type and device.
        gradient_dtype: data type in which gradients are added up; None for that of weights.
    """
    meter = Meter(device=like.device)
    flat = FlatWeights(level=group.level, lines=lines, meter=meter, gradient_dtype=gradient_dtype)
    flat.fill({WEIGHTS: like.new_zeros(group.elements)})
    return flat


def _scatter(flat: FlatWeights, gradient: torch.Tensor, clocks: Clocks) -> dict[str, float]:
    times = [clocks()]
    work, came, sent = flat.begin_reduce({WEIGHTS: gradient})
    times.append(clocks())
    work.wait()
    times.append(clocks())
    flat.add(flat.sum_of(came))
    flat.end_reduce(came, sent)
    times.append(clocks())
    flat.take_sum()
    return _named(("fill", "scatter", "take"), times)


def _gather(flat: FlatWeights, clocks: Clocks) -> dict[str, float]:
    times = [clocks()]
    work = flat.begin_gather()
    times.append(clocks())
    work.wait()
    times.append(clocks())
    flat.release()
    return _named(("open", "gather"), times)


def _named(names: tuple[str, ...], times: list[tuple[float, float]]) -> dict[str, float]:
    found = {}
    for name, begin, end in zip(names, times, times[1:], strict=False):
        found[f"{name}_s"] = end[0] - begin[0]
        found[f"{name}_core_s"] = end[1] - begin[1]
    return found


__all__ = ["flat_weights", "open_lines", "time_exchanges"]
