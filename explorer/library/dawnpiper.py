"""DawnPiper: cuts between the work- and the memory-balanced one, and tensors that leave or are made again."""

from __future__ import annotations

from functools import cache

import numpy as np

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.cut_line import CutLine, Place
from explorer.planners._pieces.relief import kept
from explorer.planners.dawnpiper import Halving

BY_HAND = "worked out by hand from the theorem and the cost model"
WORKS, LEFT = (2.0, 2.0, 3.0, 3.0, 3.0, 3.0), (4.0, 4.0, 1.0, 1.0, 1.0, 1.0)
"""Seconds of six layers for a microbatch, and bytes that they leave, each made again in half a second."""
KEPT = 2
"""Microbatches that both of two stages keep."""


def _line(room_bytes: float) -> Halving:
    n, left = len(WORKS), np.array(LEFT)
    line = CutLine(
        first=np.arange(n + 1), seconds=np.array([np.concatenate([[0.0], np.cumsum(WORKS)])]),
        refused=np.full((1, n + 1), n), held_bytes=np.zeros(n + 1),
        saved_bytes=np.concatenate([[0.0], np.cumsum(left)]), sent_bytes=np.zeros(n + 1),
    )  # fmt: skip
    places = [Place(0, room_bytes, KEPT)] * 2
    return Halving(
        line=line, kept=kept(left, left[None, :] / 2, [np.inf]), places=places, link_s=np.zeros(n + 1)
    )


@cache
def _cut(room_bytes: float) -> tuple[float, int]:
    """Return the seconds of the slower of two stages, and the layers of the first one."""
    plan = _line(room_bytes).best(0, len(WORKS), 0, 2)
    return plan.seconds, plan.ends[0]


def _swapped_s(work_s: float) -> float:
    """Return what a stage pays for 6 of 8 bytes, at half a second a byte to the host or to make it again."""
    found = kept(np.array([4.0, 4.0]), np.array([[2.0, 2.0]]), [0.5]).relief(0, 0, 2, 6.0, work_s)
    return found.seconds if found is not None else np.inf


@SYSTEMS.add(
    System(
        name="dawnpiper",
        title="Binary partition between work- and memory-balanced cuts, swap and recomputation by tensor",
        paper="Peng et al., DawnPiper: A Memory-scalable Pipeline Parallel Training Framework, 2025",
        year=2025,
        uses=Uses(
            schedules=("1f1b",), searchers=("dawnpiper",), options=("activations in host memory", "recompute")
        ),
        missing="choices for single tensors in a plan: they decide where to cut, then a stage that lacks"
        " memory sends all of its activations to the host or makes all again, whichever takes less; its"
        " profiles of compiled models; and so its largest batches (up to 4 times vPipe's and 11 times"
        " PipeDream's) and its speed-up of up to 1.5 over vPipe, which is not here",
        claims=(
            Claim(
                text="six layers of 2, 2, 3, 3, 3, 3 s on two stages with room for all: cut behind the third,"
                " which balances work (7 and 9 s)",
                published=3,
                unit="layers",
                measure=lambda: _cut(100.0)[1],
                why=BY_HAND,
            ),
            Claim(
                text="they leave 4, 4, 1, 1, 1, 1 bytes a microbatch: memory is balanced between the first"
                " cut and the second, work between the third and the fourth, and the fifth is not looked at",
                published=4,
                unit="cuts",
                measure=lambda: len(_line(100.0).between(0, len(WORKS), 0, 2)),
                why=BY_HAND,
            ),
            Claim(
                text="room for two microbatches of 4 bytes on each, half a second to make a byte again: the"
                " first stage makes 5 of 9 bytes again, and takes 9.5 s",
                published=9.5,
                unit="s",
                measure=lambda: _cut(8.0)[0],
                why=BY_HAND,
            ),
            Claim(
                text="8 bytes of which 6 have to go, half a second a byte to the host, 3 s of work: all go"
                " meanwhile, for nothing",
                published=0,
                unit="s",
                measure=lambda: _swapped_s(3.0),
                why=BY_HAND,
            ),
            Claim(
                text="2 s of work hide 4 bytes; the other 2 take 1 s, made again or waited for",
                published=1,
                unit="s",
                measure=lambda: _swapped_s(2.0),
                why=BY_HAND,
            ),
        ),
    )
)
def example() -> Example:
    """BERT large over four V100, layer by layer in stages of 1F1B."""
    return Example(
        model="bert-large",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 4, "microbatches": 16, "schedule": "1f1b"},
    )
