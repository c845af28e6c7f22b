"""Views: a report as plain dicts for tables, charts and widgets; they neither draw nor compute costs.

One file per picture. All take a `Scene` and return JSON (numbers finite, keys strings), except for large
tables, which are arrays of float32. The shapes are those of `widgets/PROTOCOL.md`.
"""

from __future__ import annotations

from explorer.views.blocks import blocks_view
from explorer.views.board import board_view
from explorer.views.export_preview import export_view
from explorer.views.graph import graph_view
from explorer.views.link_map import links_view
from explorer.views.memory_map import memory_view
from explorer.views.scene import Scene, make_scene
from explorer.views.search_table import leaderboard_rows
from explorer.views.tiles import tiles_view
from explorer.views.timeline import timeline_view
from explorer.views.trace import chrome_trace
from explorer.views.traffic import communication_view, traffic_view
from explorer.views.verdict import quick_verdict, verdict_view
from explorer.views.why import reasons_view

__all__ = [
    "Scene",
    "blocks_view",
    "board_view",
    "chrome_trace",
    "communication_view",
    "export_view",
    "graph_view",
    "leaderboard_rows",
    "links_view",
    "make_scene",
    "memory_view",
    "quick_verdict",
    "reasons_view",
    "tiles_view",
    "timeline_view",
    "traffic_view",
    "verdict_view",
]
