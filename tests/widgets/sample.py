"""Every view of the protocol, for llama3-8b on 8 x A100, 4 stages x 2 replicas."""

from sample_board import board_view, overfull_view
from sample_graph import graph_view
from sample_model import blocks
from sample_panels import controls_view, tiles_view
from sample_time import memory, schedule, timeline, traffic

__all__ = [
    "blocks",
    "board_view",
    "controls_view",
    "graph_view",
    "memory",
    "overfull_view",
    "schedule",
    "tiles_view",
    "timeline",
    "traffic",
]
