"""Positions of the names of points in a chart, so that none covers another or a point. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .points import At, Frame

CHARACTER_PX, LINE_PX, GAP_PX = 6.5, 14.0, 8.0
"""Size of text at 11 px, and distance from a point to its name."""
EDGE_PX = 4.0
"""Least distance of a name from the edges of the area that it stands in."""
SIDES = (
    "top right", "bottom right", "top left", "bottom left", "middle right", "middle left", "top center",
    "bottom center",
)  # fmt: skip
"""Sides as plotly names them, in the order of preference."""

MOST_CROWD = 600
"""Most points that names make room for: each costs some microseconds for every name."""

SPARE_PX2 = 6.0
"""Area by which two names may touch."""
MOST_COVERED_PX2 = 40.0
"""Area of points with names that a name may cover."""
MOST_OUTSIDE = 0.04
"""Share of a name that may stand outside of the drawing."""

Box = tuple[float, float, float, float]


def name_within(words: str, room_px: float) -> tuple[str, bool]:
    """Write the name of an area of a width in pixels: on one line, else its last word on a second one.

    Returns:
        The name with `<br>` for a new line, and whether it stays clear of the area's edges; where it cannot
        it is written on one line, to stand beside the area.

    >>> name_within("may fit", 60), name_within("may fit", 30), name_within("may fit", 12)
    (('may fit', True), ('may<br>fit', True), ('may fit', False))
    """
    first, _, last = words.rpartition(" ")
    for lines in ([words], [first, last]):
        if CHARACTER_PX * max(map(len, lines)) + 2 * EDGE_PX <= room_px:
            return "<br>".join(lines), True
    return words, False


def place(
    points: Sequence[At],
    names: Sequence[str],
    frame: Frame,
    size_px: tuple[float, float],
    crowd: Sequence[At] = (),
    taken: Sequence[Box] = (),
) -> list[str]:
    """Choose the side of each name: the first one that is free, else the one that covers the fewest points.

    A name that would stand on another, on points with names or outside of the drawing on every side has none,
    "", and is left out; the first name always has one.

    Args:
        points: data coordinates.
        names: texts, one per point.
        frame: ends of the axes.
        size_px: width and height of the drawing.
        crowd: data coordinates of points without names, which a name rather leaves free.
        taken: boxes in pixels of other texts, on which no name stands.
    """
    at = [frame.pixels(point, size_px) for point in points]
    points_px: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in at]
    around = (frame.pixels(point, size_px) for point in crowd[:MOST_CROWD])
    marks = points_px + [(x - 2, y - 2, x + 2, y + 2) for x, y in around]
    edges = (0.0, 0.0, size_px[0], size_px[1])
    texts: list[Box] = list(taken)
    found: list[str] = []
    for (x, y), name in zip(at, names, strict=True):
        boxes = {side: _box(x, y, name, side) for side in SIDES}
        on_texts = {side: sum(_overlap(box, text) for text in texts) for side, box in boxes.items()}
        free = [
            side
            for side, box in boxes.items()
            if on_texts[side] <= SPARE_PX2
            and _overlaps(box, points_px) <= MOST_COVERED_PX2
            and _outside(box, edges) <= MOST_OUTSIDE * _area(box)
        ]
        if not free and found:
            found.append("")
            continue
        cost = {side: _outside(box, edges) + _overlaps(box, marks) for side, box in boxes.items()}
        side = min(free or SIDES, key=lambda side: cost[side] + (0.0 if free else on_texts[side]))
        texts.append(boxes[side])
        found.append(side)
    return found


def box_of(text: str, at: At, side: str) -> Box:
    """Return the box in pixels of a text, of lines with `<br>`, at the middle or at the left of a point."""
    lines = text.split("<br>")
    wide, tall = CHARACTER_PX * max(map(len, lines)), LINE_PX * len(lines)
    left = at[0] - wide / (2 if side == "middle center" else 1)
    return left, at[1] - tall / 2, left + wide, at[1] + tall / 2


def _box(x: float, y: float, name: str, side: str) -> Box:
    vertical, horizontal = side.split()
    wide = CHARACTER_PX * len(name)
    left = {"right": x + GAP_PX, "left": x - GAP_PX - wide, "center": x - wide / 2}[horizontal]
    top = {"top": y - GAP_PX - LINE_PX, "bottom": y + GAP_PX, "middle": y - LINE_PX / 2}[vertical]
    return left, top, left + wide, top + LINE_PX


def _overlap(a: Box, b: Box) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0])
    tall = min(a[3], b[3]) - max(a[1], b[1])
    return wide * tall if wide > 0 and tall > 0 else 0.0


def _overlaps(box: Box, others: Sequence[Box]) -> float:
    return sum(_overlap(box, other) for other in others)


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _outside(box: Box, frame: Box) -> float:
    return _area(box) - _overlap(box, frame)
