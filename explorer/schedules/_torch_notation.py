"""Conversion of orders to the compute-only CSV of ``torch.distributed.pipelining`` and back. Pure text, no
torch.

One row per rank, one cell per action (``0F3``, ``0B3``, ``0I3``, ``0W3``), empty cells idle, and
``(0F3;1B2)OVERLAP_F_B`` for a pair that may overlap. The file has one step and no updates: torch's
optimizer runs outside the schedule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from explorer.actions import (
    FREE,
    NAMED,
    OFFLOAD,
    OVERLAP,
    RECOMPUTE,
    RELOAD,
    UPDATE,
    WHOLE_STAGE,
    Action,
    Order,
    Place,
    Shape,
    few_enough,
    parse_action,
)
from explorer.base.errors import InputError, PlanError
from explorer.base.formats import csv_text, parse_csv
from explorer.schedules._common import LaneOrders, roles, turns

_OVERLAP = re.compile(r"^\((.+);(.+)\)OVERLAP_F_B$")
_COMMUNICATION = re.compile(r"(SEND|RECV|UNSHARD|RESHARD|REDUCE_GRAD)")


def unsupported(order: Order, shape: Shape) -> list[str]:
    """List, in words, what torch's schedule runtime cannot express of an order; empty if it can express it
    all.
    """
    stages = range(shape.stages)
    homes = {stage: {roles(shape, places) for places in _holding(shape, stage)} for stage in stages}
    checks = (
        (shape.copies > 1, f"{shape.copies} copies of every stage"),
        (not order.flush, "no flush between steps (torch keeps one weight version)"),
        (any(turns(shape, stage) > 1 for stage in stages), "replicas that take whole microbatches in turn"),
        (any(len(found) != 1 for found in homes.values()), "a stage that different lanes run together"),
        (len(set(shape.microbatches)) > 1, "microbatch sizes that differ between stages"),
        (any(b != a + 1 for a, b in shape.edges), "stages that are not a chain"),
        (len(order.lag) > 1, "several sweeps"),
        (bool(order.edges), "extra dependencies"),
        (not shape.training, "a schedule without backwards"),
        *((True, text) for text in named_actions(order)),
    )
    return [text for wrong, text in checks if wrong]


def named_actions(order: Order) -> list[str]:
    """List the named actions that no compute-only schedule holds."""
    found = {action.op for lane in order.lanes for action in lane if action.op in NAMED}
    placed = ", ".join(sorted(found & WHOLE_STAGE))
    return [
        *([f"{placed} in an order of compute actions (it places them itself)"] if placed else []),
        *([f"{RECOMPUTE} apart from the backward"] if RECOMPUTE in found else []),
        *(["activations moved to the host and back"] if found & {OFFLOAD, FREE, RELOAD} else []),
    ]


def to_torch_csv(order: Order, shape: Shape) -> str:
    """Write the first step as compute-only CSV, one row per different lane (ranks of one pipeline).

    Actions on several microbatches become one cell for each.

    Raises:
        PlanError: everything that torch cannot express.
    """
    if problems := [f"torch cannot run {text}" for text in unsupported(order, shape)]:
        raise PlanError(problems)
    rows: dict[tuple[Place, ...], list[str]] = {}
    for places, actions in zip(shape.lanes, order.lanes, strict=True):
        if places:
            rows.setdefault(roles(shape, places), _cells(actions, shape.microbatches[0]))
    return csv_text(rows.values())


def from_torch_csv(text: str, *, file: str | None = None) -> LaneOrders:
    """Read the actions of every rank of one step, without updates, as the schedule `custom` takes them.

    Raises:
        InputError: a cell that is not an action, naming row and column, or one with communication.
    """
    lanes = []
    for row, cells in enumerate(parse_csv(text)):
        actions: list[Action] = []
        for column, cell in enumerate(cells):
            try:
                actions += _parse_cell(cell.strip())
            except InputError as error:
                raise error.within(file=file, key=f"row {row} column {column}") from None
        lanes.append(few_enough(actions))
    return tuple(lanes)


def _holding(shape: Shape, stage: int) -> list[tuple[Place, ...]]:
    return [places for places in shape.lanes if any(place.stage == stage for place in places)]


def _cells(actions: Sequence[Action], microbatches: int) -> list[str]:
    """Write the cells of one rank; its row follows the actions of the first step."""
    cells: list[str] = []
    joins = False
    for action in actions:
        if action.op == OVERLAP:
            joins = action.first_microbatch < microbatches
        elif action.op != UPDATE:
            found = [
                f"{action.stage}{action.op}{n}"
                for n in range(action.first_microbatch, action.first_microbatch + action.count)
                if n < microbatches
            ]
            if joins:
                found[0] = f"({cells.pop()};{found[0]})OVERLAP_F_B"
                joins = False
            cells += found
    return cells


def _parse_cell(cell: str) -> list[Action]:
    if not cell:
        return []
    if overlapped := _OVERLAP.match(cell):
        forward, backward = (parse_action(part) for part in overlapped.groups())
        return [forward, forward._replace(op=OVERLAP), backward]
    if _COMMUNICATION.search(cell):
        raise InputError(
            f"{cell!r} is communication", found=cell, allowed="compute actions (format compute_only)"
        )
    return [parse_action(cell)]
