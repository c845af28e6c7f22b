"""TitanSettings: what a torchtitan config says, as plain values by dotted name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that only running the config would give."""

    text: str
    """As it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TitanSettings:
    """A config, flat."""

    values: Mapping[str, Any]
    """`parallelism.tensor_parallel_degree` -> 8; `Unread` where a value is computed.

    Beside torchtitan's own names: `model.name` and `model.flavor`; `activation_checkpoint.mode` (none,
    selective, full, memory-budget); `optimizer.name`; `explorer` (model and cluster, if we wrote it).
    """
    notes: tuple[str, ...] = field(default=())
    """What it says that a plan has no word for."""

    def get(self, key: str, default: Any) -> Any:
        """A value, or torchtitan's default where the config does not say."""
        found = self.values.get(key, default)
        return default if isinstance(found, Unread) else found
