"""`explorer search`: run a searcher and report what it found."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from explorer.base.errors import InfeasibleError
from explorer.base.units import format_bytes
from explorer.cli.inputs import Inputs, add_json, add_model, add_trust, pairs, read_inputs
from explorer.cli.output import emit_json, say
from explorer.cli.problems import (
    add_limits,
    add_problem,
    epochs_lines,
    found_plan,
    problem_of,
    value_words,
)
from explorer.explain import require_feasible
from explorer.plan import Plan, save_plan, to_document
from explorer.search import (
    FRONTIER_OF,
    GAP,
    REFUSED,
    WEIGHTS,
    Candidate,
    Objective,
    Problem,
    Progress,
    search,
)
from explorer.search._outcomes import lacking_words
from explorer.search.comparison import nothing_words, tried_words
from explorer.search.objectives import axes_of, frontier_axes
from explorer.search.problem import synchronous
from explorer.simulation.simulate import simulate

MOST_PARTS = 4
"""Parts of a gap that are named."""


def add_commands(commands: Any) -> None:
    """Add `search`."""
    parser = commands.add_parser("search", help="look for a good strategy")
    add_model(parser)
    parser.add_argument("--searcher", default="auto", help="a name from `explorer list searchers`")
    add_problem(parser)
    add_limits(parser)
    parser.add_argument("--option", action="append", default=[], metavar="K=V", help="option of the searcher")
    parser.add_argument("--start", help="plan file to start from; the result is never worse")
    parser.add_argument("-o", "--output", help="write the best plan here (.yaml or .json)")
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run_search)


def run_search(options: argparse.Namespace) -> int:
    """Search; after an interrupt still print the best so far."""
    inputs = read_inputs(options)
    problem = problem_of(options, inputs)
    last, interrupted = _drive(problem, options)
    if last is None:
        return 130
    plan = None
    if last.best is not None and inputs.cluster is not None:
        plan = found_plan(inputs, last.best, last.searcher, seed=options.seed)
    if plan is not None and options.output:
        save_plan(plan, {"model": inputs.graph}, options.output)
        say(f"explorer: wrote {options.output}")
    problem_found = None if interrupted else _nothing_found(problem, last)
    if options.json:
        error = {"error": problem_found.as_dict()} if problem_found else {}
        emit_json("search", progress_json(last, plan, inputs) | error)
    else:
        print("\n".join([_text(last), *epochs_lines(problem)]))
    if interrupted:
        return 130
    if problem_found is not None and not options.json:
        raise problem_found
    return problem_found.exit_status if problem_found else 0


def _nothing_found(problem: Problem, last: Progress) -> InfeasibleError | None:
    if last.best is not None or last.foreign_value is not None:
        return None
    hint = "allow more devices, or try another searcher or schedule"
    if last.closest is not None:
        hint = _why_not(problem, last.closest)
    elif last.details.get(REFUSED, 0):
        hint = "free a layer or a device, or allow more devices"
    elif not last.evaluations and problem.min_samples_per_s:
        hint = "its bounds leave nothing: ask for less throughput (--min-throughput), or allow more devices"
    elif not last.evaluations:
        hint = "give it more time (--budget) or evaluations, or try another searcher or schedule"
    return InfeasibleError(
        f"searcher {last.searcher} found {nothing_words(last)} {tried_words(last)}; {hint}"
    )


def _why_not(problem: Problem, found: Candidate) -> str:
    """Say what the closest candidate lacks, the limit that binds, and what would make it fit."""
    report, limit = found.report, problem.memory_limit_bytes
    cluster, closest = problem.needed_cluster, f"closest is {found.label}"
    if found.outcome.short_samples_per_s and not found.over_bytes:
        return (
            f"{closest}, which {lacking_words(found.outcome)};"
            " allow more devices, or less throughput (--min-throughput)"
        )
    if report.feasible:
        peak = format_bytes(max(report.peak_memory_bytes))
        closest += f": it needs {peak} where --memory-limit is {format_bytes(limit)}"
        # devices of so much: then all that is said of devices that are too small holds
        small = (replace(kind, memory_bytes=min(kind.memory_bytes, limit)) for kind in cluster.device_kinds)
        cluster = replace(cluster, device_kinds=tuple(small))
        report = simulate(problem.graph, cluster, problem.workload, found.strategy)
    try:
        require_feasible(problem.graph, cluster, problem.workload, found.strategy, report)
    except InfeasibleError as error:
        return f"{closest}: {error}"
    return closest


def _drive(problem: Problem, options: argparse.Namespace) -> tuple[Progress | None, bool]:
    last: Progress | None = None
    best = float("inf")
    try:
        for last in search(
            problem,
            options.searcher,
            options=pairs(options.option, "--option"),
            budget_s=options.budget,
            max_evaluations=options.max_evaluations,
            jobs=options.jobs,
        ):
            if last.best is not None and last.best.value < best:
                best = last.best.value
                say(
                    f"explorer: {last.wall_s:.1f} s, {last.evaluations} evaluations:"
                    f" {_value(last)} {last.best.label}"
                )
    except KeyboardInterrupt:
        return last, True
    return last, False


def _value(progress: Progress) -> str:
    if progress.best is None:
        return "none"
    return value_words(progress.best.value, axes_of(progress.objective)[0].unit)


def progress_json(progress: Progress, plan: Plan | None, inputs: Inputs) -> dict[str, Any]:
    """Return the keys of a search that others rely on."""
    foreign = progress.foreign_value
    value = foreign if foreign is not None else (progress.best.value if progress.best else None)
    return {
        "searcher": progress.searcher,
        "objective": progress.objective,
        "objective_value": value,
        "objective_unit": axes_of(progress.objective)[0].unit,
        "lower_bound": progress.lower_bound,
        "bound": progress.bound or None,
        "gap": progress.gap,
        "least": progress.least,
        "least_bound": progress.least_name or None,
        "gap_to_least": progress.gap_to_least,
        "found_by": (progress.best.finder or progress.searcher) if progress.best else None,
        "weights": _weights(progress.best) if progress.best else None,
        "optimal": progress.optimal,
        "memory": progress.best.report.memory_verdict if progress.best else None,
        "evaluations": progress.evaluations,
        "wall_s": progress.wall_s,
        "plan": to_document(plan, {"model": inputs.graph}) if plan else None,
        "details": dict(progress.details),
        "frontier": [
            {
                "label": item.label,
                "step_time_s": item.report.step_time_s,
                "peak_memory_bytes": max(item.report.peak_memory_bytes),
                "memory": item.report.memory_verdict,
                "devices": len(item.report.devices),
                "values": {axis.name: value for axis, value in _values(inputs, progress, item)},
            }
            for item in progress.frontier
        ],
    }


def _weights(found: Candidate) -> str:
    """Tell whether every gradient of a candidate is of the weights that it changes, or some of older ones."""
    return WEIGHTS[0] if synchronous(found.strategy.job) else WEIGHTS[1]


def _values(inputs: Inputs, progress: Progress, found: Candidate) -> list[tuple[Objective, float]]:
    """Return the axes of the frontier with the values of a candidate."""
    axes = frontier_axes(progress.objective)
    return [(axis, axis.value(inputs.devices, inputs.workload.job, found.report)) for axis in axes]


def _text(progress: Progress) -> str:
    lines, unit = [f"{'searcher':<12}{progress.searcher}"], axes_of(progress.objective)[0].unit
    if progress.best is not None:
        older = ", of older weights" if _weights(progress.best) != WEIGHTS[0] else ""
        lines += [f"{'best':<12}{_value(progress)}  {progress.best.label}{older}"]
        if progress.best.outcome.may_fit:
            held = format_bytes(progress.best.outcome.peak_memory_bytes)
            lines += [f"{'memory':<12}{held} may fit, by the band of the prediction (--memory-margin surely)"]
        if progress.best.finder:
            lines += [f"{'found by':<12}{progress.best.finder}"]
    if progress.foreign_value is not None:
        lines += [f"{'value':<12}{progress.foreign_value:.12g} (its own cost model)"]
    if progress.lower_bound:
        closed = ", none of them is better" if progress.gap == 0 else ""
        proven = ", optimal" if progress.optimal else closed
        above = f", the best is {progress.gap:.1%} above" if progress.gap else ""
        lines += [f"{'bound':<12}{value_words(progress.lower_bound, unit)} ({progress.bound}){proven}{above}"]
        parts = sorted(progress.details.get(GAP, {}).items(), key=lambda item: -item[1])[:MOST_PARTS]
        named = [f"{share:.1%} {words}" for words, share in parts]
        lines += [f"{'of which':<12}{', '.join(named)}"] if named else []
    if progress.details.get(FRONTIER_OF):
        lines += [f"{'frontier':<12}{progress.details[FRONTIER_OF]}"]
    if progress.least and progress.gap_to_least is not None and progress.bound != progress.least_name:
        above = f"the best is {progress.gap_to_least:.1%} above"
        lines += [f"{'no less':<12}{value_words(progress.least, unit)} ({progress.least_name}), {above}"]
    lines += [f"{'evaluations':<12}{progress.evaluations} in {progress.wall_s:.1f} s"]
    return "\n".join(lines)
