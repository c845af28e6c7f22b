"""Folding of the layer graph's siblings: repeats, cells between waists, even runs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from explorer.explain.names import NUMBERED, numbered_layer
from explorer.graph import LayerGraph

MOST_SIBLINGS = 40
"""Most parts of one level that are shown; if there are more, they are grouped."""
MOST_RUNS = 24
"""Number of groups that an overfull level is cut into."""
SHORTEST_LAYERS = 3
"""Fewest equal single layers in a row that are folded; two modules are enough."""

SiblingPairs = Callable[[Sequence["GraphPart"]], set[tuple[int, int]]]
"""Function from some parts to the pairs (feeder, fed), as positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPart:
    """A layer, or a group of layers that opens."""

    id: str
    """Unique id: a module path, a layer's name, or made of those of its first and last part."""
    label: str
    """Short label: `block 7`, `attention`."""
    name: str
    """Spoken label: the whole path."""
    kind: str
    """One of `layer`, `module` (by path), `repeat` (equal neighbours), `run` (others without a common
    path)."""
    layers: tuple[int, ...]
    """Positions of its layers in the model, ascending."""
    children: tuple[GraphPart, ...]
    """Parts in it, in a topological order."""
    signature: int
    """Number that is equal for parts that look and cost the same."""


# ---- words ---------------------------------------------------------------------------------------


def label_of_module(path: Sequence[str], block: str, *, alone: bool) -> str:
    """Return the last segment of a path; a number comes with what it counts.

    Args:
        path: segments of the module's path.
        block: the block of its first layer.
        alone: whether all blocks of the model are numbered in one list, so that `block 3` says which.
    """
    last = path[-1]
    if not last.isdigit():
        return last
    if len(path) < 2 or (alone and block == ".".join(path)):
        return f"block {last}"
    return f"{path[-2]} {last}"


_COUNTED = re.compile(r"^(.*?)(\d+)$")


def label_of_leaf(path: Sequence[str], kind: str) -> str:
    """Return the last segments of a layer's path, or its kind if it is only numbered (`node7`)."""
    return numbered_layer(path[-1], kind) or ".".join(path[-2:])


def _range_label(first: GraphPart, last: GraphPart) -> str:
    """Label a range: `block 3–9`, `nodes 6–17` of a numbered list, else both labels."""
    start, end = _end(first, 0), _end(last, -1)
    one, other = (NUMBERED.match(part.id.rpartition(".")[2]) for part in (start, end))
    if one and other:
        return f"nodes {one[1]}–{other[1]}"
    word, same = _COUNTED.match(start.label), _COUNTED.match(end.label)
    if word and same and word[1] == same[1]:
        return f"{start.label}–{same[2]}"
    return f"{start.label} – {end.label}"


def _end(part: GraphPart, at: int) -> GraphPart:
    """Return the first or last part in a part that has a name of its own."""
    while part.kind in {"run", "repeat"}:
        part = part.children[at]
    return part


@lru_cache(maxsize=4096)
def stem(segment: str) -> str:
    """Return a segment without its numbers: `layer12` and `layer3` are repeats of one thing."""
    return re.sub(r"\d+", "#", segment)


# ---- equality ------------------------------------------------------------------------------------


class Signatures:
    """Small numbers for things that are equal."""

    def __init__(self, graph: LayerGraph) -> None:
        self._graph = graph
        self._number: dict[Any, int] = {}

    def _intern(self, key: Any) -> int:
        return self._number.setdefault(key, len(self._number))

    def of_layer(self, position: int, path: Sequence[str]) -> int:
        """Return a number that layers share if name without numbers, kind, work and sizes are equal."""
        graph = self._graph
        layer = graph.layers[position]
        return self._intern(
            (
                tuple(map(stem, path)),
                layer.kind,
                layer.forward,
                layer.input_grad,
                layer.weight_grad,
                layer.measured,
                layer.trips,
                tuple(graph.parameter[use.name].shape for use in layer.parameters),
                tuple((graph.tensor[use.name].shape, graph.tensor[use.name].dtype) for use in layer.writes),
            )
        )

    def of_module(self, name: str, children: Iterable[GraphPart], wiring: tuple[tuple[int, int], ...]) -> int:
        """Return a number that modules share if name without numbers, children and their wiring are equal."""
        return self._intern((stem(name), tuple(child.signature for child in children), wiring))


def relative(members: Sequence[int], pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return pairs by the position of their ends among `members`."""
    place = {layer: i for i, layer in enumerate(members)}
    return tuple(sorted((place[a], place[b]) for a, b in pairs))


# ---- many to few ---------------------------------------------------------------------------------


def fold(parts: Sequence[GraphPart], pairs_of: SiblingPairs) -> list[GraphPart]:
    """Fold parts to at most `MOST_SIBLINGS`: equal neighbours, then cells between waists, then even runs."""
    folded = _repeats(parts)
    if len(folded) > MOST_SIBLINGS:
        folded = _repeats(_cells(parts, pairs_of(parts)))
    return _runs(folded)


def _repeats(parts: Sequence[GraphPart]) -> list[GraphPart]:
    result: list[GraphPart] = []
    at = 0
    while at < len(parts):
        end = at + 1
        while end < len(parts) and parts[end].signature == parts[at].signature:
            end += 1
        own = tuple(parts[at:end])
        least = SHORTEST_LAYERS if own[0].kind == "layer" else 2
        result += [repeat_of(own)] if len(own) >= least else own
        at = end
    return result


def repeat_of(parts: tuple[GraphPart, ...]) -> GraphPart:
    """Make one part of equal neighbours."""
    first, last = parts[0], parts[-1]
    return GraphPart(
        id=f"{first.id}×{len(parts)}",
        label=f"{_noun(first)} × {len(parts)}",
        name=_range_label(first, last),
        kind="repeat",
        layers=_layers(parts),
        children=parts,
        signature=hash((first.signature, len(parts))),
    )


def _layers(parts: Iterable[GraphPart]) -> tuple[int, ...]:
    return tuple(sorted(layer for part in parts for layer in part.layers))


def _noun(part: GraphPart) -> str:
    """Return the noun that is repeated: the label without its number."""
    if part.kind == "run":
        return "block"
    return re.sub(r"[ _.]*\d+$", "", part.label) or "block"


def _cells(parts: Sequence[GraphPart], pairs: set[tuple[int, int]]) -> list[GraphPart]:
    """Group neighbours between waists (the only parts that all later ones depend on) into one part each."""
    reach = list(range(len(parts)))
    for a, b in pairs:
        reach[a] = max(reach[a], b)
    cells: list[list[int]] = [[]]
    furthest = 0
    for i, own in enumerate(reach):
        cells[-1].append(i)
        if furthest <= i:  # nothing before this one is read behind it
            cells.append([])
        furthest = max(furthest, own)
    found = [cell for cell in cells if cell]
    return [
        parts[cell[0]] if len(cell) == 1 else run_of([parts[i] for i in cell], pairs, cell[0])
        for cell in _joined(found, parts)
    ]


def _joined(cells: list[list[int]], parts: Sequence[GraphPart]) -> list[list[int]]:
    """Join an activation right behind branches to them."""
    result: list[list[int]] = []
    for cell in cells:
        tail = len(cell) == 1 and parts[cell[0]].label.startswith(("elementwise", "relu", "act"))
        if tail and result and len(result[-1]) > 1:
            result[-1] = result[-1] + cell
        else:
            result.append(cell)
    return result


def run_of(
    parts: Sequence[GraphPart], pairs: set[tuple[int, int]] | None = None, start: int = 0
) -> GraphPart:
    """Make one part of neighbours without a common path."""
    end = start + len(parts)
    wiring = tuple(sorted((a - start, b - start) for a, b in pairs or () if a >= start and b < end))
    children = tuple(_runs(_repeats(parts)))
    return GraphPart(
        id=f"{parts[0].id}..{parts[-1].id}",
        label=_range_label(parts[0], parts[-1]),
        name=_range_label(parts[0], parts[-1]),
        kind="run",
        layers=_layers(parts),
        children=children,
        signature=hash((wiring, tuple(part.signature for part in parts))),
    )


def _runs(parts: Sequence[GraphPart]) -> list[GraphPart]:
    """Group neighbours into even runs if there are too many."""
    if len(parts) <= MOST_SIBLINGS:
        return list(parts)
    groups = min(MOST_RUNS, round(math.sqrt(len(parts))))
    cut = [round(i * len(parts) / groups) for i in range(groups + 1)]
    return [run_of(parts[a:b]) for a, b in pairwise(cut)]
