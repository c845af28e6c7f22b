"""HAP: programs by A*, and shares of unlike devices by a linear program."""

from __future__ import annotations

import itertools

import numpy as np

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.best_first import cheapest
from explorer.planners._pieces.choice_graph import ChoiceGraph
from explorer.planners._pieces.unlike_devices import best_shares

BY_HAND = "worked out by hand from the linear program; the paper prints no such case"


def _share(loads: tuple[tuple[float, float], ...], sent_s: float) -> float:
    """Return the share of the first of two devices whose layers take these seconds at equal shares."""
    return round(best_shares([np.array(own) for own in loads], sent_s, (1, 1))[0], 9)


def _over_the_least() -> float:
    """Return by how many seconds A* misses the cheapest of all programs of six layers in a row."""
    seconds = tuple(np.array([(3.0 * v * k + k) % 7 for k in range(3)]) for v in range(6))
    edge = np.array([[float((2 * a + 5 * b) % 4) for b in range(3)] for a in range(3)])
    costs = ChoiceGraph(
        seconds=seconds, held_bytes=tuple(np.zeros(3) for _ in seconds),
        edges={(v, v + 1): edge for v in range(5)},
    )  # fmt: skip
    least = min(costs.total_s(chosen) for chosen in itertools.product(range(3), repeat=6))
    return cheapest(costs).seconds - least


@SYSTEMS.add(
    System(
        name="hap",
        title="Programs by A*, unequal shares of unlike devices by a linear program",
        paper="Jiang et al., HAP: SPMD DNN Training on Heterogeneous GPU Clusters with Automated Program"
        " Synthesis, EuroSys 2024",
        year=2024,
        uses=Uses(searchers=("hap",), options=("unequal shares of tensors", "unequal shares of samples")),
        missing="shares of tensors and of samples in one plan (such programs are judged with equal shares);"
        " its choice between padded gathers and grouped broadcasts, and sufficient factors",
        claims=(
            Claim(
                text="one layer that takes 3 s on one device and 1 s on the other, nothing sent: the first"
                " one's share is its speed over that of both",
                published=0.25,
                unit="",
                measure=lambda: _share(((3.0, 1.0),), 0.0),
            ),
            Claim(
                text="and with 4 s of gathers, padded to the largest share: both the same",
                published=0.5,
                unit="",
                measure=lambda: _share(((3.0, 1.0),), 4.0),
                why=BY_HAND,
            ),
            Claim(
                text="two layers, each fast on another device: both the same",
                published=0.5,
                unit="",
                measure=lambda: _share(((3.0, 1.0), (1.0, 3.0)), 0.0),
                why=BY_HAND,
            ),
            Claim(
                text="no program of six layers with three ways each is cheaper than A*'s",
                published=0,
                unit="s",
                measure=_over_the_least,
                why="the paper: the search is optimal for given shares; here against all 729",
            ),
        ),
    )
)
def example() -> Example:
    """OPT-350M on V100 and A100, which take samples by their speed."""
    return Example(
        model="opt-350m",
        cluster="mixed-v100-a100",
        global_batch=64,
        shape={"replicas": 8, "microbatch_size": 4},
    )
