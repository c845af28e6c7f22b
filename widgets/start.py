"""Initial strategy: one that fits, found among even ones by estimates and confirmed by a simulation.

A placement is easiest to follow and to move by hand in a short pipeline: the simplest one that fits is shown,
even where a search finds something faster. Where none fits as it is, seconds decide: the plan that searches
cost first (`explorer.search.first_plans`) competes with what fits by thrift.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, product
from typing import NamedTuple

from explorer.base.errors import ExplorerError
from explorer.base.units import scalar_bytes
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.first_plans import first_plans
from explorer.search.microbatches import NEAR
from explorer.search.problem import Problem
from explorer.simulation.simulate import simulate
from explorer.strategies.cuts import units
from explorer.strategies.degrees import Degrees
from explorer.strategies.model_axes import splittable
from explorer.strategy import Strategy
from explorer.tables import DegreesColumns, Estimator
from explorer.workload import OPTIMIZERS

from .inputs import Inputs

_MOST_ACTIONS = 5000
"""Most stages times microbatches of a step, if larger microbatches make them fewer."""
_MOST_CONFIRMED = 4
"""Most simulations: on 16,384 devices one takes a fifth of a second."""
_ALIKE = 0.05
"""Shares of a device's memory that two strategies may differ in what lacks and count as alike."""
_TIED = 1.1
"""Guesses over the fastest that are simulated: guesses are that far off where links are shared."""


class _Guess(NamedTuple):
    """What the estimator says of some degrees."""

    over_bytes: float
    """Bytes that some device lacks; 0 if they fit."""
    step_s: float
    """Seconds of a step."""
    degrees: Degrees


def start_strategy(inputs: Inputs) -> Strategy:
    """Try short pipelines x data parallel first, then tensor parallelism, until one fits as it is.

    Of several that fit the one with the least of all these is taken, with its fastest microbatch size. If it
    takes a long pipeline, ZeRO or recomputation to fit, the fastest of the simplest such shape (among long
    pipelines of one length the fastest) and of the rule of thumb is taken. Where none of them fits, experts
    and ZeRO-3 are tried too (`_closest`); the board then says what would help.

    Raises:
        ExplorerError: no even strategy can be made at all.
    """
    estimator = Estimator(inputs.graph, inputs.cluster, inputs.job)
    guesses = islice(_fitting(inputs, estimator), _MOST_CONFIRMED)
    first = next(guesses, None)
    ruled = None if first is not None and _is_plain(first.degrees) else _by_rule(inputs)
    limit = ruled.outcome.step_time_s if ruled is not None else float("inf")
    for guess in chain(() if first is None else (first,), guesses):
        best = _with_microbatch(inputs, estimator, guess.degrees, limit)
        if best is not None and not best.over_bytes and best.step_s < limit:
            return _built(inputs, best.degrees)
    return ruled.strategy if ruled is not None else _built(inputs, _closest(inputs, estimator))


def _is_plain(degrees: Degrees) -> bool:
    """Tell whether a shape fits without what makes it long, slow or hard to follow."""
    return degrees.stages < _LONG and degrees.zero == 0 and degrees.recompute == "none"


def _by_rule(inputs: Inputs) -> Candidate | None:
    """Return the plan that a search would cost first, if it fits."""
    problem = Problem(graph=inputs.graph, cluster=inputs.cluster, workload=inputs.workload)
    found = first_plans(problem, Evaluator(problem=problem))
    return next((item for item in found if item is not None and item.outcome.feasible), None)


def _fitting(inputs: Inputs, estimator: Estimator) -> Iterator[_Guess]:
    """Yield the degrees that seem to fit, simplest first, long pipelines of one length by their seconds."""
    for recompute, zero in _THRIFT:
        guesses = _guessed(inputs, estimator, _choices(inputs, recompute, zero))
        place = {stages: number for number, counts in enumerate(_COUNTS) for stages in counts}
        yield from sorted(
            (guess for guess in guesses if not guess.over_bytes),
            key=lambda guess: (
                place[guess.degrees.stages],
                guess.step_s if guess.degrees.stages >= _LONG else 0,
            ),
        )


def _closest(inputs: Inputs, estimator: Estimator) -> Degrees:
    """Return the fastest of those that fit, or of those that lack hardly more memory than the least."""
    room = min(kind.memory_bytes for kind in inputs.cluster.device_kinds)
    guesses = sorted(
        _alike(_guessed(inputs, estimator, _sparest(inputs)), room), key=lambda guess: guess.step_s
    )
    tried = [_simulated(inputs, guess.degrees) for guess in guesses[:_MOST_CONFIRMED]]
    alike = _alike([guess for guess in tried if guess is not None], room)
    if not alike:
        return Degrees()
    found = min(alike, key=lambda guess: guess.step_s)
    return (_with_microbatch(inputs, estimator, found.degrees) or found).degrees


def _alike(guesses: list[_Guess], room: float) -> list[_Guess]:
    """Return those that fit, or that lack hardly more memory than the least; `room`: bytes of a device."""
    least = min((guess.over_bytes for guess in guesses), default=0.0)
    allowed = least + _ALIKE * room if least else 0.0
    return [guess for guess in guesses if guess.over_bytes <= allowed]


def _with_microbatch(
    inputs: Inputs, estimator: Estimator, degrees: Degrees, limit_s: float = float("inf")
) -> _Guess | None:
    """Return what a simulation says of the degrees with their fastest microbatch size.

    Sizes lack no memory, or hardly more than the smallest does; those of nearly the fastest guess are
    simulated. None if none can be, or none seems to take less than `limit_s`.
    """
    share = inputs.job.global_batch // degrees.replicas
    sizes = [2**k for k in range(max(1, share & -share).bit_length())]
    few = [size for size in sizes if degrees.stages * share // size <= _MOST_ACTIONS] or sizes[-1:]
    guesses = _guessed(inputs, estimator, [degrees.changed(microbatch_size=size) for size in few])
    allowed = NEAR * min((guess.over_bytes for guess in guesses), default=0.0)
    guesses = sorted(
        (guess for guess in guesses if guess.over_bytes <= allowed), key=lambda guess: guess.step_s
    )
    least = _TIED * min(limit_s, guesses[0].step_s) if guesses else 0.0
    tried = [_simulated(inputs, guess.degrees) for guess in guesses if guess.step_s <= least][
        :_MOST_CONFIRMED
    ]
    return min(
        (guess for guess in tried if guess is not None),
        key=lambda guess: (max(0.0, guess.over_bytes - allowed), guess.step_s),
        default=None,
    )


def _guessed(inputs: Inputs, estimator: Estimator, wanted: Iterable[Degrees]) -> list[_Guess]:
    """Return the estimates of those degrees that the model and the cluster allow, in their order."""
    legal = [degrees for degrees in wanted if _is_legal(inputs, degrees)]
    if not legal:
        return []
    found = estimator.of(DegreesColumns.of(legal))
    return [
        _Guess(max(0.0, float(over)), float(step_s), degrees)
        for over, step_s, degrees in zip(found.over_bytes, found.step_s, legal, strict=True)
    ]


def _is_legal(inputs: Inputs, degrees: Degrees) -> bool:
    try:
        degrees.check(inputs.graph, inputs.cluster, inputs.job)
    except ExplorerError:
        return False
    return True


def _simulated(inputs: Inputs, degrees: Degrees) -> _Guess | None:
    """Return what a simulation says of the degrees; None if there is no such strategy."""
    try:
        report = simulate(inputs.graph, inputs.cluster, inputs.workload, _built(inputs, degrees))
    except ExplorerError:
        return None
    over = max((item.over_bytes for item in report.overflows), default=0.0)
    return _Guess(over, report.step_time_s, degrees)


def _built(inputs: Inputs, degrees: Degrees) -> Strategy:
    return degrees.build(inputs.graph, inputs.cluster, inputs.job)


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
_COUNTS = ((4, 2, 8), (16,), (32,), (64,), (1,))
"""Numbers of stages, those to be tried first in front."""
_LONG = 16
"""Stages from which a pipeline is long."""


def _choices(inputs: Inputs, recompute: str, zero: int) -> Iterator[Degrees]:
    """Yield the degrees that use all devices, simplest first; long pipelines after short ones."""
    devices = len(inputs.cluster.present)
    most = len(units(inputs.graph))
    for counts in _COUNTS:
        for tensor, stages in product(_tensors(inputs), counts):
            replicas = devices // (stages * tensor)
            if stages > most or not replicas or inputs.job.global_batch % replicas:
                continue
            found = Degrees(stages=stages, replicas=replicas, tensor=tensor, recompute=recompute, zero=zero)
            if _states_fit(inputs, found):
                yield found


def _tensors(inputs: Inputs) -> list[int]:
    """Return the sensible tensor degrees: inside a node."""
    devices = len(inputs.cluster.present)
    node = min(group.devices_per_node for group in inputs.cluster.nodes)
    return [t for t in (1, 2, 4, 8) if t <= node and devices % t == 0]


def _states_fit(inputs: Inputs, degrees: Degrees) -> bool:
    """Tell whether weights, gradients and optimizer could fit if spread evenly, which spares most
    estimates.
    """
    width, kept = scalar_bytes(inputs.job.precision), OPTIMIZERS[inputs.job.optimizer].states
    state = 4.0 * (kept + inputs.job.master_copy) if inputs.job.training else 0.0
    each = width * (2 if inputs.job.training else 1)
    each += state / degrees.replicas if degrees.zero else state
    room = max(kind.memory_bytes for kind in inputs.cluster.device_kinds)
    return inputs.graph.parameter_count * each / (degrees.stages * degrees.tensor) < room
