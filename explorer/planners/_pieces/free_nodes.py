"""Nodes that take no time, joined to the node where they are never in the way: fewer ideals, same optimum.

A node without seconds is joined to another one if every plan that has them apart can be changed to have them
together without a longer stage, and stays a sequence of ideals:

    neighbour    what it reads is made by one other node, and what it makes is read by that one alone
    source       it reads nothing, and what it makes is read by one node before all others that read it: in
                 that one's stage, a tensor that was sent there is sent from there at most
    to its maker   it alone reads a tensor, and nothing else; what it makes takes no longer to send
    to its reader  one node alone reads what it makes, and all that it reads takes no longer to send

Its bytes must not matter: it has none, or all nodes together fit on any device.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.planners._pieces.lattice import bits
from explorer.planners._pieces.work_graph import WorkGraph, summed


def without_free_nodes(work: WorkGraph, *, room_bytes: float = 0.0) -> WorkGraph:
    """Return the same graph with nodes that take no time joined to others, as long as there are some.

    Args:
        work: the graph.
        room_bytes: bytes that every device holds.
    """
    while moves := _moves(work, roomy=float(work.held_bytes.sum()) <= room_bytes):
        work = joined(work, moves)
    return work


def _moves(work: WorkGraph, *, roomy: bool) -> dict[int, int]:
    """Return which nodes join which others; none of the others is joined itself."""
    made: list[list[int]] = [[] for _ in range(work.count)]
    read: list[list[int]] = [[] for _ in range(work.count)]
    for tensor, (producer, readers) in enumerate(zip(work.producer.tolist(), work.readers, strict=True)):
        made[producer].append(tensor)
        for reader in readers:
            read[reader].append(tensor)
    nothing = (work.seconds == 0).all(axis=0) & (work.reduced_bytes == 0)
    if not roomy:
        nothing &= work.held_bytes == 0
    found: dict[int, int] = {}
    for v in np.flatnonzero(nothing).tolist():
        target = _target(work, made[v], read[v])
        if target is not None and target not in found and v not in found.values():
            found[v] = target
    return found


def _target(work: WorkGraph, made: list[int], read: list[int]) -> int | None:
    """Return the node that a node without seconds may join, by the tensors that it makes and reads."""
    sources = {int(work.producer[t]) for t in read}
    readers = {w for t in made for w in work.readers[t]}
    near = sources | readers
    first = min(near, default=-1)
    sent, got = float(work.transfer_s[made].sum()), float(work.transfer_s[read].sum())
    if len(near) == 1:
        return first
    if not read and made and all(_leads(work, first, work.readers[t]) for t in made):
        return first
    if len(read) == 1 and len(work.readers[read[0]]) == 1 and sent <= got and not sources & readers:
        return sources.pop()
    if len(readers) == 1 and got <= sent and not sources & readers:
        return readers.pop()
    return None


def _leads(work: WorkGraph, first: int, readers: tuple[int, ...]) -> bool:
    """Tell whether a node is among readers, and before all others."""
    return first in readers and all(w == first or work.above[w] >> first & 1 for w in readers)


def joined(work: WorkGraph, moves: Mapping[int, int]) -> WorkGraph:
    """Return the same graph with some nodes joined to others, none of which is joined itself."""
    kept = [v for v in range(work.count) if v not in moves]
    place = {v: k for k, v in enumerate(kept)}
    number = [place[moves.get(v, v)] for v in range(work.count)]
    at = np.array(number, dtype=np.int64)

    members: list[list[int]] = [[] for _ in kept]
    above = [0] * len(kept)
    for v in range(work.count):
        members[number[v]] += work.members[v]
        for u in bits(work.above[v]):
            above[number[v]] |= 1 << number[u]
    made = at[work.producer].tolist()
    readers = [{number[w] for w in item} - {p} for p, item in zip(made, work.readers, strict=True)]
    left = [t for t, item in enumerate(readers) if item]
    return WorkGraph(
        members=tuple(tuple(sorted(item)) for item in members),
        above=tuple(item & ~(1 << k) for k, item in enumerate(above)),
        seconds=np.array([summed(at, row, len(kept)) for row in work.seconds]),
        held_bytes=summed(at, work.held_bytes, len(kept)),
        reduced_bytes=summed(at, work.reduced_bytes, len(kept)),
        producer=at[work.producer[left]],
        readers=tuple(tuple(sorted(readers[t])) for t in left),
        transfer_s=work.transfer_s[left],
    )
