"""Ports of plans: seconds for which a step keeps every shared port, uplink and group of replicas busy.

Whatever the order of work, a port never gives more than it has, and a task that asks it for a share of that
keeps it for that share of its seconds. Between two steps of a position lie all exchanges of its own stages,
of all replicas, and all that stages send that wait for one of its forwards, and whose gradients come back to
it. So a step takes no less than their sum,

    port = samples x bytes through it / its bandwidth + sum over its stages of [ share x their exchanges ]

and the first stage takes no less than the way to the first transfer through a port, all transfers through it,
and the way back from the last one:

    way there + port + way back + exchanges of the first stage

Other positions may be in another step at the same time, so that what they alone exchange does not count.
There are as many routes as replicas: of many devices only the exchanges of the first position are looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.tasks.indexing import BoolArray
from explorer.tasks.skeleton import FloatArray, IntArray


class CopyReductions(NamedTuple):
    """Reductions of S stages of which copies are at several positions."""

    size: FloatArray
    """(S,): bytes of their gradients."""
    whole_s: FloatArray
    """(2, S): seconds for all of them at once, whole and scattered."""

    def seconds(self, zero: IntArray, bucket_bytes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the (S, N) seconds that the last bucket of a reduction takes at least, and all of them."""
        every = self.whole_s[np.minimum(zero, 1)].T
        room = np.where(bucket_bytes > 0, bucket_bytes, np.inf)
        return every / np.maximum(1.0, np.ceil(self.size[:, None] / room)), every


class PortLoads(NamedTuple):
    """What a step of plans of one cut on one spread asks of P ports, at R positions."""

    sent: FloatArray
    """(R, P): seconds for which transfers between two steps of a position keep a port."""
    ends: BoolArray
    """(P, 4 S): which stages are the ends of those of the first stage: that send and receive onwards, that
    send and receive gradients."""
    asked: FloatArray
    """(P, S): share of it that an exchange of a stage over all replicas takes."""
    held: FloatArray
    """(R, S): 1 for the stages at each position."""
    copies: CopyReductions | None
    """How copies of stages at several positions reduce their gradients; None if each stage is at one."""

    def seconds(
        self, reduced: FloatArray, gathered: FloatArray, fetched: tuple[FloatArray, FloatArray] | None = None
    ) -> FloatArray:
        """Return the (N,) seconds of the busiest port or group of replicas.

        Args:
            reduced: (S, N) seconds of reductions of a step: a group has one at a time.
            gathered: (S, N) seconds of its gathers after updates.
            fetched: (S, N) seconds of one gather before work, and the (N,) number of a step; None for none.
        """
        found = np.zeros(reduced.shape[1])
        for sent, held in zip(self.sent, self.held, strict=True):
            stages = np.flatnonzero(held)
            own = reduced[stages]
            ports = sent[:, None] + self.asked[:, stages] @ own
            np.maximum(found, own.max(axis=0), out=found)
            # of gathers, that for the stage updated last: others may begin in the step before
            updated = stages if self.copies is not None else stages[:1]
            late = gathered[updated].min(axis=0)
            ports += self.asked[:, updated].min(axis=1, keepdims=True) * late
            if fetched is not None:
                before = _between_steps(fetched[0][stages], fetched[1])
                ports += self.asked[:, stages].min(axis=1, keepdims=True) * before
                np.maximum(found, before, out=found)
            np.maximum(found, late, out=found)
            np.maximum(found, ports.max(axis=0, initial=0.0), out=found)
        return found

    def least_held(self, values: FloatArray) -> FloatArray:
        """Return the (R, N) least of (S, N) values of the stages at each position."""
        return np.array([values[held > 0].min(axis=0) for held in self.held])

    def spans(self, first: int, ways: Ways, reduced: FloatArray, after: FloatArray) -> FloatArray:
        """Return the (N,) seconds of the first stage from forward to forward, whichever port takes most.

        Args:
            first: its position.
            ways: ways there and back.
            reduced: (S, N) seconds in which stages reduce their gradients in a step.
            after: (2, N) seconds between its last gradient and its next forward, and those of them after its
                last reduction.
        """
        used = np.flatnonzero(self.ends.any(axis=1))
        if not len(used):
            return np.zeros(reduced.shape[1])
        ends = self.ends[used].reshape(len(used), 2, 2, -1)
        there, back = (
            np.where(ends[:, :, way].reshape(len(used), -1, 1), seconds, np.inf).min(axis=1)
            for way, seconds in enumerate((ways.there, ways.back))
        )
        sent = there + self.sent[first, used][:, None]
        own = sent + (self.asked[used] * self.held[first]) @ reduced + after[1]
        return np.asarray(np.maximum(sent + back + after[0], own).max(axis=0))


def _between_steps(fetch: FloatArray, times: FloatArray) -> FloatArray:
    """Return the (N,) seconds of gathers before work of a position that lie between two of its steps.

    The gather for its first forward began before, and that for the next work with it; and work of one stage
    that follows a forward of the same one, the last, may need none.

    Args:
        fetch: (K, N) seconds of a gather of each of its stages.
        times: (N,) gathers of each of them in a step.
    """
    found: FloatArray = np.maximum(0.0, times * fetch.sum(axis=0) - 3.0 * fetch.max(axis=0))
    return found


class Ways(NamedTuple):
    """(2 S, N) seconds of one microbatch, onwards and of its gradients."""

    there: FloatArray
    """From the first forward of the step to the end of the forward, and of the backward, of each stage."""
    back: FloatArray
    """From the begin of the forward, and of the backward, of each stage to the last gradient of the first."""
