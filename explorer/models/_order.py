"""Topological order of nodes that a file lists in any order, and the cycle if there is none."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from explorer.base.errors import InputError


def topological(names: Sequence[str], edges: Iterable[tuple[str, str]]) -> list[str]:
    """Sort `names` so that every edge goes forward; of nodes that are free, the one given first comes first.

    Raises:
        InputError: the edges have a cycle, which the message names.
    """
    rank = {name: i for i, name in enumerate(names)}
    targets: dict[str, list[str]] = {name: [] for name in names}
    waiting = dict.fromkeys(names, 0)
    for source, target in edges:
        targets[source].append(target)
        waiting[target] += 1
    free = [rank[name] for name in names if not waiting[name]]
    heapq.heapify(free)
    result: list[str] = []
    while free:
        name = names[heapq.heappop(free)]
        result.append(name)
        for target in targets[name]:
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(free, rank[target])
    if len(result) < len(names):
        cycle = _cycle(targets, {name for name in names if waiting[name]})
        message = f"the graph has a cycle: {' -> '.join(cycle)}"
        raise InputError(message, key="edges", found=cycle, allowed="edges without cycles")
    return result


def _cycle(targets: dict[str, list[str]], left: set[str]) -> list[str]:
    # Every node left over has a predecessor left over, so walking backwards must return.
    before = {target: source for source in left for target in targets[source] if target in left}
    seen: list[str] = []
    name = next(iter(sorted(left)))
    while name not in seen:
        seen.append(name)
        name = before[name]
    loop = seen[seen.index(name) :]
    return [name, *reversed(loop)]
