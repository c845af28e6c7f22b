"""`explorer compare`: searchers side by side on one problem, your own plan among them."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from explorer.base.errors import ExplorerError, InfeasibleError, InputError
from explorer.base.files import make_folder
from explorer.base.units import format_bytes, format_seconds
from explorer.cli.inputs import Inputs, add_json, add_model, add_trust, pairs, read_inputs
from explorer.cli.output import emit_json, say, table
from explorer.cli.problems import (
    add_limits,
    add_problem,
    epochs_lines,
    found_plan,
    problem_of,
    value_words,
)
from explorer.plan import save_plan, to_document
from explorer.search import OBJECTIVES, SEARCHERS, Problem
from explorer.search.comparison import RULE, RUNNING, UNABLE, WAITING, YOURS, Comparison, Contestant
from explorer.search.side_by_side import ALL, side_by_side, turn
from explorer.strategies.differences import compare_strategies

BUDGET_S = 10.0
"""Seconds of each searcher if no flag limits it."""
MOST_DIFFERENCES = 8
"""Differences of two plans that are printed."""
MINE = (YOURS, RULE)


def add_commands(commands: Any) -> None:
    """Add `compare`."""
    parser = commands.add_parser(
        "compare", help="searchers side by side on one problem, your plan among them"
    )
    add_model(parser)
    parser.add_argument(
        "--searchers", default=ALL, metavar=f"{ALL}|NAME,NAME",
        help="who is asked: names from `explorer list searchers`; default: all",
    )  # fmt: skip
    add_problem(parser)
    add_limits(parser, each=" each")
    parser.add_argument(
        "--option", action="append", default=[], metavar="SEARCHER.K=V", help="option of a searcher"
    )
    parser.add_argument(
        "--start", help="plan file of yours, a contestant as it is; without it that of a rule of thumb"
    )
    parser.add_argument(
        "--save", metavar="FOLDER", help="write the plan of every contestant into this folder"
    )
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run_compare)


def run_compare(options: argparse.Namespace) -> int:
    """Ask searchers in turn; after an interrupt still print what there is."""
    inputs = read_inputs(options)
    names = searcher_names(options.searchers)
    problem = problem_of(options, inputs)
    if options.save:
        make_folder(Path(options.save))  # what cannot be written is said before anyone is asked
    last, interrupted = _drive(problem, names, options)
    if last is None:
        return 130
    if options.save:
        _save(last, inputs, Path(options.save), options.seed)
    wrong = None if interrupted else _nobody(last)
    if options.json:
        error = {"error": wrong.as_dict()} if wrong else {}
        emit_json("compare", comparison_json(last, inputs, options.seed) | error)
    else:
        print("\n".join([comparison_text(last), *epochs_lines(problem)]))
    if interrupted:
        return 130
    if wrong is not None and not options.json:
        raise wrong
    return wrong.exit_status if wrong else 0


def searcher_names(text: str) -> list[str]:
    """Return the searchers of `--searchers`, in the order in which they are asked.

    Raises:
        InputError: a name is unknown, or there is none.
    """
    named = [part.strip() for part in text.split(",") if part.strip()]
    if named == [ALL]:
        return sorted(SEARCHERS.names(), key=turn)
    if not named:
        raise InputError("--searchers names nobody", key="--searchers", found=text, allowed="all, or names")
    return [SEARCHERS.get(name).name for name in dict.fromkeys(named)]


def _options_of(texts: list[str]) -> dict[str, dict[str, str]]:
    """Return options by searcher."""
    found: dict[str, dict[str, str]] = {}
    for key, value in pairs(texts, "--option").items():
        name, dot, option = key.partition(".")
        if not dot:
            raise InputError(
                f"--option {key}={value} names no searcher", key="--option", found=key,
                allowed="SEARCHER.K=V, as tarnawski.ideals=100000",
            )  # fmt: skip
        found.setdefault(name, {})[option] = value
    return found


def _drive(problem: Problem, names: list[str], options: argparse.Namespace) -> tuple[Comparison | None, bool]:
    """Return the last state, and whether an interrupt ended it; say every contestant's end."""
    last: Comparison | None = None
    limited = options.budget is not None or options.max_evaluations
    told: set[str] = set()
    states = side_by_side(
        problem,
        names,
        options=_options_of(options.option),
        budget_s=options.budget if limited else BUDGET_S,
        max_evaluations=options.max_evaluations,
        jobs=options.jobs,
    )
    try:
        with closing(states):  # processes of a search end now, not when the garbage is collected
            for last in states:
                _say_who_ended(last, told)
    except KeyboardInterrupt:
        return last.stopped() if last is not None else None, True
    return last, False


def _say_who_ended(now: Comparison, told: set[str]) -> None:
    for item in now.contestants:
        if item.state not in (WAITING, RUNNING) and item.name not in told:
            told.add(item.name)
            say(f"explorer: {item.name}: {_said(item, now)}")


def _said(item: Contestant, shown: Comparison) -> str:
    if item.best is None:
        return item.reason
    return f"{value_words(item.value, shown.unit)} {item.best.label}"


def _nobody(last: Comparison) -> ExplorerError | None:
    """Return the error of a comparison in which no searcher could be asked, or no plan fits."""
    asked = [item for item in last.contestants if item.name not in MINE]
    if all(item.state == UNABLE for item in asked):
        return InputError(
            f"no searcher can be asked for this; {asked[0].name}: {asked[0].reason}", key="--searchers",
            found=",".join(item.name for item in asked), allowed="others, as auto",
        )  # fmt: skip
    if last.best is not None:
        return None
    return InfeasibleError(
        f"no contestant has a plan that fits; {asked[0].name}: {asked[0].reason};"
        " allow more devices or more seconds (--budget)"
    )


def _save(last: Comparison, inputs: Inputs, folder: Path, seed: int) -> None:
    for item in last.contestants:
        if item.best is not None:
            file = folder / f"{item.name.replace(' ', '_')}.yaml"
            save_plan(found_plan(inputs, item.best, item.name, seed=seed), {"model": inputs.graph}, file)
            say(f"explorer: wrote {file}")


# ---- what is printed ----------------------------------------------------------------------------


def comparison_json(last: Comparison, inputs: Inputs, seed: int) -> dict[str, Any]:
    """Return the keys of a comparison that others rely on; contestants by value."""
    bound = last.auto_bound
    return {
        "objective": last.objective,
        "objective_unit": last.unit,
        "least": last.least,
        "least_bound": last.least_name,
        "auto_lower_bound": bound[0] if bound else None,
        "auto_bound": bound[1] if bound else None,
        "best": last.best.name if last.best else None,
        "contestants": [_contestant_json(item, last, inputs, seed) for item in last.ranked],
        "differences": differences(last),
    }


def _contestant_json(item: Contestant, last: Comparison, inputs: Inputs, seed: int) -> Mapping[str, Any]:
    plan = found_plan(inputs, item.best, item.name, seed=seed) if item.best is not None else None
    found = item.curve[-1] if item.curve else None
    own = (item.lower_bound, item.bound) if item.lower_bound and item.bound != last.least_name else (None, "")
    return {
        "name": item.name,
        "state": item.state,
        "value": item.value if item.best is not None else None,
        "label": item.best.label if item.best is not None else None,
        "found_by": (item.best.finder or item.name) if item.best is not None else None,
        "found_s": found.seconds if found else None,
        "found_evaluations": found.evaluations if found else None,
        "evaluations": item.evaluations,
        "wall_s": item.wall_s,
        "step_time_s": item.best.outcome.step_time_s if item.best is not None else None,
        "peak_memory_bytes": item.best.outcome.peak_memory_bytes if item.best is not None else None,
        "gap_to_least": _above(item, last.least),
        "gap_to_auto": _above(item, last.auto_bound[0] if last.auto_bound else None),
        "lower_bound": own[0],
        "bound": own[1] or None,
        "optimal": item.optimal,
        "reason": item.reason or None,
        "curve": [list(mark) for mark in item.curve],
        "plan": to_document(plan, {"model": inputs.graph}) if plan is not None else None,
    }


def _above(item: Contestant, bound: float | None) -> float | None:
    return item.value / bound - 1.0 if bound and math.isfinite(item.value) else None


def comparison_text(last: Comparison) -> str:
    """Return a table of who has a plan, a line for each who has none, bounds, and yours beside the best."""
    title = OBJECTIVES[last.objective].title
    yours = last.contestants[0]
    bound = last.auto_bound
    heads = [
        "searcher",
        title,
        f"to {yours.name}",
        "found after",
        "evaluations",
        "in",
        f"to {last.least_name}",
    ]
    heads += ["to auto's bound"] * (bound is not None) + ["plan"]
    rows = [heads]
    for item in last.ranked:
        if item.best is None:
            continue
        mark = item.curve[-1]
        row = [item.name, value_words(item.value, last.unit)]
        row += ["" if item is yours else _share(_above(item, yours.value if yours.best else None))]
        row += [f"{mark.seconds:.1f} s, {mark.evaluations}" if item is not yours else ""]
        row += [str(item.evaluations), f"{item.wall_s:.1f} s" if item is not yours else ""]
        row += [_share(_above(item, last.least))]
        row += [_share(_above(item, bound[0]))] if bound is not None else []
        rows.append([*row, item.best.label + (" (optimal in its space)" if item.optimal else "")])
    lines = [table(rows), ""] if len(rows) > 1 else []
    lines += [f"{item.name}: {item.reason}" for item in last.ranked if item.reason]
    if last.least:
        lines.append(f"{last.least_name}: no plan is below {value_words(last.least, last.unit)}")
    if bound is not None:
        proven = value_words(bound[0], last.unit)
        lines.append(f"auto's bound: none of {bound[1]} is below {proven}; others may be")
    return "\n".join([*lines, *_differences_text(last)])


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}"


def differences(last: Comparison) -> list[str]:
    """Return what the best plan does otherwise than yours; [] if it is yours or either is missing."""
    yours, best = last.contestants[0].best, last.best
    if yours is None or best is None or best.best is None or best is last.contestants[0]:
        return []
    return compare_strategies(yours.strategy.job, best.best.strategy.job)


def _differences_text(last: Comparison) -> list[str]:
    yours, best = last.contestants[0], last.best
    words = differences(last)
    if best is None or best.best is None or yours.best is None or not words:
        return []
    a, b = yours.best.outcome, best.best.outcome
    more = len(words) - MOST_DIFFERENCES
    return [
        "", f"{yours.name} -> {best.name}",
        *words[:MOST_DIFFERENCES], *([f"... and {more} more"] if more > 0 else []),
        f"step time   {format_seconds(a.step_time_s)} -> {format_seconds(b.step_time_s)}",
        f"memory      {format_bytes(a.peak_memory_bytes)} -> {format_bytes(b.peak_memory_bytes)}",
    ]  # fmt: skip
