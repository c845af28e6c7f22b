"""A scatter plot of predicted over measured, one panel per set, as SVG or as a page that opens offline.

Both axes are logarithmic with the same scale; the diagonal is a true prediction, the band around it 10 %. The
name, prediction and measurement of a row appear when the pointer rests on its dot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from explorer.base.errors import InputError
from explorer.score.running import PredictedRow, Scored
from explorer.score.tables import cells

SIZE, MARGIN, ACROSS = 320, 46, 3
"""Pixels of a panel and of its margin, and panels per line."""
BAND = 0.1
_STYLE = (
    "text{font:11px sans-serif;fill:#334}.t{font-weight:600;font-size:13px}.d{fill:#2563eb;fill-opacity:.55}"
    ".f{fill:none;stroke:#aab}.l{stroke:#445}.b{fill:#16a34a;fill-opacity:.12}"
)


def scatter(scores: Sequence[Scored], suffix: str) -> bytes:
    """Return the plot in the format of a file's suffix.

    Raises:
        InputError: the suffix is neither .html nor .svg.
    """
    drawn = svg(scores)
    if suffix == ".svg":
        return drawn.encode()
    if suffix == ".html":
        title = "Predicted and measured"
        page = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        return f"{page}<body><h1>{title}</h1>{drawn}</body></html>".encode()
    raise InputError(
        f"no plot as {suffix or 'a file without a suffix'!r}",
        key="--plot",
        found=suffix,
        allowed=".html, .svg",
    )


def svg(scores: Sequence[Scored]) -> str:
    """Draw all panels as one drawing; sets without rows have none."""
    shown = [scored for scored in scores if scored.outcomes]
    lines = -(-len(shown) // ACROSS)
    width, height = SIZE * min(ACROSS, max(1, len(shown))), SIZE * max(1, lines)
    panels = [
        f'<g transform="translate({i % ACROSS * SIZE},{i // ACROSS * SIZE})">{_panel(scored)}</g>'
        for i, scored in enumerate(shown)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img">'
    return f"{head}<style>{_STYLE}</style>{''.join(panels)}</svg>"


def _panel(scored: Scored) -> str:
    values = [value for row in scored.outcomes for value in (row.predicted, row.measured)]
    low, high = math.log(min(values)) - 0.1, math.log(max(values)) + 0.1
    side = SIZE - 2 * MARGIN

    def at(value: float) -> float:
        return (math.log(value) - low) / (high - low) * side

    dots = "".join(
        _dot(row, MARGIN + at(row.measured), SIZE - MARGIN - at(row.predicted)) for row in scored.outcomes
    )
    start, end, off = MARGIN, SIZE - MARGIN, math.log1p(BAND) / (high - low) * side
    upper = f"{start},{end - off} {end - off},{start} {end},{start}"
    band = f"{upper} {end},{start + off} {start + off},{end} {start},{end}"
    mean = cells(scored)[3]
    return (
        f'<rect class="f" x="{start}" y="{start}" width="{side}" height="{side}"/>'
        f'<polygon class="b" points="{band}"/>'
        f'<line class="l" x1="{start}" y1="{end}" x2="{end}" y2="{start}"/>{dots}'
        f'<text class="t" x="{start}" y="{start - 20}">{escape(scored.name)}</text>'
        f'<text x="{start}" y="{start - 6}">{len(scored.outcomes)} rows, mean error {mean}</text>'
        f'<text x="{start}" y="{end + 14}">{math.exp(low):.3g}</text>'
        f'<text x="{end}" y="{end + 14}" text-anchor="end">{math.exp(high):.3g}</text>'
        f'<text x="{SIZE / 2}" y="{end + 30}" text-anchor="middle">measured ({escape(scored.unit)})</text>'
        f'<text transform="translate({start - 10},{SIZE / 2}) rotate(-90)" text-anchor="middle">'
        "predicted</text>"
    )


def _dot(row: PredictedRow, x: float, y: float) -> str:
    error = (row.predicted / row.measured - 1) * 100
    words = f"{row.name}: predicted {row.predicted:.4g}, measured {row.measured:.4g}, {error:+.1f} %"
    return f'<circle class="d" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(words)}</title></circle>'
