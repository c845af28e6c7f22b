"""Shortening: blocks go in proportion, whole, within the limits, and no more of them than must."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from explorer.graph import LayerGraph, Work
from explorer.models.synthetic import chain
from explorer.run.own.shortening import kept_blocks, sample_flops, whole_blocks
from explorer.strategy import Mesh, Stage

ELEMENTS = 10.0
"""Scalars of the parameter of a layer."""


def stacked(flops: Sequence[float], widths: Sequence[float] = ()) -> LayerGraph:
    """Blocks of two layers each in a list `blocks`, with FLOPs per layer and widths per block, and a head."""
    count = len(flops) + 1
    each = [w for w in widths for _ in range(2)] or [1.0] * len(flops)
    graph = chain([1.0] * count, parameter_bytes=4 * ELEMENTS, activation_bytes=[*each, 1.0])
    return replace(
        graph,
        layers=tuple(
            replace(layer, block=f"blocks.{i // 2}", forward=Work(flops=flops[i]))
            if i < len(flops)
            else replace(layer, block="")
            for i, layer in enumerate(graph.layers)
        ),
    )


def staged(graph: LayerGraph, cuts: Sequence[int]) -> tuple[Stage, ...]:
    """Stages between cuts of the layers."""
    names = [layer.name for layer in graph.layers]
    ends = [0, *sorted({c for c in cuts if 0 < c < len(names)}), len(names)]
    return tuple(
        Stage(layers=tuple(names[a:b]), meshes=(Mesh(devices=(i,)),))
        for i, (a, b) in enumerate(pairwise(ends))
    )


@st.composite
def models(draw: st.DrawFn) -> tuple[LayerGraph, tuple[Stage, ...]]:
    count = draw(st.integers(1, 24))
    flops = draw(st.lists(st.integers(1, 50), min_size=2 * count, max_size=2 * count))
    graph = stacked([float(f) for f in flops])
    return graph, staged(graph, draw(st.lists(st.integers(1, 2 * count), max_size=5)))


limits = st.integers(0, 2500).map(float)


def kept_numbers(graph: LayerGraph, keep: object) -> set[int]:
    """Numbers of the blocks that stay."""
    every = {int(layer.block.rpartition(".")[2]) for layer in graph.layers if layer.block}
    if not keep:
        return every
    ((path, count, kept),) = keep  # type: ignore[misc,attr-defined]
    assert (path, count) == ("blocks", len(every))
    assert list(kept) == sorted(set(kept))
    assert set(kept) < every, "a list that is named is shortened"
    return set(kept)


def within(flops: float, elements: float) -> Callable[[float, float], bool]:
    return lambda used, held: used <= flops and held <= elements


@given(models(), limits, limits)
def test_what_stays_of_every_stage(
    made: tuple[LayerGraph, tuple[Stage, ...]], flops: float, elements: float
) -> None:
    graph, stages = made
    blocks = whole_blocks(graph, stages)
    kept = kept_numbers(graph, kept_blocks(graph, blocks, fits=within(flops, elements)))
    names = {f"blocks.{n}" for n in kept}
    cut = {layer.block for layer in graph.layers if layer.block} - {b for own in blocks.values() for b in own}
    assert cut <= names, "a block that a cut divides stays"
    stays = {s: [b for b in own if b in names] for s, own in blocks.items()}
    for s, own in blocks.items():
        assert stays[s] == own[: len(stays[s])] != [], "the first of a stage stay"
    for a, one in blocks.items():
        for b, two in blocks.items():
            apart = abs(len(stays[a]) / len(one) - len(stays[b]) / len(two))
            assert apart <= max(1 / len(one), 1 / len(two)) + 1e-12, "equal shares, to one block"


@given(models(), limits, limits)
def test_limits_are_kept_and_nothing_goes_in_vain(
    made: tuple[LayerGraph, tuple[Stage, ...]], flops: float, elements: float
) -> None:
    graph, stages = made
    blocks = whole_blocks(graph, stages)

    def use(numbers: set[int]) -> tuple[float, float]:
        inside = [x for x in graph.layers if not x.block or int(x.block.rpartition(".")[2]) in numbers]
        return sum(x.forward.flops for x in inside), ELEMENTS * len(inside)

    def fits(numbers: set[int]) -> bool:
        used = use(numbers)
        return used[0] <= flops and used[1] <= elements

    every = kept_numbers(graph, ())
    kept = kept_numbers(graph, kept_blocks(graph, blocks, fits=within(flops, elements)))
    fewest = every - {int(b.rpartition(".")[2]) for own in blocks.values() for b in own[1:]}
    assert fits(kept) or kept == fewest
    assert (kept == every) == (fits(every) or every == fewest)
    wider = kept_numbers(graph, kept_blocks(graph, blocks, fits=within(2 * flops, 2 * elements)))
    assert kept <= wider, "more room takes no block away"
    if kept != every:  # with the last block that went, a limit is exceeded
        gone = [
            (n / len(own), s, int(own[n].rpartition(".")[2]))
            for s, own in blocks.items()
            for n in range(1, len(own))
            if int(own[n].rpartition(".")[2]) not in kept
        ]
        assert not fits(kept | {min(gone)[2]})


def test_a_block_that_changes_the_shape_stays() -> None:
    graph = stacked([1.0] * 12, widths=[4.0, 4.0, 8.0, 8.0, 2.0, 2.0])
    blocks = whole_blocks(graph, staged(graph, []))
    kept = kept_blocks(graph, blocks, fits=within(0.0, 0.0))
    assert kept == (("blocks", 6, (0, 2, 4)),)


def test_flops_of_a_sample_are_those_of_the_blocks_that_stay() -> None:
    graph = stacked([1.0, 2.0, 4.0, 8.0])
    assert sample_flops(graph) == 15.0
    assert sample_flops(graph, {"blocks.0": True, "blocks.1": False}) == 3.0
