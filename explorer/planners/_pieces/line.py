"""A model as a line of nodes: sums over its prefixes, and what crosses each cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.planners._pieces.work_graph import WorkGraph

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Costs of runs of n nodes, from before node i to before node j; the work of one microbatch."""

    seconds: FloatArray
    """(kinds, n + 1, n + 1): seconds of each run on each kind; infinite if empty or not allowed there."""
    held_bytes: FloatArray
    """(n + 1, n + 1): bytes that each run holds."""
    reduced_bytes: FloatArray
    """(n + 1, n + 1): bytes of gradients of each run."""
    sent_bytes: FloatArray
    """(n + 1,): bytes that cross the cut before each node, there and back."""

    @property
    def count(self) -> int:
        """Number of nodes n."""
        return len(self.sent_bytes) - 1


def line_of(work: WorkGraph) -> Line:
    """Return the line of a graph whose transfers take a second a byte."""
    size = work.count + 1
    sent = np.zeros(size)
    for p, readers, count in zip(work.producer.tolist(), work.readers, work.transfer_s.tolist(), strict=True):
        sent[p + 1 : max(readers) + 1] += count
    order = np.less.outer(np.arange(size), np.arange(size))
    refused = ~np.isfinite(work.seconds)
    seconds = np.array([_runs(row) for row in np.where(refused, 0.0, work.seconds)])
    banned = np.array([_runs(row.astype(float)) for row in refused])
    return Line(
        seconds=np.where(order & (banned == 0), seconds, np.inf),
        held_bytes=_runs(work.held_bytes),
        reduced_bytes=_runs(work.reduced_bytes),
        sent_bytes=sent,
    )


def _runs(values: FloatArray) -> FloatArray:
    """Return the sums of all runs, zero where they are empty."""
    before = np.concatenate([[0.0], np.cumsum(values)])
    found: FloatArray = np.maximum(before[None, :] - before[:, None], 0.0)
    return found
