"""Why, in words: what fits, what binds, and the change that helps most. Every number is re-simulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from explorer.cluster import Cluster
from explorer.edit import move_boundary
from explorer.errors import ExplorerError, InfeasibleError
from explorer.graph import LayerGraph
from explorer.report import Report
from explorer.simulate import simulate
from explorer.strategy import JobStrategy, Strategy
from explorer.units import format_bytes, format_seconds
from explorer.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One thing worth saying, with the change it proposes."""

    topic: str
    """memory, balance, bubble, communication."""
    text: str
    """Plain words; `**bold**` marks what matters."""
    change: str = ""
    """What the change does, as a button says it; empty if none is proposed."""
    strategy: Strategy | None = None
    """The changed strategy."""
    step_time_s: float | None = None
    """Its re-simulated step time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    label: str
    strategy: Strategy
    report: Report


def explain(
    graph: LayerGraph, cluster: Cluster, workload: Workload, strategy: Strategy, report: Report
) -> tuple[Sentence, ...]:
    """Sentences, most important first."""
    said: list[Sentence | None] = [_memory(graph, cluster, workload, strategy, report)]
    if report.feasible:
        said += [
            _balance(graph, cluster, workload, strategy, report),
            _bubble(graph, cluster, workload, strategy, report),
            _communication(report),
        ]
    return tuple(sentence for sentence in said if sentence is not None)


def require_feasible(
    graph: LayerGraph, cluster: Cluster, workload: Workload, strategy: Strategy, report: Report
) -> None:
    """Raise what `explain` says of memory where the strategy does not fit.

    Raises:
        InfeasibleError: which device, by how much, and the cheapest change that fits.
    """
    if not report.feasible:
        raise InfeasibleError(_memory(graph, cluster, workload, strategy, report).text.replace("**", ""))


def _memory(
    graph: LayerGraph, cluster: Cluster, workload: Workload, strategy: Strategy, report: Report
) -> Sentence:
    if report.feasible:
        used, lane = max(
            (used / capacity, lane)
            for lane, (used, capacity) in enumerate(
                zip(report.peak_memory_bytes, report.capacity_bytes, strict=True)
            )
        )
        device = report.lanes[lane][0]
        return Sentence(
            topic="memory", text=f"**Fits.** Device {device} is fullest, at {used:.0%} of its memory."
        )
    worst = max(report.overflows, key=lambda item: item.over_bytes)
    where = f"Device {worst.device} needs {format_bytes(worst.over_bytes)} more than it has"
    fits = [item for item in _try(graph, cluster, workload, _savings(strategy)) if item.report.feasible]
    if not fits:
        return Sentence(
            topic="memory",
            text=f"**Does not fit.** {where}; recomputation, ZeRO and smaller microbatches do not suffice:"
            " use more stages, tensor parallelism or devices.",
        )
    best = min(fits, key=lambda item: item.report.step_time_s)
    return Sentence(
        topic="memory",
        text=f"**Does not fit.** {where}. Cheapest change that fits: {best.label},"
        f" {format_seconds(best.report.step_time_s)} a step.",
        change=best.label,
        strategy=best.strategy,
        step_time_s=best.report.step_time_s,
    )


def _try(
    graph: LayerGraph, cluster: Cluster, workload: Workload, changes: Iterator[tuple[str, Strategy]]
) -> list[_Tried]:
    found = []
    for label, changed in changes:
        try:
            found.append(
                _Tried(label=label, strategy=changed, report=simulate(graph, cluster, workload, changed))
            )
        except ExplorerError:
            continue  # not every change applies to every strategy
    return found


def _with(strategy: Strategy, job: JobStrategy, **changes: object) -> Strategy:
    stages = (replace(stage, **changes) for stage in job.stages)  # type: ignore[arg-type]
    return strategy.with_job(job.with_stages(stages))


def _savings(strategy: Strategy) -> Iterator[tuple[str, Strategy]]:
    """Changes that save memory, alone and together."""
    job = strategy.job
    most = max(stage.meshes[0].replicas for stage in job.stages)
    levels = [level for level in (1, 2, 3) if most > 1 and level > min(s.zero for s in job.stages)]
    recompute = [r for r in ("selective", "full") if r != job.stages[0].recompute]
    for choice in recompute:
        yield f"{choice} recomputation", _with(strategy, job, recompute=choice)
    for level in levels:
        yield f"ZeRO-{level}", _with(strategy, job, zero=level)
        for choice in recompute:
            changed = _with(strategy, job, zero=level, recompute=choice)
            yield f"ZeRO-{level} with {choice} recomputation", changed
    for smaller in _smaller(job):
        yield smaller[0], strategy.with_job(smaller[1])


def _smaller(job: JobStrategy) -> Iterator[tuple[str, JobStrategy]]:
    """Half the microbatch, where every stage allows it."""
    if all(
        stage.microbatch_samples % 2 == 0 and stage.microbatch_samples // 2 >= stage.meshes[0].replicas
        for stage in job.stages
    ):
        stages = tuple(replace(s, microbatch_samples=s.microbatch_samples // 2) for s in job.stages)
        yield "microbatches of half the size", job.with_stages(stages)


def _balance(
    graph: LayerGraph, cluster: Cluster, workload: Workload, strategy: Strategy, report: Report
) -> Sentence | None:
    job = strategy.job
    if len(job.stages) < 2:
        return None
    mean = sum(report.busy_s) / len(report.busy_s)
    binds = max(range(len(report.busy_s)), key=report.busy_s.__getitem__)
    device, over = report.lanes[binds][0], report.busy_s[binds] / mean - 1
    text = (
        f"**Device {device} binds**: {format_seconds(report.busy_s[binds])} of work a step,"
        f" {over:.0%} above the mean."
    )
    tried = [item for item in _try(graph, cluster, workload, _moves(graph, strategy)) if item.report.feasible]
    best = min(tried, key=lambda item: item.report.step_time_s, default=None)
    if best is None or best.report.step_time_s >= report.step_time_s * (1 - 1e-6):
        return Sentence(topic="balance", text=f"{text} No single block moved to a neighbour helps.")
    saved = report.step_time_s - best.report.step_time_s
    return Sentence(
        topic="balance",
        text=f"{text} {best.label} saves **{format_seconds(saved)}** a step"
        f" ({saved / report.step_time_s:.1%}).",
        change=best.label,
        strategy=best.strategy,
        step_time_s=best.report.step_time_s,
    )


def _moves(graph: LayerGraph, strategy: Strategy) -> Iterator[tuple[str, Strategy]]:
    """One block over each boundary, both ways."""
    job = strategy.job
    for before in range(len(job.stages) - 1):
        for units in (1, -1):
            source, target = (before + 1, before) if units > 0 else (before, before + 1)
            layers = job.stages[source].layers
            if not layers:
                continue
            name = graph.layer[layers[0] if units > 0 else layers[-1]]
            try:
                moved = move_boundary(graph, job, before, before + 1, units)
            except ExplorerError:
                continue
            label = f"Moving {name.block or name.name} to stage {target}"
            yield label, strategy.with_job(moved)


def _bubble(
    graph: LayerGraph, cluster: Cluster, workload: Workload, strategy: Strategy, report: Report
) -> Sentence | None:
    job = strategy.job
    if len(job.stages) < 2:
        return None
    text = f"Devices compute nothing during {report.bubble_fraction:.0%} of the step."
    tried = [
        item
        for item in _try(
            graph, cluster, workload, ((label, strategy.with_job(part)) for label, part in _smaller(job))
        )
        if item.report.feasible and item.report.step_time_s < report.step_time_s
    ]
    if not tried:
        return Sentence(topic="bubble", text=text)
    best = tried[0]
    saved = report.step_time_s - best.report.step_time_s
    return Sentence(
        topic="bubble",
        text=f"{text} {best.label.capitalize()} save **{format_seconds(saved)}** a step.",
        change=best.label.capitalize(),
        strategy=best.strategy,
        step_time_s=best.report.step_time_s,
    )


def _communication(report: Report) -> Sentence:
    parts = {kind: seconds for kind, seconds in report.exposed_communication_s.items() if seconds > 0}
    total = sum(parts.values())
    names = {
        "inside": "inside stages",
        "transfer": "between stages",
        "reduce": "reducing gradients",
        "gather": "gathering weights",
    }
    detail = ", ".join(
        f"{format_seconds(s)} {names[k]}" for k, s in sorted(parts.items(), key=lambda i: -i[1])
    )
    share = total / report.step_time_s if report.step_time_s else 0.0
    said = f": {detail}" if detail else ""
    return Sentence(
        topic="communication",
        text=f"The busiest device waits for communication {share:.0%} of the step{said}.",
    )
