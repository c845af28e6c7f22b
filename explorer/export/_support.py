"""Capability tables: for each feature whether a target has it, exactly or approximately, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.export.features import FeatureUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Support of one feature by a target."""

    supported: bool
    """Whether the target can express the feature."""
    how: str
    """By what means; if it cannot: the way out."""
    exact: bool = True
    """Whether the target does exactly the same; if not, the notes of an export say so."""
    only: tuple[str, ...] = ()
    """Values that it has of a feature with values (an optimizer, a precision); () for all."""
    instead: str = ""
    """Name of the repair (`explorer.export._repairs`) that makes the plan which the target runs in place of
    this feature; empty for the feature's own, `-` where the model of cost sees no difference.
    """

    def covers(self, use: FeatureUse) -> bool:
        """Tell whether one use of the feature can be expressed."""
        return self.supported and (not self.only or use.where in self.only)


Capabilities: TypeAlias = Mapping[str, Support]
"""Support by feature name; a table has all features."""


def yes(how: str, *, only: tuple[str, ...] = (), instead: str = "") -> Support:
    """Return that the target has a feature; of one with values only those in `only`."""
    return Support(supported=True, how=how, only=only, instead=instead)


def nearly(how: str, *, instead: str = "") -> Support:
    """Return that the target has something similar; the difference is in `how`."""
    return Support(supported=True, how=how, exact=False, instead=instead)


def no(way_out: str, *, instead: str = "") -> Support:
    """Return that the target lacks a feature."""
    return Support(supported=False, how=way_out, instead=instead)
