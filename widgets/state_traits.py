"""The state of a workbench as traits, which cells read, observe and set."""

from __future__ import annotations

from typing import Any

import traitlets
from ipywidgets import VBox

from explorer.base.errors import InputError
from explorer.plan import Plan
from explorer.simulation.report import Report
from explorer.strategy import Strategy
from explorer.workload import Workload

from .search.words import LONGEST_S
from .session import Point

DEFAULT_SEARCHER = "auto"


class StateTraits(VBox):
    """A box with the traits of the state that it shows."""

    model = traitlets.Unicode(help="Model reference. Setting it loads the model and starts afresh.")
    cluster = traitlets.Unicode(help="Cluster reference. Setting it starts afresh on those devices.")
    workload = traitlets.Instance(
        Workload, allow_none=True, help="What is asked. Setting it keeps the placement."
    )
    strategy = traitlets.Instance(
        Strategy, allow_none=True, help="What is chosen. Setting it moves the chips."
    )
    report = traitlets.Instance(Report, allow_none=True, help="What is predicted of it (read only).")
    plan = traitlets.Instance(
        Plan, allow_none=True, help="The plan of the state shown. Setting it opens a plan."
    )
    selection = traitlets.List(traitlets.Unicode(), help="Ids of selected blocks and layers, in all views.")
    other = traitlets.Instance(
        Strategy, allow_none=True, help="Plan B, compared with in every view; None ends the comparison."
    )
    searcher = traitlets.Unicode(DEFAULT_SEARCHER, help="Searcher that Search starts.")
    search_budget_s = traitlets.Float(20.0, help="Seconds after which a search stops by itself.")
    error = traitlets.Unicode(
        help="What went wrong last, as shown in the strip; empty if nothing (read only)."
    )

    def __init__(self, **box: Any) -> None:
        self._telling = False
        super().__init__(**box)

    @traitlets.validate("search_budget_s")
    def _refuse_budget(self, proposal: dict[str, Any]) -> float:
        seconds = float(proposal["value"])
        if not 0 < seconds <= LONGEST_S:
            raise InputError(
                f"a search cannot take {seconds:g} s", key="search_budget_s", found=seconds,
                allowed=f"above 0, at most {LONGEST_S:g}",
            )  # fmt: skip
        return seconds

    def tell(self, now: Point) -> None:
        """Update the traits to the state shown."""
        self._telling = True
        try:
            with self.hold_trait_notifications():
                self.model, self.cluster = now.inputs.model.reference, now.inputs.cluster_name
                self.workload, self.strategy, self.report = now.inputs.workload, now.strategy, now.report
                self.other = now.other.strategy if now.other else None
                self.plan = now.plan()
        finally:
            self._telling = False
