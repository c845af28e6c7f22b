"""A drawing of how evaluations grow: one panel per size, both axes logarithmic, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 300, 220, 46, 34, 12, 38
SERIES = (("cold", "#2563eb", ""), ("warm", "#c2410c", "5 3"))
"""Lines of a panel: name, colour and dashes (they are also told apart without colour)."""
STYLE = "text{font:11px sans-serif;fill:#334}.t{font-weight:600}.f{fill:none;stroke:#aab}.g{stroke:#dde}"

Curve = Sequence[tuple[float, float, float]]
"""(size, milliseconds cold, milliseconds warm)."""


def draw(curves: Mapping[str, Curve], path: Path) -> None:
    """Write the panels side by side, with one scale of milliseconds for all."""
    every = [value for curve in curves.values() for _, *values in curve for value in values]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    panels = "".join(
        f'<g transform="translate({number * WIDTH},0)">{_panel(name, curve, low, high)}</g>'
        for number, (name, curve) in enumerate(curves.items())
    )
    size = f'width="{WIDTH * len(curves)}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>Milliseconds of CPU</title>'
    path.write_text(f"{head}<style>{STYLE}</style>{panels}</svg>\n", encoding="utf-8")


def _panel(name: str, curve: Curve, low: int, high: int) -> str:
    first, last = math.log(curve[0][0]), math.log(curve[-1][0])
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(size: float) -> float:
        return LEFT + (math.log(size) - first) / (last - first) * (right - LEFT)

    def y(value: float) -> float:
        return bottom - (math.log10(value) - low) / (high - low) * (bottom - TOP)

    parts = [f'<text class="t" x="{LEFT}" y="{TOP - 20}">{escape(name)}</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<line class="g" x1="{LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} ms</text>')
    parts.append(f'<rect class="f" x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}"/>')
    for size, _, _ in curve:
        anchor = "end" if size == curve[-1][0] else "start" if size == curve[0][0] else "middle"
        parts.append(f'<text x="{x(size):.1f}" y="{bottom + 15}" text-anchor="{anchor}">{size:,.0f}</text>')
    for column, (series, colour, dashes) in enumerate(SERIES, 1):
        points = " ".join(f"{x(row[0]):.1f},{y(row[column]):.1f}" for row in curve)
        style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'
        label_y = y(curve[-1][column]) - 6
        parts.append(f'<polyline points="{points}" {style}/>')
        parts.append(f'<text x="{right - 3}" y="{label_y:.1f}" text-anchor="end">{series}</text>')
    return "".join(parts)
