"""Sizes and inks of the chart of the Search tab."""

from __future__ import annotations

from dataclasses import dataclass

HEIGHT_PX, WIDTH_PX = 560, 460
"""Height, and width until the page reports how wide the chart's place is, in pixels."""
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 60, 12, 28, 40
"""Margins in pixels."""
SCALE_PX = 74
"""Margin at the right in pixels where a scale of colours stands there."""
UPPER, GAP = 0.58, 0.17
"""Share of the upper part of what both parts have, and of the gap between them of all."""
_PARTS_PX = (HEIGHT_PX - TOP_PX - BOTTOM_PX) * (1 - GAP)
UPPER_PX, LOWER_PX = UPPER * _PARTS_PX, (1 - UPPER) * _PARTS_PX
"""Heights of the drawings in pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inks:
    """Colours of a theme."""

    ink: str
    """Text and lines."""
    second: str
    """What stands back."""
    paper: str
    """Background."""
    brand: str
    """The plan on the board."""


_INKS = {
    "light": Inks(ink="#222222", second="#5c6168", paper="#ffffff", brand="#1976d2"),
    "dark": Inks(ink="#e0e0e0", second="#a9afb7", paper="#212121", brand="#64b5f6"),
}


def inks_of(theme: str) -> Inks:
    """Return the colours of a theme; of one that is unknown, those of the light one."""
    return _INKS.get(theme, _INKS["light"])
