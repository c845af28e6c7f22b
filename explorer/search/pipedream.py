"""PipeDream's planner: the best pipeline of replicated stages, by dynamic programming.

With ``cost_model=original`` it is the published optimizer with its own costs, which needs no cluster; its
value is seconds per minibatch in steady state. With ``cost_model=ours`` the same plans, for the whole
cluster and for fewer devices, are judged by the simulator, run without flushes (PipeDream) and with (1F1B).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from explorer.cluster import Cluster
from explorer.errors import InputError
from explorer.graph import LayerGraph
from explorer.registry import Option
from explorer.search import SEARCHERS
from explorer.search._antichains import States, find_states
from explorer.search._planning import Choice, Cut, PlanLevel, Planned, dense_size, plan_dense
from explorer.search._profiled import Profiled, profiled
from explorer.search._threshold import plan_threshold
from explorer.search.exhaustive import divisors
from explorer.search.problem import Candidate, Evaluator, Problem
from explorer.strategy import ROUND_ROBIN, SPLIT, Mesh, Stage, Strategy, single

ORIGINAL, OURS, COUNTED, FREE = "original", "ours", "counted", "free"
BOUND = "its own cost model"
DENSE_LIMIT = 30_000_000
"""Numbers in the tables of one plan (240 MB); a larger one-level plan is found by bisection."""


@SEARCHERS.add(
    "pipedream",
    title="PipeDream's optimizer: dynamic program over cuts and replication, level by level",
    paper="Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, SOSP'19",
    options=(
        Option(name="cost_model", default=OURS, help="its own, or our simulator", choices=(ORIGINAL, OURS)),
        Option(
            name="devices", default="", help="machines per level, innermost first (4,2); empty: the cluster's"
        ),
        Option(
            name="bandwidth_bytes_per_s", default="", help="per level, innermost first; empty: the cluster's"
        ),
        Option(
            name="transfers", default=COUNTED, help="whether transfers take time", choices=(COUNTED, FREE)
        ),
        Option(name="straight", default=False, help="one machine per stage"),
        Option(
            name="branches",
            default="keep",
            help="compress: each branch between fork and join becomes one layer",
            choices=("keep", "compress"),
        ),
        Option(name="microbatch_size", default=1, help="samples of one minibatch, where no profile says it"),
    ),
    optimal=True,
    foreign=True,
)
def pipedream(
    problem: Problem,
    evaluator: Evaluator,
    *,
    cost_model: str,
    devices: str,
    bandwidth_bytes_per_s: str,
    transfers: str,
    straight: bool,
    branches: str,
    microbatch_size: int,
) -> Iterator[Candidate | None]:
    """Optimal plan under the published costs; with a cluster also judged by the simulator.

    Raises:
        InputError: counts or bandwidths that are no positive numbers, no cluster and none given, or more cut
            positions than the method can hold.
    """
    levels = _levels(problem, devices, bandwidth_bytes_per_s)
    if microbatch_size < 1:
        raise InputError(
            f"microbatch_size is {microbatch_size}",
            key="microbatch_size",
            found=microbatch_size,
            allowed=">= 1",
        )
    model = profiled(
        problem.graph,
        precision=problem.workload.job.precision,
        cluster=problem.cluster,
        samples=microbatch_size,
        compress=branches == "compress",
    )
    choice = Choice(counted=transfers == COUNTED, straight=straight)
    states: States | None = None
    for item in find_states(model.costs):
        states = item
        yield None
    if states is None:
        return
    if cost_model == ORIGINAL:
        yield from _original(problem, evaluator, _Task(model, states, levels, choice))
    elif problem.cluster is None:
        raise InputError(
            "the cost model 'ours' simulates on a cluster",
            key="cluster",
            allowed="--cluster NAME, or --option cost_model=original",
        )
    else:
        yield from _ours(problem, evaluator, _Task(model, states, levels, choice))


@dataclass(frozen=True, slots=True)
class _Task:
    """One planning problem of the published optimizer."""

    model: Profiled
    states: States
    levels: tuple[PlanLevel, ...]
    choice: Choice

    @property
    def devices(self) -> int:
        return math.prod(level.machines for level in self.levels)


# ---- options ------------------------------------------------------------------------------------


def _levels(problem: Problem, devices: str, bandwidths: str) -> tuple[PlanLevel, ...]:
    counts = _numbers("devices", devices)
    rates = _numbers("bandwidth_bytes_per_s", bandwidths)
    if any(count != int(count) for count in counts):
        raise InputError(
            f"devices is {devices!r}", key="devices", found=devices, allowed="whole numbers, as 4,2"
        )
    if not counts or not rates:
        if problem.cluster is None:
            missing = "bandwidth_bytes_per_s" if counts else "devices"
            raise InputError(
                f"neither a cluster nor {missing} is given",
                key=missing,
                allowed=f"--cluster NAME, or --option {missing}=... (innermost level first)",
            )
        counts = counts or _cluster_counts(problem.cluster, problem.device_count)
        rates = rates or _cluster_rates(problem.cluster, len(counts))
    if len(counts) != len(rates):
        raise InputError(
            f"{len(counts)} levels of devices but {len(rates)} of bandwidth",
            key="bandwidth_bytes_per_s",
            found=bandwidths or len(rates),
            allowed=f"{len(counts)} numbers, innermost level first",
        )
    return tuple(
        PlanLevel(machines=int(count), bandwidth_bytes_per_s=rate)
        for count, rate in zip(counts, rates, strict=True)
    )


def _numbers(key: str, text: str) -> list[float]:
    found = []
    for part in text.split(",") if text.strip() else []:
        try:
            value = float(part)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            allowed = "numbers above 0, innermost level first, as 4,2"
            raise InputError(f"{key} is {text!r}", key=key, found=text, allowed=allowed)
        found.append(value)
    return found


def _cluster_counts(cluster: Cluster, devices: int) -> list[float]:
    """Devices of a node, and nodes; one level where they do not fill whole nodes."""
    node = min(group.devices_per_node for group in cluster.nodes)
    if devices <= node or devices % node or cluster.links:
        return [devices]
    return [node, devices // node] if node > 1 else [devices]


def _cluster_rates(cluster: Cluster, levels: int) -> list[float]:
    """Bandwidth between neighbours, and from the first device to the last one."""
    last = cluster.device_count - 1
    if not last:
        return [1.0] * levels  # a single device sends nothing
    near = cluster.path(0, 1).bandwidth_bytes_per_s
    far = cluster.path(0, last).bandwidth_bytes_per_s
    return [near, *[far] * (levels - 1)] if levels > 1 else [min(near, far)]


# ---- the two cost models ------------------------------------------------------------------------


def _plan(task: _Task) -> Iterator[Planned | None]:
    if dense_size(task.states, task.levels) <= DENSE_LIMIT:
        return plan_dense(task.states, task.levels, task.choice)
    if len(task.levels) == 1:
        return plan_threshold(task.states, task.levels[0], task.choice)
    raise InputError(
        f"the model has {task.states.count:,} cut positions, too many for {len(task.levels)} levels",
        key="devices",
        found=",".join(str(level.machines) for level in task.levels),
        allowed="one level, or --option branches=compress",
    )


def _original(problem: Problem, evaluator: Evaluator, task: _Task) -> Iterator[Candidate | None]:
    best: Planned | None = None
    for item in _plan(task):
        best = item
        yield None
    if best is None or not math.isfinite(best.seconds):
        raise InputError(
            f"{task.devices} stages with one machine each do not fit {task.states.count} cut positions",
            key="devices",
            found=task.devices,
            allowed=f"<= {task.states.count}, or straight=false",
        )
    evaluator.foreign_value, evaluator.lower_bound = best.seconds, best.seconds
    evaluator.bound, evaluator.optimal = BOUND, True
    evaluator.details.update(_details(task, best))
    yield None
    if problem.cluster is not None and task.devices <= problem.device_count:
        for strategy, label in _strategies(problem, task, best):
            yield evaluator.evaluate(strategy, label)


def _ours(problem: Problem, evaluator: Evaluator, task: _Task) -> Iterator[Candidate | None]:
    if task.devices > problem.device_count:
        raise InputError(
            f"{task.devices} devices; {problem.device_count} may be used",
            key="devices",
            found=task.devices,
            allowed=f"a product <= {problem.device_count}",
        )
    seen: set[Strategy] = set()
    for smaller in _fewer(task):
        best: Planned | None = None
        for item in _plan(smaller):
            best = item
            yield None
        if best is None or not math.isfinite(best.seconds):
            continue
        for strategy, label in _strategies(problem, smaller, best):
            if strategy not in seen:
                seen.add(strategy)
                yield evaluator.evaluate(strategy, label)


def _fewer(task: _Task) -> Iterator[_Task]:
    """The task, the same with one machine per stage, and both with fewer and fewer machines outermost."""
    levels = task.levels
    while True:
        for straight in (task.choice.straight, True):
            yield replace(task, levels=levels, choice=replace(task.choice, straight=straight))
        outer = levels[-1]
        if outer.machines > 1:
            levels = (*levels[:-1], replace(outer, machines=outer.machines // 2))
        elif len(levels) > 1:
            levels = levels[:-1]
        else:
            return


def _details(task: _Task, plan: Planned) -> dict[str, object]:
    """What the published optimizer prints: stages, and speed-ups over one machine and data parallelism."""
    alone = float(task.states.seconds[-1])
    together = data_parallel_s(alone, float(task.states.parameter_bytes[-1]), task.levels)
    return {
        "states": task.states.count,
        "single_worker_time_s": alone,
        "pipeline_time_s": plan.seconds,
        "speedup_vs_1": alone / plan.seconds if plan.seconds else None,
        "dp_speedup_vs_1": alone / together if together else None,
        "speedup_vs_dp": together / plan.seconds if plan.seconds else None,
        "stages": [_stage_details(task, cut) for cut in plan.cuts],
    }


def _stage_details(task: _Task, cut: Cut) -> dict[str, object]:
    names = _names(task, cut)
    found: dict[str, object] = {
        "state_start": cut.before + 1,
        "state_end": cut.last + 1,
        "machines": cut.machines,
        "layers": [name for members in task.model.members for name in members if name in names],
    }
    if cut.inner:
        found["inner"] = [_stage_details(task, item) for item in cut.inner]
    return found


def _names(task: _Task, cut: Cut) -> set[str]:
    return task.model.names(task.states.layers(cut.last) & ~task.states.layers(cut.before))


def data_parallel_s(seconds: float, parameter_bytes: float, levels: Sequence[PlanLevel]) -> float:
    """Its estimate of plain data parallelism over all machines, in seconds per minibatch."""
    inside = 1
    for level in levels:
        m = level.machines
        reduce_s = 4 * (m - 1) * parameter_bytes / (level.bandwidth_bytes_per_s * m) / inside
        seconds, inside = (seconds + reduce_s) / m, m
    return seconds


# ---- plans as strategies ------------------------------------------------------------------------


def _strategies(problem: Problem, task: _Task, plan: Planned) -> Iterator[tuple[Strategy, str]]:
    """The plan with flushes and split microbatches, and as PipeDream runs it: replicas take turns."""
    placed = _placed(plan.cuts, [tuple(range(task.devices))], task.devices // task.levels[-1].machines)
    stages = _layers_of(problem.graph, [_names(task, cut) for cut, _ in placed])
    chosen = [(names, devices) for names, (_, devices) in zip(stages, placed, strict=True) if names]
    batch, widest = problem.workload.job.global_batch, max(len(devices) for _, devices in chosen)
    label = "stages on " + "-".join(str(len(devices)) for _, devices in chosen)
    least = max(1, round(task.model.samples))
    for samples in _sizes(batch, max(least, widest), len(chosen)):
        strategy = _strategy(problem, chosen, "1f1b", samples, SPLIT)
        yield strategy, f"{label}, 1f1b, microbatches of {samples}"
    if size := _size_in_turn(batch, least, [len(devices) for _, devices in chosen]):
        for schedule in ("1f1b", "pipedream"):
            strategy = _strategy(problem, chosen, schedule, size, ROUND_ROBIN)
            yield strategy, f"{label}, {schedule}, {size} samples in turn"


def _sizes(batch: int, least: int, stages: int) -> list[int]:
    """Divisors of the batch, large enough, that make some 2, 4 and 8 microbatches per stage."""
    sizes = [size for size in divisors(batch) if size >= least]
    wanted = [batch / (stages * many) for many in (2, 4, 8)]
    return list(dict.fromkeys(min(sizes, key=lambda size: abs(size - ideal)) for ideal in wanted if sizes))


def _size_in_turn(batch: int, least: int, replicas: Sequence[int]) -> int:
    """The largest microbatch of which every replica has equally many, two rounds or more; 0 if none."""
    most = max(2 * max(replicas), 2 * len(replicas))
    fits = [
        size
        for size in divisors(batch)
        if size >= least and batch // size >= most and all(batch // size % count == 0 for count in replicas)
    ]
    return max(fits, default=0)


def _placed(
    cuts: Sequence[Cut], groups: list[tuple[int, ...]], size: int
) -> list[tuple[Cut, tuple[int, ...]]]:
    """Innermost stages with their devices; every group holds the level's machines of `size` devices each."""
    found: list[tuple[Cut, tuple[int, ...]]] = []
    first = 0
    for cut in cuts:
        machines = [
            group[(first + i) * size : (first + i + 1) * size]
            for group in groups
            for i in range(cut.machines)
        ]
        if cut.inner:
            found += _placed(cut.inner, machines, size // sum(item.machines for item in cut.inner))
        else:
            found.append((cut, tuple(sorted(device for machine in machines for device in machine))))
        first += cut.machines
    return found


def _layers_of(graph: LayerGraph, parts: list[set[str]]) -> list[tuple[str, ...]]:
    """Layers of each stage in model order; those that the optimizer left out join readers or writers."""
    stage = {name: number for number, names in enumerate(parts) for name in names}
    for layer in reversed(graph.layers):
        if layer.name not in stage:
            readers = [
                stage[name]
                for use in layer.writes
                for name in graph.consumers.get(use.name, ())
                if name in stage
            ]
            if readers:
                stage[layer.name] = min(readers)
    for layer in graph.layers:
        if layer.name not in stage:
            writers = [graph.producer[use.name] for use in layer.reads if use.name in graph.producer]
            stage[layer.name] = max((stage[name] for name in writers), default=0)
    found: list[list[str]] = [[] for _ in parts]
    for layer in graph.layers:
        found[stage[layer.name]].append(layer.name)
    return [tuple(names) for names in found]


def _strategy(
    problem: Problem,
    chosen: Sequence[tuple[tuple[str, ...], tuple[int, ...]]],
    schedule: str,
    samples: int,
    replicas: str,
) -> Strategy:
    stages = tuple(
        Stage(
            layers=names,
            meshes=(Mesh(devices=devices),),
            microbatch_samples=samples,
            replicas=replicas if len(devices) > 1 else SPLIT,
        )
        for names, devices in chosen
    )
    return single(stages=stages, schedule=schedule, job=problem.workload.job.name)
