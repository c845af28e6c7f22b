"""SWARM: peers of a stage take whatever is ready; no order exists before time runs."""

from __future__ import annotations

from explorer.actions import WIRINGS, Dispatch, Shape
from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES

OPTIONS = (
    Option(
        name="wiring",
        default=WIRINGS[0],
        help="peer of a forward: least expected wait, or interleaved weighted round robin by speed",
        choices=WIRINGS,
    ),
    Option(name="in_flight", default=0, help="microbatches under way at once; 0 is four for every peer"),
    Option(name="seed", default=0, help="breaks ties between peers; 0 takes the first"),
)


@SCHEDULES.add(
    "swarm",
    title="Peers take what is ready; one that leaves has its forwards done again (dispatch)",
    paper="SWARM Parallelism (Ryabinin et al., 2023)",
    options=OPTIONS,
    flush=False,
    torch_name="",
    placement="any",
    dispatch=True,
)
def order(shape: Shape, *, steps: int, wiring: str, in_flight: int, seed: int) -> Dispatch:
    """The policy: every replica of a stage is a candidate, a backward runs where its forward ran.

    Raises:
        InputError: several copies, several microbatch sizes, or replicas that split microbatches.
    """
    del steps  # a policy has no end
    split = [
        s
        for s, count in enumerate(shape.replicas)
        if count > 1 and not (shape.round_robin and shape.round_robin[s])
    ]
    if shape.copies > 1 or split:
        raise InputError(
            "swarm needs peers that take whole microbatches",
            key="replicas",
            found=f"{shape.copies} copies" if shape.copies > 1 else f"split on stage {split[0]}",
            allowed="one copy, replicas: round_robin",
        )
    if len(set(shape.microbatches)) > 1:
        raise InputError(
            "swarm needs one microbatch size",
            key="microbatch_samples",
            found=shape.microbatches,
            allowed="the same for all stages",
        )
    if in_flight < 0:
        raise InputError(f"{in_flight} microbatches", key="in_flight", found=in_flight, allowed="0 or more")
    return Dispatch(wiring=wiring, in_flight=in_flight or 4 * len(shape.lanes), seed=seed)
