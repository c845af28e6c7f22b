"""Words of the Search tab: its settings as fields, and a search in words. Pure."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from explorer.base.errors import InputError
from explorer.base.units import GIB, format_bytes, format_seconds
from explorer.search import MOST_PROCESSES, REFUSED, SEARCHERS, WEIGHTS, Candidate
from explorer.search.comparison import ENDED, STOPPED, TIMED, UNABLE
from explorer.search.side_by_side import ALL
from explorer.views.search_table import too_slow
from explorer.views.strategy_words import strategy_words
from widgets.edits import whole_number
from widgets.holds import Holds
from widgets.panels import percent
from widgets.session import Point

from .objective_fields import OBJECTIVE_KEYS, objective_fields, read_objective
from .points import EVALUATIONS, SECONDS
from .task import FAILED, SearchTask

LONGEST_S = 86_400.0
"""Largest budget in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a search."""

    objective: str = "time"
    """What a search minimizes, as `explorer.search.Problem.objective`."""
    memory_limit_bytes: float = 0.0
    """Memory limit per device; 0 for that of the devices."""
    min_samples_per_s: float = 0.0
    """Least throughput in samples per second; 0 if none is asked for."""
    max_devices: int = 0
    """Most devices; 0 for all."""
    weights: str = WEIGHTS[0]
    """One of `explorer.search.WEIGHTS`."""
    compared: tuple[str, ...] = ()
    """Searchers that a comparison asks; () for all."""
    over: str = SECONDS
    """What the curves of the best so far are drawn over: `SECONDS` or `EVALUATIONS`."""
    jobs: int = 1
    """Processes that cost strategies, the kernel included; their number changes no result."""


def fields(
    now: Point | None, settings: Settings, budget_s: float, searcher: str
) -> dict[str, dict[str, Any]]:
    """Return the fields of the tab by key, as `Controls` draws them.

    Args:
        now: the state shown; None has no fields.
        settings: what was set.
        budget_s: seconds for a search.
        searcher: the searcher chosen, which may not serve every objective.
    """
    if now is None:
        return {}
    count = now.inputs.cluster.device_count
    limit = settings.memory_limit_bytes
    rows: list[dict[str, Any]] = [
        *objective_fields(now.inputs.job, settings.objective, searcher),
        {"key": "search_budget_s", "label": "Budget, s", "kind": "text", "value": f"{budget_s:g}",
         "width_px": 64, "title": "Seconds, for all searchers of a comparison together"},
        {"key": "memory_limit", "label": "Memory limit, GiB", "kind": "text",
         "value": f"{limit / GIB:g}" if limit else "", "width_px": 112,
         "title": "Per device; empty for what the devices have"},
        {"key": "min_throughput", "label": "At least, samples/s", "kind": "text",
         "value": f"{settings.min_samples_per_s:g}" if settings.min_samples_per_s else "", "width_px": 112,
         "title": "Throughput that every result reaches; empty for any"},
        {"key": "max_devices", "label": f"Devices, of {count}", "kind": "text",
         "value": str(settings.max_devices or count), "width_px": 84, "title": "Devices to use at most"},
        {"key": "weights", "label": "Weights", "kind": "select", "value": settings.weights,
         "options": [{"value": name, "label": name} for name in WEIGHTS],
         "title": "Whether schedules may be used that compute gradients on older weights"},
        {"key": "search_jobs", "label": "Processes", "kind": "text", "value": str(settings.jobs),
         "width_px": 64, "title": f"Processes that search in parallel, on {os.cpu_count()} cores"},
        {"key": "compared", "label": "Compare", "kind": "text", "value": ", ".join(settings.compared) or ALL,
         "width_px": 150, "title": "Searchers to compare: all, or names separated by commas"},
        {"key": "curves_over", "label": "Curves over", "kind": "select", "value": settings.over,
         "options": [{"value": name, "label": name} for name in (SECONDS, EVALUATIONS)],
         "title": "What the curves of the best so far are drawn over"},
    ]  # fmt: skip
    return {row["key"]: row for row in rows}


def searcher_field(chosen: str) -> dict[str, Any]:
    """Return the field of the searcher. A name set from Python that is not registered is shown as it is."""
    names = SEARCHERS.names()
    return {
        "key": "searcher", "label": "Searcher", "kind": "select", "value": chosen,
        "options": [{"value": name, "label": name} for name in dict.fromkeys([*names, chosen])],
        "title": "The searcher that Search runs; Compare all runs every one",
    }  # fmt: skip


def read_setting(now: Point | None, settings: Settings, key: str, value: Any) -> Any:
    """Return the settings after a field was typed; for the budget its seconds.

    Raises:
        InputError: an impossible value; the field shows `allowed`.
    """
    if key == "search_budget_s":
        return _number(key, value, LONGEST_S, "a number of seconds, above 0")
    if key in OBJECTIVE_KEYS:
        objective = read_objective(now.inputs.job if now else None, settings.objective, key, str(value))
        return replace(settings, objective=objective)
    if key in _CHOICES:
        name, allowed = _CHOICES[key]
        if value not in allowed:
            raise InputError(f"{key} is {value!r}", key=key, found=value, allowed=" or ".join(allowed))
        picked: dict[str, Any] = {name: str(value)}
        return replace(settings, **picked)
    if key in _READ:
        name, read = _READ[key]
        return replace(settings, **{name: read(key, value)})
    return replace(settings, max_devices=_devices(now, key, value))


def _devices(now: Point | None, key: str, value: Any) -> int:
    """Read a number of devices as typed; 0 for all.

    Raises:
        InputError: no whole number, or more than there are.
    """
    count = now.inputs.cluster.device_count if now else 1
    try:
        devices = whole_number(key, value) if str(value).strip() else count
    except InputError:
        devices = 0
    if not 1 <= devices <= count:
        raise InputError(
            f"{value!r} devices; the cluster has {count}",
            key=key,
            found=value,
            allowed=f"1 to {count} devices",
        )
    return 0 if devices == count else devices


def _limit(key: str, value: Any) -> float:
    """Read the bytes of a memory limit as typed; 0 for none."""
    text = str(value).strip().lower().removesuffix("gib").strip()
    return _number(key, text, 1e6, "a number of GiB above 0, or empty for none") * GIB if text else 0.0


def _floor(key: str, value: Any) -> float:
    """Read a least throughput as typed; 0 for none."""
    text = str(value).strip()
    return _number(key, text, 1e12, "samples a second above 0, or empty for any") if text else 0.0


def _named(key: str, value: Any) -> tuple[str, ...]:
    """Read names of searchers as typed; () for all."""
    names = tuple(dict.fromkeys(part.strip() for part in str(value).split(",") if part.strip()))
    if names in ((), (ALL,)):
        return ()
    unknown = [name for name in names if name not in SEARCHERS.names()]
    if unknown:
        raise InputError(
            f"no searcher {unknown[0]!r}", key=key, found=unknown[0],
            allowed=f"{ALL}, or some of {', '.join(SEARCHERS.names())}",
        )  # fmt: skip
    return names


def _number(key: str, value: Any, most: float, allowed: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number <= most:
        raise InputError(f"{key} is {value!r}", key=key, found=value, allowed=f"{allowed}, at most {most:g}")
    return number


def _processes(key: str, value: Any) -> int:
    """Read a number of processes as typed.

    Raises:
        InputError: no whole number, or too many.
    """
    try:
        found = whole_number(key, value)
    except InputError:
        found = 0
    if not 1 <= found <= MOST_PROCESSES:
        raise InputError(
            f"{value!r} processes", key=key, found=value, allowed=f"1 to {MOST_PROCESSES} processes"
        )
    return found


_CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "weights": ("weights", WEIGHTS), "curves_over": ("over", (SECONDS, EVALUATIONS)),
}  # fmt: skip
"""Fields of few values: (setting, values)."""
_READ: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "compared": ("compared", _named), "search_jobs": ("jobs", _processes),
    "memory_limit": ("memory_limit_bytes", _limit), "min_throughput": ("min_samples_per_s", _floor),
}  # fmt: skip
"""Fields that need nothing but their text: (setting, reader)."""


# ---- sentences ----------------------------------------------------------------------------------


def held_words(holds: Holds) -> str:
    """Write pins and locks in words; empty for none.

    >>> held_words(Holds(pinned=frozenset({"a", "b"}), locked=frozenset({(0,)})))
    '2 pins and 1 locked lane'
    """
    parts = []
    if holds.pinned:
        parts.append(_many(len(holds.pinned), "pin"))
    if holds.locked:
        parts.append(_many(len(holds.locked), "locked lane"))
    return " and ".join(parts)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}".replace(",", " ") + ("" if count == 1 else "s")


def status_words(task: SearchTask) -> str:
    """Write what stands next to the heading."""
    if not task.entrants:
        return "yours, and what searchers find, with one cost model"
    costed = sum(run.evaluations for run in task.runs.values())
    done = sum(item.state not in ("waiting", "running") for item in task.entrants.values())
    who = _many(len(task.entrants), "searcher")
    if task.running and len(task.queue) > 1:
        who += f", {done} done"
    return f"{who}, one cost model, {_many(costed, 'strategy').replace('strategys', 'strategies')} costed"


def verdict(task: SearchTask, yours: Candidate | None, held: str) -> dict[str, Any] | None:
    """Return the sentence of a search under way or just done, as `Tiles` shows it; None if there was none."""
    if not task.queue:
        return None
    best = task.best()
    found = best.best if best is not None else None
    better = found is not None and (yours is None or found.value < yours.value)
    ended = [task.entrants[name] for name in task.queue]
    failed = [item for item in ended if item.state in (FAILED, UNABLE)]
    text = f"{_lead(task)} {_result(task, found, yours, held)}"
    if failed and not task.running:
        first, more = failed[0], len(failed) - 1
        text += f" {first.name} {'failed' if first.state == FAILED else 'cannot do it'}: {first.error}."
        text += (
            f" {more} more {'has' if more == 1 else 'have'} no answer either; their rows say why."
            if more
            else ""
        )
        if first.run is not None:
            text += " Its previous result stays."
    use = {
        "action": "use_best",
        "label": "Use best so far" if task.running else "Use best",
        "suggested": True,
    }
    wall_s = min(task.wall_s(), task.budget_s)
    busy = task.running
    only_failed = len(failed) == len(task.queue)
    return {
        "level": "busy" if busy else "bad" if only_failed else "ok" if found is not None else "warn",
        "text": text,
        "note": f"{wall_s:.0f} of {task.budget_s:g} s" if busy else None,
        "progress": min(1.0, wall_s / task.budget_s) if busy else None,
        "actions": ([use] if better else []) + ([{"action": "stop", "label": "Stop"}] if busy else []),
    }


def _lead(task: SearchTask) -> str:
    states = {task.entrants[name].state for name in task.queue}
    several = len(task.queue) > 1
    who = f"{len(task.queue)} searchers" if several else task.name
    if task.running:
        at = f", {task.name} at work" if several else ""
        return f"**{'Comparing' if several else 'Searching with'} {who}{at}.**"
    if STOPPED in states:
        return f"**Stopped.** {who}:"
    if states <= {FAILED, UNABLE}:
        return "**The search failed.**"
    if states <= {ENDED, FAILED, UNABLE}:
        return f"**{'Compared' if several else 'Searched with'} {who}.**"
    return f"**{who[0].upper()}{who[1:]}, time is up.**" if TIMED in states else f"**{who}.**"


def _result(task: SearchTask, found: Candidate | None, yours: Candidate | None, held: str) -> str:
    runs = [item.run for name in task.queue if (item := task.entrants[name]).own and item.run]
    if found is None:
        return _nothing(task, yours, held)
    step = found.outcome.step_time_s
    words = strategy_words(found.strategy.job)
    if yours is not None and found.value >= yours.value:
        return f"Nothing better than yours{' yet' if task.running else ''}."
    text = "Best so far" if task.running else "Best"
    text += f" **{format_seconds(step)}** a step, {words}"
    if yours is not None and math.isfinite(yours.value):
        text += f" ({percent(step / yours.outcome.step_time_s - 1)} against yours)"
    elif yours is not None:
        text += "; yours is too slow" if too_slow(yours) else "; yours does not fit"
    text += "."
    if any(run.optimal and run.best is found for run in runs):
        text += " Proven optimal in its space."
    return text


def _nothing(task: SearchTask, yours: Candidate | None, held: str) -> str:
    """Say why nothing was found, and what comes closest: of what was costed, or the plan shown."""
    runs = [item.run for name in task.queue if (item := task.entrants[name]).own and item.run]
    costed, refused = sum(run.evaluations for run in runs), sum(run.details.get(REFUSED, 0) for run in runs)
    if task.running:
        return "Nothing that fits yet." if costed else "Getting ready."
    if not costed and refused and held:
        return f"{task.name} found no strategy that respects {held}. Release some, or search with local."
    near, way_out = task.closest, "Allow more devices or recomputation, or another searcher."
    own = yours.over_bytes if yours is not None else 0.0
    if near is not None and 0 < own <= near.over_bytes:
        return f"Nothing fits. Yours comes closest: it lacks {format_bytes(own)} over all lanes. {way_out}"
    if near is not None and near.over_bytes > 0:
        lacks = f"{format_bytes(near.over_bytes)} over all lanes"
        if own > 0:
            lacks += f", yours {format_bytes(own)}"
        return f"Nothing fits. The closest lacks {lacks}: {strategy_words(near.strategy.job)}. {way_out}"
    if near is not None and near.short_samples_per_s:
        reached = f"{near.short_samples_per_s:.4g} samples/s too slow: {strategy_words(near.strategy.job)}"
        return f"Nothing is fast enough. The closest is {reached}. Allow more devices, or ask for less."
    return "Nothing found." if costed or not refused else f"No strategy respects {held or 'the pins'}."
