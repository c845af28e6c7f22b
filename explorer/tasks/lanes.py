"""Lanes: sets of devices that hold the same pieces and run one order in lockstep."""

from __future__ import annotations

from typing import NamedTuple

from explorer.actions import Place
from explorer.base.caching import remembered
from explorer.tasks.placement import Piece, SectionShape


class Lanes(NamedTuple):
    """The lanes of some sections."""

    devices: tuple[tuple[int, ...], ...]
    """Per lane: its devices, in mesh order."""
    places: tuple[tuple[Place, ...], ...]
    """Per lane: the (stage, copy, replica) it holds, as schedules see them."""
    pieces: tuple[tuple[Piece, ...], ...]
    """Per lane: the pieces it computes, in section order."""
    of_piece: dict[Piece, tuple[int, ...]]
    """Per piece: lanes that compute it together."""
    kept: tuple[int, ...] | None
    """The replicas of all sections that it has pieces of; None for all."""


@remembered(256)
def find_lanes(sections: tuple[SectionShape, ...], replicas: tuple[int, ...] | None = None) -> Lanes:
    """Group devices by the pieces they hold.

    Args:
        sections: all sections of a job.
        replicas: keep only these replicas (the others are equal to one of them); None keeps all.
    """
    held: dict[int, list[Piece]] = {}
    for i, section in enumerate(sections):
        for copy, rows in enumerate(section.rows):
            for replica, row in enumerate(rows):
                if replicas is None or replica in replicas:
                    for device in row:
                        held.setdefault(device, []).append(Piece(i, copy, replica))
    first_section = _first_sections(sections)
    groups: dict[tuple[Piece, ...], list[int]] = {}
    for device, pieces in held.items():
        groups.setdefault(tuple(pieces), []).append(device)
    ordered = sorted(groups.items())
    of_piece: dict[Piece, list[int]] = {}
    for lane, (own, _) in enumerate(ordered):
        for piece in own:
            of_piece.setdefault(piece, []).append(lane)
    return Lanes(
        devices=tuple(tuple(devices) for _, devices in ordered),
        places=tuple(
            tuple(
                Place(sections[piece.section].stage, piece.copy, piece.replica)
                for piece in pieces
                if piece.section in first_section
            )
            for pieces, _ in ordered
        ),
        pieces=tuple(pieces for pieces, _ in ordered),
        of_piece={piece: tuple(lanes) for piece, lanes in of_piece.items()},
        kept=replicas,
    )


def _first_sections(sections: tuple[SectionShape, ...]) -> frozenset[int]:
    """Return per stage its section on most devices: the one whose replicas are the stage's."""
    best: dict[int, int] = {}
    for i, section in enumerate(sections):
        size = sum(len(row) for rows in section.rows for row in rows)
        known = best.get(section.stage)
        if known is None or size > sum(len(row) for rows in sections[known].rows for row in rows):
            best[section.stage] = i
    return frozenset(best.values())
