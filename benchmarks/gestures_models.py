"""Models that the gesture benchmarks ask for: a given number of blocks, made when asked for.

Loaded by the workbench as `benchmarks.gestures_models:hundred`, as a user's own model would be.
"""

from __future__ import annotations

from explorer.graph import LayerGraph
from explorer.models.synthetic import mlp

WIDTH = 2048
"""Of every block: three layers, so that a block is more than one chip when it is opened."""


def _blocks(count: int) -> LayerGraph:
    """A model whose board has `count` chips: blocks of three layers, then a head and a loss."""
    return mlp(count - 2, width=WIDTH, name=f"blocks-{count}")


def hundred() -> LayerGraph:
    """100 chips."""
    return _blocks(100)


def thousand() -> LayerGraph:
    """1000 chips."""
    return _blocks(1000)
