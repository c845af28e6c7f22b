"""Recomputation of Megatron-LM block by block: the first blocks of every stage, or groups of blocks.

``--recompute-method block --recompute-num-layers N`` makes the first N blocks of every stage (of every chunk
of a rank) again in full and keeps the others. ``uniform`` makes all again in groups of N that follow each
other, of which only the input is kept: what passes from block to block inside a group is dropped too, as
`output` says of the layers that write it. A group of 1 is what full recomputation means here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from explorer.graph import LayerGraph
from explorer.importing._titan_models import block_numbers
from explorer.strategies.keeping import Kept, exceptions_of, kept_of, with_kept
from explorer.strategy import RECOMPUTE_OUTPUT, JobStrategy, Stage

BLOCK, UNIFORM = "block", "uniform"
NONE, FULL = "none", "full"


class Recomputation(NamedTuple):
    """What `--recompute-granularity full` goes with."""

    method: str
    """block or uniform."""
    blocks: int
    """`--recompute-num-layers`."""


def with_recomputation(graph: LayerGraph, job: JobStrategy, asked: Recomputation) -> JobStrategy:
    """Return a strategy that makes again what Megatron-LM does, where its stages recompute in full."""
    if asked.method == BLOCK:
        if all(len(_blocks(graph, stage)) <= asked.blocks for stage in job.stages):
            return job
        return job.with_stages(_first(graph, stage, asked.blocks) for stage in job.stages)
    return job.with_stages(_grouped(graph, stage, asked.blocks) for stage in job.stages)


def recomputation_of(graph: LayerGraph, job: JobStrategy) -> Recomputation | None:
    """Return the arguments by which Megatron-LM makes again what a strategy does; None if there are none.

    A strategy that recomputes nothing has none either, nor has one that does so selectively.
    """
    if not any(stage.keeping for stage in job.stages):
        return Recomputation(UNIFORM, 1) if all(s.recompute == FULL for s in job.stages) else None
    again = {name: kept_of(stage, name).recompute for stage in job.stages for name in stage.all_layers}
    blocks = [list(_blocks(graph, stage).values()) for stage in job.stages]
    first = max(sum(again[names[0]] == FULL for names in own) for own in blocks)
    group = 1 + max(
        (next((i for i, names in enumerate(own) if not _drops(again, names)), len(own)) for own in blocks),
        default=0,
    )
    full = job.with_stages(_plain(stage) for stage in job.stages)
    for asked in (Recomputation(BLOCK, first), Recomputation(UNIFORM, group)):
        made = with_recomputation(graph, full, asked)
        there = ((name, stage) for stage in made.stages for name in stage.all_layers)
        inside = all(
            kept_of(stage, name).recompute == again[name] for name, stage in there if graph.layer[name].block
        )
        if asked.blocks and inside and not _outside(graph, job):
            return asked
    return None


def _outside(graph: LayerGraph, job: JobStrategy) -> bool:
    """Tell whether a layer outside of blocks is recomputed otherwise than its stage."""
    return any(
        own.recompute and not graph.layer[name].block
        for stage in job.stages
        for name, own in exceptions_of(stage).items()
    )


def _plain(stage: Stage) -> Stage:
    """Return a stage that recomputes in full, without exceptions."""
    return replace(stage, recompute=FULL, keeping=())


def _drops(again: dict[str, str], names: list[str]) -> bool:
    """Tell whether a block drops what it writes."""
    return any(again[name] == RECOMPUTE_OUTPUT for name in names)


def _blocks(graph: LayerGraph, stage: Stage) -> dict[str, list[str]]:
    """Return the layers of each transformer block of a stage, in order."""
    numbers, found = block_numbers(graph), dict[str, list[str]]()
    for name in stage.all_layers:
        if (block := graph.layer[name].block) in numbers:
            found.setdefault(block, []).append(name)
    return found


def _first(graph: LayerGraph, stage: Stage, count: int) -> Stage:
    """Return a stage that makes its first blocks again, and keeps everything else."""
    again = [name for names in list(_blocks(graph, stage).values())[:count] for name in names]
    return with_kept(replace(stage, recompute=NONE), dict.fromkeys(again, Kept(FULL)))


def _grouped(graph: LayerGraph, stage: Stage, count: int) -> Stage:
    """Return a stage that keeps the inputs of its groups of blocks only."""
    blocks = list(_blocks(graph, stage).values())
    dropped = [
        name
        for start in range(0, len(blocks), count)
        for names in blocks[start : start + count][:-1]  # what the last one writes is the next one's input
        for name in names
        if _leaves(graph, name, set(names))
    ]
    return with_kept(stage, dict.fromkeys(dropped, Kept(RECOMPUTE_OUTPUT)))


def _leaves(graph: LayerGraph, name: str, inside: set[str]) -> bool:
    """Tell whether a layer outside of a block reads what one of its layers writes."""
    return any(
        reader not in inside
        for use in graph.layer[name].writes
        for reader in graph.consumers.get(use.name, ())
    )
