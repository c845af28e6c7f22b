"""Cases made from strategies: placed, ordered, lowered and priced as `simulate` does it, without folding
replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from explorer.actions import Order
from explorer.base.errors import PlanError
from explorer.cluster import Cluster
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.passes.static import run_static
from explorer.passes.timing import Timing
from explorer.pricing import Pricer, Prices, price
from explorer.reads import optimizer_problem
from explorer.run.cases.slices import is_cut, sliced_units
from explorer.run.cases.weight_reads import require_blocks, require_computable
from explorer.run.model import ModelSpec
from explorer.run.own.own_model import OwnModel
from explorer.run.sharded.layout_model import LayoutModel
from explorer.run.spec import DRY, REAL, RunCase
from explorer.schedules import SCHEDULES, make_order
from explorer.schedules._torch_notation import unsupported
from explorer.simulation.check import check_job
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.one_job import make_shape
from explorer.strategies.framework_choices import strategy_under
from explorer.strategies.keeping import full_blocks
from explorer.strategy import ACTIVATIONS, JobStrategy
from explorer.tasks.lower import lower
from explorer.tasks.placement import PlacedStrategy, place
from explorer.tasks.program import GATHER, REDUCE, TRANSFER, Program, U
from explorer.tasks.rounds import round_steps
from explorer.updates import PLAIN
from explorer.workload import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A strategy ready to run: its case and the predictions for the very same program."""

    case: RunCase
    """The case to launch."""
    program: Program
    """Its lowered program."""
    placement: PlacedStrategy
    """Layers by section."""
    prices: Prices
    """Seconds by slot."""
    timing: Timing
    """Predicted times of all tasks."""
    job: Job
    """The workload's job."""
    strategy: JobStrategy
    """The strategy it was made from."""
    after_s: tuple[float, ...] = ()
    """By task the seconds, within its own, that its lane spends after it on exchanges; () for none."""

    def parameters_of(self, section: int, graph: LayerGraph) -> list[str]:
        """Return the parameters that the layers of a section use, once for each use.

        Args:
            section: number of the section.
            graph: the layers that its placement counts.
        """
        layers = (graph.layers[i] for i in self.placement.layers[section].tolist())
        return [use.name for layer in layers for use in layer.parameters]


def prepare(
    name: str,
    graph: LayerGraph,
    cluster: Cluster,
    job: Job,
    strategy: JobStrategy,
    *,
    steps: int,
    model: ModelSpec | OwnModel | LayoutModel | None = None,
    scale: float = 1.0,
    order: Order | None = None,
    **fields: Any,
) -> Prepared:
    """Lower and price a strategy as a case.

    Args:
        name: name of the case.
        graph: the model; for a real case the graph of `model`.
        cluster: the devices, which price it.
        job: the workload's job.
        strategy: the strategy to run.
        steps: steps in the program.
        model: the model to compute; None makes a dry case.
        scale: factor on predicted seconds (dry cases).
        order: that of a run that is judged, since some schedules make another for other seconds; None to
            make it.
        fields: further fields of `RunCase`.

    Raises:
        PlanError: everything wrong with the strategy.
        InputError: a model whose numbers no rank can compute under this strategy.
    """
    strategy = strategy_under(strategy, load_framework(job.framework), graph, job)
    if problems := check_job(graph, cluster, job, strategy):
        raise PlanError(problems)
    placement = place(graph, strategy, training=job.training)
    pricer = Pricer(graph, cluster, job, strategy, placement)
    reads = SCHEDULES.get(strategy.schedule).with_options(dict(strategy.options)).reads
    shape = make_shape(placement, UNFOLDED, job, pricer if reads else None)
    order = order or make_order(strategy.schedule, shape, steps=steps, options=dict(strategy.options))
    if problem := optimizer_problem(order.read_rule, job.optimizer):
        raise PlanError([problem])
    program = lower(placement.skeleton, shape, order)
    if model is not None:
        require_computable(program)
    prices = price(program, pricer)
    seconds = prices.seconds * scale
    sections, flow_units = _plain_units(graph, placement, model) if model else ((), ())
    if model is not None and is_cut(strategy):
        model, sections, flow_units = sliced_units(model, graph, strategy, placement, order)
    case = RunCase(
        name=name,
        skeleton=placement.skeleton,
        shape=replace(shape, host_s=()),  # infinite where nothing moves to the host, which no file holds
        order=order,
        kind=REAL if model else DRY,
        seconds=tuple(seconds.tolist()),
        model=model,
        sections=sections,
        flow_units=flow_units,
        optimizer=job.optimizer if model else "sgd",
        hosted=_hosted(placement, strategy) if model else (),
        again=_again(graph, placement, strategy, sections) if isinstance(model, OwnModel) else (),
        **fields,
    )
    if any(case.again):
        require_blocks(case, program)
    return Prepared(
        case=case, program=program, placement=placement, prices=prices,
        timing=run_static(program, seconds), job=job, strategy=strategy,
    )  # fmt: skip


def _hosted(placement: PlacedStrategy, strategy: JobStrategy) -> tuple[int, ...]:
    """Return the sections whose activations are offloaded."""
    sections = enumerate(placement.skeleton.sections)
    return tuple(i for i, section in sections if ACTIVATIONS in strategy.stages[section.stage].offload)


def _again(
    graph: LayerGraph,
    placement: PlacedStrategy,
    strategy: JobStrategy,
    sections: Sequence[Sequence[int]],
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return, per section, the units of the blocks that it makes again one by one; () if none does."""
    found = []
    for section, layers, units in zip(placement.skeleton.sections, placement.layers, sections, strict=True):
        stage, unit_of = strategy.stages[section.stage], dict(zip(layers.tolist(), units, strict=True))
        blocks = full_blocks(graph, stage) if stage.keeping and not section.full_recompute else ()
        numbers = (tuple(graph.index[name] for name in names) for names in blocks)
        found.append(tuple(tuple(unit_of[i] for i in own) for own in numbers if unit_of.keys() >= set(own)))
    return tuple(found) if any(found) else ()


def _plain_units(
    graph: LayerGraph, placement: PlacedStrategy, model: ModelSpec | OwnModel | LayoutModel
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """Return, per section, its units, and per flow the keys of what it carries."""
    index, producer = graph.index, graph.producer
    found = []
    for tensors in placement.flow_tensors:
        names = [graph.tensors[t].name for t, _ in tensors]
        found.append(model.keys_of(names, {index[producer[name]] for name in names}))
    return tuple(tuple(layers.tolist()) for layers in placement.layers), tuple(found)


def step_times(program: Program, ends_s: dict[int, float], *, skip: int = 0) -> list[float]:
    """Return the seconds of a step between equal points of rounds of steps, the longest over lanes, by round.

    A round is one step, or as many as lie between two exchanges of an update rule. Without flushes a step of
    a lane ends with its last forward or backward, since updates may stand among the actions of later steps.

    Args:
        program: the tasks.
        ends_s: end of every compute task.
        skip: gaps at the end that are drain (asynchronous schedules).
    """
    lanes = [tasks.tolist() for tasks in program.programs]
    last: list[dict[int, float]] = [{} for _ in lanes]
    for found, tasks in zip(last, lanes, strict=True):
        for task in tasks:
            step = int(program.step[task])
            if program.order.flush or program.kind[task] != U:
                found[step] = max(found.get(step, 0.0), ends_s[task])
    rounds = round_steps(program)
    ends = range(rounds - 1, program.order.steps - skip, rounds)
    gaps = [
        max(found[b] - found[a] for found in last if a in found and b in found) / rounds
        for a, b in pairwise(ends)
    ]
    return gaps or [max(max(found.values()) for found in last if found)]


def parts_of(
    program: Program, stamps: dict[int, tuple[float, float, float]], seconds_until: dict[int, float]
) -> dict[str, float]:
    """Sum, from stamps of all compute tasks, mean seconds per rank and step of compute, bubble and
    communication.

    A wait is bubble until the last producer (or reducing rank) was done, and communication from then on.

    Args:
        program: the tasks.
        stamps: per compute task, when its rank was free for it, its start and its end.
        seconds_until: per transfer and reduction, when it could begin.
    """
    total = {"compute": 0.0, "bubble": 0.0, "communication": 0.0}
    for task, bubble, communication in waits_of(program, stamps, seconds_until):
        _, start, end = stamps[task]
        total["compute"] += end - start
        total["bubble"] += bubble
        total["communication"] += communication
    share = max(1, len(program.programs)) * program.order.steps
    return {name: value / share for name, value in total.items()}


def waits_of(
    program: Program, stamps: Mapping[int, tuple[float, float, float]], seconds_until: Mapping[int, float]
) -> Iterator[tuple[int, float, float]]:
    """Yield every compute task with the seconds of bubble and of communication that it waited for.

    Arguments are those of `parts_of`.
    """
    for tasks in program.programs:
        for task in tasks.tolist():
            free, start, _ = stamps[task]
            ready = max((seconds_until[i] for i in _messages(program, task)), default=free)
            waited = max(0.0, start - free)
            bubble = min(max(0.0, ready - free), waited)
            yield task, bubble, waited - bubble


def _messages(program: Program, task: int) -> list[int]:
    """List the transfers and collectives that a task waits for, looking through joins."""
    found: list[int] = []
    stack = [int(program.first[task]), int(program.second[task])]
    while stack:
        item = stack.pop()
        if item and program.kind[item - 1] in (TRANSFER, REDUCE, GATHER):
            found.append(item - 1)
        elif item and program.slot[item - 1] == 0:
            stack += [int(program.first[item - 1]), int(program.second[item - 1])]
    return found


def begins(program: Program, ends_s: dict[int, float]) -> dict[int, float]:
    """Return, per transfer and collective, when the last compute task before it ended."""
    found: dict[int, float] = {}
    for task in np.flatnonzero(np.isin(program.kind, (TRANSFER, REDUCE, GATHER))).tolist():
        stack, latest = [int(program.first[task]), int(program.second[task])], 0.0
        while stack:
            item = stack.pop()
            if not item:
                continue
            if item - 1 in ends_s:
                latest = max(latest, ends_s[item - 1])
            elif program.slot[item - 1] == 0:
                stack += [int(program.first[item - 1]), int(program.second[item - 1])]
        found[task] = latest
    return found


def unsupported_by_torch(case: RunCase) -> list[str]:
    """List why torch's own machinery (see `run.ranks.engines`) cannot run a case; [] if it can."""
    if not isinstance(case.model, ModelSpec) or any(unit.tied for unit in case.model.units):
        return ["tied weights" if isinstance(case.model, ModelSpec) else "a model's own layers"]
    rules = {group.update.rule for group in case.skeleton.holders} - {PLAIN.rule}
    if rules or case.is_sharded:
        return [f"the update rule {', '.join(sorted(rules))}" if rules else "weights sharded over ranks"]
    sections = case.skeleton.sections
    if case.again or any(section.full_recompute for section in sections):
        return ["full recomputation"]
    if len(sections) == 1:
        even = len({b - a for a, b in pairwise(sections[0].offsets)}) == 1
        plain = even and not sections[0].round_robin and case.order.flush
        return [] if plain else ["uneven or turn-taking replicas, or steps that are not flushed"]
    if any(section.replicas > 1 for section in sections):
        return ["a pipeline with replicas"]
    return unsupported(case.order, case.shape)
