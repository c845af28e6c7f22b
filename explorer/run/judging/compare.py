"""Comparison of prediction and measurement, by part, with a verdict. No verdict if the machine was too
noisy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median, quantiles
from typing import Any

from explorer.run.cases.build import Prepared, begins, parts_of, step_times
from explorer.run.judging.action_times import ActionTime, Stamps, action_times
from explorer.run.judging.cost_check import CostCheck
from explorer.run.judging.held_bytes import RankBytes
from explorer.run.judging.wire_bytes import WireBytes
from explorer.run.own.shortened import Shortened

QUIET = 0.8
"""Smallest share of a core that a rank must get for a verdict."""
SPEEDUP_TOLERANCE_PCT = 15.0
DRY_TOLERANCE_PCT = 3.0
GRADIENT_TOLERANCE = 1e-5
ROUNDINGS = 10.0
"""Errors of gradients up to so many times what a rounding of the weights changes of them say nothing."""
TOO_NOISY, CONFIRMED, OFF, WRONG = "too noisy", "confirmed", "off", "wrong numbers"
WRONG_BYTES = "wrong bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Observations of one case over its rounds."""

    step_time_s: float
    """Seconds of a step, median over rounds."""
    iqr_s: float
    """Distance of the quartiles over rounds; 0 for fewer than two."""
    rounds_s: tuple[float, ...]
    """Seconds of a step, per round."""
    makespan_s: float
    """Seconds of the whole program from idle: the shortest round, as noise only adds."""
    parts: Mapping[str, float]
    """Seconds of a step by part, mean over ranks, median over rounds."""
    cpu_share: float
    """Processor seconds over wall seconds of compute tasks, the smallest of all ranks."""
    stages: Mapping[int, float]
    """Seconds of compute in a step by stage, mean over the lanes that hold it, median over rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """Compute time of one stage of the run."""

    stages: tuple[int, ...]
    """Stages of the plan for which it stands."""
    predicted_s: float
    """Predicted seconds in a step."""
    measured_s: float
    """Measured seconds in a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRun:
    """The same steps from the same weights on one engine."""

    engine: str
    """interpreter or torch."""
    step_time_s: float
    """Seconds of a step from idle to idle, in the shortest round."""
    gradient: float
    """Largest relative error of the first step's gradients against one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of `explorer validate`."""

    predicted: dict[str, float | None]
    """`step_time_s` and `speedup`."""
    measured: dict[str, float | None]
    """`step_time_s`, `speedup` and `iqr_s`."""
    error_pct: float
    """Predicted over measured step time, minus 1, in per cent; median of the rounds' own errors."""
    speedup_error_pct: float | None
    """Error of the speedup, in per cent; None without a baseline."""
    parts: dict[str, dict[str, float]]
    """`predicted` and `measured`: seconds of a step by part."""
    numerics_ok: bool | None
    """Whether gradients equal those of one process; None if nothing was computed, or rounding alone changes
    them so much that nothing can be said.
    """
    contention: float
    """Share of a core that the ranks got while computing: 1 is undisturbed."""
    validated: list[str]
    """What this run is evidence for."""
    not_validated: list[str]
    """What this run is no evidence for."""
    verdict: str
    """confirmed, off, wrong numbers, wrong bytes or too noisy."""
    baseline: str
    """Baseline of the speedup; empty without one."""
    engine: str
    """layers, likeness, torch, dry or slice; interpreter in files of earlier versions, which is likeness."""
    numerics: dict[str, float]
    """Largest relative errors of gradients and weights."""
    precision: str = "fp32"
    """Precision of the run: of its seconds, bytes and memory."""
    numerics_precision: str = "fp32"
    """Precision in which they were compared, fp64 where the model computes in it; seconds and bytes are those
    of the run's own.
    """
    stages: list[StageTime] = field(default_factory=list)
    """Compute by stage; [] if compute was slept."""
    actions: list[ActionTime] = field(default_factory=list)
    """Seconds of the actions of every stage of the run, and its waits for transfers."""
    rounds: int = 0
    """Number of measured rounds."""
    error_spread_pct: float = 0.0
    """Distance of the quartiles of the rounds' own errors, in per cent; 0 for fewer than two rounds."""
    engines: list[EngineRun] = field(default_factory=list)
    """Our engine and torch's in the same launch; [] if torch's did not run."""
    stand_ins: str = ""
    """Reason why small stand-ins ran in place of the model's own layers; empty if they did not."""
    shortened: list[Shortened] = field(default_factory=list)
    """What runs of the plan's model here, where it is less; [] for stand-ins and slept compute."""
    machine: dict[str, Any] = field(default_factory=dict)
    """What the run timed of its machine, the fields of `explorer.calibrate.runs.MachineTimes`, from which it
    was predicted; {} if compute was slept.
    """
    costs: CostCheck | None = None
    """Whether the times of the parts are what the cost model says of this machine; None if nothing tells."""
    costs_missing: str = ""
    """Reason why nothing tells, with the way out; empty if `costs` does."""
    memory: list[RankBytes] = field(default_factory=list)
    """Peak bytes of the ranks' tensors, predicted and counted; [] if compute was slept."""
    sent: list[WireBytes] = field(default_factory=list)
    """Bytes that ranks sent, predicted and counted; [] if no weights are sharded."""
    plan_speedup: float | None = None
    """Speedup predicted for the plan itself, on its own devices, over the same baseline; None if unknown."""


def measure(
    prepared: Prepared, rows: Sequence[Sequence[Mapping[str, Any]]], *, scale: float = 1.0
) -> Measurement:
    """Gather the stamps of all ranks.

    Args:
        prepared: the case that was run.
        rows: per rank and round, its record.
        scale: seconds of the plan over seconds of the run (dry runs are stretched).
    """
    rounds, spans, parts, stages = [], [], [], []
    for number in range(min(len(rank) for rank in rows)):
        stamps = _stamps(prepared, [rank[number]["stamps"] for rank in rows])
        ends = {task: end for task, (_, _, end) in stamps.items()}
        rounds.append(median(step_times(prepared.program, ends, skip=_drain(prepared))) * scale)
        spans.append(max(ends.values()) * scale)
        found = parts_with_overhead(prepared, stamps)
        parts.append({name: value * scale for name, value in found.items()})
        stages.append({s: value * scale for s, value in stage_seconds(prepared, stamps).items()})
    return Measurement(
        step_time_s=median(rounds),
        iqr_s=spread(rounds),
        rounds_s=tuple(rounds),
        makespan_s=min(spans),
        parts={name: median(row[name] for row in parts) for name in parts[0]},
        cpu_share=_cpu_share(rows),
        stages={stage: median(row[stage] for row in stages) for stage in stages[0]},
    )


def actions_of(
    prepared: Prepared, rows: Sequence[Sequence[Mapping[str, Any]]], *, scale: float = 1.0
) -> list[ActionTime]:
    """Return what every action took beside its prediction. Arguments are those of `measure`."""
    rounds = [
        _stamps(prepared, [rank[number]["stamps"] for rank in rows])
        for number in range(min(len(rank) for rank in rows))
    ]
    return action_times(prepared.program, _predicted_stamps(prepared), rounds, scale=scale)


def spread(values: Sequence[float]) -> float:
    """Return the distance of the quartiles; 0 for fewer than two values.

    >>> spread([1.0, 2.0, 3.0, 4.0])
    2.5
    """
    if len(values) < 2:
        return 0.0
    cuts = quantiles(values, n=4)
    return cuts[2] - cuts[0]


def predicted_step(prepared: Prepared) -> float:
    """Return the predicted step time of the very program that was run, by the same definition as the measured
    one.
    """
    ends = {task: end for task, (_, _, end) in _predicted_stamps(prepared).items()}
    return median(step_times(prepared.program, ends, skip=_drain(prepared)))


def predicted_parts(prepared: Prepared) -> dict[str, float]:
    """Return the predicted seconds of a step by part."""
    return parts_with_overhead(prepared, _predicted_stamps(prepared))


def predicted_stages(prepared: Prepared) -> dict[int, float]:
    """Return the predicted seconds of compute in a step by stage."""
    return stage_seconds(prepared, _predicted_stamps(prepared))


def stage_seconds(prepared: Prepared, stamps: Stamps) -> dict[int, float]:
    """Return the seconds of compute in a step by stage, mean over the lanes that hold it."""
    program = prepared.program
    total: dict[int, float] = {}
    holders: dict[int, set[int]] = {}
    for lane, tasks in enumerate(program.programs):
        for task in tasks.tolist():
            _, start, end = stamps[task]
            stage = program.skeleton.sections[program.slots[program.slot[task]].where].stage
            total[stage] = total.get(stage, 0.0) + end - start
            holders.setdefault(stage, set()).add(lane)
    steps = program.order.steps
    return {stage: total[stage] / (steps * len(holders[stage])) for stage in sorted(total)}


def _predicted_stamps(prepared: Prepared) -> dict[int, tuple[float, float, float]]:
    timing = prepared.timing
    stamps = {}
    for tasks in prepared.program.programs:
        free = 0.0
        for task in tasks.tolist():
            after = prepared.after_s[task] if prepared.after_s else 0.0
            stamps[task] = (free, float(timing.start_s[task]), float(timing.end_s[task]) - after)
            free = float(timing.end_s[task])
    return stamps


def parts_with_overhead(prepared: Prepared, stamps: Stamps) -> dict[str, float]:
    """Split the makespan over the steps into compute, communication, bubble and overhead."""
    program = prepared.program
    ends = {task: end for task, (_, _, end) in stamps.items()}
    found = parts_of(program, dict(stamps), begins(program, ends))
    lanes = [tasks.tolist() for tasks in program.programs if len(tasks)]
    share = len(lanes) * program.order.steps
    between = sum(stamps[b][0] - stamps[a][2] for tasks in lanes for a, b in pairwise(tasks))
    finish = max(ends.values())
    tail = sum(finish - ends[tasks[-1]] for tasks in lanes)
    found["bubble"] += tail / share
    found["overhead"] = between / share
    return found


def _drain(prepared: Prepared) -> int:
    """Return the number of gaps at the end that are drain: one for an asynchronous program."""
    return 0 if prepared.program.order.flush or prepared.program.order.steps < 3 else 1


def _stamps(
    prepared: Prepared, ranks: Sequence[Sequence[Sequence[float]]]
) -> dict[int, tuple[float, float, float]]:
    """Return the stamps by task; if every rank ran the one lane for itself, those of the slowest rank."""
    rows = list(ranks)
    if prepared.case.everywhere:
        rows = [max(rows, key=lambda rank: rank[-1][3])]
    return {int(s[0]): (s[1], s[2], s[3]) for rank in rows for s in rank}


def _cpu_share(rows: Sequence[Sequence[Mapping[str, Any]]]) -> float:
    """Return the smallest share of a core that a rank got in its tasks.

    What its own threads of messages took is no loss; collectives inside tasks are left out, since ranks wait
    for each other there. Stamps of former versions do not tell these threads apart.
    """
    shares = []
    for rank in rows:
        got = wall = 0.0
        for record in rank:
            inside = {int(task): (s, cpu) for task, s, cpu in record.get("inside", ())}
            for task, _, start, end, cpu, *core in record["stamps"]:
                apart, worked = inside.get(int(task), (0.0, 0.0))
                wall += end - start - apart
                got += cpu - worked if apart else min(*core, end - start) if core else cpu
        if wall > 0:
            shares.append(got / wall)
    return min(shares, default=0.0)


def numerics_of(rows: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Return the largest errors over ranks and rounds; {} if nothing was checked."""
    found: dict[str, float] = {}
    for record in (record for rank in rows for record in rank):
        for name in ("gradient", "weight", "first", "rounding"):
            if name in record.get("numerics", {}):
                found[name] = max(found.get(name, 0.0), float(record["numerics"][name]))
    if not found.get("rounding"):
        found.pop("rounding", None)
    return found


def gradients_equal(numerics: Mapping[str, float]) -> bool | None:
    """Tell whether gradients are those of one process; None if rounding explains how far they are off.

    >>> gradients_equal({"gradient": 1e-6}), gradients_equal({"gradient": 1e-2, "rounding": 1e-6})
    (True, False)
    >>> gradients_equal({"gradient": 1e-2, "rounding": 4e-3}) is None
    True
    """
    error = numerics.get("gradient", 1.0)
    if error <= GRADIENT_TOLERANCE:
        return True
    return None if error <= ROUNDINGS * numerics.get("rounding", 0.0) else False


def unjudged_words(numerics: Mapping[str, float]) -> str:
    """Say why gradients cannot be judged.

    >>> unjudged_words({"gradient": 0.014, "rounding": 0.14})
    'they are 1.4e-02 off, and a rounding of the weights alone changes them by 1.4e-01'
    """
    error, rounding = numerics["gradient"], numerics["rounding"]
    return f"they are {error:.1e} off, and a rounding of the weights alone changes them by {rounding:.1e}"


def unstamped_makespan(rows: Sequence[Sequence[Mapping[str, Any]]]) -> float:
    """Return the seconds of a case without stamps: those of the slowest rank, in the shortest round."""
    return min(float(max(rank[n]["seconds"] for rank in rows)) for n in range(len(rows[0])))


def relative_pct(predicted: float, measured: float) -> float:
    """Return (predicted / measured - 1) in per cent."""
    return 100 * (predicted / measured - 1) if measured else 0.0


def verdict_of(*, contention: float, numerics_ok: bool | None, error_pct: float, tolerance_pct: float) -> str:
    """Return the verdict in a word; noise precedes everything but wrong numbers, which noise cannot cause."""
    if numerics_ok is False:
        return WRONG
    if contention < QUIET:
        return TOO_NOISY
    return CONFIRMED if abs(error_pct) <= tolerance_pct else OFF
