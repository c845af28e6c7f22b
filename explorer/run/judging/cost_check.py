"""Are the times of a run's parts what the cost model says of this machine?

The other question, whether the order takes as long as said given the times of its parts, is answered in
`run.judging.compare`: there units are timed in the run itself. Here nothing is: a profile of the machine,
made once (`explorer.profiling`), prices the operators of what was run as it prices those of any plan. On
processors seconds are those that the core worked for a rank, so that what else runs there does no harm.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any

import numpy as np

from explorer.base.errors import InputError
from explorer.calibrate.devices import same_device
from explorer.cluster import Cluster
from explorer.costs.compute import layer_costs
from explorer.costs.memory_arrays import graph_arrays
from explorer.graph import LayerGraph
from explorer.passes.static import run_static
from explorer.pricing import Pricer, price
from explorer.run.cases.build import Prepared
from explorer.run.judging.cast_bytes import cast_bytes
from explorer.run.judging.flat_bytes import flat_bytes
from explorer.simulation.lane_memory import MEMORY_PARTS, memory_by_lane
from explorer.strategy import JobStrategy
from explorer.tasks.placement import place
from explorer.tasks.program import KINDS, REDUCE
from explorer.tasks.program_tables import derived

COST_TOLERANCE_PCT = 30.0
"""Error of the seconds of compute up to which the cost model counts as confirmed, in per cent."""
_TENSORS = MEMORY_PARTS.index("reserved")
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
class RankBytes:
    """Peak bytes of the tensors of one rank."""

    rank: int
    """The rank."""
    predicted_bytes: float
    """By the cost model, which needs no profile for it."""
    measured_bytes: float
    """As counted (see `explorer.run.ranks.allocated`)."""


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


def predicted_bytes(priced: Prepared, graph: LayerGraph | None = None) -> list[float]:
    """Return the peak bytes of tensors of each lane of a program.

    Our ranks hold more than a plan needs, at two moments. In a backward the gradients of a whole piece gather
    before they are added to the sums of earlier microbatches, while its activations go; where late layers
    have the weights and early ones the activations (convolutions), both are there in between. At an exchange
    its gradients are copied next to each other, beside all sums. A gradient that two layers of a piece give
    is added up beside both parts. What mixed precision and ZeRO's flat weights add is in
    `run.judging.cast_bytes` and `flat_bytes`.

    Args:
        priced: the program.
        graph: its layers, which tell what weights they share; None if they share none.
    """
    program, memory = priced.program, priced.prices.memory
    parts, _ = memory_by_lane(program, priced.prices)
    exchanged = _exchanged_bytes(priced)
    found = []
    for held, plain in zip(derived(program).sections, parts[:, :_TENSORS].sum(axis=1), strict=True):
        fresh: list[float] = []
        update = updating = 0.0
        given: dict[int, float] = {}
        for section, samples in held:
            own = memory[section]
            parts_bytes = 2 * _shared_bytes(priced, graph, section)
            flat = flat_bytes(priced, section, samples)
            cast = cast_bytes(priced, graph, section)
            gathering = cast.made * own.gradient_bytes + parts_bytes + cast.adding
            gathering -= own.activation_bytes_per_sample * samples
            halfway = _halfway_bytes(priced, graph, section, samples)
            fresh += [flat.always + more for more in (0.0, gathering, halfway, flat.scattering)]
            mine = exchanged.get(section, {})
            given |= mine
            alone = max(0.0, own.gradient_bytes - sum(mine.values()))
            update += own.weight_bytes + own.optimizer_bytes + alone + flat.always + flat.part
            updating = max(updating, cast.updating)
        update += sum(given.values()) + max([updating, *given.values()])
        found.append(max(float(plain) + max(fresh, default=0.0), update))
    return found


def _exchanged_bytes(priced: Prepared) -> dict[int, dict[int, float]]:
    """Return, per section, the bytes of gradients of each group that it exchanges them with."""
    found: dict[int, dict[int, float]] = defaultdict(dict)
    for slot, size in zip(priced.program.slots, priced.prices.bytes.tolist(), strict=True):
        if slot.kind == REDUCE:
            for piece in priced.program.skeleton.holders[slot.where].pieces:
                found[piece.section][slot.where] = float(size)
    return found


def _halfway_bytes(priced: Prepared, graph: LayerGraph | None, section: int, samples: float) -> float:
    """Return the most by which the gradients of a piece, so far, are larger than the activations that its
    backward has given back; 0 if its layers are unknown, or if they run again.

    The gradient of a convolution's weight is there twice for a moment: libraries make it in a layout of their
    own.
    """
    model = priced.case.model
    if graph is None or model is None or priced.program.skeleton.sections[section].full_recompute:
        return 0.0
    arrays, layers = graph_arrays(graph), priced.placement.layers[section]
    place = np.full(len(graph.layers), -1)
    place[layers] = np.arange(len(layers))
    made, gone = np.zeros(len(layers) + 1), np.zeros(len(layers) + 1)
    saved = place[arrays.saves.layer] >= 0
    first = np.full(len(graph.tensors), len(layers))
    np.minimum.at(first, arrays.saves.item[saved], place[arrays.saves.layer[saved]])
    np.add.at(gone, first, samples * (model.element_bytes * arrays.compute + arrays.fixed))
    used = place[arrays.uses.layer] >= 0
    last = np.full(len(graph.parameters), -1)
    np.maximum.at(last, arrays.uses.item[used], place[arrays.uses.layer[used]])
    trained = arrays.weight["compute"] * arrays.weight["trainable"]
    np.add.at(made, last[last >= 0], model.element_bytes * trained[last >= 0])
    # backwards from the last layer: at one, what later layers saved is gone and its own gradients are there
    gathered, given_back = (np.cumsum(item[:-1][::-1]) for item in (made, gone))
    before = np.concatenate([[0.0], given_back[:-1]])
    twice = made[:-1] * np.array([graph.layers[i].kind == "conv" for i in layers.tolist()])
    return float(np.max(gathered - before + twice[::-1], initial=0.0))


def _shared_bytes(priced: Prepared, graph: LayerGraph | None, section: int) -> float:
    """Return the bytes of the largest weight that several layers of a section use; 0 if there is none."""
    model = priced.case.model
    if graph is None or model is None:
        return 0.0
    layers = [graph.layers[i] for i in priced.placement.layers[section].tolist()]
    uses = Counter(use.name for layer in layers for use in layer.parameters)
    shared = [graph.parameter[name].elements for name, count in uses.items() if count > 1]
    return model.element_bytes * max(shared, default=0.0)


def rank_bytes(
    priced: Prepared, rows: Sequence[Sequence[Mapping[str, Any]]], graph: LayerGraph | None = None
) -> list[RankBytes]:
    """Return predicted and counted peaks.

    Args:
        priced: the program.
        rows: per rank, the records of the counted case.
        graph: as for `predicted_bytes`.
    """
    return [
        RankBytes(rank=rank, predicted_bytes=predicted, measured_bytes=float(rows[rank][0]["peak_bytes"]))
        for rank, predicted in enumerate(predicted_bytes(priced, graph))
        if rank < len(rows) and rows[rank] and rows[rank][0].get("peak_bytes")
    ]


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
    for task, _, start, end, cpu in record["stamps"]:
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
    "COST_TOLERANCE_PCT", "ActionSeconds", "CostCheck", "LayerSeconds", "RankBytes", "action_seconds",
    "clock_of", "layer_seconds", "measured_collectives", "measured_compute", "predicted_bytes",
    "predicted_collectives", "predicted_compute", "priced_by", "rank_bytes", "unfit",
]  # fmt: skip
