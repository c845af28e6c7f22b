"""Columns of degrees: many even plans as one array for each degree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.strategies.degrees import EXCHANGES, RECOMPUTE, Degrees
from explorer.tasks.skeleton import FloatArray, IntArray

EXCHANGE_NAMES = tuple(EXCHANGES)

Scheduled = tuple[str, tuple[tuple[str, Any], ...]]
"""A schedule's name and options."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DegreesColumns:
    """N values of `Degrees`, column by column; each row is as legal as its `Degrees` would be.

    Columns may be views, or broadcast from one value.
    """

    tensor: IntArray
    stages: IntArray
    replicas: IntArray
    context: IntArray
    expert: IntArray
    chunks: IntArray
    """Stages of one copy per position, 1 or more."""
    microbatch_size: IntArray
    recompute: IntArray
    """Positions in `RECOMPUTE`."""
    zero: IntArray
    sequence_parallel: npt.NDArray[np.bool_]
    """False without tensor parallelism."""
    context_exchange: IntArray
    """Positions in `EXCHANGES`; 0 without context parallelism."""
    bucket_bytes: FloatArray
    """0 where no other replica holds the same weights."""
    schedule: IntArray
    """Positions in `schedules`."""
    schedules: tuple[Scheduled, ...]
    """Schedules that the rows name."""

    @staticmethod
    def of(degrees: Sequence[Degrees]) -> DegreesColumns:
        """Return the columns of some degrees."""
        schedules: dict[Scheduled, int] = {}
        for item in degrees:
            schedules.setdefault((item.schedule, item.options), len(schedules))

        def column(name: str) -> IntArray:
            return np.array([getattr(item, name) for item in degrees], dtype=np.int64)

        return DegreesColumns(
            tensor=column("tensor"),
            stages=column("stages"),
            replicas=column("replicas"),
            context=column("context"),
            expert=column("expert"),
            chunks=column("chunks"),
            microbatch_size=column("microbatch_size"),
            recompute=np.array([RECOMPUTE.index(item.recompute) for item in degrees], dtype=np.int64),
            zero=column("zero"),
            sequence_parallel=np.array([item.sequence_parallel for item in degrees], dtype=bool),
            context_exchange=np.array(
                [EXCHANGE_NAMES.index(item.context_exchange) for item in degrees], dtype=np.int64
            ),
            bucket_bytes=np.array([item.bucket_bytes for item in degrees], dtype=np.float64),
            schedule=np.array([schedules[item.schedule, item.options] for item in degrees], dtype=np.int64),
            schedules=tuple(schedules),
        )

    def __len__(self) -> int:
        return len(self.schedule)

    def take(self, rows: IntArray) -> DegreesColumns:
        """Return some of the rows."""
        names = [item.name for item in fields(self) if item.name != "schedules"]
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def at(self, row: int) -> Degrees:
        """Return one row as `Degrees`."""
        name, options = self.schedules[int(self.schedule[row])]
        numbers = ("tensor", "stages", "replicas", "context", "expert", "chunks", "microbatch_size", "zero")
        return Degrees(
            **{key: int(getattr(self, key)[row]) for key in numbers},
            recompute=RECOMPUTE[int(self.recompute[row])],
            sequence_parallel=bool(self.sequence_parallel[row]),
            context_exchange=EXCHANGE_NAMES[int(self.context_exchange[row])],
            bucket_bytes=float(self.bucket_bytes[row]),
            schedule=name,
            options=options,
        )
