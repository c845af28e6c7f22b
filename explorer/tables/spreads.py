"""Spreads: how devices share the stages of a pipeline position, and the choice for a stage that it makes."""

from __future__ import annotations

from explorer.strategies.degrees import RECOMPUTE
from explorer.tables.degrees_columns import EXCHANGE_NAMES
from explorer.tables.stage_choice import StageChoice

Spread = tuple[int, ...]
"""(tensor, context, expert, sequence parallel, context exchange, replicas)."""


def devices_of(lane: Spread) -> int:
    """Return the devices of a position."""
    return lane[0] * lane[1] * lane[5]


def choice_of(
    lane: Spread,
    *,
    replicas: int,
    samples: int = 1,
    recompute: int = 0,
    zero: int = 0,
    bucket_bytes: float = 0.0,
) -> StageChoice:
    """Return what is chosen for stages on the first devices."""
    return StageChoice(
        tensor=lane[0], context=lane[1], expert=lane[2], sequence_parallel=bool(lane[3]),
        context_exchange=EXCHANGE_NAMES[lane[4]], replicas=replicas, microbatch_size=samples,
        recompute=RECOMPUTE[recompute], zero=zero, bucket_bytes=bucket_bytes,
    )  # fmt: skip
