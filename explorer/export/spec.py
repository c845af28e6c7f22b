"""Exporter: the description that a target gives of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.base.registry import Spec
from explorer.export._source import SourceText
from explorer.export._support import Capabilities
from explorer.plan import Resolved

Reader = Callable[[SourceText], Resolved]
"""Type of a function that reads a file of the target as a plan."""

PLAN, STAGES, ORDER = "plan", "stages", "order"
KEEPS = (PLAN, STAGES, ORDER)


def nothing_more(_: Resolved) -> list[str]:
    """Return no further problem: the capability table states all."""
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter(Spec):
    """A target of `explorer export`; its function writes the texts of its files, by name, from a plan."""

    capabilities: Capabilities
    """For every feature of `explorer.export.features` whether the target has it, and how; a missing feature
    is refused by name before anything is written, never left out in silence."""
    problems: Callable[[Resolved], list[str]] = nothing_more
    """Returns further problems of a plan of one job that the target cannot express, each with a way out."""
    read: Reader | None = None
    """Reads the target's files back; None if they cannot be."""
    main: str = ""
    """Name of the file in a folder that `read` is given."""
    launchers: tuple[str, ...] = ()
    """Schedulers for which it writes a job besides; its function then takes one of them as `launcher`."""
    keeps: str = PLAN
    """How much of a plan comes back: the whole `plan`, its `stages` and order, or the `order` alone."""
