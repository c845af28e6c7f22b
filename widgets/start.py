"""Where to begin: a strategy that fits, found among even ones in a moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from explorer.base.errors import ExplorerError
from explorer.base.units import dtype_bytes
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.cuts import units
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.workload import OPTIMIZERS, Workload

from .session import Inputs

_MOST_ACTIONS = 5000
"""Stages times microbatches over all tries: about two seconds."""


def start_strategy(inputs: Inputs) -> Strategy:
    """Pipeline x data parallel if that fits, else with tensor parallelism, ZeRO or recomputation.

    Of several that fit the one with the least of all these is taken, with microbatches as large as leave
    four per stage. Where nothing fits, the one that lacks least memory; the board then says what would help.

    Raises:
        ExplorerError: no even strategy can be made at all.
    """
    best: tuple[float, Strategy] | None = None
    spent = 0
    for shape, choice in _shapes(inputs):
        spent += shape[0] * (shape[0] + 1)
        if spent > _MOST_ACTIONS and best is not None:
            break
        report = _probe(inputs, shape, 1, choice)
        if report is None:
            continue
        strategy = _even(inputs, shape, _largest(inputs, shape, choice) if report.feasible else 1, choice)
        if report.feasible:
            return strategy
        over = max(item.over_bytes for item in report.overflows)
        if best is None or over < best[0]:
            best = (over, strategy)
    return best[1] if best else uniform(inputs.graph, inputs.cluster, inputs.job)


_Shape = tuple[int, int, int]
_Choice = tuple[str, int]
_CHOICES: tuple[_Choice, ...] = (("none", 0), ("none", 1), ("full", 0), ("full", 1))


def _shapes(inputs: Inputs) -> Iterator[tuple[_Shape, _Choice]]:
    """((stages, replicas, tensor), (recompute, zero)), simplest first; long pipelines after short ones."""
    devices = inputs.cluster.device_count
    node = min(group.devices_per_node for group in inputs.cluster.nodes)
    most = len(units(inputs.graph))
    tensors = [t for t in (1, 2, 4, 8) if t <= node and devices % t == 0]
    for choice in _CHOICES:
        for counts in ((4, 2, 8), (16,), (32,), (64,), (1,)):
            for tensor, stages in product(tensors, counts):
                replicas = devices // (stages * tensor)
                shape = (stages, replicas, tensor)
                if stages > most or not replicas or inputs.job.global_batch % replicas:
                    continue
                if (choice == _CHOICES[-1] and stages == 1) or _states_fit(inputs, shape, choice[1]):
                    yield shape, choice


def _states_fit(inputs: Inputs, shape: _Shape, zero: int) -> bool:
    """Whether weights, gradients and optimizer could fit if spread evenly: spares most simulations."""
    stages, replicas, tensor = shape
    width, kept = dtype_bytes(inputs.job.precision), OPTIMIZERS[inputs.job.optimizer].states
    state = 4.0 * (kept + inputs.job.master_copy) if inputs.job.training else 0.0
    each = width * (2 if inputs.job.training else 1) + (state / replicas if zero else state)
    room = max(kind.memory_bytes for kind in inputs.cluster.device_kinds)
    return inputs.graph.parameter_count * each / (stages * tensor) < room


def _even(inputs: Inputs, shape: _Shape, size: int, choice: _Choice) -> Strategy:
    stages, replicas, tensor = shape
    return uniform(
        inputs.graph, inputs.cluster, inputs.job, stages=stages, replicas=replicas, tensor=tensor,
        microbatch_size=size, recompute=choice[0], zero=choice[1],
    )  # fmt: skip


def _probe(inputs: Inputs, shape: _Shape, size: int, choice: _Choice) -> Report | None:
    """Report of a short step: one microbatch more than stages reaches the same memory as many do."""
    per_round = size * shape[1]
    count = min(shape[0] + 1, inputs.job.global_batch // per_round)
    if count < 1 or inputs.job.global_batch % per_round:
        return None
    short = replace(inputs.job, global_batch=count * per_round)
    own = replace(inputs, workload=Workload(jobs=(short,)))
    try:
        return simulate(own.graph, own.cluster, own.workload, _even(own, shape, size, choice))
    except ExplorerError:
        return None


def _largest(inputs: Inputs, shape: _Shape, choice: _Choice) -> int:
    """Largest microbatch (2, 4, 8 samples per replica) that fits and leaves four microbatches per stage."""
    stages, replicas, _ = shape
    share, chosen = inputs.job.global_batch // replicas, 1
    for size in (2, 4, 8):
        if share % size or share // size < 4 * stages:
            break
        report = _probe(inputs, shape, size, choice)
        if report is None or not report.feasible:
            break
        chosen = size
    return chosen
