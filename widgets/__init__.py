"""The workbench in a notebook. `Explorer(model=..., cluster=...)` is the whole; every part also works
alone.
"""

from __future__ import annotations

from typing import Any

_HOME = {
    "Board": "board",
    "Controls": "controls",
    "Explorer": "app",
    "ExportView": "export.view",
    "GraphView": "graph_view",
    "Heatmap": "heatmap",
    "Leaderboard": "search.leaderboard",
    "RunView": "run.view",
    "States": "history.states",
    "Tiles": "tiles",
    "Timeline": "timeline",
    "WhatIf": "whatif.view",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    """Import a part on first use, so that one part never costs the import of another."""
    if name not in _HOME:
        raise AttributeError(f"module 'widgets' has no attribute {name!r}; it has {', '.join(_HOME)}")
    from importlib import import_module

    return getattr(import_module(f"widgets.{_HOME[name]}"), name)
