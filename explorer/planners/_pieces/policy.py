"""A policy of softmax tables, and how it learns from what its decisions cost: REINFORCE.

    theta += rate * (baseline - cost) * gradient of log P(decisions)

with a running mean of costs as the baseline (Williams, 1992). A decision depends on the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
KEPT = 0.8
"""Share of the running mean that stays at each cost."""
FARTHEST = 2.0
"""Largest distance of a cost from the mean that counts: a plan that does not fit is no further away."""


class Policy:
    """Decisions one after the other, each among some actions.

    Args:
        counts: actions of each decision.
        stay: of the decisions that go as the one before with a higher probability at first, that probability.
        staying: number of these; they come first.
    """

    def __init__(self, counts: Sequence[int], *, stay: float = 0.5, staying: int = 0) -> None:
        most = max(counts)
        self.counts = tuple(counts)
        self.theta: FloatArray = np.zeros((len(counts), most + 1, most))
        for d, count in enumerate(counts):
            self.theta[d, :, count:] = -np.inf
            if d < staying and count > 1:
                logit = math.log(stay / (1.0 - stay) * (count - 1))
                self.theta[d, np.arange(count), np.arange(count)] = logit
        self.mean: float | None = None

    def probabilities(self, decision: int, before: int) -> FloatArray:
        """Return the probability of each action after another; `before` is -1 for the first decision."""
        logits = self.theta[decision, before]
        weights = np.exp(logits - logits.max())
        found: FloatArray = weights / weights.sum()
        return found

    def drawn(self, luck: np.random.Generator) -> tuple[int, ...]:
        """Return an action for each decision."""
        found, before = [], -1
        for d in range(len(self.counts)):
            before = int(luck.choice(self.theta.shape[2], p=self.probabilities(d, before)))
            found.append(before)
        return tuple(found)

    def learn(self, actions: Sequence[int], cost: float, rate: float) -> None:
        """Make decisions that cost less than the mean more probable, others less.

        Args:
            actions: the decisions.
            cost: what they cost.
            rate: step of the gradient.
        """
        if self.mean is None:
            self.mean = cost
            return
        advantage = min(max(self.mean - cost, -FARTHEST), FARTHEST)
        before = -1
        for d, action in enumerate(actions):
            gradient = -self.probabilities(d, before)
            gradient[action] += 1.0
            count = self.counts[d]
            self.theta[d, before, :count] += rate * advantage * gradient[:count]
            before = action
        self.mean -= (1.0 - KEPT) * advantage
