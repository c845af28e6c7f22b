"""PipeDream's planner: the best pipeline of replicated stages, by dynamic programming.

With ``cost_model=original`` it is the published optimizer with its own costs, which needs no cluster; its
value is seconds per minibatch in steady state. With ``cost_model=ours`` the same plans, for the whole
cluster and for fewer devices, are judged by the simulator, run without flushes (PipeDream) and with (1F1B).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.cluster import Cluster, DeviceKind
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.schedules import SCHEDULES
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search._antichains import States, find_states
from explorer.search._devices import DeviceOrder
from explorer.search._pipedream_bisection import plan_threshold
from explorer.search._pipedream_profile import profiled
from explorer.search._pipedream_program import Choice, Cut, OptimalPlan, PlanLevel, dense_size, plan_dense
from explorer.search._pipedream_strategies import Task, names_of, strategies
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategy import Strategy

ORIGINAL, OURS, COUNTED, FREE = "original", "ours", "counted", "free"
BOUND = "its own cost model"
DENSE_LIMIT = 30_000_000
"""Most numbers in the tables of one plan (240 MB); a larger one-level plan is found by bisection."""


@SEARCHERS.add(
    Searcher(
        name="pipedream",
        title="PipeDream's optimizer: dynamic program over cuts and replication, level by level",
        paper="Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, SOSP'19",
        options=(
            Option(
                name="cost_model", default=OURS, help="its own, or our simulator", choices=(ORIGINAL, OURS)
            ),
            Option(
                name="devices",
                default="",
                help="machines per level, innermost first (4,2); empty: the cluster's",
            ),
            Option(
                name="bandwidth_bytes_per_s",
                default="",
                help="per level, innermost first; empty: the cluster's",
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
            Option(
                name="microbatch_size",
                default=1,
                minimum=1,
                help="samples of one minibatch, if no profile states it",
            ),
            Option(name="asynchronous", default=True, help="also plans that learn from older weights"),
        ),
        space=Space(words="cuts × replicas"),
        foreign=True,
    )
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
    asynchronous: bool,
) -> Iterator[Candidate | None]:
    """Find the optimal plan under the published costs; with a cluster also judge it by the simulator.

    Raises:
        InputError: counts or bandwidths are not positive numbers, no cluster is given, or there are more cut
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
        kind=_kind(problem),
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
        yield from _original(problem, evaluator, Task(model, states, levels, choice))
    elif problem.cluster is None:
        raise InputError(
            "the cost model 'ours' simulates on a cluster",
            key="cluster",
            allowed="--cluster NAME, or --option cost_model=original",
        )
    else:
        yield from _ours(problem, evaluator, Task(model, states, levels, choice), asynchronous=asynchronous)


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
        rates = rates or _cluster_rates(problem.cluster, problem.order, len(counts))
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
    """Return the devices of a node, and the nodes; one level if they do not fill whole nodes."""
    node = min(group.devices_per_node for group in cluster.nodes)
    if devices <= node or devices % node or cluster.links:
        return [devices]
    return [node, devices // node] if node > 1 else [devices]


def _cluster_rates(cluster: Cluster, order: DeviceOrder, levels: int) -> list[float]:
    """Return the bandwidth between neighbours, and from the first device to the last one."""
    if len(order) == 1:
        return [1.0] * levels  # a single device sends nothing
    near = cluster.path(*order[:2]).bandwidth_bytes_per_s
    far = cluster.path(order[0], order[-1]).bandwidth_bytes_per_s
    return [near, *[far] * (levels - 1)] if levels > 1 else [min(near, far)]


# ---- the two cost models ------------------------------------------------------------------------


def _plan(task: Task) -> Iterator[OptimalPlan | None]:
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


def _original(problem: Problem, evaluator: Evaluator, task: Task) -> Iterator[Candidate | None]:
    best: OptimalPlan | None = None
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
        for strategy, label in strategies(problem, task, best):
            yield evaluator.evaluate(strategy, label)


def _ours(
    problem: Problem, evaluator: Evaluator, task: Task, *, asynchronous: bool
) -> Iterator[Candidate | None]:
    if task.devices > problem.device_count:
        raise InputError(
            f"{task.devices} devices; {problem.device_count} may be used",
            key="devices",
            found=task.devices,
            allowed=f"a product <= {problem.device_count}",
        )
    seen: set[Strategy] = set()
    for smaller in _fewer(task):
        best: OptimalPlan | None = None
        for item in _plan(smaller):
            best = item
            yield None
        if best is None or not math.isfinite(best.seconds):
            continue
        for strategy, label in strategies(problem, smaller, best):
            wanted = asynchronous or SCHEDULES.get(strategy.job.schedule).flush
            if wanted and strategy not in seen:
                seen.add(strategy)
                yield evaluator.evaluate(strategy, label)


def _fewer(task: Task) -> Iterator[Task]:
    """Yield the task, the same with one machine per stage, and both with ever fewer outermost machines."""
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


def _details(task: Task, plan: OptimalPlan) -> dict[str, object]:
    """Return what the published optimizer prints: stages, speed-ups over one machine and data parallelism."""
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


def _stage_details(task: Task, cut: Cut) -> dict[str, object]:
    names = names_of(task, cut)
    found: dict[str, object] = {
        "state_start": cut.before + 1,
        "state_end": cut.last + 1,
        "machines": cut.machines,
        "layers": [name for members in task.model.members for name in members if name in names],
    }
    if cut.inner:
        found["inner"] = [_stage_details(task, item) for item in cut.inner]
    return found


def data_parallel_s(seconds: float, parameter_bytes: float, levels: Sequence[PlanLevel]) -> float:
    """Return its estimate of plain data parallelism over all machines, in seconds per minibatch."""
    inside = 1
    for level in levels:
        m = level.machines
        reduce_s = 4 * (m - 1) * parameter_bytes / (level.bandwidth_bytes_per_s * m) / inside
        seconds, inside = (seconds + reduce_s) / m, m
    return seconds


def _kind(problem: Problem) -> DeviceKind | None:
    """Return the kind of the first device under the framework of the job; None without a cluster."""
    if problem.cluster is None:
        return None
    framework = load_framework(problem.workload.job.framework)
    return cluster_under(problem.cluster, framework).kind_of(problem.order[0])
