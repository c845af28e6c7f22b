"""Explanations: what fits, what binds, and the changes that help; every number is re-simulated.

One file per subject. Each topic is a generator that tries changes and arrives at one sentence (or none).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from explorer.base.errors import InfeasibleError
from explorer.cluster import Cluster
from explorer.explain.memory import memory, recompute
from explorer.explain.network import communication, devices, shape
from explorer.explain.pipeline import balance, bubble, runs
from explorer.explain.questions import Asked, Sentence, Steps
from explorer.graph import LayerGraph
from explorer.simulation.report import Report
from explorer.strategy import Strategy
from explorer.workload import Workload

__all__ = ["Sentence", "explain", "reasons", "require_feasible"]

_FITS = (balance, runs, bubble, recompute, communication, shape, devices, memory)
"""Topics of a plan that fits; the cheap ones that often help come first."""
_LACKS = (memory, shape, devices)
"""Topics of a plan that does not fit: nothing else matters until it does."""


def reasons(
    graph: LayerGraph,
    cluster: Cluster,
    workload: Workload,
    strategy: Strategy,
    report: Report,
    *,
    allowed: Callable[[Strategy], bool] = lambda _: True,
) -> Generator[Sentence | None, None, None]:
    """Yield sentences as they are found, and None after every change that was tried, so the caller can stop.

    One simulation lies between two of them.

    Args:
        graph: the model.
        cluster: the devices.
        workload: one job.
        strategy: the strategy to explain.
        report: the prediction for it.
        allowed: whether a change may be proposed; pins and locks forbid it.
    """
    asked = Asked(
        graph=graph, cluster=cluster, workload=workload, strategy=strategy, report=report, allowed=allowed
    )
    topics = _FITS if report.feasible else _LACKS
    for topic in topics:
        said = yield from topic(asked)
        if said is not None:
            yield said


def explain(
    graph: LayerGraph, cluster: Cluster, workload: Workload, strategy: Strategy, report: Report
) -> tuple[Sentence, ...]:
    """Return all sentences, the most useful first."""
    found = reasons(graph, cluster, workload, strategy, report)
    return ordered(sentence for sentence in found if sentence is not None)


def ordered(sentences: Iterator[Sentence] | tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    """Sort sentences: what makes the plan fit, saves most, helps nothing; else in the order given."""

    def rank(said: Sentence) -> tuple[bool, float]:
        return said.strategy is None, -(said.saves_s if said.saves_s is not None else float("inf"))

    return tuple(sorted(sentences, key=rank))


def require_feasible(
    graph: LayerGraph, cluster: Cluster, workload: Workload, strategy: Strategy, report: Report
) -> None:
    """Raise an error that explains memory if the strategy does not fit.

    Raises:
        InfeasibleError: which device, by how much, and the cheapest change that fits.
    """
    if not report.feasible:
        asked = Asked(graph=graph, cluster=cluster, workload=workload, strategy=strategy, report=report)
        raise InfeasibleError(_end(memory(asked)).text.replace("**", ""))


def _end(steps: Steps[Sentence]) -> Sentence:
    """Run a topic to its end and return its sentence."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            said: Sentence = end.value
            return said
