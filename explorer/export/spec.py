"""Exporter: what a target says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.base.registry import Spec
from explorer.export._source import SourceText
from explorer.export._support import Capabilities
from explorer.plan import Resolved

Reader = Callable[[SourceText], Resolved]
"""Reads a file of the target as a plan."""

PLAN, STAGES, ORDER = "plan", "stages", "order"
KEEPS = (PLAN, STAGES, ORDER)


def nothing_more(_: Resolved) -> list[str]:
    """Return no further problem: the capability table says all."""
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter(Spec):
    """A target of `explorer export`; its function makes the texts of its files, by name, from a plan."""

    capabilities: Capabilities
    """For every feature of `explorer.export.features` whether the target has it, and how; what it has not is
    refused by name before anything is written, never left out in silence."""
    problems: Callable[[Resolved], list[str]] = nothing_more
    """What else of a plan of one job the target cannot express, each with a way out."""
    read: Reader | None = None
    """Reads the target's files back; None if they cannot be."""
    main: str = ""
    """The file that `read` is given of a folder."""
    keeps: str = PLAN
    """What comes back of a plan: the whole `plan`, its `stages` and order, or the `order` alone."""
