"""The What-if tab: sliders that re-simulate the plan shown, and curves. Nothing changes before Apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from explorer.base.errors import ExplorerError, InputError
from explorer.simulation.report import Report
from explorer.sweep import first_problem, vary
from widgets.base import Widget
from widgets.panel import Bench, Panel
from widgets.session import Point, make_point
from widgets.tab_box import TabBox

from .curve import SweepCurve
from .view import WhatIf
from .words import APPLICABLE, PREFIX, present, what_if_view


class WhatIfPanel(Panel):
    """Panel that owns the moved sliders, and shows what the plan would come to."""

    title = "What if"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.changes: dict[str, float] = {}
        """Values that differ from the plan's, by key of `explorer.sweep`."""
        self._typed: dict[str, Any] = {}
        self._errors: dict[str, str] = {}
        self.sliders = WhatIf(late=True)
        self.curve = SweepCurve(bench)
        self.box = TabBox(lambda: (self.sliders, *self.curve.content()))

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widgets: sliders, and the choice of a curve's number."""
        return (self.sliders, self.curve.controls)

    def actions(self) -> Mapping[str, Callable[[], Any]]:
        """Return the actions: apply and reset what was moved; draw a curve and stop."""
        return {"whatif_apply": self.apply, "whatif_reset": self.reset, **self.curve.actions()}

    def set(self, key: str, value: Any) -> bool:
        """Move a slider, or choose a curve's number; a wrong value is shown at its field."""
        name = key.removeprefix(PREFIX)
        if not key.startswith(PREFIX) or name not in present(self._bench.now()):
            return self.curve.set(key, value)
        self._typed.pop(name, None)
        self._errors.pop(name, None)
        try:
            number = _number(name, value)
        except InputError as error:
            self._typed[name], self._errors[name] = value, f"{error.message}: {error.allowed}"
        else:
            self.changes.pop(name, None)
            if number != present(self._bench.now())[name]:
                self.changes[name] = number
        self.draw()
        return True

    def reset(self) -> None:
        """Go back to the plan."""
        self.changes, self._typed, self._errors = {}, {}, {}
        self.draw()

    def apply(self) -> None:
        """Make batch, sequence length and devices those of the plan.

        Raises:
            ExplorerError: nothing that can be applied was moved, or applying it is impossible.
        """
        now = self._bench.now()
        there = now.inputs.cluster.device_count
        wanted = {key: value for key, value in self.changes.items() if key in APPLICABLE}
        if wanted.get("devices", 0) > there:
            del wanted["devices"]
        if not wanted:
            raise InputError(
                "nothing to apply", key="what if",
                allowed="another batch, sequence, or number of devices up to the cluster's",
            )  # fmt: skip
        point = applied(now, wanted)
        self.changes = {key: value for key, value in self.changes.items() if key not in wanted}
        self._bench.show(point)

    def forget(self) -> None:
        """Drop the curves of former inputs."""
        self.curve.forget()

    def settled(self, now: Point) -> None:
        """Compare with the new plan; keep what was moved where it is."""
        own = present(now)
        self.changes = {key: value for key, value in self.changes.items() if own.get(key, value) != value}
        self.changes = {key: value for key, value in self.changes.items() if key in own}
        self.draw()
        self.curve.settled(now)

    def set_theme(self, theme: str) -> None:
        """Follow the page's theme."""
        self.curve.set_theme(theme)

    def close(self) -> None:
        """End a curve under way."""
        self.curve.cancel()

    def draw(self) -> None:
        """Draw sliders and figures again."""
        now = self._bench.history.now
        if now is None:
            self.sliders.view = {}
            return
        found = variation(now, self.changes)
        self.sliders.view = what_if_view(now, self.changes, found, self._typed, self._errors)


def variation(now: Point, changes: Mapping[str, float]) -> Report | str:
    """Return the report predicted for a plan with some numbers changed, or why there is none."""
    if not changes:
        return now.report
    try:
        return vary(now.resolved(), changes).report()
    except ExplorerError as error:
        return first_problem(error)


def applied(now: Point, wanted: Mapping[str, float]) -> Point:
    """Return the state after batch, sequence length and devices were changed.

    Raises:
        ExplorerError: the change is impossible.
    """
    case, own = vary(now.resolved(), wanted), now.inputs
    length = wanted.get("sequence_length")
    model = replace(own.model, sequence_length=int(length)) if length else own.model
    inputs = replace(own, model=model, graph=case.graph, workload=case.workload)
    what = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in wanted.items())
    groups = () if "devices" in wanted else now.groups
    return make_point(inputs, case.strategy, groups, note=f"what if: {what}")


def _number(name: str, value: Any) -> float:
    """Read a number as typed.

    Raises:
        InputError: the value is not a number above 0, or not a whole one if that is needed.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    whole = name != "bandwidth"
    if not 0 < number < float("inf") or (whole and not number.is_integer()):
        allowed = "a whole number of 1 or more" if whole else "a number above 0"
        raise InputError(f"{value!r} is impossible", key=name, found=value, allowed=allowed)
    return number
