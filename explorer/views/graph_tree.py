"""The module tree behind the layer graph: layers grouped by dotted path, at any depth.

Whatever is open, the groups shown form a DAG: members of a group that could not be contracted without a cycle
are split into runs of the model's order. Siblings are in a topological order, so any run of them can be
contracted, too (as `explorer.views.graph_folds` does).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from explorer.explain.names import one_list
from explorer.graph import Layer, LayerGraph
from explorer.views.blocks import block_ranges
from explorer.views.graph_folds import (
    GraphPart,
    Signatures,
    fold,
    label_of_leaf,
    label_of_module,
    relative,
)

Pairs = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """All parts of a model."""

    roots: tuple[GraphPart, ...]
    """Parts shown when nothing is open."""
    part: dict[str, GraphPart] = field(default_factory=dict)
    """Parts by id."""
    parent: dict[str, str | None] = field(default_factory=dict)
    """Id of the part around each part; None at the root."""
    alias: dict[str, str] = field(default_factory=dict)
    """Other ids of parts: paths that were merged into them, and ids of the board's blocks."""

    def find(self, key: str) -> GraphPart | None:
        """Return the part with this id or another name of it; None if there is none."""
        return self.part.get(self.alias.get(key, key))

    def above(self, key: str) -> Iterator[GraphPart]:
        """Yield the parts around `key`, innermost first."""
        up = self.parent[key]
        while up is not None:
            yield self.part[up]
            up = self.parent[up]


def module_tree(graph: LayerGraph) -> Tree:
    """Return the tree of a graph, made once per graph."""
    return graph.memo("views.module_tree", lambda: _Builder(graph).tree())


def layer_pairs(graph: LayerGraph) -> Pairs:
    """Return (producer, consumer) positions, each once, in model order."""
    return graph.memo("views.layer_pairs", lambda: _layer_pairs(graph))


def _layer_pairs(graph: LayerGraph) -> Pairs:
    index = graph.index
    return sorted(
        {
            (index[source], index[target])
            for name, source in graph.producer.items()
            for target in graph.consumers.get(name, ())
            if source != target
        }
    )


def path_of(layer: Layer) -> tuple[str, ...]:
    """Return the segments of a layer's module path, with its block's path first if the name lacks it."""
    name = layer.name
    if layer.block and name != layer.block and not name.startswith(f"{layer.block}."):
        return (*layer.block.split("."), name)
    return tuple(part for part in name.split(".") if part) or (name,)


class _Builder:
    def __init__(self, graph: LayerGraph) -> None:
        self.graph = graph
        self.paths = [path_of(layer) for layer in graph.layers]
        self.names = {layer.name for layer in graph.layers}
        self.signatures = Signatures(graph)
        self.alias: dict[str, str] = {}
        self.used = set(self.names)

    def tree(self) -> Tree:
        roots = fold(self.level(range(len(self.paths)), layer_pairs(self.graph), 0), self.sibling_pairs)
        tree = Tree(roots=tuple(roots), alias=self.alias)
        waiting: list[tuple[str | None, Sequence[GraphPart]]] = [(None, roots)]
        while waiting:
            up, parts = waiting.pop()
            for part in parts:
                tree.part[part.id] = part
                tree.parent[part.id] = up
                waiting.append((part.id, part.children))
        _alias_blocks(self.graph, tree)
        return tree

    # -- levels -----------------------------------------------------------------------------------

    def level(self, members: Iterable[int], pairs: Pairs, depth: int) -> list[GraphPart]:
        """Make one level's parts, in topological order: layers that end here, modules that go deeper."""
        groups = self.groups(members, depth)
        number = {layer: g for g, own in enumerate(groups) for layer in own}
        quotient = {(number[a], number[b]) for a, b in pairs} - {(g, g) for g in range(len(groups))}
        if any(a > b for a, b in quotient):
            groups = _acyclic(groups, quotient)
            number = {layer: g for g, own in enumerate(groups) for layer in own}
            quotient = {(number[a], number[b]) for a, b in pairs} - {(g, g) for g in range(len(groups))}
            order = _topological(len(groups), quotient)
            groups = [groups[g] for g in order]
            number = {layer: g for g, own in enumerate(groups) for layer in own}
        inside: list[Pairs] = [[] for _ in groups]
        for a, b in pairs:
            if number[a] == number[b]:
                inside[number[a]].append((a, b))
        return [self.part(own, inner, depth) for own, inner in zip(groups, inside, strict=True)]

    def groups(self, members: Iterable[int], depth: int) -> list[list[int]]:
        """Group members by next segment, in order of their first layer; a layer that ends here is alone."""
        found: dict[tuple[str, int], list[int]] = {}
        for layer in members:
            path = self.paths[layer]
            last = len(path) == depth + 1
            found.setdefault((path[depth], layer if last else -1), []).append(layer)
        return list(found.values())

    def part(self, members: list[int], pairs: Pairs, depth: int) -> GraphPart:
        """Make a part: a layer, or a module with its contents."""
        first = self.paths[members[0]]
        if len(members) == 1:
            return self.leaf(members[0], depth)
        deeper = depth + 1
        while len({self.paths[layer][deeper] for layer in members}) == 1 and all(
            len(self.paths[layer]) > deeper + 1 for layer in members
        ):
            deeper += 1
        own = ".".join(first[: depth + 1])
        key = self.fresh(own)
        for stop in range(depth + 2, deeper + 1):
            self.alias.setdefault(".".join(first[:stop]), key)
        children = tuple(fold(self.level(members, pairs, deeper), self.sibling_pairs))
        if len(children) == 1 and children[0].kind == "repeat":  # `layers` says no more than "block x 32"
            self.alias[key] = children[0].id
            return children[0]
        return GraphPart(
            id=key,
            label=label_of_module(
                first[: depth + 1], self.graph.layers[members[0]].block, alone=one_list(self.graph)
            )
            + (f" ({key.rpartition('#')[2]})" if key != own else ""),
            name=".".join(first[:deeper]),
            kind="module",
            layers=tuple(members),
            children=children,
            signature=self.signatures.of_module(first[depth], children, relative(members, pairs)),
        )

    def leaf(self, layer: int, depth: int) -> GraphPart:
        """Make a layer's part; a module that holds nothing else is left out, its path stays in the label."""
        own, path = self.graph.layers[layer], self.paths[layer]
        for stop in range(depth + 1, len(path)):
            self.alias.setdefault(".".join(path[:stop]), own.name)
        return GraphPart(
            id=own.name,
            label=label_of_leaf(path[depth:], own.kind),
            name=own.name,
            kind="layer",
            layers=(layer,),
            children=(),
            signature=self.signatures.of_layer(layer, path[depth:]),
        )

    def fresh(self, path: str) -> str:
        """Return an unused id for a module: its path, numbered if a layer or another piece of it has that."""
        key, number = path, 1
        while key in self.used:
            number += 1
            key = f"{path}#{number}"
        self.used.add(key)
        return key

    def sibling_pairs(self, parts: Sequence[GraphPart]) -> set[tuple[int, int]]:
        """Return which of these parts feeds which, as positions."""
        number = {layer: i for i, part in enumerate(parts) for layer in part.layers}
        found = {(number[a], number[b]) for a, b in layer_pairs(self.graph) if a in number and b in number}
        return {(a, b) for a, b in found if a != b}


# ---- order ---------------------------------------------------------------------------------------


def _acyclic(groups: list[list[int]], quotient: set[tuple[int, int]]) -> list[list[int]]:
    """Cut groups on a common cycle into runs of the model's order, which cannot be on one."""
    import networkx as nx

    loops = [loop for loop in nx.strongly_connected_components(nx.DiGraph(list(quotient))) if len(loop) > 1]
    cut = {g for loop in loops for g in loop}
    result = [own for g, own in enumerate(groups) if g not in cut]
    for loop in loops:
        runs: list[list[int]] = []
        before = -1
        for layer, own in sorted((layer, g) for g in loop for layer in groups[g]):
            if own != before:
                runs.append([])
            runs[-1].append(layer)
            before = own
        result += runs
    return sorted(result)


def _topological(count: int, pairs: set[tuple[int, int]]) -> list[int]:
    """Sort positions topologically, keeping the given order if possible."""
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in pairs:
        after[a].append(b)
        waiting[b] += 1
    ready = [g for g in range(count) if not waiting[g]]
    order: list[int] = []
    while ready:
        g = heapq.heappop(ready)
        order.append(g)
        for b in after[g]:
            waiting[b] -= 1
            if not waiting[b]:
                heapq.heappush(ready, b)
    return order


def _alias_blocks(graph: LayerGraph, tree: Tree) -> None:
    """Map the board's blocks to the parts with the same layers."""
    by_layers = {part.layers: part.id for part in tree.part.values() if part.kind != "repeat"}
    for key, first, end in block_ranges(graph):
        found = by_layers.get(tuple(range(first, end)))
        if found is not None and key not in tree.part:
            tree.alias.setdefault(key, found)
