"""TitanSettings: a torchtitan config as plain values by dotted name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that only running the config would give."""

    text: str
    """The value as it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TitanSettings:
    """A config as flat values."""

    values: Mapping[str, Any]
    """`parallelism.tensor_parallel_degree` -> 8; `Unread` where a value is computed.

    Besides torchtitan's own names: `model.name` and `model.flavor`; `activation_checkpoint.mode` (none,
    selective, full, memory-budget); `optimizer.name`; `explorer` (model and cluster, if we wrote it).
    """
    notes: tuple[str, ...] = field(default=())
    """Statements of the config for which a plan has no word."""

    def get(self, key: str, default: Any) -> Any:
        """Return a value, or torchtitan's default if the config does not state it."""
        found = self.values.get(key, default)
        return default if isinstance(found, Unread) else found
