"""SPP: plans of synchronous pipelines over links of any speed, and PE, their list scheduler."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners.spp import device_order

P, M = 4, 12


def _pipeline(transfer_s: float = 0.0) -> Ideal:
    return Ideal(p=P, m=M, schedule="spp", transfer_s=transfer_s)


def _two_nodes(count: int) -> npt.NDArray[np.float64]:
    """Return rates between devices of two nodes, which are numbered in turn."""
    node = np.arange(count) % 2
    return np.where(np.equal.outer(node, node), 10.0, 1.0)


def _over_bound(transfer_s: float) -> float:
    """Return by how much a step exceeds (1 + (4 p - 4)/m) m C, C the work of the busiest stage or wire."""
    busiest = max(3.0, 2 * transfer_s)
    return max(0.0, _pipeline(transfer_s).report().makespan_s - (1 + (4 * P - 4) / M) * M * busiest)


@SYSTEMS.add(
    System(
        name="spp",
        title="List scheduling of microbatches over stages and wires",
        paper="Luo et al., Efficient Pipeline Planning for Expedited Distributed DNN Training, INFOCOM 2022",
        year=2022,
        uses=Uses(schedules=("spp",), searchers=("spp",)),
        claims=(
            Claim(
                text=f"where transfers are free, a step takes (m + p - 1)(F + B): p = {P}, m = {M}, F = 1, B"
                " = 2",
                published=(M + P - 1) * 3,
                unit="s",
                measure=lambda: _pipeline().report().makespan_s,
                why="worked out by hand from the mechanism; the paper prints no such case",
            ),
            Claim(
                text="it runs ahead while gradients are on their way, so that transfers of 0.5 s add only the"
                " way there and back, 2 (p - 1) x",
                published=(M + P - 1) * 3 + 2 * (P - 1) * 0.5,
                unit="s",
                measure=lambda: _pipeline(0.5).report().makespan_s,
                why="worked out by hand from the mechanism; the paper prints no such case",
            ),
            *(
                Claim(
                    text=f"no step exceeds (1 + (4 p - 4)/m) m C, C the work of the busiest stage or wire:"
                    f" transfers of {x:g} s",
                    published=0.0,
                    unit="s",
                    measure=lambda x=x: _over_bound(x),  # type: ignore[misc]
                    why="the constant as known, without the paper at hand",
                )
                for x in (0.5, 2.0, 4.0)
            ),
            Claim(
                text="RDO: devices of two nodes, numbered in turn, come node by node (place of device 1)",
                published=3,
                unit="",
                measure=lambda: device_order(_two_nodes(6)).index(1),
                why="worked out by hand: the minimum cut is between the nodes",
            ),
        ),
    )
)
def example() -> Example:
    """BERT large over four V100 joined by Ethernet, where transfers matter."""
    return Example(
        model="bert-large",
        cluster="pipedream-a",
        global_batch=64,
        shape={"stages": 4, "microbatches": 8, "schedule": "spp"},
    )
