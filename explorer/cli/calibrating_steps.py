"""`explorer calibrate` from measured step times: typed in with their units, or read from a trainer's log."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.base.units import format_bytes, format_seconds
from explorer.calibrate.step_words import change_sentences, next_sentence
from explorer.calibrate.typed import typed_quantity
from explorer.cli.inputs import trust_of
from explorer.cli.output import emit_json, say, table
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.plan import Resolved, load_plan

if TYPE_CHECKING:
    from explorer.calibrate.measured_runs import MeasuredRun
    from explorer.calibrate.next_run import NextRun
    from explorer.calibrate.steps import CalibratedSteps, RunOutcome


def add_steps(parser: argparse.ArgumentParser) -> None:
    """Add the flags of measured steps."""
    group = parser.add_argument_group("measured steps", "instead of --with: one to three runs of plans")
    group.add_argument("--plan", metavar="PLAN", help="plan that --step-time, --memory or --log is about")
    group.add_argument(
        "--step-time", metavar="TIME", help="measured time of one step, with its unit: 2.31s, 840ms"
    )
    group.add_argument("--memory", metavar="SIZE", help="measured peak of memory of a device: 41.5GiB")
    group.add_argument(
        "--memory-of", metavar="WHAT", default="process",
        help="whose memory: process (nvidia-smi), reserved or allocated (of torch's allocator)",
    )  # fmt: skip
    group.add_argument(
        "--run", dest="runs", action="append", default=[], metavar="PLAN=TIME[,SIZE]",
        help="a plan with its step time and perhaps its memory; up to three",
    )  # fmt: skip
    group.add_argument(
        "--log", metavar="FILE", help="log of a trainer that ran --plan: torchtitan, Megatron-LM, ..."
    )


def asks_for_steps(options: argparse.Namespace) -> bool:
    """Tell whether any flag of measured steps was given."""
    return bool(options.plan or options.step_time or options.memory or options.runs or options.log)


def run_steps(options: argparse.Namespace, output: Path) -> int:
    """Correct a profile by measured steps and write it."""
    from explorer.calibrate.next_run import next_run
    from explorer.calibrate.steps import calibrate_steps

    cluster, runs = _asked(options)
    found = calibrate_steps(cluster, runs)
    further = next_run(found.cluster, runs)
    save_cluster(found.cluster, output)
    if options.json:
        emit_json("calibrate", _body(found, further, output))
    else:
        print(_text(found, further))
        say(f"explorer: wrote {output}")
    return 0


def _asked(options: argparse.Namespace) -> tuple[Cluster, list[MeasuredRun]]:
    """Return the cluster under the framework that ran, and the runs.

    Raises:
        InputError: flags that do not go together, or plans of several frameworks or other devices.
    """
    if (options.step_time or options.memory or options.log) and not options.plan:
        raise InputError(
            "a measured step is of some plan", key="--plan", allowed="--plan PLAN, or --run PLAN=TIME"
        )
    if options.plan and bool(options.step_time) == bool(options.log):
        raise InputError(
            "a step time and a log" if options.log else "nothing was measured of the plan", key="--plan",
            found=options.plan, allowed="--step-time TIME or --log FILE",
        )  # fmt: skip
    plans = [options.plan] if options.plan else []
    plans += [text.rpartition("=")[0] or text for text in options.runs]
    resolved = [load_plan(plan, trust=trust_of(options)) for plan in plans]
    cluster = _cluster(options, resolved)
    runs = []
    if options.plan:
        runs.append(_first(options, resolved[0]))
    for text, plan in zip(options.runs, resolved[len(runs) :], strict=True):
        runs.append(_typed(text, plan, options.memory_of))
    return cluster, runs


def _cluster(options: argparse.Namespace, plans: Sequence[Resolved]) -> Cluster:
    from explorer.calibrate.devices import used_kinds

    loaded = load_cluster(options.cluster)
    kinds = {kind.name for kind in used_kinds(loaded)}
    named = {plan.plan.workload.jobs[0].framework for plan in plans}
    if len(named) > 1:
        raise InputError(
            f"runs of several frameworks: {', '.join(sorted(named))}", key="--run", found=len(named),
            allowed="runs of one framework at a time",
        )  # fmt: skip
    for plan in plans:
        other = {kind.name for kind in used_kinds(plan.cluster)}
        if not other <= kinds:
            raise InputError(
                f"the plan is for {', '.join(sorted(other))}, the profile {loaded.name} is of"
                f" {', '.join(sorted(kinds))}: steps of the one say nothing about the other",
                key="cluster", found=plan.plan.cluster.reference, allowed="a plan for the profile's devices",
            )  # fmt: skip
    return cluster_under(loaded, load_framework(options.framework or next(iter(named))))


def _first(options: argparse.Namespace, plan: Resolved) -> MeasuredRun:
    if options.log:
        run = _logged(options.plan, plan, Path(options.log))
    else:
        run = _run(options.plan, plan, typed_quantity(options.step_time, "s", "--step-time"))
    if not options.memory:
        return run
    memory = typed_quantity(options.memory, "bytes", "--memory")
    return replace(run, memory_bytes=memory, memory_of=options.memory_of)


def _logged(name: str, plan: Resolved, path: Path) -> MeasuredRun:
    from explorer.calibrate.logs import LogFacts, read_log

    job = plan.plan.workload.jobs[0]
    facts = LogFacts(
        global_batch=job.global_batch, sequence_length=job.sequence_length,
        devices=len(plan.plan.strategy.jobs[0].devices),
    )  # fmt: skip
    found = read_log(path, facts)
    counted = f"median of {found.steps}, {found.left_out} at the start left out"
    say(f"explorer: {path}: {found.title}, {format_seconds(found.step_time_s)} a step ({counted})")
    return replace(
        _run(name, plan, found.step_time_s), spread=found.spread, memory_bytes=found.memory_bytes,
        memory_of=found.memory_of,
    )  # fmt: skip


def _typed(text: str, plan: Resolved, memory_of: str) -> MeasuredRun:
    name, equals, values = text.rpartition("=")
    parts = values.split(",")
    if not (equals and name) or len(parts) > 2:
        raise InputError(
            f"{text!r} is no run", key="--run", found=text, allowed="PLAN=TIME or PLAN=TIME,SIZE"
        )
    run = _run(name, plan, typed_quantity(parts[0], "s", "--run"))
    memory = typed_quantity(parts[1], "bytes", "--run") if len(parts) > 1 else 0.0
    return replace(run, memory_bytes=memory, memory_of=memory_of)


def _run(name: str, plan: Resolved, seconds: float) -> MeasuredRun:
    from explorer.calibrate.measured_runs import MeasuredRun

    return MeasuredRun(
        name=Path(name).name, graph=plan.graph, workload=plan.plan.workload, strategy=plan.plan.strategy,
        step_time_s=seconds,
    )  # fmt: skip


# -- what it says -------------------------------------------------------------------------------------------


def _body(found: CalibratedSteps, further: NextRun | None, output: Path) -> dict[str, Any]:
    return {
        "file": str(output),
        "cluster": found.cluster.name,
        "numbers": [
            {
                "key": item.number.key, "factor": item.factor, "band_before": item.band_before,
                "band": item.band,
            }
            for item in found.changes
        ],
        "runs": [
            {
                "name": item.run.name, "measured_s": item.run.step_time_s, "before_s": item.before_s,
                "after_s": item.after_s, "band_before": item.band_before, "band": item.band,
            }
            for item in found.runs
        ],
        "memory": [
            {
                "name": item.run.name, "measured_bytes": item.run.memory_bytes,
                "before_bytes": item.before_bytes, "after_bytes": item.after_bytes,
            }
            for item in found.memory
        ],
        "next_run": None if further is None else {
            "change": further.run.name, "step_time_s": further.run.step_time_s, "band": further.band,
            "band_after": further.band_after, "candidates": further.candidates, "worth": further.worth,
        },
    }  # fmt: skip


def _text(found: CalibratedSteps, further: NextRun | None) -> str:
    rows = [("run", "measured", "predicted before", "after", "80 % band")]
    rows += [_cells(item) for item in found.runs]
    lines = [table(rows), ""]
    lines += change_sentences(found)
    lines += [
        f"memory of {item.run.name}: predicted {format_bytes(item.before_bytes)}, measured"
        f" {format_bytes(item.run.memory_bytes)}, now {format_bytes(item.after_bytes)}"
        for item in found.memory
    ]
    return "\n".join([*lines, next_sentence(further)])


def _cells(item: RunOutcome) -> tuple[str, str, str, str, str]:
    return (
        item.run.name, format_seconds(item.run.step_time_s), format_seconds(item.before_s),
        format_seconds(item.after_s), f"±{item.band_before:.0%} → ±{item.band:.0%}",
    )  # fmt: skip
