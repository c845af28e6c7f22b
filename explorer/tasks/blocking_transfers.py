"""Blocking transfers, during which both ends do nothing else, as in stages that call send and receive.

A transfer starts when the sender has made what it sends and the receiver has come to the call that receives
it: what its lane computes before the reader is done. What the sender's lane computes next waits for the end
of the transfer. If two neighbours send to each other between the same two actions of each (a steady
pipeline's activation one way, gradient the other), both transfers run at the same time, as in a combined send
and receive (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
Megatron-LM, 2021).
"""

from __future__ import annotations

import numpy as np

from explorer.tasks.indexing import Places
from explorer.tasks.program import TRANSFER
from explorer.tasks.work import Lowering


def add_blocking(work: Lowering) -> None:
    """Make every transfer wait for the receiving lane, and the sending lane wait for the transfer."""
    sends = np.array([slot.kind == TRANSFER for slot in work.slots])[work.slot]
    earlier, later = work.neighbours
    after, before = work.edges
    received = sends[before]  # edges from a transfer to its reader
    edge, pair = Places(later, work.size).of(after[received])
    work.wait(before[received][edge], earlier[pair])
    sent = sends[after]  # edges from a producer to its transfer
    edge, pair = Places(earlier, work.size).of(before[sent])
    work.wait(later[pair], after[sent][edge])
