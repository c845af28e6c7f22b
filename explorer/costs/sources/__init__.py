"""Foreign cost models, one file each: a planner's own cost function beside ours.

Each file registers one function; what it takes and returns is said by its `facts`. Ours is not among them:
it is `explorer.costs.compute` and its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.base.registry import Entry, Registry

registry: Registry[Entry[Callable[..., Any]]] = Registry("cost source", "explorer.costs.sources")
"""Cost models by name."""
