"""Stages of Megatron-LM: transformer blocks by pipeline rank and chunk, and its layouts as text.

A layout lists stages with `|` between them, chunk by chunk over all ranks: `Et*3|t*4|t*4|t*3L` has the
embedding (`E`) and three blocks (`t`) first, and the loss (`L`) behind the last three. Norm and head are with
the loss.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_GROUP = re.compile(r"\(([^()]+)\)\*(\d{1,4})")
_REPEAT = re.compile(r"([EtmL|])\*(\d{1,4})")
_LONGEST = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Blocks of the stages of a job."""

    chunks: int = 1
    """Stages of a pipeline rank."""
    blocks: tuple[int, ...] = ()
    """Blocks of every stage in model order; () where there is one stage."""
    problems: tuple[str, ...] = ()
    """What contradicts itself."""


def layout_text(blocks: Sequence[int]) -> str:
    """Return the layout of stages of so many blocks, embedding first and loss last.

    >>> layout_text([1, 2, 0])
    'Et|t*2|L'
    """
    parts = ["" if not count else "t" if count == 1 else f"t*{count}" for count in blocks]
    parts[0] = f"E{parts[0]}"
    parts[-1] = f"{parts[-1]}L"
    return "|".join(parts)


def layout_blocks(text: str) -> tuple[int, ...]:
    """Return the blocks of every stage of a layout; () if it is none that a plan can follow.

    >>> layout_blocks("Ettt|(tt|)*2tL")
    (3, 2, 2, 1)
    """
    text = text.replace(",", "").replace(" ", "")
    for pattern in (_GROUP, _REPEAT):
        if sum(len(match[1]) * int(match[2]) for match in pattern.finditer(text)) > _LONGEST:
            return ()
        text = pattern.sub(lambda match: match[1] * int(match[2]), text)
    stages = text.split("|")
    if not re.fullmatch(r"E[t|]*L", text) or len(text) > _LONGEST:
        return ()
    return tuple(stage.count("t") for stage in stages)


def stages_of(
    *,
    layers: int,
    pipeline: int,
    layout: str,
    per_chunk: int,
    chunks: int,
    first: int,
    last: int,
    embedding_counts: bool,
    loss_counts: bool,
) -> Stages:
    """Return the stages that Megatron-LM makes of its arguments; 0 is an argument that is not given.

    Args:
        layers: transformer blocks of the model.
        pipeline: ranks of the pipeline.
        layout: `--pipeline-model-parallel-layout`.
        per_chunk: `--num-layers-per-virtual-pipeline-stage`.
        chunks: `--num-virtual-stages-per-pipeline-rank`.
        first: `--decoder-first-pipeline-num-layers`.
        last: `--decoder-last-pipeline-num-layers`.
        embedding_counts: whether the embedding counts as a block in an even cut.
        loss_counts: whether the loss counts as a block.
    """
    if sum(bool(item) for item in (layout, per_chunk, chunks)) > 1:
        return Stages(problems=("a layout, layers per virtual stage and virtual stages per rank: give one",))
    if layout:
        return _of_layout(layout, pipeline)
    if pipeline < 2 or not layers:
        return Stages()
    if first or last:
        return _uneven(layers, pipeline, max(1, chunks), first, last)
    return _even(layers, pipeline, per_chunk, max(1, chunks), (embedding_counts, loss_counts))


def _even(layers: int, pipeline: int, per_chunk: int, chunks: int, ends: tuple[bool, bool]) -> Stages:
    """Cut evenly; embedding and loss may count as a block each."""
    embedding_counts, loss_counts = ends
    units = layers + embedding_counts + loss_counts
    count = pipeline * chunks
    if per_chunk:
        count = units // per_chunk
        if count * per_chunk != units or count % pipeline:
            text = f"{layers} blocks in stages of {per_chunk} over {pipeline} pipeline ranks leave a rest"
            return Stages(problems=(text,))
    if units % count:
        return Stages(problems=(f"{layers} blocks do not divide evenly over {count} stages: change one",))
    blocks = [units // count] * count
    blocks[0] -= embedding_counts
    blocks[-1] -= loss_counts
    return Stages(chunks=count // pipeline, blocks=tuple(blocks))


def _of_layout(layout: str, pipeline: int) -> Stages:
    blocks = layout_blocks(layout)
    if not blocks or len(blocks) % max(1, pipeline):
        text = f"the layout {layout[:60]!r} is none of E, t and L in a multiple of {pipeline} stages"
        return Stages(problems=(text,))
    return Stages(chunks=len(blocks) // max(1, pipeline), blocks=blocks if len(blocks) > 1 else ())


def _uneven(layers: int, pipeline: int, chunks: int, first: int, last: int) -> Stages:
    """Spread the blocks that the first and last rank leave evenly over the others, rank by rank."""
    given = [(0, first), (pipeline - 1, last)]
    fixed = {rank: blocks for rank, blocks in given if blocks}
    others = pipeline - len(fixed)
    rest = layers - sum(fixed.values())
    if (others and rest % others) or (not others and rest) or rest < 0:
        text = (
            f"{layers} blocks less {' and '.join(map(str, fixed.values()))} do not divide over {others} ranks"
        )
        return Stages(problems=(text,))
    counts = [fixed.get(rank, rest // others if others else 0) for rank in range(pipeline)]
    if any(count % chunks for count in counts):
        return Stages(problems=(f"{counts} blocks of ranks do not divide into {chunks} chunks",))
    return Stages(chunks=chunks, blocks=tuple(count // chunks for _ in range(chunks) for count in counts))
