"""Tables of a program that pricing needs again and again: which slots depend on which stages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from explorer.tasks.holder_groups import find_groups
from explorer.tasks.program import BESIDE, REDUCE, TRANSFER, Program, Slot
from explorer.tasks.skeleton import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTables:
    """Slots of one program by what their price depends on."""

    own: tuple[IntArray, ...]
    """Per section: slots that depend on its stage, or on those of `near`: what it computes, updates, gathers
    and, as the first of a group, reduces.
    """
    order: IntArray
    """Slots of `own`, one section after the other."""
    near: tuple[tuple[int, ...], ...]
    """Per section: sections with which it shares parameters or overlapped actions, itself included."""
    alone: bool
    """Whether no two sections do."""
    transfers: tuple[Slot, ...]
    """Slots of transfers."""
    number: IntArray
    """Per transfer: number of its slot."""
    flow: IntArray
    """Per transfer: its flow."""
    samples: FloatArray
    """Per transfer: samples sent."""


def price_tables(program: Program) -> PriceTables:
    """Return the tables of a program, made once."""
    return program.memo("price tables", lambda: _find_tables(program))


def _find_tables(program: Program) -> PriceTables:
    holders, sections = program.skeleton.holders, len(program.skeleton.sections)
    own: list[list[int]] = [[] for _ in range(sections)]
    transfers: list[int] = []
    for number, slot in enumerate(program.slots):
        if slot.kind == TRANSFER:
            transfers.append(number)
        elif slot.kind == REDUCE:
            own[holders[slot.where].pieces[0].section].append(number)
        elif slot.kind >= 0:
            own[slot.piece.section].append(number)
    near: dict[int, set[int]] = defaultdict(set)
    for group in find_groups(program.skeleton, program.kept_replicas):
        for section in group.sections if len(group.sections) > 1 else ():
            near[section] |= {*group.sections}
    for slot in program.slots:
        if slot.part == BESIDE and slot.peer.section != slot.piece.section:
            near[slot.piece.section] |= {slot.piece.section, slot.peer.section}
    numbers = np.array(transfers, dtype=np.int64)
    slots = [program.slots[number] for number in transfers]
    return PriceTables(
        own=tuple(np.array(found, dtype=np.int64) for found in own),
        order=np.array([number for found in own for number in found], dtype=np.int64),
        near=tuple(tuple(sorted(near[section])) or (section,) for section in range(sections)),
        alone=not near,
        transfers=tuple(slots),
        number=numbers,
        flow=np.array([slot.where for slot in slots], dtype=np.int64),
        samples=np.array([slot.samples for slot in slots], dtype=np.float64),
    )
