"""What a target makes of a plan, row by row, with the price of what it cannot say and the nearest plan."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from explorer.base.units import format_seconds
from explorer.plan import Resolved
from explorer.simulation.simulate import simulate

if TYPE_CHECKING:  # the registry of exporters is loaded when the tab is first opened
    from explorer.export.nearest import Nearest

_ORDER = ("refused", "approximate", "exact")
COUNTING = {"state": "counting", "text": "Looking for the nearest plan that it can run", "changes": []}
"""`nearest` of a refused plan while it is looked for."""


def answer_rows(resolved: Resolved, target: str, refused: Iterable[str]) -> list[dict[str, Any]]:
    """Return a row for each feature the plan uses, refused ones first, without prices.

    Args:
        resolved: the plan with its inputs.
        target: name of an exporter.
        refused: everything the target refuses; what is about no feature gets a row of its own.

    Raises:
        InputError: an unknown target.
    """
    from explorer.export.nearest import answers

    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for item in answers(resolved, target, priced=False):
        row = rows.setdefault((item.feature, item.answer), _row(item.feature, item.answer, item.how))
        row["where"] += f", {item.where}" if row["where"] else item.where
    made = [*rows.values(), *_other_rows(rows.values(), target, refused)]
    return sorted(made, key=lambda row: _ORDER.index(row["answer"]))


def price_slices(
    resolved: Resolved, target: str, rows: Sequence[Mapping[str, Any]]
) -> Generator[None, None, tuple[list[dict[str, Any]], Nearest | None]]:
    """Simulate what `answer_rows` leaves open, one simulation a slice.

    Returns:
        The rows with their prices; the nearest plan that the target can run, if something is refused and
        there is one.

    Raises:
        InputError: an unknown target.
    """
    from explorer.export.nearest import answer_slices, nearest_slices

    found = []
    for answer in answer_slices(resolved, target):
        found.append(answer)
        yield
    priced = [dict(row) for row in rows]
    seconds = {(item.feature, item.answer): item.step_time_s for item in found if item.step_time_s}
    if seconds:
        plan = resolved.plan
        report = simulate(resolved.graph, resolved.cluster, plan.workload, plan.strategy)
        for row in priced:
            after_s = seconds.get((row["feature"], row["answer"]))
            row["price"] = price(after_s, report.step_time_s) if after_s else None
    near = None
    if any(row["answer"] == "refused" for row in rows):
        yield
        near = yield from nearest_slices(resolved, target)
    return priced, near if near is not None and near.changes else None


def nearest_view(found: Nearest | None, target: str) -> dict[str, Any]:
    """Return `nearest` of the view: the price of the nearest plan and what it changes."""
    if found is None:
        text = f"No plan near this one was found that {target} can run; the ways out stand below"
        return {"state": "none", "text": text, "changes": []}
    fits = "" if found.feasible else ", and does not fit its devices"
    text = f"{price(found.step_time_s, found.before_s)} a step{fits}"
    return {"state": "found", "text": text, "changes": list(found.changes)}


def price(after_s: float, before_s: float) -> str:
    """Say what a change costs.

    >>> price(8.9, 8.6)
    '8.9 s instead of 8.6 s'
    >>> price(8.6, 8.6001)
    '8.6 s as before'
    """
    after, before = format_seconds(after_s), format_seconds(before_s)
    return f"{after} as before" if after == before else f"{after} instead of {before}"


def _row(feature: str, answer: str, how: str) -> dict[str, Any]:
    return {"feature": feature, "where": "", "answer": answer, "how": how, "price": None}


def _other_rows(
    rows: Iterable[Mapping[str, Any]], target: str, refused: Iterable[str]
) -> list[dict[str, Any]]:
    """Make rows of what is refused although it is no feature: the model, its samples."""
    lead = f"{target} cannot express "
    known = tuple(f"{row['feature']} (" for row in rows)
    made = []
    for text in refused:
        what, _, way = text.removeprefix(lead).partition(": ")
        if not what.startswith(known):
            made.append(_row(what, "refused", way))
    return made
