"""Importer: the description that a reader of a trainer's config gives of itself, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.base.registry import Spec
from explorer.importing._source import SourceText
from explorer.plan import Resolved

NO_EFFECT = "no effect on the split"
"""What is assumed of keys about data, logs, checkpoints and learning rates."""


def unrecognised(_: SourceText) -> bool:
    """Return False: the text alone does not tell whose file it is."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKey:
    """A key of a config for which a plan has no word."""

    key: str
    """Name in the trainer's own words."""
    line: int = 0
    """Line of the file, counted from 1; 0 if the format does not tell."""
    value: str = ""
    """Value as it is written; empty for a flag."""
    assumed: str = "as if it were not there"
    """What the plan takes instead, in words."""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.key}{' ' if self.value else ''}{self.value}: {self.assumed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A config read as a plan, with everything that the plan does not say."""

    resolved: Resolved
    """The plan with its inputs."""
    unknown: tuple[UnknownKey, ...] = ()
    """Every key that the plan has no word for; none is dropped in silence."""
    assumed: tuple[str, ...] = ()
    """What was taken although the file does not say it: the model, the cluster, a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer(Spec):
    """A trainer of `explorer import`; its function reads a `SourceText` as `Imported`, and never runs it."""

    sniff: Callable[[SourceText], bool] = unrecognised
    """Tells by the text whether a file is this trainer's, so that nobody has to name it."""
    main: str = ""
    """Name of the file in a folder that is read."""
    documentation: str = ""
    """Address of the documentation of the trainer's settings."""
