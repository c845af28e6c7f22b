"""What greedy and optimal schedules assume: seconds of every action, and limits that hold forwards back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.actions import BACKWARD, FORWARD, WEIGHT_GRAD, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds that the scheduler assumes for one microbatch of every stage."""

    forward_s: Sequence[float]
    """Per stage: seconds of a forward."""
    input_grad_s: Sequence[float]
    """Per stage: seconds of the input gradient."""
    weight_grad_s: Sequence[float]
    """Per stage: seconds of the weight gradient."""
    transfer_s: Sequence[float] = ()
    """Per edge of the shape: seconds of a transfer; () is none."""
    split: bool = False
    """Whether input and weight gradients are actions of their own."""
    wires: bool = False
    """Whether transfers from one lane to another take turns, in the order in which what they send is made."""

    def of(self, op: str, stage: int) -> float:
        """Return the seconds of an action."""
        if op == FORWARD:
            return self.forward_s[stage]
        if op == WEIGHT_GRAD:
            return self.weight_grad_s[stage]
        whole = self.weight_grad_s[stage] if op == BACKWARD else 0.0
        return self.input_grad_s[stage] + whole


def costs_of(shape: Shape, *, split: bool, otherwise: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> Costs:
    """Return the seconds that a shape carries; if it has none, `otherwise` scaled by microbatch size."""
    if shape.forward_s:
        return Costs(
            forward_s=shape.forward_s,
            input_grad_s=shape.input_grad_s,
            weight_grad_s=shape.weight_grad_s,
            transfer_s=shape.transfer_s,
            split=split,
        )
    most = max(shape.microbatches)
    made = [[seconds * most / count for count in shape.microbatches] for seconds in otherwise]
    return Costs(forward_s=made[0], input_grad_s=made[1], weight_grad_s=made[2], split=split)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Limits that hold forwards back."""

    ahead: Sequence[float] = ()
    """Per stage: most forwards of a place whose (input) gradient has not run; () is any number."""
    held: Sequence[float] = ()
    """Per stage: what a microbatch holds from F to B or I, in any unit; () is nothing."""
    waiting: Sequence[float] = ()
    """Per stage: the part of `held` that stays until W; () is nothing."""
    room: Sequence[float] = ()
    """Per lane: most that its places may hold; () is any."""
    through: bool = False
    """Whether a forward leaves room for one microbatch on each later stage of its lane that holds none, so
    that the oldest microbatch can always go on to the end.
    """


NO_CAPS = Caps()
