"""Two passes over the same tasks: `static` (longest path) and `events` (shared rates slow tasks down)."""

from explorer.passes.events import run_events
from explorer.passes.static import overfull_resources, run_static
from explorer.passes.timing import Shares, Timing

__all__ = ["Shares", "Timing", "overfull_resources", "run_events", "run_static"]
