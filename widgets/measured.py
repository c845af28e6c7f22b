"""What somebody measured, typed in or dropped at the step time: the state on the profile that it corrects.

As after a run, the corrected cluster becomes a profile file next to the notebook, so that plans, exports and
sessions that name it can load it again; undo goes back to the profile as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.base.units import format_bytes, format_seconds
from explorer.cluster_profiles import save_cluster
from explorer.framework import cluster_under
from explorer.framework_files import load_framework

from .run.calibrating import free_name
from .session import Point, make_point

if TYPE_CHECKING:
    from explorer.calibrate.measured_runs import MeasuredRun
    from explorer.calibrate.next_run import NextRun
    from explorer.calibrate.steps import CalibratedSteps


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measured step and what it changed."""

    point: Point
    """The state on the corrected profile."""
    found: CalibratedSteps
    """The correction."""
    further: NextRun | None
    """The run that would tell most next."""

    def view(self) -> dict[str, Any]:
        """Return the part `own` of `Tiles.view`."""
        from explorer.calibrate.step_words import change_sentences, next_sentence

        (run,) = self.found.runs
        lines = change_sentences(self.found)
        lines += [
            f"Memory: predicted {format_bytes(item.before_bytes)}, measured"
            f" {format_bytes(item.run.memory_bytes)}, now {format_bytes(item.after_bytes)}."
            for item in self.found.memory
        ]
        seconds = (run.before_s, run.run.step_time_s, run.after_s)
        before, seen, after = map(format_seconds, seconds)
        return {
            "text": f"Predicted {before}, measured **{seen}**, now {after}.",
            "band": f"\N{PLUS-MINUS SIGN}{run.band_before:.0%} \N{RIGHTWARDS ARROW}"
            f" \N{PLUS-MINUS SIGN}{run.band:.0%}",
            "lines": lines,
            "next": next_sentence(self.further),
            "file": self.point.inputs.cluster_name,
        }


def measured(now: Point, *, time: str, memory: str, log: str, folder: Path) -> Measured:
    """Correct the profile of a state by a measured step of it, and write the profile.

    Args:
        now: the state that ran.
        time: step time with its unit; empty if a log says it.
        memory: peak of memory of a device with its unit; empty if it was not measured.
        log: text of a trainer's log; empty if the time was typed.
        folder: folder of the profile's file.

    Raises:
        InputError: nothing or nonsense was measured, or the folder cannot be written.
        ExplorerError: the strategy cannot be simulated on the corrected profile.
    """
    from explorer.calibrate.next_run import next_run
    from explorer.calibrate.steps import calibrate_steps

    run = _run(now, time.strip(), memory.strip(), log)
    cluster = cluster_under(now.inputs.cluster, load_framework(now.inputs.job.framework))
    found = calibrate_steps(cluster, [run])
    name = free_name(found.cluster, folder)
    inputs = replace(now.inputs, cluster=found.cluster, cluster_name=name)
    note = f"calibrated by a measured step of {format_seconds(run.step_time_s)}"
    point = make_point(inputs, now.strategy, now.groups, note=note, maker="calibration")
    further = next_run(found.cluster, [run])
    if not (folder / name).exists():
        save_cluster(found.cluster, folder / name)
    return Measured(point=point, found=found, further=further)


def _run(now: Point, time: str, memory: str, log: str) -> MeasuredRun:
    from explorer.calibrate.logs import LogFacts, log_of
    from explorer.calibrate.measured_runs import MeasuredRun
    from explorer.calibrate.typed import typed_quantity

    if not time and not log:
        raise InputError("no step time", key="time", found=time, allowed="a time such as 2.31 s, or a log")
    inputs, job = now.inputs, now.inputs.job
    seconds, spread, peak, whose = 0.0, 0.0, 0.0, "process"
    if log:
        facts = LogFacts(
            global_batch=job.global_batch, sequence_length=job.sequence_length,
            devices=len(now.strategy.job.devices),
        )  # fmt: skip
        read = log_of(log, facts)
        seconds, spread, peak, whose = read.step_time_s, read.spread, read.memory_bytes, read.memory_of
    if time:
        seconds, spread = typed_quantity(time, "s", "time"), 0.0
    if memory:
        peak, whose = typed_quantity(memory, "bytes", "memory"), "process"
    return MeasuredRun(
        name="your run", graph=inputs.graph, workload=inputs.workload, strategy=now.strategy,
        step_time_s=seconds, spread=spread, memory_bytes=peak, memory_of=whose,
    )  # fmt: skip
