"""Why, in words: what fits, what binds, and the changes that help. Every number is re-simulated.

One file per subject; each topic is a generator that tries changes and comes to one sentence (or none).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
"""Topics of a plan that fits: cheap ones that help often first."""
_LACKS = (memory, shape, devices)
"""Topics of a plan that does not fit: nothing else matters before it does."""


def reasons(
    graph: LayerGraph,
    cluster: Cluster,
    workload: Workload,
    strategy: Strategy,
    report: Report,
    *,
    allowed: Callable[[Strategy], bool] = lambda _: True,
) -> Iterator[Sentence | None]:
    """Sentences as they are found; None after every change that was tried, so that the caller can stop.

    Between two of them lies one simulation.

    Args:
        graph: the model.
        cluster: the devices.
        workload: one job.
        strategy: what is explained.
        report: what is predicted of it.
        allowed: whether a change may be proposed; pins and locks say no.
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
    """Sentences, most useful first."""
    found = reasons(graph, cluster, workload, strategy, report)
    return ordered(sentence for sentence in found if sentence is not None)


def ordered(sentences: Iterator[Sentence] | tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    """What makes it fit, then what saves most, then what helps nothing; else in the order given."""

    def rank(said: Sentence) -> tuple[bool, float]:
        return said.strategy is None, -(said.saves_s if said.saves_s is not None else float("inf"))

    return tuple(sorted(sentences, key=rank))


def require_feasible(
    graph: LayerGraph, cluster: Cluster, workload: Workload, strategy: Strategy, report: Report
) -> None:
    """Raise what is said of memory where the strategy does not fit.

    Raises:
        InfeasibleError: which device, by how much, and the cheapest change that fits.
    """
    if not report.feasible:
        asked = Asked(graph=graph, cluster=cluster, workload=workload, strategy=strategy, report=report)
        raise InfeasibleError(_end(memory(asked)).text.replace("**", ""))


def _end(steps: Steps[Sentence]) -> Sentence:
    """Run a topic to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            said: Sentence = end.value
            return said
