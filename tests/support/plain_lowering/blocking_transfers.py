"""Blocking transfers, during which both ends do nothing else, as in stages that call send and receive.

A transfer starts when the sender has made what it sends and the receiver has come to the call that receives
it: what its lane computes before the reader is done. What the sender's lane computes next waits for the end
of the transfer. If two neighbours send to each other between the same two actions of each (a steady
pipeline's activation one way, gradient the other), both transfers run at the same time, as in a combined send
and receive (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
Megatron-LM, 2021).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from explorer.tasks.program import TRANSFER
from tests.support.plain_lowering.work import Lowering


def add_blocking(work: Lowering) -> None:
    """Make every transfer wait for the receiving lane, and the sending lane wait for the transfer."""
    kinds = [slot.kind for slot in work.slots]
    transfers = {task for task, slot in enumerate(work.slot) if kinds[slot] == TRANSFER}
    before: dict[int, list[int]] = defaultdict(list)
    after: dict[int, list[int]] = defaultdict(list)
    for program in work.programs:
        for one, other in pairwise(program):
            before[other].append(one)
            after[one].append(other)
    made = {task: tuple(work.preds[task]) for task in transfers}
    for reader in list(before):
        for transfer in [pred for pred in work.preds[reader] if pred in transfers]:
            work.preds[transfer].extend(before[reader])
    for transfer, producers in made.items():
        for following in dict.fromkeys(task for producer in producers for task in after[producer]):
            work.preds[following].append(transfer)
