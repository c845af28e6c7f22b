"""Room made on a stage tensor by tensor: sent to the host while it computes, else made again or waited for.

A microbatch of a stage leaves bytes on the device, of which some have to go. What passes over the link to the
host while the stage computes is free; of the rest every tensor is made again by its forward, or waits for the
link, whichever takes less. The tensors that are cheapest by the byte are made again, the dearest swapped; the
last of them may go in part, so that the seconds are the least of a linear program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.cluster import DeviceKind
from explorer.costs.compute import layer_times
from explorer.graph import LayerGraph
from explorer.planners._pieces.work_graph import summed
from explorer.workload import Job

FloatArray = npt.NDArray[np.float64]


class Relief(NamedTuple):
    """What a microbatch's tensors that go cost a stage."""

    seconds: float
    """Seconds more for the microbatch, forward and backward."""
    bytes: float
    """Bytes that go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the nodes of a line leave for their backward, and what it costs to do without it."""

    bytes: FloatArray
    """(n,): of a microbatch."""
    again_s: FloatArray
    """(kinds, n): seconds of a node's forward."""
    host_s: FloatArray
    """(kinds,): seconds a byte takes to the host, or back; infinite where that is not known."""
    rate_s: FloatArray
    """(kinds, n): seconds that a byte costs which does not go for nothing."""
    order: npt.NDArray[np.int64]
    """(kinds, n): nodes by that rate, the cheapest first."""

    def relief(self, kind: int, start: int, stop: int, wanted: float, work_s: float) -> Relief | None:
        """Return the least that it costs a stage to do without some bytes a microbatch; None if it has fewer.

        Args:
            kind: kind of its device.
            start: its first node.
            stop: the node behind its last.
            wanted: bytes that have to go.
            work_s: seconds that it computes for a microbatch.
        """
        if wanted <= 0:
            return Relief(0.0, 0.0)
        order = self.order[kind]
        own = order[(order >= start) & (order < stop)]
        sizes = self.bytes[own]
        if wanted > sizes.sum():
            return None
        hidden = min(wanted, work_s / float(self.host_s[kind]))
        gone = np.concatenate([[0.0], np.cumsum(sizes)])
        spent = np.concatenate([[0.0], np.cumsum(sizes * self.rate_s[kind, own])])
        return Relief(float(np.interp(wanted - hidden, gone, spent)), wanted)


def kept_of(
    graph: LayerGraph, kinds: Sequence[DeviceKind], job: Job, members: Sequence[Sequence[int]], samples: float
) -> Kept:
    """Return what the nodes of a model leave: every saved tensor counts where it is made, or first saved.

    Args:
        graph: the model.
        kinds: kinds of devices.
        job: its precision.
        members: layers of each node.
        samples: samples of a microbatch.
    """
    node = np.zeros(len(graph.layers), dtype=np.int64)
    for v, own in enumerate(members):
        node[list(own)] = v
    saver = {name: i for i, layer in reversed(list(enumerate(graph.layers))) for name in layer.saves}
    found = np.zeros(len(graph.layers))
    for name, first in saver.items():
        place = graph.index[graph.producer[name]] if name in graph.producer else first
        found[place] += samples * graph.tensor[name].bytes_per_sample(job.precision)
    times = [layer_times(graph, kind, samples=samples, precision=job.precision)[0] for kind in kinds]
    rates = [kind.host_bandwidth_bytes_per_s for kind in kinds]
    return kept(
        summed(node, found, len(members)),
        np.array([summed(node, row, len(members)) for row in times]),
        [1 / rate if rate else np.inf for rate in rates],
    )


def kept(sizes: FloatArray, again_s: FloatArray, host_s: Sequence[float]) -> Kept:
    """Return what nodes leave, from their bytes, their forward seconds and those of a byte to the host."""
    link_s = np.array(host_s, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        made_s = np.where(sizes > 0, again_s / sizes, np.inf)
    rate_s = np.minimum(np.where(np.isfinite(made_s), made_s, 0.0), link_s[:, None])
    return Kept(
        bytes=sizes,
        again_s=again_s,
        host_s=link_s,
        rate_s=rate_s,
        order=rate_s.argsort(axis=1, kind="stable"),
    )
