"""Series-parallel form of a graph of nodes, by who needs whom over any number of edges.

    parallel   parts none of which needs anything of another
    series     parts of which each one needs all of those before it

Edges that skip nodes of a chain change nothing. A graph in which neither holds, as in a -> c, a -> d, b -> d,
has no such form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from explorer.base.errors import InputError

NODE, SERIES, PARALLEL = "node", "series", "parallel"


class Part(NamedTuple):
    """Some nodes and how they are composed."""

    kind: str
    nodes: tuple[int, ...]
    """All of them, ascending."""
    parts: tuple[Part, ...] = ()


def series_parallel(above: Sequence[int]) -> Part:
    """Return the form of a graph.

    Args:
        above: nodes that each one needs, over any number of edges, as a bit set, in a topological order.

    Raises:
        InputError: it has none; how many nodes are in the way is said.
    """
    near = list(above)
    for v, needed in enumerate(above):
        for u in range(v):
            if needed >> u & 1:
                near[u] |= 1 << v
    return _form(near, tuple(range(len(above))))


def _form(near: Sequence[int], nodes: tuple[int, ...]) -> Part:
    if len(nodes) == 1:
        return Part(NODE, nodes)
    whole = sum(1 << v for v in nodes)
    for kind, joined in (
        (PARALLEL, {v: near[v] & whole for v in nodes}),
        (SERIES, {v: whole & ~near[v] for v in nodes}),
    ):
        found = _components(joined, nodes)
        if len(found) > 1:
            return Part(kind, nodes, tuple([_form(near, part) for part in found]))
    raise InputError(
        f"{len(nodes)} nodes of the model have no series-parallel form", key="model", found=len(nodes),
        allowed="branches that meet again before others begin; tarnawski takes any graph",
    )  # fmt: skip


def _components(joined: dict[int, int], nodes: tuple[int, ...]) -> list[tuple[int, ...]]:
    left, found = set(nodes), []
    for v in nodes:
        if v not in left:
            continue
        own, front = {v}, [v]
        while front:
            u = front.pop()
            fresh = [w for w in left if joined[u] >> w & 1 and w not in own]
            own.update(fresh)
            front += fresh
        left -= own
        found.append(tuple(sorted(own)))
    return found
