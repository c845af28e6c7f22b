"""Blocking transfers, during which both ends do nothing else, as in stages that call send and receive.

A transfer starts when the sender has made what it sends and the receiver has come to the call that receives
it: what its lane computes before the reader is done. What the sender's lane computes next waits for the end
of the transfer. If two neighbours send to each other between the same two actions of each (a steady
pipeline's activation one way, gradient the other), both transfers run at the same time, as in a combined send
and receive (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
Megatron-LM, 2021).

Where an order is `paired`, a forward and a backward right behind it call once, before and after both, as in
Megatron-LM's interleaved schedule: what the pair reads has arrived before its forward starts, and what it
makes leaves when its backward is done.
"""

from __future__ import annotations

import numpy as np

from explorer.actions import BACKWARD, FORWARD, INPUT_GRAD, OP_CODE
from explorer.tasks.indexing import IntArray, Places
from explorer.tasks.program import TRANSFER
from explorer.tasks.work import Lowering


def add_blocking(work: Lowering) -> None:
    """Make every transfer wait for the receiving lane, and the sending lane wait for the transfer."""
    sends = np.array([slot.kind == TRANSFER for slot in work.slots])[work.slot]
    rows = Places(work.program, work.size)
    first, last = _calls(work)
    after, before = work.edges
    received = sends[before]  # edges from a transfer to its reader
    edge, row = rows.of(after[received])
    transfer, start = before[received][edge], first[row]
    near, task = _neighbours(work, start - 1, start)
    work.wait(transfer[near], task)
    inner = start != row
    work.wait(work.program[start[inner]], transfer[inner])
    sent = sends[after]  # edges from a producer to its transfer
    edge, row = rows.of(before[sent])
    transfer, end = after[sent][edge], last[row]
    near, task = _neighbours(work, end + 1, end)
    work.wait(task, transfer[near])
    inner = end != row
    work.wait(transfer[inner], work.program[end[inner]])


def _calls(work: Lowering) -> tuple[IntArray, IntArray]:
    """Return, for every row of the program, the first and the last row between the same two calls."""
    rows = np.arange(len(work.program))
    first, last = rows.copy(), rows.copy()
    if work.order.paired:
        op = work.compute_op[work.program]
        gradient = np.isin(op[1:], [OP_CODE[BACKWARD], OP_CODE[INPUT_GRAD]])
        pair = np.flatnonzero(
            (op[:-1] == OP_CODE[FORWARD]) & gradient & (work.program_lane[1:] == work.program_lane[:-1])
        )
        first[pair + 1], last[pair] = pair, pair + 1
    return first, last


def _neighbours(work: Lowering, row: IntArray, beside: IntArray) -> tuple[IntArray, IntArray]:
    """Return which rows are on the lane of those beside them, and their tasks."""
    lane = np.append(work.program_lane, -1)  # rows -1 and past the end are on no lane
    near = np.flatnonzero(lane[row] == lane[beside])
    return near, work.program[row[near]]
