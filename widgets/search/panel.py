"""The Search tab: settings, leaderboard, live best so far, frontier, and loading a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipywidgets import Box, Layout

from explorer.base.errors import InputError
from explorer.cluster.memory_room import memory_room
from explorer.search import SEARCHERS, Candidate, Problem, candidate_of, objective_value
from explorer.search.objectives import axes_of, frontier_axes
from explorer.search.side_by_side import turn
from explorer.strategy import Strategy
from explorer.views.frontier import axis_names, frontier_points, frontier_strategies, runs_along
from explorer.views.search_table import YOURS, SearchRow, leaderboard_rows
from widgets.base import Intent, Widget
from widgets.controls import Controls
from widgets.holds import Holds, bounds, released
from widgets.panel import Bench, Panel
from widgets.session import Point, make_point
from widgets.tab_box import TabBox

from .buttons import buttons
from .found import Found
from .leaderboard import Leaderboard
from .objective_fields import objective_unit
from .placing import ChartPlace
from .scales import scale_of
from .task import Entrant, SearchTask
from .words import (
    Settings,
    fields,
    held_words,
    read_setting,
    searcher_field,
    status_words,
    verdict,
)

CHART_S = 1.0
"""Seconds between two drawings of the chart during a search: they cost the page more than everything else."""
MOST_POINTS = 60
"""Most points of the frontier in the table."""
_WIDE = Layout(flex="3 1 600px", min_width="0", width="auto")
_SLIM = Layout(flex="2 1 380px", min_width="0", width="auto")


class SearchPanel(Panel):
    """Panel that owns the search and what the tab shows of it."""

    title = "Search"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.task = SearchTask(bench.lock, lambda: bench.guard(self._step))
        self.settings = Settings()
        self._typed: dict[str, Any] = {}
        self._errors: dict[str, str] = {}
        self._loaded: tuple[Point, str] | None = None
        self._theme = "light"
        self._drawn_s = 0.0
        self.controls = Controls(late=True)
        self.leaderboard = Leaderboard(late=True, layout=_WIDE)
        self.leaderboard.on_intent(self._answer)
        self.leaderboard.observe(lambda _: bench.guard(self.draw_figure), "chart_px")
        self.leaderboard.observe(lambda _: bench.guard(self.draw), "selected")
        self.chart = ChartPlace(
            bench,
            load=lambda pick: self._load(pick.searcher, pick.strategy, pick.label),
            ready=self.draw_figure,
            shown=self._chart_shown,
            layout=_SLIM,
        )
        flow = Layout(display="flex", flex_flow="row wrap", align_items="flex-start", width="100%")
        self.box = TabBox(lambda: (self.controls, Box([self.leaderboard, self.chart.box], layout=flow)))
        self.draw()

    # -- searching --------------------------------------------------------------------------------

    def start(self, searchers: Sequence[str]) -> None:
        """Begin to search with some searchers, one after another; the first search also makes the chart.

        Raises:
            ExplorerError: an unknown searcher, or an objective that this workload does not support.
        """
        now = self._bench.now()
        problems = [(name, self.problem(now, start=SEARCHERS.get(name).starts)) for name in searchers]
        self.task.start(problems, budget_s=self._bench.search_budget_s, jobs=self.settings.jobs)
        self._drawn_s = 0.0
        self.chart.make_soon()
        self.draw()
        self._bench.open_tab(self.title)
        self._bench.say(self.verdict())

    def problem(self, now: Point, *, start: bool) -> Problem:
        """Return the problem: the inputs of a state, its pins and locks, and the settings of this tab.

        Searchers that continue from a strategy get the state's own; the others start by themselves, so that
        their rows show what they would find without yours.
        """
        own, asked = now.inputs, self.settings
        pins, bans = bounds(now.holds, now.strategy.job, own.graph, own.cluster)
        return Problem(
            graph=own.graph,
            cluster=own.cluster,
            workload=own.workload,
            objective=asked.objective,
            memory_limit_bytes=asked.memory_limit_bytes,
            min_samples_per_s=asked.min_samples_per_s,
            max_devices=asked.max_devices,
            weights=asked.weights,
            pins=pins,
            bans=bans,
            start=now.strategy if start else None,
        )

    def compare_all(self) -> None:
        """Run all searchers, or those named, in turn, quick ones first: what they leave is for others."""
        self.start(sorted(self.settings.compared or SEARCHERS.names(), key=turn))

    def skip(self) -> None:
        """Stop the searcher at work and go on with the next."""
        self.task.skip()

    def compare_found(self) -> None:
        """Keep what the selected searcher found as plan B of the Compare tab, beside the plan shown.

        Raises:
            InputError: no row with a result is selected.
        """
        name = self.leaderboard.selected
        run = self.task.runs.get(name)
        if run is None or run.best is None:
            raise InputError(
                f"{name or 'no row'} has no plan to compare with", key="row", found=name,
                allowed="a row with a strategy",
            )  # fmt: skip
        own, best = self._bench.now().inputs, run.best
        self._bench.compare_with(make_point(own, best.strategy, note=f"found by {name}", maker=name))
        self._bench.open_tab("Compare")

    def stop(self) -> None:
        """Stop; results stay."""
        self.task.stop()
        self._step()

    # -- what a tab does --------------------------------------------------------------------------

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widgets: settings and results."""
        return (self.controls, self.leaderboard)

    def actions(self) -> Mapping[str, Callable[[], Any]]:
        """Return the actions: compare searchers, skip one, set a result beside the plan shown."""
        return {"compare_all": self.compare_all, "skip": self.skip, "compare_found": self.compare_found}

    def set(self, key: str, value: Any) -> bool:
        """Take a field of this tab; a wrong value is shown at the field and changes nothing."""
        if key == "searcher":
            SEARCHERS.get(str(value))  # raises now, not at Search
            self._bench.searcher = str(value)
            self.draw()
            return True
        if key not in fields(self._bench.history.now, self.settings, 0.0, self._bench.searcher):
            return False
        self._typed[key] = value
        ranked = axes_of(self.settings.objective)[0]
        try:
            if key == "search_budget_s":
                self._bench.search_budget_s = read_setting(self._bench.history.now, self.settings, key, value)
            else:
                self.settings = read_setting(self._bench.history.now, self.settings, key, value)
        except InputError as error:
            self._errors[key] = str(error.allowed or error)
        else:
            self._typed.pop(key, None)
            self._errors.pop(key, None)
            if axes_of(self.settings.objective)[0] != ranked:
                self.task.forget_curves()
        self.draw()
        self.draw_figure()
        return True

    def settled(self, now: Point) -> None:
        """Compare with the new state, and leave the machine to the next gesture."""
        del now
        self.task.give_way()
        self.draw()

    def forget(self) -> None:
        """Forget what was found for other inputs."""
        self.task.clear()
        self.settings = Settings()
        self._typed, self._errors, self._loaded = {}, {}, None
        self.draw()

    def idle(self, now: Point) -> None:
        """Draw the chart, which is slower than everything else together."""
        del now
        self.draw_figure()

    def set_theme(self, theme: str) -> None:
        """Follow the page's theme; plotly does not by itself."""
        self._theme = theme
        self.draw_figure()

    def close(self) -> None:
        """End the search."""
        self.task.stop()
        self.chart.close()

    def _step(self) -> None:
        """Draw what the search has found since it was last drawn."""
        self.draw()
        if not self.task.running or self.task.wall_s() - self._drawn_s > CHART_S:
            self.draw_figure()
            self._drawn_s = self.task.wall_s()
        self._bench.say(self.verdict())
        if self.task.error is not None:
            error, self.task.error = self.task.error, None
            raise error

    # -- loading ----------------------------------------------------------------------------------

    def _answer(self, intent: Intent) -> None:
        """Answer a click on a row or on a point of the frontier."""
        if intent["kind"] == "load":
            self._bench.guard(lambda: self.load(str(intent["row"])))
        elif intent["kind"] == "load_point":
            self._bench.guard(lambda: self.load_point(str(intent["point"])))
        elif intent["kind"] == "chart_again":
            self.chart.make_again()

    def _chart_shown(self) -> None:
        self.leaderboard.charts += 1

    def load(self, searcher: str) -> None:
        """Put what a searcher found on the board, as an edit that Undo takes back.

        Raises:
            InputError: the searcher has found nothing.
        """
        if searcher == YOURS:
            return
        run = self.task.runs.get(searcher)
        if run is None or run.best is None:
            raise InputError(
                f"{searcher or 'no searcher'} has found nothing to load",
                key="row", found=searcher, allowed="a row with a strategy",
            )  # fmt: skip
        self._load(searcher, run.best.strategy, run.best.label)

    def load_point(self, point: str) -> None:
        """Put a strategy of the frontier on the board, by the id of its point.

        Raises:
            InputError: the frontier has moved on.
        """
        axes = frontier_axes(self.settings.objective)
        found = frontier_strategies(self.task.runs.values(), axes).get(point)
        if found is None:
            raise InputError(
                "this point is no longer on the frontier", key="point", found=point,
                allowed="a row of the frontier",
            )  # fmt: skip
        self._load(*found)

    def load_best(self) -> None:
        """Put the best of the last search on the board.

        Raises:
            InputError: nothing that fits was found.
        """
        progress = self.task.best()
        if progress is None or progress.best is None:
            raise InputError(
                "no search has found a strategy that fits yet", key="search", allowed="press Search first"
            )
        self._load(progress.searcher, progress.best.strategy, progress.best.label)

    def _load(self, searcher: str, strategy: Strategy, label: str) -> None:
        bench = self._bench
        bench.show(make_point(bench.now().inputs, strategy, note=label, maker=searcher))
        self._loaded = (bench.now(), f"{searcher}'s strategy is on the board; Undo takes it back")
        self.leaderboard.selected = searcher if searcher in self.task.entrants else ""
        self.draw()

    # -- drawing ----------------------------------------------------------------------------------

    def yours(self) -> Candidate | None:
        """Return the strategy on the board as a candidate of the present problem."""
        now = self._bench.history.now
        if now is None:
            return None
        hand = (
            "by hand" if now.maker == "board" else "even cut" if now.maker == "start" else f"from {now.maker}"
        )
        return candidate_of(self._judge(now), now.strategy, now.report, hand)

    def _judge(self, now: Point) -> Problem:
        own, asked = now.inputs, self.settings
        return Problem(
            graph=own.graph, cluster=own.cluster, workload=own.workload, objective=asked.objective,
            memory_limit_bytes=asked.memory_limit_bytes, min_samples_per_s=asked.min_samples_per_s,
            max_devices=asked.max_devices,
        )  # fmt: skip

    def verdict(self) -> dict[str, Any] | None:
        """Return the sentence of a search under way or just done."""
        now = self._bench.history.now
        return verdict(self.task, self.yours(), held_words(now.holds) if now else "")

    def draw(self) -> None:
        """Draw settings and tables again; what is equal is not sent again."""
        now = self._bench.history.now
        bar = self._bar(now)
        if bar != self.controls.view or self._errors:
            self.controls.view = bar
        view = self._table(now) if now is not None else {}
        if view != self.leaderboard.view:
            self.leaderboard.view = view

    def _bar(self, now: Point | None) -> dict[str, Any]:
        if now is None:
            return {"fields": [], "buttons": []}
        shown = fields(now, self.settings, self._bench.search_budget_s, self._bench.searcher)
        for key, error in self._errors.items():
            shown[key] |= {"value": self._typed[key], "error": error}
        return {
            "name": "Settings of a search",
            "fields": [searcher_field(self._bench.searcher), *shown.values()],
            "buttons": buttons(self.task, self.settings, self.leaderboard.selected),
        }

    def _table(self, now: Point) -> dict[str, Any]:
        judge, yours, task = self._judge(now), self.yours(), self.task
        bound_s = judge.lower_bound() if judge.ranks.name == "time" else None
        rows = leaderboard_rows(
            [self._row(item, judge, now) for item in task.entrants.values()],
            yours=yours, bound_s=bound_s, held=held_words(now.holds),
        )  # fmt: skip
        mine = {name for name, run in task.runs.items() if run.best and run.best.strategy == now.strategy}
        axes = frontier_axes(self.settings.objective)
        points = frontier_points(task.runs.values(), axes)
        return {
            "state": "searching" if task.running else "done" if task.entrants else "empty",
            "text": status_words(task),
            "said": self._loaded[1] if self._loaded and self._loaded[0] is now else None,
            "objective": objective_unit(judge.ranks.name),
            "bound": {"value_s": bound_s, "name": "work over peak"} if bound_s else None,
            "rows": [row | {"on_board": row["id"] in mine} for row in rows],
            "axes": [
                scale_of(axis, (point["values"][i] for point in points)).view() for i, axis in enumerate(axes)
            ],
            "points": points[:MOST_POINTS],
            "points_omitted": max(0, len(points) - MOST_POINTS),
        }

    def _row(self, item: Entrant, judge: Problem, now: Point) -> SearchRow:
        best = item.run.best if item.run else None
        value = objective_value(judge, best.report) if best else None
        broken = released(now.holds, now.strategy.job, best.strategy.job) if best else Holds()
        return SearchRow(
            searcher=item.name,
            space=SEARCHERS.get(item.name).space.words,
            state=item.state,
            run=item.run,
            own=item.own,
            error=item.error,
            value=value if value is not None and value < float("inf") else None,
            releases=held_words(broken),
        )

    def draw_figure(self) -> None:
        """Draw the chart again; it is slower than everything else together, so not at every drag."""
        now = self._bench.history.now
        if self.chart.figure is None or now is None:
            return
        judge, yours = self._judge(now), self.yours()
        assert yours is not None
        cluster = now.inputs.cluster
        used = {group.device_kind for group in cluster.nodes}
        rooms = [memory_room(kind) for kind in cluster.device_kinds if kind.name in used]
        fits, room = max(room.fits_bytes for room in rooms), max(room.limit_bytes for room in rooms)
        limit = self.settings.memory_limit_bytes or room
        axes = frontier_axes(self.settings.objective)
        names = axis_names(self.settings.objective)
        found = Found(
            entrants=list(self.task.entrants.values()),
            runs=runs_along(self.task.runs.values(), axes),
            spots=[spot for spot in self.task.spots if spot.axes == names],
            yours=yours,
            axes=axes,
            values_of=lambda item: tuple(axis.value(cluster, judge.job, item.report) for axis in axes),
            bound=axes[0].bound(judge.graph, judge.job, judge.pool),
            fits_bytes=min(fits, limit),
            capacity_bytes=min(room, limit),
        )
        self.chart.figure.draw(
            found, objective=self.settings.objective, theme=self._theme, over=self.settings.over,
            width_px=self.leaderboard.chart_px,
        )  # fmt: skip
