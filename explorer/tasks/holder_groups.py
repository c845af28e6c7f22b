"""What follows from the pieces of holders groups: found once for a skeleton, however many devices it has."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from explorer.base.caching import Hashed
from explorer.tasks.skeleton import Piece, Skeleton, rows_held


class Group(NamedTuple):
    """A group of holders."""

    rows: Hashed[tuple[int, ...]]
    """The different rows of devices of its pieces, in their order."""
    devices: Hashed[int]
    """All its devices, ascending."""
    sections: tuple[int, ...]
    """The different sections of its pieces, in their order."""
    pieces: tuple[Piece, ...]
    """The different pieces of kept replicas, in their order."""


def find_groups(skeleton: Skeleton, kept: tuple[int, ...] | None = None) -> tuple[Group, ...]:
    """Return the holders groups of a skeleton.

    Args:
        skeleton: the skeleton.
        kept: replicas of which pieces are listed; None for all.
    """
    return skeleton.memo(("groups", kept), lambda: _find(skeleton, kept))


def _find(skeleton: Skeleton, kept: tuple[int, ...] | None) -> tuple[Group, ...]:
    chosen = None if kept is None else frozenset(kept)
    known: dict[Hashed[tuple[int, ...]], Hashed[int]] = {}
    found = []
    for group in skeleton.holders:
        rows = rows_held(group.pieces, skeleton.sections)
        if rows not in known:
            known[rows] = Hashed(sorted({*chain.from_iterable(rows)}))
        sections = dict.fromkeys([piece.section for piece in group.pieces])
        own = [piece for piece in group.pieces if chosen is None or piece.replica in chosen]
        found.append(Group(rows, known[rows], tuple(sections), tuple(dict.fromkeys(own))))
    return tuple(found)


def groups_of_section(skeleton: Skeleton) -> dict[int, tuple[int, ...]]:
    """Return the numbers of the holders groups that each section takes part in; sections of none are left
    out.
    """

    def make() -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for number, group in enumerate(find_groups(skeleton)):
            for section in group.sections:
                found.setdefault(section, []).append(number)
        return {section: tuple(numbers) for section, numbers in found.items()}

    return skeleton.memo("groups of sections", make)
