"""Open parts of the module tree: which are open, and the closed ones that stand for all layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from explorer.graph import LayerGraph
from explorer.views.graph_folds import GraphPart, repeat_of
from explorer.views.graph_tree import Tree, module_tree

MOST_AT_FIRST = 40
"""Most nodes shown before anybody opens anything."""
MOST_SHOWN = 400
"""Most nodes shown at all; whatever would need more stays closed, and the view says so."""

ALL = "/*"
"""Suffix of an id that opens all levels in the part that fit at once."""
MOST_UNFOLDED = 200
"""Most members of a repeat that can be shown one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One node of the picture: a closed part, or the frame of an open one."""

    part: GraphPart
    """Part it stands for; for some members of a repeat, a repeat of those."""
    parent: str | None
    """Id of the frame around it."""
    open: bool
    """Whether it is a frame; its inside follows."""
    repeat: str | None = None
    """Repeat that it belongs to and that can be unfolded or folded again."""
    unfolded: bool = False
    """Whether that repeat shows every member by itself."""


@dataclass(slots=True)
class _Picture:
    opened: frozenset[str]
    shown: list[Shown] = field(default_factory=list)
    left: int = MOST_SHOWN
    refused: int = 0


def canonical(tree: Tree, opened: Iterable[str]) -> list[str]:
    """Complete ids of open parts by all parts around them; unknown ids are dropped, layers open their way.

    A repeat among them is unfolded: every member is a node. A member among them is a node of its own (open if
    it holds anything), the others stay folded. `ID/*` opens all levels in a part that fit at once.
    """
    found: dict[str, None] = {}
    for key in opened:
        part = tree.find(key.removesuffix(ALL))
        if part is None:
            continue
        for outer in reversed([outer for outer in tree.above(part.id) if outer.kind != "repeat"]):
            found.setdefault(outer.id)
        up = tree.parent[part.id]
        if part.children or (up is not None and tree.part[up].kind == "repeat"):
            found.setdefault(part.id)
        if key.endswith(ALL):
            found.update(dict.fromkeys(_levels(part)))
    return list(found)


def _levels(part: GraphPart) -> list[str]:
    """List the modules in a part, level by level, while at most `MOST_AT_FIRST` nodes show."""
    found: list[str] = []
    level = list(part.children)
    while inner := [child for child in level if child.children and child.kind != "repeat"]:
        known = {child.id for child in inner}
        level = [deeper for child in level for deeper in (child.children if child.id in known else (child,))]
        if len(level) > MOST_AT_FIRST:
            break
        found += [child.id for child in inner]
    return found


def shown_parts(tree: Tree, opened: Iterable[str], most: int = MOST_SHOWN) -> tuple[list[Shown], int]:
    """List nodes in model order, frames before their contents, and count the open parts that found no room.

    Args:
        tree: the model's parts.
        opened: ids from `canonical`.
        most: most nodes to show; parts that would need more stay closed.
    """
    picture = _Picture(opened=frozenset(opened), left=most)
    picture.left -= sum(1 for _ in _members(tree.roots, picture.opened))
    _show(picture, tree.roots, None)
    return picture.shown, picture.refused


def _members(
    parts: Iterable[GraphPart], opened: frozenset[str]
) -> Iterator[tuple[GraphPart, str | None, bool]]:
    """Yield (part, its repeat, unfolded) of one level, repeats unfolded or cut around their open members."""
    for part in parts:
        if part.kind != "repeat":
            yield part, None, False
        elif len(part.children) > MOST_UNFOLDED:
            yield from ((piece, None, False) for piece in _pieces(part, opened))
        elif part.id in opened:
            yield from ((child, part.id, True) for child in part.children)
        else:
            yield from ((piece, part.id, False) for piece in _pieces(part, opened))


def _pieces(repeat: GraphPart, opened: frozenset[str]) -> Iterator[GraphPart]:
    """Cut a repeat around its open members."""
    closed: list[GraphPart] = []
    for child in repeat.children:
        if child.id in opened:
            yield from _closed(closed)
            yield child
            closed = []
        else:
            closed.append(child)
    yield from [repeat] if len(closed) == len(repeat.children) else _closed(closed)


def _closed(parts: list[GraphPart]) -> list[GraphPart]:
    return [repeat_of(tuple(parts))] if len(parts) > 1 else list(parts)


def _show(picture: _Picture, parts: Iterable[GraphPart], parent: str | None) -> None:
    for part, repeat, unfolded in _members(parts, picture.opened):
        wanted = part.id in picture.opened and bool(part.children) and part.kind != "repeat"
        if wanted:
            needed = sum(1 for _ in _members(part.children, picture.opened))
            wanted = needed <= picture.left
            picture.refused += not wanted
            picture.left -= needed if wanted else 0
        picture.shown.append(Shown(part=part, parent=parent, open=wanted, repeat=repeat, unfolded=unfolded))
        if wanted:
            _show(picture, part.children, part.id)


def default_opened(graph: LayerGraph) -> list[str]:
    """Choose open parts for a first look: whole levels, a typical repeat, up to `MOST_AT_FIRST` nodes."""
    return graph.memo("views.graph_opened", lambda: _default_opened(module_tree(graph)))


def _default_opened(tree: Tree) -> list[str]:
    opened = _deeper(tree, [])
    repeats = [item.part for item in shown_parts(tree, opened)[0] if item.part.kind == "repeat"]
    repeats = [part for part in repeats if part.children[0].children]
    if repeats:
        largest = max(repeats, key=lambda part: len(part.layers))
        typical = largest.children[len(largest.children) // 2]
        if _fits(tree, [*opened, typical.id]):
            opened = _deeper(tree, [*opened, typical.id])
    return opened


def _deeper(tree: Tree, opened: list[str]) -> list[str]:
    """Open whole levels, one after the other, while there is room."""
    while True:
        closed = [
            item.part.id
            for item in shown_parts(tree, opened)[0]
            if not item.open and item.part.children and item.part.kind != "repeat" and not item.repeat
        ]
        if not closed or not _fits(tree, [*opened, *closed]):
            return opened
        opened = [*opened, *closed]


def _fits(tree: Tree, opened: list[str]) -> bool:
    shown, refused = shown_parts(tree, opened, 2 * MOST_AT_FIRST)
    return not refused and sum(not item.open for item in shown) <= MOST_AT_FIRST
