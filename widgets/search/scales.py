"""Units in which the axes of a frontier are drawn and told. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from explorer.base.units import GIB
from explorer.search import Objective

_TITLES = {
    "time": "step time", "memory": "worst device memory", "devices": "devices used", "cost": "cost",
    "energy": "energy", "time_to_accuracy": "time to accuracy",
}  # fmt: skip
"""Titles of axes, which name their unit themselves."""
_UNITS: dict[str, tuple[tuple[str, float], ...]] = {
    "time": (("s", 1.0),),
    "memory": (("GiB", GIB),),
    "devices": (("", 1.0),),
    "cost": (("$ a million steps", 1e-6), ("$ a thousand steps", 1e-3), ("$ a step", 1.0)),
    "energy": (("J a step", 1.0), ("kJ a step", 1e3), ("MJ a step", 1e6)),
    "time_to_accuracy": (("s", 1.0), ("h", 3600.0), ("days", 86_400.0)),
}
"""Units of an objective: name, and how much one is in the unit of the objective; from the smallest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis and the unit it is drawn in."""

    objective: Objective
    """What is drawn."""
    unit: str
    """Name of the unit; empty for a number of things that the title names."""
    one: float
    """Size of one, in the unit of the objective."""

    @property
    def name(self) -> str:
        """Name of the objective."""
        return self.objective.name

    @property
    def title(self) -> str:
        """Title of the axis without its unit."""
        return _TITLES.get(self.name, self.objective.title)

    @property
    def head(self) -> str:
        """Title of the axis, with its unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def of(self, value: float) -> float:
        """Return a value of the objective in this unit."""
        return value / self.one

    def words(self, value: float) -> str:
        """Write a value of the objective with its unit."""
        return with_unit(f"{self.of(value):.4g}", self.unit or self.name)

    def view(self) -> dict[str, Any]:
        """Return the axis as `Leaderboard.view` names it."""
        return {"name": self.name, "title": self.title, "unit": self.unit, "one": self.one}


def with_unit(number: str, unit: str) -> str:
    """Write a number with its unit, the sign of a currency before it.

    >>> with_unit("7.41", "s"), with_unit("12", "$ a step")
    ('7.41 s', '$12 a step')
    """
    return f"${number}{unit[1:]}" if unit.startswith("$") else f"{number} {unit}"


def scale_of(objective: Objective, values: Iterable[float]) -> Scale:
    """Choose the largest unit in which the least of some values is 1 or more, else the smallest unit."""
    units = _UNITS.get(objective.name, ((objective.unit, 1.0),))
    least = min((value for value in values if value > 0 and math.isfinite(value)), default=math.inf)
    fit = [unit for unit in units if unit[1] <= least] if math.isfinite(least) else []
    name, one = (fit or units)[-1 if fit else 0]
    return Scale(objective=objective, unit=name, one=one)
