"""HeterPS: layers scheduled to kinds of devices by policy gradient, and stages provisioned."""

from __future__ import annotations

import numpy as np

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.policy import Policy
from explorer.planners.heterps import most_of, needed

BY_HAND = "worked out by hand from the mechanism; the paper prints no such case"
CHEAP = (0, 1, 1, 0)
"""The better kind of each of four layers."""


def _learned() -> float:
    """Return how many of four layers end on their better kind, where each other one costs 1."""
    policy, luck = Policy([2] * len(CHEAP), staying=len(CHEAP)), np.random.default_rng(0)
    for _ in range(600):
        drawn = policy.drawn(luck)
        policy.learn(drawn, float(sum(a != b for a, b in zip(drawn, CHEAP, strict=True))), 0.3)
    before, found = -1, 0
    for layer, better in enumerate(CHEAP):
        before = int(policy.probabilities(layer, before).argmax())
        found += before == better
    return found


@SYSTEMS.add(
    System(
        name="heterps",
        title="Layers scheduled to kinds of devices by reinforcement learning, devices provisioned",
        paper="Liu et al., HeterPS: Distributed Deep Learning With Reinforcement Learning Based Scheduling in"
        " Heterogeneous Environments, 2021",
        year=2021,
        uses=Uses(searchers=("heterps",), options=("stages on kinds of devices",)),
        missing="its LSTM (a table of what follows what decides here), its caches of sparse tables and the"
        " cost of reading data; the 14.5 times the throughput of its abstract. In 40 evaluations it"
        " beats random search of the plans of all learners on three of five pairs only",
        claims=(
            Claim(
                text="stages of .5, 2 and 1 s a sample keep up with 2 samples a second on 1 + 4 + 2 devices",
                published=7,
                unit="devices",
                measure=lambda: sum(needed([0.5, 2.0, 1.0], 2.0)),
                why=BY_HAND,
            ),
            Claim(
                text="stages of 1, 2 and 1 s, the first two on six devices of one kind, the last on one of"
                " another: no more than one sample a second",
                published=1,
                unit="samples/s",
                measure=lambda: most_of([1.0, 2.0, 1.0], [0, 0, 1], [6, 1]),
                why=BY_HAND,
            ),
            Claim(
                text="the policy learns the cheaper kind of each of four layers",
                published=4,
                unit="layers",
                measure=_learned,
                why=BY_HAND,
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 on V100 and A100, a stage on each kind."""
    return Example(
        model="gpt2-small",
        cluster="mixed-v100-a100",
        global_batch=64,
        shape={"stages": 2, "replicas": 8, "microbatch_size": 2},
    )
