"""Questions, trials and sentences: a plan with its report, changes of it, and what one sentence says of them.

Trying is a generator that pauses after every simulation, so the caller can stop at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TypeVar

from explorer.base.errors import ExplorerError
from explorer.base.units import format_bytes, format_seconds
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import JobStrategy, Strategy
from explorer.workload import Workload

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that pauses after every simulation and ends in a result."""
NamedChange = tuple[str, Callable[[], Strategy]]
"""Imperative label without a capital ("use ZeRO-1"), and a function that makes the change and may raise."""

WORTH = 1e-3
"""Share of a step below which a gain is not worth a change: no prediction is that exact."""
MOST_WORK = 20_000
"""Stages times microbatches, over all changes of one kind, after which no more are tried."""
KNOWN = 0.05
"""Work of a change that keeps the structure, as a share of one that does not: only prices are new."""
MOST_ACTIONS = 5_000
"""Most stages times microbatches of a change that is tried, unless the plan itself has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One thing worth saying, with the change it proposes; at most one per topic."""

    topic: str
    """One of memory, balance, runs, bubble, recompute, communication, shape and devices."""
    text: str
    """Plain words; `**bold**` marks what matters."""
    change: str = ""
    """Imperative label of the change, without a capital; empty if none is proposed."""
    strategy: Strategy | None = None
    """Changed strategy; None if no change of this kind helps."""
    step_time_s: float | None = None
    """Re-simulated step time of the change in seconds, or of the best one tried if none helps."""
    saves_s: float | None = None
    """Seconds by which the change shortens the step (below 0 if it lengthens it); None without a change, or
    if the plan does not fit and so has no step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The plan to explain."""

    graph: LayerGraph
    """Model."""
    cluster: Cluster
    """Devices."""
    workload: Workload
    """Workload of one job."""
    strategy: Strategy
    """Strategy of the plan."""
    report: Report
    """Prediction for the plan."""
    allowed: Callable[[Strategy], bool] = lambda _: True
    """Whether a change may be proposed (pins and locks forbid it)."""

    @property
    def job(self) -> JobStrategy:
        """Strategy of the only job."""
        return self.strategy.job

    @property
    def batch(self) -> int:
        """Samples of a step."""
        return self.workload.job.global_batch

    @property
    def step_s(self) -> float:
        """Step time of the plan, seconds."""
        return self.report.step_time_s

    def share(self, seconds: float) -> float:
        """Return seconds as a fraction of the step; 0 for a step that takes no time."""
        return seconds / self.step_s if self.step_s else 0.0

    def with_job(self, job: JobStrategy) -> Strategy:
        """Return the strategy with the job's part replaced."""
        return self.strategy.with_job(job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A change and its predicted result."""

    label: str
    """Imperative label without a capital."""
    strategy: Strategy
    """Changed strategy."""
    report: Report
    """Re-simulated report."""
    detail: str = ""
    """Single actions of the change, if the label sums them up."""

    @property
    def step_s(self) -> float:
        """Step time, seconds."""
        return self.report.step_time_s


def tries(asked: Asked, changes: Iterable[NamedChange]) -> Steps[list[Tried]]:
    """Simulate changes in turn, except those that do not apply, are forbidden or take too long.

    For large plans only the first are tried, `MOST_WORK` in all: one with another structure takes seconds
    there.
    """
    found: list[Tried] = []
    limit = max(MOST_ACTIONS, actions(asked.job, asked.batch))
    left = float(MOST_WORK)
    own = asked.report.timeline.program.size
    for label, make in changes:
        if left <= 0:
            break
        try:
            changed = make()
            if changed == asked.strategy or actions(changed.job, asked.batch) > limit:
                continue
            if not asked.allowed(changed):
                continue
            report = simulate(asked.graph, asked.cluster, asked.workload, changed)
        except ExplorerError:
            continue  # not every change applies to every strategy
        found.append(Tried(label=label, strategy=changed, report=report))
        left -= actions(changed.job, asked.batch) * (KNOWN if report.timeline.program.size == own else 1.0)
        yield
    return found


def actions(job: JobStrategy, batch: int) -> float:
    """Return stages times microbatches of one step, which a simulation's time grows with."""
    return sum(batch / stage.microbatch_samples for stage in job.stages)


def fastest(tried: Iterable[Tried]) -> Tried | None:
    """Return the fastest change that fits; None if none does."""
    return min((item for item in tried if item.report.feasible), key=lambda item: item.step_s, default=None)


def over_bytes(report: Report) -> float:
    """Return the bytes by which the worst device exceeds its memory."""
    return max((item.over_bytes for item in report.overflows), default=0.0)


def proposal(asked: Asked, topic: str, text: str, best: Tried) -> Sentence:
    """Make a sentence whose button applies this change."""
    return Sentence(
        topic=topic, text=text, change=best.label, strategy=best.strategy, step_time_s=best.step_s,
        saves_s=asked.step_s - best.step_s if asked.report.feasible else None,
    )  # fmt: skip


def conclude(asked: Asked, topic: str, lead: str, tried: list[Tried], *, kind: str) -> Sentence:
    """State a finding and what the fastest change would save, or that none helps and the best tried."""
    best = fastest(tried)
    if best is not None and best.step_s < asked.step_s * (1 - WORTH):
        saved = asked.step_s - best.step_s
        what = f"**{capital(best.label)}**{f' ({best.detail})' if best.detail else ''}"
        gain = f"{what} to save **{format_seconds(saved)}** a step ({asked.share(saved):.1%})."
        return proposal(asked, topic, f"{lead} {gain}", best)
    if best is not None:
        more = asked.share(best.step_s - asked.step_s)
        how = "the same time" if abs(more) <= WORTH else f"{more:+.1%}".replace("-", "−")
        said = f"No {kind} helps; best tried: {best.label}, {format_seconds(best.step_s)} a step ({how})."
        return Sentence(topic=topic, text=f"{lead} {said}", step_time_s=best.step_s)
    if tried:
        near = min(tried, key=lambda item: over_bytes(item.report))
        lacks = format_bytes(over_bytes(near.report))
        said = f"No {kind} fits; nearest: {near.label}, {lacks} over in {format_seconds(near.step_s)} a step."
        return Sentence(topic=topic, text=f"{lead} {said}", step_time_s=near.step_s)
    return Sentence(topic=topic, text=f"{lead} There is no {kind} to try.")


def capital(label: str) -> str:
    """Capitalise a label for the start of a sentence or a button."""
    return label[:1].upper() + label[1:]
