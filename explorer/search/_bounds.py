"""Lower bounds of uniform strategies under the simulator's own costs, without lowering them.

Time of a flush schedule, by pipeline position r with first stage r (Narayanan et al. 2021; valid for any
order): a step of position 0 starts with its own update done; position r gets its first forward after the
forwards of the stages before it, must run all its work, ends with a backward of stage r, and the backwards
of the stages before it follow:

    T  >=  max over r of  [ m sum over its chunks (F + B)  +  sum over j < r of (F_j + B_j) ]

The second sum counts where every stage waits for the one before: stages of branches may work side by side.

Memory, at the first backward of position r: weights, gradients, optimizer states and buffers of its chunks,
and what the forwards before it left. Those are the first w of its forwards, with v chunks and p positions

    w = p - r  (1F1B),   2 (p - r - 1) + (v - 1) p + 1  (interleaved 1F1B),   at most m v,

taken p microbatches of one chunk after the other (of fewer, where there are fewer).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from explorer.base.caching import remembered
from explorer.cluster import Cluster
from explorer.cluster.memory_room import memory_room
from explorer.graph import LayerGraph
from explorer.pricing import Pricer
from explorer.schedules.spec import ROUNDING
from explorer.search._devices import DeviceOrder
from explorer.search.problem import Problem
from explorer.strategies.degrees import Degrees
from explorer.strategy import JobStrategy
from explorer.tables import StageChoice, StageTable, even_bounds
from explorer.tables.borders import is_chain
from explorer.tables.prefix_sums import SecondsColumns
from explorer.tasks.placement import place
from explorer.tasks.skeleton import IntArray, Skeleton
from explorer.workload import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Lower bounds of every prediction of a strategy."""

    step_time_s: float
    """Seconds of a step."""
    peak_memory_bytes: float
    """Bytes on the fullest device."""
    over_bytes: float
    """Bytes that some device lacks at least; 0 or less if the strategy may fit."""


def bounds_of(
    graph: LayerGraph,
    cluster: Cluster,
    job: Job,
    strategy: JobStrategy,
    positions: int,
    *,
    memory: str = "all",
) -> Bounds:
    """Return lower bounds of a uniform strategy: stage i on position i mod `positions`, (interleaved) 1F1B.

    Args:
        graph: the model.
        cluster: the devices.
        job: the workload of the model.
        strategy: the strategy, with equal replicas on every stage.
        positions: pipeline positions p.
        memory: `all` that is sure to be held at once; `least`, which leaves out buffers and recomputed
            tensors, so that it falls with more recomputation and more ZeRO; or `none`, the fastest.

    Raises:
        InputError: the placement cannot be lowered.
    """
    placement = place(graph, strategy, training=job.training)
    pricer = Pricer(graph, cluster, job, strategy, placement)
    count = job.global_batch // strategy.stages[0].microbatch_samples
    sections: list[list[int]] = [[] for _ in range(positions)]
    for i, section in enumerate(placement.skeleton.sections):
        sections[section.stage % positions].append(i)
    peaks = [(0.0, -math.inf)]
    if memory != "none":
        peaks = _peaks(cluster, strategy, pricer, sections, count, everything=memory == "all")
    # a replica's microbatches stay with it: the slowest replica of one stage may be a fast one of the next
    replicas = placement.skeleton.sections[0].replicas if len(cluster.device_kinds) > 1 else 1
    in_turn = job.training and _in_turn(placement.skeleton, len(strategy.stages))
    times = [_pipeline_s(pricer, replica, positions, count, in_turn=in_turn) for replica in range(replicas)]
    return Bounds(
        step_time_s=max(times) * ROUNDING,
        peak_memory_bytes=max(peak for peak, _ in peaks),
        over_bytes=max(over for _, over in peaks),
    )


@remembered(16)
def stage_table(graph: LayerGraph, cluster: Cluster, job: Job, order: DeviceOrder) -> StageTable:
    """Return the costs of stages on devices in some order, made once."""
    return StageTable(graph, cluster, job, devices=order)


def even_bounds_of(table: StageTable, degrees: Degrees, *, memory: str = "all") -> Bounds:
    """Return the bounds of `bounds_of` for degrees on devices of one kind, from tables.

    Args:
        table: costs of stages on these devices.
        degrees: the degrees, under (interleaved) 1F1B, cut as evenly as can be.
        memory: as `bounds_of`.

    Raises:
        InputError: the model or the cluster does not allow the degrees.
    """
    job, positions, stages = table.job, degrees.stages, degrees.stage_count
    bounds = even_bounds(table.graph, [stages])[stages]
    starts, stops = bounds[:-1], bounds[1:]
    choice = StageChoice.of(degrees)
    once = np.empty(stages)
    alike: dict[SecondsColumns, list[int]] = {}
    for position in range(positions):
        columns = table.columns(choice.at(position * degrees.position_devices))
        alike.setdefault(columns, []).append(position)
    for members in alike.values():
        mine = np.concatenate([np.arange(position, stages, positions) for position in members])
        own = choice.at(members[0] * degrees.position_devices)
        time = table.seconds(own, starts[mine], stops[mine])
        backward = time.input_grad_s + time.weight_grad_s + time.recompute_s - time.behind_weight_s
        once[mine] = time.forward_s + (backward if job.training else 0.0)
    count = job.global_batch // degrees.microbatch_samples
    in_turn = job.training and is_chain(table.graph, bounds)
    loads = once.reshape(-1, positions).sum(axis=0) * count
    waits = np.concatenate([[0.0], np.cumsum(once[: positions - 1])]) if in_turn else 0.0
    step_s = float((loads + waits).max()) * ROUNDING
    if memory == "none":
        return Bounds(step_time_s=step_s, peak_memory_bytes=0.0, over_bytes=-math.inf)
    kind = table.cluster.kind_of(table.devices[0])
    peak = max(
        _even_held(table, choice, bounds, positions, r, count, everything=memory == "all")
        for r in {0, positions - 1}
    )
    peak = (peak + kind.reserved_bytes) * ROUNDING
    return Bounds(step_time_s=step_s, peak_memory_bytes=peak, over_bytes=peak - memory_room(kind).limit_bytes)


def _even_held(
    table: StageTable,
    choice: StageChoice,
    bounds: IntArray,
    positions: int,
    position: int,
    count: int,
    *,
    everything: bool,
) -> float:
    """Return the bytes of one device of a position at its first backward."""
    mine = np.arange(position, len(bounds) - 1, positions)
    held, samples = table.memory(choice, bounds[mine], bounds[mine + 1]), choice.microbatch_size
    total = float((held.weight_bytes + held.gradient_bytes + held.optimizer_bytes).sum())
    again = 0.0
    if table.job.training:
        ahead = np.array(_forwards_first(positions, position, len(mine), count))
        total += float(held.activation_bytes_per_sample @ ahead) * samples
        if choice.recompute != "none":  # the last chunk's backward comes first
            again = float(held.recompute_peak_bytes_per_sample[-1]) * samples
    buffers = float((held.buffer_bytes + held.buffer_bytes_per_sample * samples).max())
    return total + buffers + again if everything else total


def _peaks(
    cluster: Cluster,
    strategy: JobStrategy,
    pricer: Pricer,
    sections: list[list[int]],
    count: int,
    *,
    everything: bool,
) -> list[tuple[float, float]]:
    """Return (peak, peak over what a device takes) of the first position and the last (logits)."""
    positions = len(sections)
    chunks = len(strategy.stages) // positions
    found = []
    for r in sorted({0, positions - 1}):
        kind = cluster.kind_of(strategy.stages[r].meshes[0].devices[0])
        ahead = _forwards_first(positions, r, chunks, count)
        held = _held_bytes(pricer, sections[r], ahead, everything=everything)
        peak = (held + kind.reserved_bytes) * ROUNDING
        found.append((peak, peak - memory_room(kind).limit_bytes))
    return found


def _in_turn(skeleton: Skeleton, stages: int) -> bool:
    """Tell whether every stage waits for the one before, and that one for its gradient (`is_chain`)."""
    sections = skeleton.sections
    found = {
        (sections[flow.source].stage, sections[target].stage)
        for flow in skeleton.flows
        for target in flow.targets
        if flow.gradient
    }
    return all((stage, stage + 1) in found for stage in range(stages - 1))


def _pipeline_s(pricer: Pricer, replica: int, positions: int, count: int, *, in_turn: bool) -> float:
    """Return the seconds of a replica's step; `in_turn`, a position waits for earlier stages before and after
    its work.
    """
    once = [0.0] * len(pricer.strategy.stages)  # forward and backward of one microbatch
    for i, section in enumerate(pricer.sections):
        device = section.rows[0][replica][0]
        once[section.stage] += _microbatch_s(pricer, i, device, section.samples(replica))
    waits = [sum(once[:r]) if in_turn else 0.0 for r in range(positions)]
    return max(count * sum(once[r::positions]) + waits[r] for r in range(positions))


def _microbatch_s(pricer: Pricer, section: int, device: int, samples: int) -> float:
    """Return the seconds of one microbatch on the lane of `device`."""
    time = pricer.section_time(section, device, samples)
    if not pricer.job.training:
        return time.forward_s
    backward_s = time.input_grad_s + time.weight_grad_s + time.recompute_s - time.behind_weight_s
    return time.forward_s + backward_s


def _forwards_first(positions: int, position: int, chunks: int, count: int) -> list[int]:
    """Count by chunk the forwards of a position before its first backward."""
    if chunks == 1:
        return [min(positions - position, count)]
    total = min(2 * (positions - position - 1) + (chunks - 1) * positions + 1, count * chunks)
    done = [0] * chunks
    for k in range(total):
        done[k % (positions * chunks) // positions] += 1
    return done


def _held_bytes(pricer: Pricer, sections: list[int], ahead: list[int], *, everything: bool) -> float:
    """Return the bytes of one device at its first backward; one section per chunk, in chunk order."""
    total, buffers, again = 0.0, 0.0, 0.0
    for i, done in zip(sections, ahead, strict=True):
        memory, samples = pricer.memory(i), pricer.sections[i].samples(0)
        total += memory.weight_bytes + memory.gradient_bytes + memory.optimizer_bytes
        buffers = max(buffers, memory.buffer_bytes + memory.buffer_bytes_per_sample * samples)
        if pricer.job.training:
            total += memory.activation_bytes_per_sample * samples * done
            if pricer.sections[i].recomputes:  # the last chunk's backward comes first
                again = memory.recompute_in_turn_bytes_per_sample * samples
    return total + buffers + again if everything else total


def value_bound(problem: Problem, bounds: Bounds, devices: tuple[int, ...]) -> float:
    """Return a lower bound of the objective of a strategy with these bounds."""
    return problem.ranks.strategy_bound(
        problem.needed_cluster, problem.job, bounds.step_time_s, bounds.peak_memory_bytes, devices
    )
