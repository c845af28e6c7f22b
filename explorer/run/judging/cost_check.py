"""Are the times of a run's parts what the cost model says of this machine?

The other question, whether the order takes as long as said given the times of its parts, is answered in
`run.judging.compare`: there units are timed in the run itself. Here nothing is: a profile of the machine,
made once (`explorer.profiling`), prices the operators of what was run as it prices those of any plan. On
processors seconds are those that the core worked for a rank, so that what else runs there does no harm, and
the profile is as fast as the machine is now (`run.judging.machine_speed`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

from explorer.base.errors import InputError
from explorer.calibrate.devices import same_device
from explorer.cluster import Cluster
from explorer.costs.compute import layer_costs
from explorer.graph import LayerGraph
from explorer.passes.static import run_static
from explorer.pricing import Pricer, price
from explorer.run.cases.build import Prepared
from explorer.run.judging.machine_speed import Slowdowns
from explorer.strategy import JobStrategy
from explorer.tasks.placement import place
from explorer.tasks.program import KINDS

COST_TOLERANCE_PCT = 30.0
"""Error of the seconds of compute up to which the cost model counts as confirmed, in per cent."""
PROCESSOR, WALL = "processor", "wall"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSeconds:
    """Seconds of one layer of what was run, for one call."""

    layer: str
    """Its name in the graph of the run."""
    samples: int
    """Samples of the call."""
    predicted_s: tuple[float, float]
    """Forward and backward by the profile."""
    measured_s: tuple[float, float]
    """Forward and backward, median over ranks and rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSeconds:
    """Seconds of one action of one stage of what was run, with the collectives inside a lane apart."""

    action: str
    """F, B, I, W, U or RECOMPUTE."""
    stage: int
    """Stage of the run."""
    predicted_s: tuple[float, float]
    """Compute and collectives inside the lane by the profile, mean over its tasks."""
    measured_s: tuple[float, float]
    """The same, median over tasks, lanes and rounds: compute by the check's clock, collectives by the wall,
    waits for other ranks included.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCheck:
    """Predictions of a machine's profile beside what was measured."""

    profile: str
    """Name and title of the profile."""
    clock: str
    """Clock of measured compute: `processor` or `wall`."""
    predicted: dict[str, float | None]
    """`step_time_s`, `speedup`, and mean over ranks the seconds in a step of compute (`compute_s`), of
    collectives inside lanes (`collective_s`) and of waits for messages and exchanges (`communication_s`).
    """
    measured: dict[str, float | None]
    """The same; `compute_s` by `clock`, the others by the wall."""
    error_pct: float
    """Error of `compute_s`, in per cent: the answer."""
    step_error_pct: float
    """Error of `step_time_s`, in per cent."""
    verdict: str
    """confirmed or off; too noisy where seconds are those of the wall and the machine was busy."""
    layers: list[LayerSeconds]
    """Layers of the run."""
    actions: list[ActionSeconds] = field(default_factory=list)
    """Actions of the run by stage."""
    slowdowns: Slowdowns = field(default_factory=Slowdowns)
    """How much longer the profile's kernels take now than when it was made, as its predictions assume."""


def priced_by(run: Prepared, graph: LayerGraph, strategy: JobStrategy, cluster: Cluster) -> Prepared:
    """Return the very program of a run as a cluster prices it.

    Args:
        run: what was run.
        graph: its operators.
        strategy: its strategy, in layers of `graph`.
        cluster: the devices, one for each rank at least.

    Raises:
        InputError: the graph cuts another program.
    """
    placement = place(graph, strategy, training=run.job.training)
    if placement.skeleton != run.program.skeleton:
        raise InputError(
            "the operators of the run make another program", key="graph", allowed="the run's own graph"
        )
    prices = price(run.program, Pricer(graph, cluster, run.job, strategy, placement))
    return replace(
        run, placement=placement, prices=prices, timing=run_static(run.program, prices.seconds),
        strategy=strategy,
    )  # fmt: skip


def unfit(profile: Cluster | None, *, ranks: int, device: str, precision: str = "fp32") -> str:
    """Return why a profile says nothing of a run; empty if it does.

    Args:
        profile: the profile of the machine, if there is one.
        ranks: ranks of the run.
        device: device they ran on, as they name it.
        precision: data type of compute.
    """
    if profile is None:
        return "there is no profile of this machine yet: `explorer profile` makes one, in about a minute"
    if profile.device_count < ranks:
        return f"the profile {profile.name} was made with {profile.device_count} ranks, {ranks} ran"
    foreign = [kind.name for kind in profile.device_kinds if not same_device(kind.name, device)]
    if foreign:
        return f"the profile {profile.name} is of {', '.join(foreign)}, the ranks ran on {device}"
    if any(precision not in dict(kind.peak_flops_per_s) for kind in profile.device_kinds):
        return f"the profile {profile.name} has no rates of {precision}: `explorer profile` measures them"
    return ""


def clock_of(device: str) -> str:
    """Return the clock that tells what a device worked: other load does not run on a GPU in between."""
    return PROCESSOR if device == "cpu" else WALL


def measured_compute(run: Prepared, rows: Sequence[Sequence[Mapping[str, Any]]], clock: str) -> float:
    """Return the seconds of compute in a step, mean over ranks and median over rounds.

    Collectives inside tasks are left out.
    """
    return _of_rounds(run, rows, clock, 0)


def measured_collectives(run: Prepared, rows: Sequence[Sequence[Mapping[str, Any]]]) -> float:
    """Return the seconds of collectives inside tasks in a step, mean over ranks and median over rounds."""
    return _of_rounds(run, rows, WALL, 1)


def _of_rounds(run: Prepared, rows: Sequence[Sequence[Mapping[str, Any]]], clock: str, which: int) -> float:
    lanes, steps = len(run.program.programs), run.program.order.steps
    rounds = []
    for number in range(min(len(rank) for rank in rows)):
        taken = [
            seconds[which] for rank in rows[:lanes] for _, *seconds in _task_seconds(rank[number], clock)
        ]
        rounds.append(sum(taken) / (lanes * steps))
    return float(median(rounds))


def _task_seconds(record: Mapping[str, Any], clock: str) -> list[tuple[int, float, float]]:
    """Return (task, seconds of compute by a clock, of collectives by the wall) of every task of a record."""
    inside = {int(task): (wall, cpu) for task, wall, cpu in record.get("inside", ())}
    found = []
    for task, _, start, end, cpu, *_ in record["stamps"]:
        wall, worked = inside.get(int(task), (0.0, 0.0))
        found.append((int(task), cpu - worked if clock == PROCESSOR else end - start - wall, wall))
    return found


def predicted_compute(priced: Prepared) -> float:
    """Return the seconds of compute in a step as a program is priced, without collectives inside tasks."""
    program = priced.program
    seconds = [
        float(priced.timing.end_s[task] - priced.timing.start_s[task])
        for tasks in program.programs
        for task in tasks.tolist()
    ]
    return sum(seconds) / (len(program.programs) * program.order.steps) - predicted_collectives(priced)


def predicted_collectives(priced: Prepared) -> float:
    """Return the seconds of collectives inside tasks in a step as a program is priced."""
    program = priced.program
    slots = [int(program.slot[task]) for tasks in program.programs for task in tasks.tolist()]
    total = float(priced.prices.comm_s[slots].sum())
    return total / (len(program.programs) * program.order.steps)


def action_seconds(
    priced: Prepared, rows: Sequence[Sequence[Mapping[str, Any]]], clock: str
) -> list[ActionSeconds]:
    """Return predicted and measured seconds of every action of every stage.

    Args:
        priced: the program, priced by a profile.
        rows: per lane and round, its record.
        clock: that of measured compute.
    """
    program, prices = priced.program, priced.prices
    predicted: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    of_task: dict[int, tuple[int, str]] = {}
    for tasks in program.programs:
        for task in tasks.tolist():
            number = int(program.slot[task])
            slot = program.slots[number]
            key = program.skeleton.sections[slot.where].stage, KINDS[slot.kind]
            of_task[task] = key
            inside = float(prices.comm_s[number])
            predicted[key].append((float(prices.seconds[number]) - inside, inside))
    measured: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for rank in rows[: len(program.programs)]:
        for record in rank:
            for task, compute_s, inside_s in _task_seconds(record, clock):
                measured[of_task[task]].append((compute_s, inside_s))
    return [
        ActionSeconds(
            action=action, stage=stage,
            predicted_s=(fmean(a for a, _ in found), fmean(b for _, b in found)),
            measured_s=(
                median(a for a, _ in measured[stage, action]), median(b for _, b in measured[stage, action])
            ),
        )
        for (stage, action), found in sorted(predicted.items())
        if measured[stage, action]
    ]  # fmt: skip


def layer_seconds(
    graph: LayerGraph,
    profile: Cluster,
    units: Sequence[str],
    rows: Sequence[Mapping[str, Sequence[Sequence[float]]]],
    *,
    precision: str,
) -> list[LayerSeconds]:
    """Return predicted and measured seconds of every unit.

    Args:
        graph: the operators, those of a unit in the block of its name; or the units themselves.
        profile: the machine.
        units: the units in the order of the timings.
        rows: per rank and round: samples -> (forward, backward) of every unit.
        precision: data type of compute.
    """
    inside: dict[str, list[int]] = defaultdict(list)
    for position, layer in enumerate(graph.layers):
        inside[layer.block].append(position)
        inside[layer.name].append(position)
    found = []
    for samples in sorted({int(key) for row in rows for key in row}):
        seconds = layer_costs(graph, profile.device_kinds[0], samples=samples, precision=precision).seconds
        for number, unit in enumerate(units):
            own = seconds[:, inside[unit]].sum(axis=1)
            timed = [row[str(samples)][number] for row in rows if str(samples) in row]
            found.append(
                LayerSeconds(
                    layer=unit, samples=samples,
                    predicted_s=(float(own[0]), float(own[1] + own[2])),
                    measured_s=(median(t[0] for t in timed), median(t[1] for t in timed)),
                )
            )  # fmt: skip
    return found


__all__ = [
    "COST_TOLERANCE_PCT", "ActionSeconds", "CostCheck", "LayerSeconds", "action_seconds", "clock_of",
    "layer_seconds", "measured_collectives", "measured_compute", "predicted_collectives",
    "predicted_compute", "priced_by", "unfit",
]  # fmt: skip
