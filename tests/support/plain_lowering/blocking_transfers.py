"""Blocking transfers, during which both ends do nothing else, as in stages that call send and receive.

A transfer starts when the sender has made what it sends and the receiver has come to the call that receives
it: what its lane computes before the reader is done. What the sender's lane computes next waits for the end
of the transfer. If two neighbours send to each other between the same two actions of each (a steady
pipeline's activation one way, gradient the other), both transfers run at the same time, as in a combined send
and receive (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
Megatron-LM, 2021).

Where an order is `paired`, a forward and a backward right behind it call once, before and after both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from explorer.tasks.program import TRANSFER
from tests.support.plain_lowering.work import Lowering


def add_blocking(work: Lowering) -> None:
    """Make every transfer wait for the receiving lane, and the sending lane wait for the transfer."""
    kinds = [slot.kind for slot in work.slots]
    transfers = {task for task, slot in enumerate(work.slot) if kinds[slot] == TRANSFER}
    before: dict[int, list[int]] = defaultdict(list)
    after: dict[int, list[int]] = defaultdict(list)
    start: dict[int, list[int]] = defaultdict(list)
    end: dict[int, list[int]] = defaultdict(list)
    for program in work.programs:
        calls = _calls(work, program)
        for call in calls:
            for task in call:
                start[task] += [call[0]] * (task != call[0])
                end[task] += [call[-1]] * (task != call[-1])
        for one, other in pairwise(calls):
            for task in other:
                before[task].append(one[-1])
            for task in one:
                after[task].append(other[0])
    made = {task: tuple(work.preds[task]) for task in transfers}
    readers = [
        (reader, pred) for reader, preds in enumerate(work.preds) for pred in preds if pred in transfers
    ]
    for reader, transfer in readers:
        work.preds[transfer].extend(before[reader])
        for first in start[reader]:
            work.preds[first].append(transfer)
    for transfer, producers in made.items():
        for producer in producers:
            work.preds[transfer].extend(end[producer])
        for following in dict.fromkeys(task for producer in producers for task in after[producer]):
            work.preds[following].append(transfer)


def _calls(work: Lowering, program: Sequence[int]) -> list[list[int]]:
    """Group the tasks of a lane that run between the same two calls."""
    calls: list[list[int]] = []
    for task in program:
        ops = work.action[calls[-1][-1]].op + work.action[task].op if calls else ""
        if work.order.paired and ops in ("FB", "FI"):
            calls[-1].append(task)
        else:
            calls.append([task])
    return calls
