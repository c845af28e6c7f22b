"""Scaling: turns a plan for many devices into one that runs here, with a record of what was kept.

It keeps what a real run can show: schedule, order and weight versions, how stages are chained and cut in
time, how replicas divide work. It drops what `run.cases.left_out` lists. Consecutive stages whose devices
coincide are merged; replicas are dropped from the end.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.pricing import Pricer
from explorer.run.cases.left_out import left_out
from explorer.run.model import BLOCK, CONV, EMBED, HEAD, MLP, ModelSpec, Unit, model_graph
from explorer.run.own.own_model import OwnModel
from explorer.run.sharded.layout_model import LayoutModel
from explorer.schedules import SCHEDULES
from explorer.strategy import JobStrategy, Mesh, Stage, UpdateChoice
from explorer.tasks.placement import place
from explorer.updates import chosen, rule_of
from explorer.workload import Job

MAX_MICROBATCHES = 8
MOST_PERIOD = 2
"""Most updates from one exchange of an update rule to the next: a run has few steps."""
UNITS_PER_STAGE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSize:
    """Size of the runnable model."""

    d_model: int = 256
    """Width."""
    heads: int = 4
    """Attention heads."""
    seq: int = 64
    """Tokens."""
    vocab: int = 512
    """Distinct tokens."""
    samples: int = 2
    """Samples of a microbatch per replica."""
    step_s: float = 1.6
    """Wanted seconds of one step in one process."""
    flops_per_s: float = 3e10
    """FLOP/s that a core is assumed to reach, to size the model."""


SMALL = UnitSize(d_model=16, heads=2, seq=4, vocab=16, samples=1, step_s=1e-4)
"""Size for tests of correctness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A plan's likeness that runs on a few ranks."""

    model: ModelSpec | OwnModel | LayoutModel
    """The model to compute."""
    graph: LayerGraph
    """Graph of the model, not calibrated."""
    job: Job
    """Job of the run."""
    strategy: JobStrategy
    """Strategy of the run."""
    ranks: int
    """Number of processes it needs."""
    validated: tuple[str, ...]
    """What was kept, in words."""
    not_validated: tuple[str, ...]
    """What was not kept, in words."""
    groups: tuple[tuple[int, ...], ...] = ()
    """Per stage here: the stages of the plan for which it stands."""
    eager: LayerGraph | None = None
    """Of own layers: `graph` with the work of eager operators, by which a profile prices it."""


class _Record:
    """Record, in words, of what was kept."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.lost: list[str] = []

    def count(self, what: str, before: int, after: int) -> None:
        """Record something that is counted."""
        if before == after:
            self.kept.append(f"{what}: {before}")
        else:
            self.lost.append(f"{what}: {before} in the plan, {after} here")


def scale(
    graph: LayerGraph,
    cluster: Cluster,
    job: Job,
    strategy: JobStrategy,
    *,
    ranks: int,
    size: UnitSize = UnitSize(),
) -> Scaled:
    """Make a plan's likeness for at most `ranks` processes.

    Raises:
        InputError: a strategy whose shape cannot be brought down to so few ranks.
    """
    record = _Record()
    record.kept.append(f"schedule {strategy.schedule}, its order, and the weight versions it reads")
    seconds = _stage_seconds(graph, cluster, job, strategy)
    edges = _stage_edges(graph, strategy)
    meshes, used = _meshes(strategy, ranks, record)
    groups = _merged(meshes, edges, strategy)
    if len(groups) > 1 or len(strategy.stages) > 1:
        record.count("stages", len(strategy.stages), len(groups))
    microbatches = _microbatches(job, strategy, record)
    stages, batch = _batches(strategy, groups, meshes, microbatches, size, record)
    shares = [sum(seconds[s] for s in group) for group in groups]
    target = size.step_s * size.flops_per_s / (3 * batch)
    model = _model(graph, strategy, groups, _group_edges(groups, edges), shares, target, size)
    units = _units_of(model, len(groups))
    made = tuple(
        replace(stage, layers=tuple(model.units[u].name for u in units[i])) for i, stage in enumerate(stages)
    )
    if len(groups) > 1:
        record.kept.append("ratio of the stages' times")
    record.lost.append(f"the layers themselves: {len(model.units)} small ones stand for {len(graph.layers)}")
    carried = _zero_carried(stages, record)
    record.lost += [
        text for text in left_out(graph, cluster, job, strategy, carried=carried) if text not in record.lost
    ]
    several = any(len(copy) > 1 for mesh in meshes for copy in mesh)
    updates = _updates(graph, strategy, record, several=several)
    precision = "fp32"
    scaled_job = replace(job, global_batch=batch, precision=precision, gradient_precision="", framework="")
    return Scaled(
        model=model,
        graph=model_graph(model),
        job=scaled_job,
        strategy=replace(
            strategy, stages=made, updates=updates, sync=(), boundaries=(), checkpoint_period_s=0.0
        ),
        ranks=used,
        validated=tuple(record.kept),
        not_validated=tuple(record.lost),
        groups=tuple(map(tuple, groups)),
    )


def _zero_carried(stages: list[Stage], record: _Record) -> tuple[str, ...]:
    """Return the fields of ZeRO if replicas here share weights as the plan's do."""
    levels = sorted({stage.zero for stage in stages} - {0})
    for level in levels:
        parts = sorted({stage.zero_replicas for stage in stages if stage.zero == level} - {0})
        groups = f" over groups of {', '.join(map(str, parts))} replicas" if parts else ""
        record.kept.append(f"ZeRO level {level}{groups}")
    return ("Stage.zero",) if levels else ()


def _sharded_over(first: Stage, replicas: int) -> tuple[int, int]:
    """Return the ZeRO level and group of a stage of so many replicas here."""
    if not first.zero or replicas < 2:
        return 0, 0
    together = math.gcd(first.zero_replicas, replicas) if first.zero_replicas else 0
    return first.zero, together if together > 1 else 0


def _updates(
    graph: LayerGraph, strategy: JobStrategy, record: _Record, *, several: bool
) -> tuple[UpdateChoice, ...]:
    """Return the update rule of most of the weights, for all of them, with a period short enough to run.

    `several`: whether there are replicas here to exchange with.
    """
    weights: dict[UpdateChoice | None, float] = defaultdict(float)
    for parameter in graph.parameters:
        weights[strategy.update_of(parameter.name)] += parameter.elements
    if len(weights) > 1:
        record.lost.append(
            f"update rules by parameter: {len(weights)} in the plan, that of most weights here"
        )
    choice = max(weights, key=weights.__getitem__, default=None)
    if choice is None:
        return ()
    if not several:
        record.lost.append(f"update rule {choice.rule}: no replicas here")
        return ()
    record.kept.append(f"update rule {choice.rule}")
    options = dict(chosen(choice.rule, choice.options).options)
    if rule_of(chosen(choice.rule, choice.options)).period > MOST_PERIOD:
        record.count("updates between exchanges", options["period"], MOST_PERIOD)
        options["period"] = MOST_PERIOD
    return (UpdateChoice(rule=choice.rule, options=tuple(options.items())),)


def _stage_seconds(graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy) -> list[float]:
    """Return the predicted seconds of forward and backward of one microbatch on one lane of each stage."""
    placement = place(graph, strategy, training=job.training)
    pricer = Pricer(graph, cluster, job, strategy, placement)
    found = [0.0] * len(strategy.stages)
    for i, section in enumerate(placement.skeleton.sections):
        time = pricer.section_time(i, section.rows[0][0][0], max(1, section.samples(0)))
        found[section.stage] += time.forward_s + time.input_grad_s + time.weight_grad_s
    return found


def _stage_edges(graph: LayerGraph, strategy: JobStrategy) -> set[tuple[int, int]]:
    """Return the edges of the stage DAG."""
    stages_of: dict[str, list[int]] = defaultdict(list)
    for s, stage in enumerate(strategy.stages):
        for name in stage.all_layers:
            stages_of[name].append(s)
    return {
        (a, b)
        for source, target in graph.digraph.edges
        for a in stages_of[source]
        for b in stages_of[target]
        if a < b or (a > b and len(stages_of[source]) == len(stages_of[target]) == 1)
    }


def _meshes(
    strategy: JobStrategy, ranks: int, record: _Record
) -> tuple[list[tuple[tuple[int, ...], ...]], int]:
    """Return per stage and copy the ranks of its replicas, and how many ranks there are."""
    rows = [[[row[0] for row in mesh.rows] for mesh in stage.meshes] for stage in strategy.stages]
    most = max(len(copy) for stage in rows for copy in stage)
    keep = most
    while keep > 1 and len({d for stage in rows for copy in stage for d in copy[:keep]}) > ranks:
        keep -= 1
    rows = [[copy[:keep] for copy in stage] for stage in rows]
    if most > 1:
        record.count("replicas", most, keep)
    copies = range(max(map(len, rows)))  # copy by copy: along the first, neighbours come together
    devices = list(dict.fromkeys(d for copy in copies for stage in rows for d in stage[copy]))
    used = min(ranks, len(devices))
    rank_of = {device: i * used // len(devices) for i, device in enumerate(devices)}
    if len(devices) > 1 or used > 1:
        record.count("pipeline devices" if keep == 1 else "devices", len(strategy.devices), used)
    return [tuple(tuple(dict.fromkeys(rank_of[d] for d in copy)) for copy in stage) for stage in rows], used


def _merged(
    meshes: list[tuple[tuple[int, ...], ...]], edges: set[tuple[int, int]], strategy: JobStrategy
) -> list[list[int]]:
    """Group stages that follow each other on the same ranks; all others stay alone.

    If the schedule needs its own placement, stages of one device (where a wave turns) stay separate.
    """
    steps = {(s, s + 1) for s in range(len(meshes) - 1)}
    # parts of a cut layer go past stages that hold others of them
    chain = edges >= steps if any(stage.slices for stage in strategy.stages) else edges == steps
    placed = SCHEDULES.get(strategy.schedule).with_options(dict(strategy.options)).needs.placed
    groups: list[list[int]] = []
    for s, mesh in enumerate(meshes):
        same = groups and meshes[groups[-1][-1]] == mesh
        alike = groups and _cut(strategy.stages[groups[-1][-1]]) == _cut(strategy.stages[s])
        turn = placed and s and strategy.stages[s].meshes == strategy.stages[s - 1].meshes
        if chain and same and alike and not turn:
            groups[-1].append(s)
        else:
            groups.append([s])
    return groups


def _cut(stage: Stage) -> tuple[object, ...]:
    return stage.microbatch_samples, stage.replicas, stage.shares


def _group_edges(groups: list[list[int]], edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    group_of = {s: g for g, group in enumerate(groups) for s in group}
    return {(group_of[a], group_of[b]) for a, b in edges if group_of[a] != group_of[b]}


def _microbatches(job: Job, strategy: JobStrategy, record: _Record) -> int:
    """Return the number of microbatches of the largest size in one step here."""
    size = max(stage.microbatch_samples for stage in strategy.stages)
    before = job.global_batch // size
    rings = [stage.meshes[0].replicas for stage in strategy.stages if stage.replicas == "round_robin"]
    after = min(before, max([MAX_MICROBATCHES, len(strategy.stages) + 1, *rings]))
    for ring in rings:
        after = max(ring, after - after % ring)
    record.count("microbatches per step", before, after)
    return after


def _batches(
    strategy: JobStrategy,
    groups: list[list[int]],
    meshes: list[tuple[tuple[int, ...], ...]],
    microbatches: int,
    size: UnitSize,
    record: _Record,
) -> tuple[list[Stage], int]:
    """Make stages without layers yet, with small microbatches in the plan's proportions, and the batch."""
    sizes = [strategy.stages[group[0]].microbatch_samples for group in groups]
    smallest = min(sizes)
    if any(value % smallest for value in sizes):
        raise InputError(
            "microbatch sizes that are not multiples of each other cannot be run yet",
            key="microbatch_samples", found=sizes, allowed="multiples of the smallest",
        )  # fmt: skip
    splits = [len(meshes[group[0]][0]) for group in groups if strategy.stages[group[0]].replicas == "split"]
    unit = size.samples * int(np.lcm.reduce(splits or [1]))
    stages = []
    for group, value in zip(groups, sizes, strict=True):
        first = strategy.stages[group[0]]
        ranks = meshes[group[0]]
        same = len(ranks[0]) == first.meshes[0].replicas
        shares = first.shares if same else ()
        level, together = _sharded_over(first, sum(map(len, ranks)))
        if first.shares and not same:
            record.lost.append("uneven shares of replicas")
        stages.append(
            Stage(
                layers=("?",),
                meshes=tuple(Mesh(devices=copy) for copy in ranks),
                microbatch_samples=unit * (value // smallest),
                replicas=first.replicas,
                shares=shares,
                recompute="full" if first.recompute == "full" else "none",
                zero=level,
                zero_replicas=together,
            )
        )
    record.lost = list(dict.fromkeys(record.lost))
    return stages, unit * (max(sizes) // smallest) * microbatches


def _model(
    graph: LayerGraph,
    strategy: JobStrategy,
    groups: list[list[int]],
    edges: set[tuple[int, int]],
    shares: list[float],
    target_flops: float,
    size: UnitSize,
) -> ModelSpec:
    """Make units whose FLOPs stand in the ratio of the stages' times."""
    units = [Unit(name="embed", kind=EMBED)]
    last: dict[int, int] = {}
    total = sum(shares) or float(len(shares))
    for g, group in enumerate(groups):
        share = shares[g] / total if sum(shares) else 1 / len(shares)
        sources = sorted(last[a] for a, b in edges if b == g) or [0]
        kind = _kind(graph, strategy, group)
        flops = share * target_flops / UNITS_PER_STAGE
        for i in range(UNITS_PER_STAGE):
            own, ffn = _width(kind, flops, size)
            reads = tuple(sources) if i == 0 else (len(units) - 1,)
            units.append(Unit(name=f"stage{g}.{i}", kind=own, ffn=ffn, reads=reads))
        last[g] = len(units) - 1
    sinks = sorted(last[g] for g in last if not any(a == g for a, _ in edges))
    units.append(Unit(name="head", kind=HEAD, reads=tuple(sinks)))
    return ModelSpec(
        units=tuple(units), d_model=size.d_model, heads=size.heads, seq=size.seq, vocab=size.vocab
    )


def _kind(graph: LayerGraph, strategy: JobStrategy, group: list[int]) -> str:
    """Return the kind of unit most similar to the layers of some stages."""
    kinds = {graph.layer[name].kind for s in group for name in strategy.stages[s].all_layers}
    if kinds & {"attention", "scores", "experts"}:
        return BLOCK
    return CONV if "conv" in kinds else MLP


def _width(kind: str, flops: float, size: UnitSize) -> tuple[str, int]:
    """Return the (kind, hidden width) of about so many FLOPs a sample; an MLP if too few for a block."""
    d, s = size.d_model, size.seq
    attention = 8.0 * s * d * d + 4.0 * s * s * d
    if kind == BLOCK and flops > 1.25 * attention:
        return BLOCK, max(1, round((flops - attention) / (4.0 * s * d)))
    per_width = 8.0 * s * d if kind == CONV else 4.0 * s * d
    return (CONV if kind == CONV else MLP), max(1, round(flops / per_width))


def _units_of(model: ModelSpec, groups: int) -> list[list[int]]:
    """List the units of each stage: the embedding with the first, the head with the last."""
    found: list[list[int]] = [[] for _ in range(groups)]
    for i, unit in enumerate(model.units):
        if unit.kind == EMBED:
            found[0].append(i)
        elif unit.kind == HEAD:
            found[-1].append(i)
        else:
            found[int(unit.name.removeprefix("stage").partition(".")[0])].append(i)
    return found
