"""Lower bounds of uniform strategies under the simulator's own costs, without lowering them.

Time of a flush schedule, by pipeline position r with first stage r (Narayanan et al. 2021; valid for any
order): a step of position 0 starts with its own update done; position r gets its first forward after the
forwards of the stages before it, must run all its work, ends with a backward of stage r, and the backwards
of the stages before it follow:

    T  >=  max over r of  [ m sum over its chunks (F + B)  +  sum over j < r of (F_j + B_j) ]

Memory, at the first backward of position r: weights, gradients, optimizer states and buffers of its chunks,
and what the forwards before it left. Those are the first w of its forwards, with v chunks and p positions

    w = p - r  (1F1B),   2 (p - r - 1) + (v - 1) p + 1  (interleaved 1F1B),   at most m v,

taken p microbatches of one chunk after the other (of fewer, where there are fewer).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.pricing import Pricer
from explorer.search.problem import Problem
from explorer.strategy import JobStrategy
from explorer.tasks.placement import place
from explorer.workload import Job

ROUNDING = 1 - 1e-12
"""Factor that keeps an exact bound below what the simulator adds up in another order."""


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
    times = [_pipeline_s(pricer, replica, positions, count) for replica in range(replicas)]
    return Bounds(
        step_time_s=max(times) * ROUNDING,
        peak_memory_bytes=max(peak for peak, _ in peaks),
        over_bytes=max(over for _, over in peaks),
    )


def _peaks(
    cluster: Cluster,
    strategy: JobStrategy,
    pricer: Pricer,
    sections: list[list[int]],
    count: int,
    *,
    everything: bool,
) -> list[tuple[float, float]]:
    """Return (peak, peak over capacity) of the first position, which keeps most, and the last (logits)."""
    positions = len(sections)
    chunks = len(strategy.stages) // positions
    found = []
    for r in sorted({0, positions - 1}):
        kind = cluster.kind_of(strategy.stages[r].meshes[0].devices[0])
        ahead = _forwards_first(positions, r, chunks, count)
        held = _held_bytes(pricer, sections[r], ahead, everything=everything)
        peak = (held + kind.reserved_bytes) * ROUNDING
        found.append((peak, peak - kind.memory_bytes))
    return found


def _pipeline_s(pricer: Pricer, replica: int, positions: int, count: int) -> float:
    """Return the seconds of a replica's step: a position waits for earlier stages before and after work."""
    once = [0.0] * len(pricer.strategy.stages)  # forward and backward of one microbatch
    for i, section in enumerate(pricer.sections):
        device = section.rows[0][replica][0]
        once[section.stage] += _microbatch_s(pricer, i, device, section.samples(replica))
    waits = pricer.job.training
    return max(count * sum(once[r::positions]) + (sum(once[:r]) if waits else 0.0) for r in range(positions))


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
            if pricer.stages[i].recompute != "none":  # the last chunk's backward comes first
                again = memory.recompute_peak_bytes_per_sample * samples
    return total + buffers + again if everything else total


def value_bound(problem: Problem, bounds: Bounds, devices: tuple[int, ...]) -> float:
    """Return a lower bound of the objective of a strategy with these bounds."""
    return problem.ranks.strategy_bound(
        problem.needed_cluster, problem.job, bounds.step_time_s, bounds.peak_memory_bytes, devices
    )
