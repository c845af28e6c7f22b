"""Two passes over the same tasks: `static` (longest path) and `events` (shared rates slow tasks down)."""

from explorer.passes.events import run_events
from explorer.passes.overfull import is_overfull, overfull_resources
from explorer.passes.static import run_static
from explorer.passes.timing import Shares, Timing

__all__ = ["Shares", "Timing", "is_overfull", "overfull_resources", "run_events", "run_static"]
