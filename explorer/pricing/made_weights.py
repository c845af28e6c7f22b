"""Weights that are made to be read: the seconds that a read rule adds to forwards and backwards.

A rule such as `predicted` writes a copy of the weights, moved on by some updates, before every read that
looks ahead. What reads no weights, or the newest as they are, takes no longer: a weight gradient is a product
of activations and gradients alone.

Priced is one kernel that reads and writes every byte once, as an update is. On a processor such a kernel
took 0.59 of a momentum update, where the bytes say 12/20; eager kernels of torch one by one, by which our own
ranks make the copy, took 2.7 times as long as that, so real runs of `spectrain` are slower than predicted.
"""

from __future__ import annotations

from explorer.costs.update_time import predicting_seconds
from explorer.pricing.pricer import Pricer, SlotPrice
from explorer.reads import reading_of
from explorer.tasks.program import B, F, I, Program, Slot

_READS = {F: "F", B: "B", I: "B"}
"""Op whose horizon tells how far a read of weights looks ahead, by kind of task."""


def price_with_reads(program: Program, pricer: Pricer, slot: Slot) -> SlotPrice:
    """Return the price of a slot of what a section computes, with the making of the weights that it reads."""
    found = pricer.price(slot)
    reading = reading_of(program.order.read_rule)
    if reading.make is None or reading.horizon is None or slot.kind not in _READS or not pricer.job.training:
        return found
    op = "B" if slot.backward else _READS[slot.kind]  # a forward done again reads what its backward reads
    if not reading.horizon(program.skeleton.sections[slot.where].stage, op):
        return found
    return found._replace(seconds=found.seconds + _making_seconds(pricer, slot))


def _making_seconds(pricer: Pricer, slot: Slot) -> float:
    """Return the seconds in which the slowest device of a piece makes its copy of all it trains."""
    held = pricer.held(slot.where).weights
    elements = sum(item.trained.compute + item.fixed_states for item in held)
    kinds = {pricer.cluster.kind_of(device) for device in pricer.row(slot.piece)}
    return max(
        predicting_seconds(
            kind, elements=elements, optimizer=pricer.job.optimizer, precision=pricer.job.precision
        )
        for kind in kinds
    )
