"""Tavarageri et al.: nodes divided so that little is sent between devices and none has too much to do.

Nodes between which most is sent are joined, until few are left; these go, the longest first, to the device
that they exchange most with among those that have room; then, as joined nodes are taken apart again, single
ones move as long as that sends less (Fiduccia and Mattheyses: each once, the best point of the way is kept).
While a step runs, a node that is ready may migrate to a device on which it starts sooner, as the paper's
hardware would have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.checkpoints import checkpoint
from explorer.base.registry import Option
from explorer.planners._pieces.earliest_finish import Workers, earliest_finish, workers_of
from explorer.planners._pieces.fleet import fleet_of
from explorer.planners._pieces.plans import sizes_worth_trying
from explorer.planners._pieces.scattered import Placed, judged_placement
from explorer.planners._pieces.work_graph import WorkGraph, node_sizes, work_graph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem

FloatArray = npt.NDArray[np.float64]
COARSE = 4
"""Joined nodes for each device at which joining ends."""
SLACKS = (0.1, 0.3, 1.0)
"""Shares by which a device may have more to do than its part; those that are tried."""


class Level(NamedTuple):
    """Nodes, perhaps joined ones: seconds of each, what they hold, and bytes between any two."""

    seconds: FloatArray
    held_bytes: FloatArray
    sent_bytes: FloatArray
    """(n, n), symmetric."""


@SEARCHERS.add(
    Searcher(
        name="min_cut",
        title="Least traffic between devices under balance: coarsening, greedy division, refinement",
        paper="Tavarageri et al., Automatic Model Parallelism for Deep Neural Networks with Compiler and"
        " Hardware Support, 2019",
        options=(Option(name="migrate", default=True, help="also placements of which ready nodes migrate"),),
        space=Space(words="nodes x devices"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def min_cut(problem: Problem, evaluator: Evaluator, *, migrate: bool) -> Iterator[Candidate | None]:
    """Divide the nodes for some sizes of microbatches and some slack, and have the placements judged.

    Nodes are whole blocks first, then single layers, as branches inside of a block may be apart.

    Raises:
        InputError: there is no cluster.
    """
    fleet = fleet_of(problem)
    workers = workers_of(problem, fleet)
    some = sizes_worth_trying(problem, fleet.count, replicas=fleet.size)
    sizes = some[1:] or [problem.job.global_batch]
    for whole, size in product(node_sizes(problem.graph), sizes):
        work = work_graph(
            problem.graph, fleet.kinds, problem.job, samples=size / fleet.size, bytes_per_s=1.0,
            whole_blocks=whole,
        )  # fmt: skip
        tried: dict[tuple[int, ...], str] = {}
        for slack in SLACKS:
            yield None
            device = divided(work, workers, slack)
            if device is None:
                continue
            tried.setdefault(device, f"{slack:.0%} slack")
            moved = migrated(work, workers, device) if migrate else None
            if moved is not None:
                tried.setdefault(moved, f"{slack:.0%} slack, migrated")
        for device, words in tried.items():
            label = f"{words}, on {len(set(device))} devices, microbatches of {size}"
            given = Placed(work, workers, fleet, device)
            yield from judged_placement(problem, evaluator, given, size, label)


def divided(work: WorkGraph, workers: Workers, slack: float) -> tuple[int, ...] | None:
    """Return the device of every node; None if they do not fit, or a device may not run one.

    Args:
        work: the graph; its transfers take a second a byte.
        workers: the devices; what one may have to do is in proportion to its speed.
        slack: share by which it may have more.
    """
    known = np.where(np.isfinite(work.seconds), work.seconds, np.nan)
    if np.isnan(known).any():
        return None
    speed = 1.0 / np.maximum(known.sum(axis=1), 1e-30)[list(workers.kind)]
    part = known[0].sum() * speed / speed.sum()
    most = np.maximum((1 + slack) * part, part + known[0].max(initial=0.0))
    caps = Caps(most, np.array(workers.room_bytes))
    levels, maps = [level_of(work)], []
    while len(levels[-1].seconds) > COARSE * len(part):
        joined = matched(levels[-1], float(most.min()) / 2)
        if joined.max() + 1 > 0.95 * len(joined):
            break
        maps.append(joined)
        levels.append(coarser(levels[-1], joined))
    device = greedy(levels[-1], caps)
    if device is None:
        return None
    device = refined(levels[-1], caps, device)
    for level, joined in zip(reversed(levels[:-1]), reversed(maps), strict=True):
        device = refined(level, caps, device[joined])
    return tuple(device.tolist())


class Caps(NamedTuple):
    """Per device: most seconds and bytes."""

    seconds: FloatArray
    bytes: FloatArray


def level_of(work: WorkGraph) -> Level:
    """Return single nodes; what one makes counts towards every reader, as each may be elsewhere."""
    sent = np.zeros((work.count, work.count))
    for maker, readers, size in zip(work.producer.tolist(), work.readers, work.transfer_s, strict=True):
        for reader in readers:
            sent[maker, reader] += size
            sent[reader, maker] += size
    return Level(work.seconds[0], work.held_bytes, sent)


def matched(level: Level, most_s: float) -> npt.NDArray[np.int64]:
    """Return per node the number of its joined node: pairs between which most is sent, the longest first."""
    found = np.full(len(level.seconds), -1)
    count = 0
    for v in np.argsort(-level.seconds, kind="stable").tolist():
        if found[v] >= 0:
            continue
        free = (found < 0) & (level.sent_bytes[v] > 0) & (level.seconds + level.seconds[v] <= most_s)
        free[v] = False
        found[v] = count
        if free.any():
            found[int(np.where(free, level.sent_bytes[v], -1.0).argmax())] = count
        count += 1
    return found


def coarser(level: Level, joined: npt.NDArray[np.int64]) -> Level:
    """Return joined nodes; nothing is sent inside one."""
    member = np.equal.outer(np.arange(joined.max() + 1), joined).astype(float)
    sent = member @ level.sent_bytes @ member.T
    np.fill_diagonal(sent, 0.0)
    return Level(member @ level.seconds, member @ level.held_bytes, sent)


def greedy(level: Level, caps: Caps) -> npt.NDArray[np.int64] | None:
    """Return the device of every node, the longest first: the one it exchanges most with, or the idlest."""
    device = np.full(len(level.seconds), -1)
    load, held = np.zeros(len(caps.seconds)), np.zeros(len(caps.seconds))
    for v in np.argsort(-level.seconds, kind="stable").tolist():
        fits = held + level.held_bytes[v] <= caps.bytes
        if not fits.any():
            return None
        roomy = fits & (load + level.seconds[v] <= caps.seconds)
        near = np.bincount(device[device >= 0], level.sent_bytes[v, device >= 0], minlength=len(load))
        best = np.lexsort((load / np.maximum(caps.seconds, 1e-30), -near, ~(roomy if roomy.any() else fits)))
        device[v] = best[0]
        load[best[0]] += level.seconds[v]
        held[best[0]] += level.held_bytes[v]
    return device


def refined(level: Level, caps: Caps, device: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a division that no single move within the caps improves."""
    while True:
        checkpoint()
        better, gain = _passed(level, caps, device)
        if gain <= 1e-12 * level.sent_bytes.sum():
            return device
        device = better


def _passed(level: Level, caps: Caps, device: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], float]:
    """Move every node once at most, the best move first, and return the best point of the way."""
    device, parts = device.copy(), len(caps.seconds)
    every, open_ones = np.arange(len(device)), np.ones(len(device), dtype=bool)
    near = level.sent_bytes @ np.equal.outer(device, np.arange(parts)).astype(float)  # (n, parts)
    load = np.bincount(device, level.seconds, minlength=parts)
    held = np.bincount(device, level.held_bytes, minlength=parts)
    best, gained, most = device.copy(), 0.0, 0.0
    for _ in every:
        checkpoint()
        fits = (load + level.seconds[:, None] <= caps.seconds) & (
            held + level.held_bytes[:, None] <= caps.bytes
        )
        fits[every, device] = False
        gain = np.where(fits & open_ones[:, None], near - near[every, device][:, None], -np.inf)
        v, to = np.unravel_index(int(gain.argmax()), gain.shape)
        if not np.isfinite(gain[v, to]):
            break
        gained += float(gain[v, to])
        source = device[v]
        near[:, source] -= level.sent_bytes[:, v]
        near[:, to] += level.sent_bytes[:, v]
        for total, own in ((load, level.seconds), (held, level.held_bytes)):
            total[source] -= own[v]
            total[to] += own[v]
        device[v], open_ones[v] = to, False
        if gained > most:
            best, most = device.copy(), gained
    return best, most


def migrated(work: WorkGraph, workers: Workers, device: Sequence[int]) -> tuple[int, ...] | None:
    """Return where nodes run if a ready one may go to another device that is done with it sooner."""
    kept = earliest_finish(work, workers, may=lambda v: (device[v],))
    moved = earliest_finish(work, workers, may=lambda v: (device[v], *range(len(workers.kind))))
    if moved is None or (kept is not None and moved.makespan_s >= kept.makespan_s):
        return None
    return moved.device
