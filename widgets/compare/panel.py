"""The Compare tab: plan A (the one shown) next to plan B, in numbers and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import Any

from ipywidgets import HTML, Layout

from explorer.base.errors import ExplorerError, InputError
from explorer.base.units import format_bytes, format_seconds
from explorer.views.tiles import figures
from widgets.base import Widget
from widgets.controls import Controls
from widgets.edits import degrees_of, even_strategy
from widgets.opening import file_point
from widgets.panel import Bench, Panel
from widgets.panels import block, percent, table
from widgets.session import Point, make_point
from widgets.tab_box import TabBox

from .words import differences

EVEN, EARLIER, FILE = "even cut", "state before", "plan file…"
"""Sources of plan B other than a copy of the plan shown."""


def with_other(now: Point, other: Point | None) -> Point:
    """Return the state with a plan B, which itself has none; None for no comparison."""
    if other is None:
        return replace(now, other=None, note="comparison ended", maker="board")
    alone = replace(other, other=None)
    name = f"the plan {other.note}" if other.note.startswith("kept") else other.note or "plan B"
    return replace(now, other=alone, note=f"compared with {name}", maker="board")


class ComparePanel(Panel):
    """Panel that chooses plan B and states the difference; the views draw B themselves."""

    title = "Compare"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._path: str | None = None
        self._errors: dict[str, str] = {}
        self.controls = Controls(late=True)
        self.table = HTML(layout=Layout(width="100%"))
        self.box = TabBox(lambda: (self.controls, self.table))
        self.draw()

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widgets: choice of B, swap and end."""
        return (self.controls,)

    def actions(self) -> dict[str, Callable[[], Any]]:
        """Return the actions of the bar's A/B and of this tab's buttons."""
        return {"compare": self.toggle, "swap": self.swap, "compare_end": self.end}

    def set(self, key: str, value: Any) -> bool:
        """Choose plan B.

        Raises:
            ExplorerError: a file that cannot be read, or no such state; the field shows it too, and
                keeps what was typed.
        """
        if key not in ("other", "other_file"):
            return False
        self._errors = {}
        try:
            if key == "other_file":
                self._path = str(value)
                self._compare(file_point(self._path))
                self._path = None
            else:
                self._path = "" if value == FILE else None
                if value not in ("", FILE):
                    self._compare(self._made(str(value)))
        except ExplorerError as error:
            self._errors[key] = str(getattr(error, "message", "") or error)
            raise
        finally:
            self.draw()
        return True

    def toggle(self) -> None:
        """Keep the plan shown as B, or end the comparison."""
        now = self._bench.now()
        if now.other is not None:
            return self.end()
        kept = replace(now, note=_kept(now.note))
        self._bench.open_tab(self.title)
        return self._compare(kept)

    def swap(self) -> None:
        """Show B and compare with A."""
        now = self._bench.now()
        if now.other is None:
            raise InputError("there is no plan B", key="other", allowed="press A/B first")
        self._bench.compare_with(replace(now, other=None), shown=now.other)

    def end(self) -> None:
        """Drop plan B."""
        self._bench.compare_with(None)

    def settled(self, now: Point) -> None:
        """State the difference anew."""
        del now
        self._errors = {}
        self.draw()

    def _compare(self, other: Point) -> None:
        now = self._bench.now()
        own, its = now.inputs.model.reference, other.inputs.model.reference
        if own != its:
            raise InputError(
                f"plan B is of {its}, the plan shown of {own}",
                key="other", found=its, allowed="a plan of the same model",
            )  # fmt: skip
        self._bench.compare_with(other)

    def _made(self, what: str) -> Point:
        now, history = self._bench.now(), self._bench.history
        if what not in (EVEN, EARLIER):
            raise InputError(
                f"no plan B {what!r}", key="other", found=what, allowed=f"{EVEN}, {EARLIER}, {FILE}"
            )
        if what == EVEN:
            degrees = degrees_of(now)
            return make_point(now.inputs, even_strategy(now.inputs, degrees), note="even cut")
        earlier = next(
            (p for p in reversed(history.points[: history.at]) if p.strategy != now.strategy), None
        )
        if earlier is None:
            raise InputError("there is no earlier state", key="other", allowed="change something first")
        return earlier

    def draw(self) -> None:
        """Draw everything in this tab again."""
        now = self._bench.history.now
        other = now.other if now else None
        chosen = FILE if self._path is not None else ""
        options = [("", "the plan kept by A/B" if other else "choose…"), (EVEN, "the even cut of this shape"),
                   (EARLIER, "the state before the last change"), (FILE, "a plan file…")]  # fmt: skip
        fields: list[dict[str, Any]] = [
            {"key": "other", "label": "Plan B", "kind": "select", "value": chosen, "width_px": 240,
             "error": self._errors.get("other"),
             "options": [{"value": value, "label": label} for value, label in options]},
        ]  # fmt: skip
        if self._path is not None:
            fields.append({"key": "other_file", "label": "File", "kind": "text", "value": self._path,
                           "error": self._errors.get("other_file"), "width_px": 260,
                           "title": "A plan file of this model. Press Enter."})  # fmt: skip
        self.controls.view = {
            "name": "Plan B",
            "fields": fields if now else [],
            "buttons": [
                {"action": "swap", "label": "Swap A and B", "enabled": other is not None},
                {"action": "compare_end", "label": "End", "enabled": other is not None},
            ] if now else [],
        }  # fmt: skip
        self.table.value = compare_html(now, other)


def _kept(note: str) -> str:
    """Name plan B after the state it was kept from.

    >>> _kept("start"), _kept("schedule gpipe"), _kept("")
    ('kept at the start', 'kept after: schedule gpipe', 'kept')
    """
    if note.startswith("kept"):
        return note
    return "kept at the start" if note == "start" else f"kept after: {note}" if note else "kept"


def compare_html(a: Point | None, b: Point | None, *, heading: str = "h2") -> str:
    """Write the numbers of both plans and the differences in words, under headings of a level."""
    if a is None or b is None:
        return block(
            f'<{heading}>A and B</{heading}><div class="sub">Press A/B in the bar: the plan shown is '
            "kept as B, and every view compares what you do next with it. Or choose a plan B above.</div>"
        )
    rows = [
        (escape(name), tell(one), tell(other), _difference(one, other, points=points))
        for name, one, other, tell, points in _numbers(a, b)
    ]
    words = differences(a, b)
    listed = "".join(f"<li>{escape(text)}</li>" for text in words)
    return block(
        f"<{heading}>A and B in numbers</{heading}>"
        + table(("", "A, on the board", f"B, {b.note or 'the other plan'}", "A against B"), rows, narrow=True)
        + f"<{heading}>What A does otherwise</{heading}>"
        + (f"<ul>{listed}</ul>" if words else '<div class="sub">They are the same plan.</div>')
    )


def _numbers(a: Point, b: Point) -> list[tuple[str, float, float, Callable[[float], str], bool]]:
    one, other = (figures(p.report, p.inputs.job.sequence_length) for p in (a, b))
    unit = "tokens/s" if a.inputs.job.sequence_length else "samples/s"
    share: Callable[[float], str] = lambda value: percent(value, sign=False)  # noqa: E731
    rate: Callable[[float], str] = lambda value: f"{value:,.0f} {unit}".replace(",", " ")  # noqa: E731
    peak = [max(p.report.peak_memory_bytes) for p in (a, b)]
    return [
        ("Step time", one["step_time"], other["step_time"], format_seconds, False),
        ("Throughput", one["throughput"], other["throughput"], rate, False),
        ("Worst memory", peak[0], peak[1], format_bytes, False),
        ("Bubble", one["bubble"], other["bubble"], share, True),
        *([("MFU", one["mfu"], other["mfu"], share, True)] if "mfu" in one and "mfu" in other else []),
        ("Devices", len(a.report.devices), len(b.report.devices), lambda v: f"{v:.0f}", False),
    ]  # fmt: skip


def _difference(a: float, b: float, *, points: bool) -> str:
    if a == b:
        return "same"
    if points:
        return percent(a - b).replace(" %", " points")
    return percent(a / b - 1) if b else ""
