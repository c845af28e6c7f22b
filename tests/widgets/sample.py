"""Every view of the protocol, for llama3-8b on 8 x A100, 4 stages x 2 replicas."""

from sample_board import board_view, held_view, overfull_view, with_other
from sample_graph import graph_index, graph_scene, graph_state, graph_view
from sample_model import blocks
from sample_panels import controls_view, reasons, tiles_view, what_if_view
from sample_time import links, memory, schedule, timeline, traffic

__all__ = [
    "blocks",
    "board_view",
    "controls_view",
    "graph_index",
    "graph_scene",
    "graph_state",
    "graph_view",
    "held_view",
    "links",
    "memory",
    "overfull_view",
    "reasons",
    "schedule",
    "tiles_view",
    "timeline",
    "traffic",
    "what_if_view",
    "with_other",
]
