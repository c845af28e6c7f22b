"""Initial strategy: one that fits, found among even ones in a moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from explorer.base.errors import ExplorerError
from explorer.base.units import dtype_bytes
from explorer.search.microbatches import with_best_microbatch
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.cuts import units
from explorer.strategies.degrees import Degrees
from explorer.strategies.model_axes import splittable
from explorer.strategy import Strategy
from explorer.workload import OPTIMIZERS, Workload

from .session import Inputs

_MOST_ACTIONS = 5000
"""Most stages times microbatches over all tries: about two seconds."""


def start_strategy(inputs: Inputs) -> Strategy:
    """Try pipeline x data parallel first, then tensor parallelism, ZeRO or recomputation, until it fits.

    Of several that fit the one with the least of all these is taken, with its fastest microbatch size. Where
    none of them fits, experts and ZeRO-3 are tried too (`_closest`); the board then says what would help.

    Raises:
        ExplorerError: no even strategy can be made at all.
    """
    spent = 0
    for degrees in _choices(inputs):
        spent += degrees.stages * (degrees.stages + 1)
        if spent > _MOST_ACTIONS:
            break
        report = _probe(inputs, degrees)
        if report is not None and report.feasible:
            return _built(inputs, _with_microbatch(inputs, degrees))
    return _built(inputs, _with_microbatch(inputs, _closest(inputs)))


_ALIKE = 0.05
"""Shares of a device's memory that two strategies may differ in what lacks and count as alike."""
_MOST_CLOSEST = 2000
"""Stages times microbatches over all tries among those that save most memory: about half a second."""


def _closest(inputs: Inputs) -> Degrees:
    """Return the fastest of those that fit, or of those that lack hardly more memory than the least."""
    room = min(kind.memory_bytes for kind in inputs.cluster.device_kinds)
    tried: list[tuple[float, float, Degrees]] = []  # bytes that lack, seconds of a step
    spent = 0
    for degrees in _sparest(inputs):
        spent += degrees.stages * (degrees.stages + 1)
        if spent > _MOST_CLOSEST and tried:
            break
        if (report := _probe(inputs, degrees)) is not None:
            over = max((item.over_bytes for item in report.overflows), default=0.0)
            tried.append((over, _whole_step_s(inputs, degrees, report), degrees))
    if not tried:
        return Degrees()
    least = min(over for over, _, _ in tried)
    allowed = least + _ALIKE * room if least else 0.0
    return min((item for item in tried if item[0] <= allowed), key=lambda item: item[1])[2]


def _whole_step_s(inputs: Inputs, degrees: Degrees, report: Report) -> float:
    """Return the seconds of a step, from those of a short one: m microbatches take m + p - 1 turns."""
    whole = inputs.job.global_batch // degrees.replicas
    short = min(degrees.stages + 1, whole)
    return report.step_time_s * (whole + degrees.stages - 1) / (short + degrees.stages - 1)


def _sparest(inputs: Inputs) -> Iterator[Degrees]:
    """Yield degrees that use all devices and as little memory as can be, short pipelines first."""
    devices, most = len(inputs.cluster.present), len(units(inputs.graph))
    axes = splittable(inputs.graph)
    for stages, tensor in product((1, 2, 4, 8, 16, 32, 64), _tensors(inputs)):
        replicas = devices // (stages * tensor)
        if stages > most or not replicas or inputs.job.global_batch % replicas:
            continue
        experts = (1, replicas * tensor) if "expert" in axes and replicas * tensor > 1 else (1,)
        for expert, zero in product(experts, (1, 3) if replicas > 1 else (1,)):
            yield Degrees(
                stages=stages, replicas=replicas, tensor=tensor, expert=expert, recompute="full", zero=zero
            )


_THRIFT = (("none", 0), ("none", 1), ("full", 0), ("full", 1))
"""Recomputation and ZeRO level, simplest first."""


def _choices(inputs: Inputs) -> Iterator[Degrees]:
    """Yield the degrees that use all devices, simplest first; long pipelines after short ones."""
    devices = len(inputs.cluster.present)
    most = len(units(inputs.graph))
    tensors = _tensors(inputs)
    for recompute, zero in _THRIFT:
        for counts in ((4, 2, 8), (16,), (32,), (64,), (1,)):
            for tensor, stages in product(tensors, counts):
                replicas = devices // (stages * tensor)
                if stages > most or not replicas or inputs.job.global_batch % replicas:
                    continue
                found = Degrees(
                    stages=stages, replicas=replicas, tensor=tensor, recompute=recompute, zero=zero
                )
                if _states_fit(inputs, found):
                    yield found


def _tensors(inputs: Inputs) -> list[int]:
    """Return the sensible tensor degrees: inside a node."""
    devices = len(inputs.cluster.present)
    node = min(group.devices_per_node for group in inputs.cluster.nodes)
    return [t for t in (1, 2, 4, 8) if t <= node and devices % t == 0]


def _states_fit(inputs: Inputs, degrees: Degrees) -> bool:
    """Tell whether weights, gradients and optimizer could fit if spread evenly, which spares most
    simulations.
    """
    width, kept = dtype_bytes(inputs.job.precision), OPTIMIZERS[inputs.job.optimizer].states
    state = 4.0 * (kept + inputs.job.master_copy) if inputs.job.training else 0.0
    each = width * (2 if inputs.job.training else 1)
    each += state / degrees.replicas if degrees.zero else state
    room = max(kind.memory_bytes for kind in inputs.cluster.device_kinds)
    return inputs.graph.parameter_count * each / (degrees.stages * degrees.tensor) < room


def _built(inputs: Inputs, degrees: Degrees) -> Strategy:
    return degrees.build(inputs.graph, inputs.cluster, inputs.job)


def _probe(inputs: Inputs, degrees: Degrees) -> Report | None:
    """Report on a short step: one microbatch more than stages reaches the same memory as many do."""
    count = min(degrees.stages + 1, inputs.job.global_batch // degrees.replicas)
    if count < 1 or inputs.job.global_batch % degrees.replicas:
        return None
    short = replace(inputs.job, global_batch=count * degrees.replicas)
    own = replace(inputs, workload=Workload(jobs=(short,)))
    try:
        return simulate(own.graph, own.cluster, own.workload, _built(own, degrees))
    except ExplorerError:
        return None


def _with_microbatch(inputs: Inputs, degrees: Degrees) -> Degrees:
    return with_best_microbatch(
        inputs.graph, inputs.cluster, inputs.workload, degrees, most_actions=_MOST_ACTIONS
    )
