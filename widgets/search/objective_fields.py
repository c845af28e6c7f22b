"""Fields of what a search minimizes: one objective, or the frontier of two or three. Pure.

Under a frontier each axis has a field of its own: the first goes up in the chart and ranks the searchers,
the second goes across, a third is the colour. Choosing what another axis has swaps the two.
"""

from __future__ import annotations

from typing import Any

from explorer.base.errors import InputError
from explorer.search import FRONTIER, OBJECTIVES, SEARCHERS, Objective
from explorer.search.objectives import USUAL_AXES, axes_of
from explorer.workload import Job

AXIS_KEYS = ("axis_up", "axis_across", "axis_colour")
"""Fields of the axes of a frontier, in their order."""
OBJECTIVE_KEYS = ("objective", *AXIS_KEYS)
"""Fields of what a search minimizes."""
_AXES = {
    "axis_up": ("up", "First axis: up in the chart; its least value ranks the searchers"),
    "axis_across": ("across", "Second axis: across in the chart"),
    "axis_colour": ("colour", "Third axis: the colour of the points; none for a frontier of two"),
}
_GROUP = "Frontier of: up, across, colour"
_COLUMNS = {
    "devices": ("number", "devices"), "cost": ("cost", "dollars"), "energy": ("energy", "J"),
    "time_to_accuracy": ("to accuracy", "s"),
}  # fmt: skip
"""Columns of the objectives that the table has none for anyway: title and unit."""


def objective_unit(name: str) -> dict[str, str] | None:
    """Return the column of an objective that has none of its own in the table."""
    return {"name": _COLUMNS[name][0], "unit": _COLUMNS[name][1]} if name in _COLUMNS else None


def lacking(objective: Objective, job: Job) -> str:
    """Say what a workload does not state and an objective needs; empty if it can be searched for."""
    return "" if objective.needs(job) else "the workload states no epochs"


def unserved(names: tuple[str, ...], searcher: str) -> str:
    """Say that a searcher does not serve some objectives; empty if it does, or is not registered."""
    if searcher not in SEARCHERS.names() or SEARCHERS.get(searcher).serves(names):
        return ""
    return f"not by {searcher}"


def objective_fields(job: Job, objective: str, searcher: str) -> list[dict[str, Any]]:
    """Return the fields of an objective; what cannot be had stands in the lists with the reason.

    Args:
        job: the workload.
        objective: what is minimized, as `Problem.objective`.
        searcher: the searcher chosen.
    """
    axes = tuple(axis.name for axis in axes_of(objective))
    several = len(axes) > 1
    field = {
        "key": "objective", "label": "Minimize", "kind": "select",
        "value": FRONTIER if several else objective,
        "options": [*_options(job, searcher), _frontier_option(job, searcher)],
        "title": "What the search minimizes: one objective, or the frontier of two or three",
    }  # fmt: skip
    if why := unserved(axes, searcher):
        field["error"] = f"{why}, which serves {_served(searcher)}"
    if not several:
        return [field]
    none = {"value": "", "label": "none"}
    return [field, *(
        {"key": key, "label": _AXES[key][0], "kind": "select", "group": _GROUP, "title": _AXES[key][1],
         "value": axes[i] if i < len(axes) else "",
         "options": [*([none] if i == 2 else []), *_options(job, searcher)]}
        for i, key in enumerate(AXIS_KEYS)
    )]  # fmt: skip


def _options(job: Job, searcher: str) -> list[dict[str, Any]]:
    return [
        _option(item, lacking(item, job) or unserved((item.name,), searcher)) for item in OBJECTIVES.values()
    ]


def _option(objective: Objective, why: str) -> dict[str, Any]:
    plain = {"value": objective.name, "label": objective.title}
    return plain | {"label": f"{objective.title} ({why})", "disabled": True} if why else plain


def _frontier_option(job: Job, searcher: str) -> dict[str, Any]:
    can = [
        item
        for item in OBJECTIVES.values()
        if not lacking(item, job) and not unserved((item.name,), searcher)
    ]
    plain = {"value": FRONTIER, "label": "frontier of several"}
    if len(can) > 1:
        return plain
    return plain | {"label": f"frontier ({searcher} serves {_served(searcher)} only)", "disabled": True}


def _served(searcher: str) -> str:
    titles = [OBJECTIVES[name].title for name in SEARCHERS.get(searcher).objectives]
    return " and ".join(titles)


def read_objective(job: Job | None, before: str, key: str, value: str) -> str:
    """Return what is minimized after a field was chosen.

    Args:
        job: the workload; None if there is none yet.
        before: what was minimized, as `Problem.objective`.
        key: one of `OBJECTIVE_KEYS`.
        value: name of an objective; for `objective` also `frontier`, alone or with its axes behind a colon.

    Raises:
        InputError: an unknown objective, one that the workload does not support, or fewer than two axes.
    """
    axes = tuple(axis.name for axis in axes_of(before))
    if key == "objective":
        chosen = _begun(axes) if value == FRONTIER else value
    else:
        chosen = f"{FRONTIER}:{','.join(_with_axis(axes, AXIS_KEYS.index(key), value))}"
    _check_known(job, key, chosen)
    names = [axis.name for axis in axes_of(chosen)]
    return names[0] if len(names) == 1 else f"{FRONTIER}:{','.join(names)}"


def _check_known(job: Job | None, key: str, chosen: str) -> None:
    """Raise if an objective is named that is unknown, or that the workload does not state enough for."""
    known = [item.name for item in OBJECTIVES.values() if job is None or not lacking(item, job)]
    for name in chosen.partition(":")[2].split(",") if ":" in chosen else [chosen]:
        if name.strip() not in known:
            why = f"; {lacking(OBJECTIVES[name.strip()], job)}" if job and name.strip() in OBJECTIVES else ""
            raise InputError(
                f"no search for {name!r}", key=key, found=name, allowed=f"{', '.join(known)}{why}"
            )


def _begun(axes: tuple[str, ...]) -> str:
    """Return the frontier that is begun with: of what was minimized before, and of step time or memory."""
    names = tuple(dict.fromkeys((*axes, *USUAL_AXES)))
    return f"{FRONTIER}:{','.join(names[: max(2, len(axes))])}"


def _with_axis(axes: tuple[str, ...], place: int, name: str) -> tuple[str, ...]:
    """Return the axes with another objective at a place; who had that takes what was there."""
    if not name:
        return axes[:place]
    found = list(axes) if place < len(axes) else [*axes, ""]
    if name in found:
        found[found.index(name)] = found[place]
    found[place] = name
    return tuple(item for item in found if item)
