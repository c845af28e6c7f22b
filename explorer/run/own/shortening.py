"""Shortening: which blocks of a model stay, so that a step is short and small enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from explorer.graph import LayerGraph
from explorer.strategy import Stage

Keep = tuple[tuple[str, int, tuple[int, ...]], ...]
"""Lists of blocks that are shortened: path, number of blocks, and those that stay."""


def kept_blocks(
    graph: LayerGraph, blocks: Mapping[int, Sequence[str]], *, fits: Callable[[float, float], bool]
) -> Keep:
    """Take blocks away until a graph fits, or none is left that may go.

    Stages lose blocks in proportion to those they have; the first of each stays, and so does a block whose
    output has another shape than that of the block before it.

    Args:
        graph: the model.
        blocks: per stage, the blocks that may go (`whole_blocks`).
        fits: tells whether FLOPs of the forward of one sample, and scalars of parameters, are few enough.
    """
    kept = {block: True for names in blocks.values() for block in names}
    reshaping = _reshaping(graph)
    order = [block for block in _dropping_order(blocks) if block not in reshaping]
    while order and not fits(sample_flops(graph, kept), parameter_elements(graph, kept)):
        kept[order.pop()] = False
    return _lists(graph, kept)


def sample_flops(graph: LayerGraph, kept: Mapping[str, bool] | None = None) -> float:
    """Return the FLOPs of the forward of one sample, by the layers whose blocks stay."""
    return sum(item.forward.flops for item in graph.layers if not kept or kept.get(item.block, True))


def parameter_elements(graph: LayerGraph, kept: Mapping[str, bool] | None = None) -> float:
    """Return the scalars of all parameters of the layers whose blocks stay."""
    stay = [item for item in graph.layers if not kept or kept.get(item.block, True)]
    names = {use.name for item in stay for use in item.parameters}
    return sum(graph.parameter[name].elements for name in names)


def whole_blocks(graph: LayerGraph, stages: Sequence[Stage]) -> dict[int, list[str]]:
    """Return, per stage, the numbered blocks in order that it holds whole."""
    owners: dict[str, set[int]] = {}
    for s, stage in enumerate(stages):
        for name in stage.all_layers:
            if block := graph.layer[name].block:
                owners.setdefault(block, set()).add(s)
    found: dict[int, list[str]] = {}
    for block, holders in owners.items():
        if len(holders) == 1 and block.rpartition(".")[2].isdigit():
            found.setdefault(next(iter(holders)), []).append(block)
    return found


def _dropping_order(blocks: Mapping[int, Sequence[str]]) -> list[str]:
    """Return the blocks that may go, the first to go last: stages lose equal shares of theirs."""
    shares = [
        (number / len(names), stage, names[number])
        for stage, names in blocks.items()
        for number in range(1, len(names))
    ]
    return [name for _, _, name in sorted(shares)]


def _reshaping(graph: LayerGraph) -> set[str]:
    """Return the blocks that pass on other shapes than the block before them in their list."""
    shapes: dict[str, dict[str, tuple[float, ...]]] = {}
    block_of = {layer.name: layer.block for layer in graph.layers}
    for layer in graph.layers:
        own = shapes.setdefault(layer.block, {})
        for use in layer.writes:
            if any(block_of[name] != layer.block for name in graph.consumers.get(use.name, ())):
                own[use.name] = graph.tensor[use.name].shape
    found, before = set(), dict[str, list[tuple[float, ...]]]()
    for block, passed in shapes.items():
        path, now = block.rpartition(".")[0], sorted(passed.values())
        if before.get(path) != now:
            found.add(block)
        before[path] = now
    return found


def _lists(graph: LayerGraph, kept: Mapping[str, bool]) -> Keep:
    """Return the lists of blocks that are shortened."""
    lists: dict[str, list[int]] = {}
    for block in dict.fromkeys(item.block for item in graph.layers if item.block):
        path, _, number = block.rpartition(".")
        if number.isdigit():
            lists.setdefault(path, []).append(int(number))
    return tuple(
        (path, len(numbers), tuple(n for n in numbers if kept.get(f"{path}.{n}", True)))
        for path, numbers in lists.items()
        if any(not kept.get(f"{path}.{n}", True) for n in numbers)
    )
