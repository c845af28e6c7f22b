"""Capability tables: for each feature whether a target has it, exactly or nearly, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.export.features import FeatureUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What a target makes of one feature."""

    supported: bool
    """Whether it can express it."""
    how: str
    """By what means; where it cannot: the way out."""
    exact: bool = True
    """False where what the target does is near, not the same: said in the notes of an export."""
    only: tuple[str, ...] = ()
    """For a feature with values (an optimizer, a precision): those it has; () is all."""

    def covers(self, use: FeatureUse) -> bool:
        """Whether one use of the feature can be expressed."""
        return self.supported and (not self.only or use.where in self.only)


Capabilities: TypeAlias = Mapping[str, Support]
"""By feature name; a table has them all."""


def yes(how: str, *, only: tuple[str, ...] = ()) -> Support:
    """The target has it; of a feature with values those in `only`."""
    return Support(supported=True, how=how, only=only)


def nearly(how: str) -> Support:
    """The target has something near; the difference is in `how`."""
    return Support(supported=True, how=how, exact=False)


def no(way_out: str) -> Support:
    """The target has it not."""
    return Support(supported=False, how=way_out)
