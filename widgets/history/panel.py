"""The History tab: every state with what was done, files in and out, the report, and where all is saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from explorer.base.errors import ExplorerError, InputError
from explorer.base.formats import yaml_text
from explorer.explain.names import counted
from explorer.plan import own_files, share_text, to_document
from explorer.plan_text import LINK
from widgets.base import Widget
from widgets.panel import Bench, Panel
from widgets.report.document import Reported, report_html
from widgets.session import Point
from widgets.tab_box import TabBox

from .opened import DROPPED, Opened, opened
from .saving import Saving
from .states import States


class Kept(Bench, Reported, Protocol):
    """The workbench as its History tab sees it."""

    saving: Saving
    """Where everything is saved."""

    def go(self, position: int) -> bool:
        """Show a state of the history."""
        ...

    def tabs_title(self) -> str:
        """Return the title of the open tab."""
        ...


class HistoryPanel(Panel):
    """Panel that goes to any state, opens and saves plans, and makes the report."""

    title = "History"

    def __init__(self, bench: Kept) -> None:
        self._bench = bench
        self._path, self._error = "", ""
        self._remarks: tuple[str, ...] = ()
        self._shared: dict[str, Any] | None = None
        self.states = States(late=True)
        self.states.on_intent(self._answer)
        self.box = TabBox(lambda: (self.states,))
        bench.parts.tabs.observe(lambda _: bench.guard(self.draw), "selected_index")

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widget of the list."""
        return (self.states,)

    def actions(self) -> dict[str, Callable[[], Any]]:
        """Return the actions of this tab's buttons and of the sentence that offers a session."""
        return {
            "reopen": self._reopen, "start_afresh": self._start_afresh,
            "save_plan": self._save_plan, "make_report": self._make_report, "share_plan": self._share_plan,
        }  # fmt: skip

    def settled(self, now: Point) -> None:
        """Draw the list again after a state was added, or another is shown."""
        del now
        self._shared = None  # the text of the plan before
        self.draw()

    def close(self) -> None:
        """Write the rest of the session."""
        self._bench.saving.close()

    # -- what the page asks -----------------------------------------------------------------------

    def open(self, intent: Mapping[str, Any], made: Callable[[], Opened] | None = None) -> None:
        """Open what a gesture asks for, by a path, with a text or dropped on any part of the page.

        What is wrong is shown at the field of this tab, which keeps what was typed; of a dropped file it is
        raised, since that field may be out of sight.

        Args:
            intent: the gesture.
            made: function that returns what the file holds, or raises; None to read it now.

        Raises:
            InputError: a dropped file is nothing that can be opened.
        """
        found = made or partial(opened, intent, self._bench.history.now)
        dropped = intent["kind"] == DROPPED
        self._path, self._error, self._remarks = "", "", ()
        with self._bench.lock:
            try:
                self._take(found())
            except ExplorerError as error:
                if dropped:
                    raise _kept_as_it_was(error, str(intent["name"])) from None
                self._path, self._error = str(intent.get("path", "")), str(error)
            self.draw()

    def _take(self, found: Opened) -> None:
        """Show what a file holds."""
        if found.session is not None:
            self._bench.saving.reopen_session(found.session, restored=found.restored)
        else:
            assert found.point is not None
            self._bench.show(found.point)
        self._remarks = found.remarks

    def _answer(self, intent: dict[str, Any]) -> None:
        kind = intent["kind"]
        if kind == "go":
            self._bench.guard(lambda: self._bench.go(self._position(intent)))
        elif kind == "compare":
            self._bench.guard(lambda: self._compare(self._position(intent)))

    def _position(self, intent: dict[str, Any]) -> int:
        history = self._bench.history
        position = int(intent["number"]) - history.dropped
        if not 0 <= position < len(history.points):
            raise InputError(
                "that state is no longer in the history",
                key="number", found=intent["number"], allowed="a state of the list",
            )  # fmt: skip
        return position

    def _compare(self, position: int) -> None:
        point = self._bench.history.points[position]
        own, its = self._bench.now().inputs.model.reference, point.inputs.model.reference
        if own != its:
            raise InputError(
                f"that state is of {its}, the plan shown of {own}",
                key="other", found=its, allowed="a state of the same model",
            )  # fmt: skip
        self._bench.compare_with(point)

    def _reopen(self) -> None:
        self._bench.saving.reopen()
        self.draw()

    def _start_afresh(self) -> None:
        self._bench.saving.dismiss()
        self._bench.say(None)
        self.draw()

    def _save_plan(self) -> None:
        resolved = self._bench.resolved()
        document = to_document(resolved.plan, resolved.graphs)
        text = yaml_text(document)
        self.states.offer_download(f"{self._stem()}.yaml", "application/yaml", text.encode())

    def _share_plan(self) -> None:
        """Give the page the plan shown as a text, and say what it does not carry."""
        resolved = self._bench.resolved()
        text, names = share_text(resolved.plan, resolved.graphs), own_files(resolved.plan)
        note = counted(len(text), "character") + ("" if len(text) <= LINK else ", long for a link")
        carried = f"; it names {', '.join(names)}, which whoever opens it needs too" if names else ""
        number = int((self._shared or {}).get("number", 0)) + 1
        self._shared = {"text": text, "note": note + carried, "number": number}
        self.draw()

    def _make_report(self) -> None:
        page = report_html(self._bench)
        self.states.offer_download(f"{self._stem()}-report.html", "text/html", page.encode())

    def _stem(self) -> str:
        own = self._bench.now().inputs
        words = f"{own.model.reference}-{own.cluster_name}"
        return "".join(c if c.isalnum() or c in "-." else "-" for c in words)[:80].strip("-.") or "plan"

    # -- what it shows ----------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw the list if this tab is open."""
        if self._bench.tabs_title() != self.title:
            return
        bench, history, saving = self._bench, self._bench.history, self._bench.saving
        rows = [self._row(i) for i in reversed(range(len(history.points)))]
        offer = saving.offer
        self.states.view = {
            "rows": rows,
            "file": {"value": self._path, "error": self._error or None},
            "shared": self._shared,
            "offer": f"You were here {offer.words(history.clock())}" if offer is not None else None,
            "saved": self._saved(),
            "remarks": [*self._remarks, *saving.remarks],
            "problem": saving.problem or None,
            "ready": bench.history.now is not None,
        }

    def _row(self, i: int) -> dict[str, Any]:
        history = self._bench.history
        point, figures, now = history.points[i], history.points[i].figures, history.now
        before = history.points[i - 1] if i else None
        shown = now is not None and now.other is not None and now.other.outcome is point.outcome
        same = before is not None and before.inputs.model == point.inputs.model
        return {
            "number": history.dropped + i,
            "note": (point.note or "change") + ("" if same or before is None else f": {_where(point)}"),
            "maker": point.maker,
            "step_time_s": figures.step_time_s,
            "change": figures.step_time_s / before.figures.step_time_s - 1
            if same and before is not None and before.figures.step_time_s
            else None,
            "peak_fraction": figures.peak_fraction,
            "over_bytes": figures.over_bytes,
            "time": clock_time(history.times_s[i]),
            "shown": i == history.at,
            "is_b": shown and i != history.at,
        }

    def _saved(self) -> str:
        saving = self._bench.saving
        if saving.path is None and saving.first is None:
            return 'This session is not saved. Explorer(…, session="name.yaml") saves it.'
        if saving.saved_s is None:
            return f"Nothing to save yet; the first change is kept in {saving.path or saving.first}."
        return f"Saved at {clock_time(saving.saved_s)} in {saving.path}."


def _kept_as_it_was(error: ExplorerError, name: str) -> ExplorerError:
    """Return the error of a dropped file that is nothing to open."""
    if not isinstance(error, InputError):
        return error
    return InputError(
        f"it cannot be opened, and the plan stays as it was: {error.message}",
        file=name, key=error.key, found=error.found,
        allowed="a plan (a file or its text), a session or a trainer's config",
    )  # fmt: skip


def _where(point: Point) -> str:
    return f"{point.inputs.model.reference} on {point.inputs.cluster_name}"


def clock_time(seconds: float) -> str:
    """Return the time of day in the reader's zone."""
    return f"{datetime.fromtimestamp(seconds, tz=UTC).astimezone():%H:%M:%S}"
