"""SWARM: peers of a stage take whatever is ready, so no order exists before time runs."""

from __future__ import annotations

from explorer.actions import WIRINGS, Dispatch, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, Needs, Schedule

OPTIONS = (
    Option(
        name="wiring",
        default=WIRINGS[0],
        help="peer of a forward: least expected wait, or interleaved weighted round robin by speed",
        choices=WIRINGS,
    ),
    Option(
        name="in_flight",
        default=0,
        help="microbatches under way at once; 0 is four for every peer",
        minimum=0,
    ),
    Option(name="seed", default=0, help="breaks ties between peers; 0 takes the first"),
)


@SCHEDULES.add(
    Schedule(
        name="swarm",
        title="Peers take what is ready; one that leaves has its forwards done again (dispatch)",
        paper="SWARM Parallelism (Ryabinin et al., 2023)",
        options=OPTIONS,
        flush=False,
        dispatch=True,
        needs=Needs(copies=(1,), equal_microbatches=True, whole_microbatches=True),
    )
)
def order(shape: Shape, *, steps: int, wiring: str, in_flight: int, seed: int) -> Dispatch:
    """Return the policy: every replica of a stage is a candidate, a backward runs where its forward ran."""
    del steps  # a policy has no end
    return Dispatch(wiring=wiring, in_flight=in_flight or 4 * len(shape.lanes), seed=seed)
