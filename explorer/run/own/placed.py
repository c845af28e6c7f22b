"""Placing nodes of a captured program on a device.

A program is captured on the host, and its operators name the host wherever they make something (masks,
positions), cast it or assert where it lies. On another device they name that one.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.fx.node import map_aggregate


def placed(value: Any, device: torch.device) -> Any:
    """Return arguments with a device wherever they name one.

    >>> placed((1, [torch.device("cpu")]), torch.device("meta"))
    (1, [device(type='meta')])
    """
    return map_aggregate(value, lambda item: device if isinstance(item, torch.device) else item)


def place_node(node: Any, device: torch.device) -> None:
    """Let a node of a program compute on a device."""
    node.args, node.kwargs = placed(node.args, device), placed(node.kwargs, device)


def placed_module(module: Any, device: torch.device) -> Any:
    """Return a copy of a graph inside of a captured program (what it runs without gradients) on a device,
    with the graphs inside of it.
    """
    made = copy.deepcopy(module)
    for part in made.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                place_node(node, device)
            part.recompile()
    return made.to(device)


def beside_host(device: torch.device) -> torch.device | None:
    """Return a device on which a program has to be placed; None for the host, where it was captured."""
    return None if device.type == "cpu" else device


def with_index(device: torch.device) -> torch.device:
    """Return a device as its tensors name it: of GPUs with the number of the present one."""
    return torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else device


__all__ = ["beside_host", "place_node", "placed", "placed_module", "with_index"]
