"""Columns and rows of a mixed-integer program, as they are added."""

from __future__ import annotations

from dataclasses import dataclass, field

Terms = dict[int, float]
"""Coefficients by column."""


@dataclass(slots=True)
class Program:
    """Columns and rows, as they are added."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    rows: list[tuple[float, Terms]] = field(default_factory=list)
    """At least so much, of the sum of these terms."""

    def column(self, lower: float, upper: float, *, binary: bool = False) -> int:
        """Add a variable."""
        self.lower.append(lower)
        self.upper.append(upper)
        if binary:
            self.whole.append(len(self.lower) - 1)
        return len(self.lower) - 1

    def at_least(self, least: float, *terms: tuple[int, float]) -> None:
        """Add a row; columns may come several times."""
        found: Terms = {}
        for column, factor in terms:
            found[column] = found.get(column, 0.0) + factor
        self.rows.append((least, found))

    def exactly(self, value: float, *terms: tuple[int, float]) -> None:
        """Add a row on both sides."""
        self.at_least(value, *terms)
        self.at_least(-value, *((column, -factor) for column, factor in terms))
