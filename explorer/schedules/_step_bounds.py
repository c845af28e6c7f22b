"""Seconds that no order of a chain of stages takes less from step to step, under a memory cap.

With L_s the way of one microbatch from its forward at stage s to the end of its input gradient there, and k
the most microbatches that a stage has room for between the two, whatever the order:

    idle      before its first input gradient, L - I after its first forward, a stage does k forwards at most
    ways      forward j + k begins after an earlier microbatch is back: ceil(m / k) ways, one after the other
    nested    F_s + x + (from the first forward of stage s + 1 to its last I) + x + I_s
    W         when its last forward begins, at most 1 + (room - held) / waiting microbatches have not run W
    area      room times seconds is no less than what microbatches hold, for how long: m (held L + waiting W),
              and what is empty while the first forwards fill the room and the last gradients empty it

Of whole backwards I is all of B, and there is no W. What may leave for the host counts as if there were room,
as does room for all microbatches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.schedules._step_clock import ROUNDING, Chain


def least_s(chain: Chain, *, split: bool) -> float:
    """Return the bound in seconds.

    Args:
        chain: the stages.
        split: whether weight gradients may run apart from input gradients.
    """
    found, inner, way_s = 0.0, 0.0, 0.0
    for s in reversed(range(chain.stages)):
        x = chain.transfer_s[s] if s + 1 < chain.stages else 0.0
        stage = _stage(chain, s, split=split)
        once = stage.forward_s + stage.gradient_s
        way_s += once + 2 * x
        if s + 1 < chain.stages:
            after = _stage(chain, s + 1, split=split)
            wire_s = (chain.microbatches - 1) * x + after.forward_s + after.gradient_s
            inner = once + 2 * x + max(inner, wire_s)
        inner = max(inner, stage.to_last_gradient_s(way_s))
        found = max(found, inner + stage.weight_s, stage.work_s + stage.idle_s(way_s), stage.area_s(way_s))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """One stage, whose microbatches hold `held` until their gradient and `waiting` until their W."""

    microbatches: int
    forward_s: float
    gradient_s: float
    weight_s: float
    held: float
    waiting: float
    room: float

    @property
    def work_s(self) -> float:
        """Seconds of its work in a step."""
        return self.microbatches * (self.forward_s + self.gradient_s + self.weight_s)

    @property
    def together(self) -> int:
        """Most microbatches k between forward and gradient."""
        capped = self.room < math.inf and self.held
        return min(self.microbatches, max(1, int(self.room / self.held))) if capped else self.microbatches

    def idle_s(self, way_s: float) -> float:
        """Return the seconds before its first gradient in which it does nothing."""
        return max(0.0, way_s - self.gradient_s - self.together * self.forward_s)

    def to_last_gradient_s(self, way_s: float) -> float:
        """Return the seconds from its first forward to the end of its last gradient."""
        m, k = self.microbatches, self.together
        unpaid = m
        if self.room < math.inf and self.waiting and self.weight_s:
            unpaid = min(m, 1 + max(0, int((self.room - self.held) / self.waiting)))
        busy = m * (self.forward_s + self.gradient_s) + (m - unpaid) * self.weight_s
        ways, rest = divmod(m - 1, k)
        return max(busy + self.idle_s(way_s), (ways + 1) * way_s + rest * self.gradient_s)

    def area_s(self, way_s: float) -> float:
        """Return the seconds in which its room holds what all microbatches hold; 0 for any room."""
        if self.room == math.inf or not self.held:
            return 0.0
        full = int(self.room / self.held)
        filling = sum((self.room - i * self.held) * self.forward_s for i in range(1, full + 1))
        # held at most so much for a second of work that is still to do, of which the longest may have begun
        dense = max(_over(self.held, self.gradient_s + self.weight_s), _over(self.waiting, self.weight_s))
        least = max(0.0, self.room - dense * max(self.gradient_s, self.weight_s)) if dense < math.inf else 0.0
        emptying = least * least / (2 * dense)
        apart = full * self.forward_s + least / dense <= self.work_s
        empty = filling + emptying if apart else max(filling, emptying)
        used = self.microbatches * (self.held * way_s + self.waiting * self.weight_s)
        return (used + empty) / self.room


def _over(size: float, seconds: float) -> float:
    """Return a quotient of which nothing of nothing is 0."""
    return size / seconds if seconds else math.inf if size else 0.0


def _stage(chain: Chain, s: int, *, split: bool) -> _Stage:
    rest, room = chain.weight_grad_s[s], chain.room[s] * (1 + ROUNDING)
    free = chain.host_s[s] < math.inf or room >= chain.microbatches * chain.held[s]
    return _Stage(
        microbatches=chain.microbatches,
        forward_s=chain.forward_s[s],
        gradient_s=chain.input_grad_s[s] + (0.0 if split else rest),
        weight_s=rest if split else 0.0,
        held=chain.held[s],
        waiting=chain.waiting[s] if split else 0.0,
        room=math.inf if free else room,
    )
