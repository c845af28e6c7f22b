"""Exporter: the description that a target gives of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.base.registry import Spec
from explorer.export._script import Start
from explorer.export._support import Capabilities
from explorer.importing._source import SourceText
from explorer.plan import Resolved

Reader = Callable[[SourceText], Resolved]
"""Type of a function that reads a file of the target as a plan."""

Setting: TypeAlias = str | int | float | bool
"""Type of a value in a trainer's own words; True is a flag that stands alone."""

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
    """Reads the target's files back, if no importer of the same name does; None if they cannot be."""
    main: str = ""
    """Name of the file in a folder that `read` is given."""
    keeps: str = PLAN
    """How much of a plan comes back: the whole `plan`, its `stages` and order, or the `order` alone."""
    settings: Callable[[Resolved], Mapping[str, Setting]] | None = None
    """Returns what the files say of a plan by the target's own keys, for `explorer diff --in`."""
    start: Callable[[Resolved], Start] | None = None
    """Returns how the target's ranks are started, so that a script of any launcher can be written."""
    documentation: str = ""
    """Address of the documentation of the target's settings."""
    client: str = ""
    """Package and version whose own parser reads the files in the tests; empty if there is none."""
