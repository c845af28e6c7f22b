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
from explorer.strategy import Strategy
from explorer.workload import OPTIMIZERS, Workload

from .session import Inputs

_MOST_ACTIONS = 5000
"""Most stages times microbatches over all tries: about two seconds."""


def start_strategy(inputs: Inputs) -> Strategy:
    """Try pipeline x data parallel first, then tensor parallelism, ZeRO or recomputation, until it fits.

    Of several that fit the one with the least of all these is taken, with its fastest microbatch size. If
    nothing fits, the one that lacks least memory is taken; the board then says what would help.

    Raises:
        ExplorerError: no even strategy can be made at all.
    """
    best: tuple[float, Degrees] | None = None
    spent = 0
    for degrees in _choices(inputs):
        spent += degrees.stages * (degrees.stages + 1)
        if spent > _MOST_ACTIONS and best is not None:
            break
        report = _probe(inputs, degrees)
        if report is None:
            continue
        if report.feasible:
            return _built(inputs, _with_microbatch(inputs, degrees))
        over = max(item.over_bytes for item in report.overflows)
        if best is None or over < best[0]:
            best = (over, degrees)
    return _built(inputs, best[1] if best else Degrees())


_THRIFT = (("none", 0), ("none", 1), ("full", 0), ("full", 1))
"""Recomputation and ZeRO level, simplest first."""


def _choices(inputs: Inputs) -> Iterator[Degrees]:
    """Yield the degrees that use all devices, simplest first; long pipelines after short ones."""
    devices = len(inputs.cluster.present)
    node = min(group.devices_per_node for group in inputs.cluster.nodes)
    most = len(units(inputs.graph))
    tensors = [t for t in (1, 2, 4, 8) if t <= node and devices % t == 0]
    for recompute, zero in _THRIFT:
        for counts in ((4, 2, 8), (16,), (32,), (64,), (1,)):
            for tensor, stages in product(tensors, counts):
                replicas = devices // (stages * tensor)
                if stages > most or not replicas or inputs.job.global_batch % replicas:
                    continue
                found = Degrees(
                    stages=stages, replicas=replicas, tensor=tensor, recompute=recompute, zero=zero
                )
                if ((recompute, zero) == _THRIFT[-1] and stages == 1) or _states_fit(inputs, found):
                    yield found


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
