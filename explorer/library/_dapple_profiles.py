"""Layer profiles that DAPPLE's authors publish with their planner, as graphs: VGG-19 and BERT-48 on a V100.

Seconds of a microbatch in fp32, bytes that a layer hands on and bytes of its weights, from the files
`vgg-19-pbs-32.txt` (32 images) and `bert-48-pbs-2.txt` (2 sequences of 384 tokens) in `profiling_results` of
AlibabaPAI/DAPPLE. Their form is that of PipeDream's profiles. Inputs, masks and reshapes, which take no time
to speak of, are left out. Backwards of VGG-19 take twice their forward, but for the loss. Its bytes are MiB
times a million, 4.6 % less than they should be; they are kept, as the planner reads them so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from explorer.graph import LayerGraph
from explorer.models.pipedream import read

Row = tuple[str, float, float, float, float]
"""A layer: name, milliseconds forward and backward, bytes handed on, bytes of weights."""

_VGG_GROUPS = (
    (384e6, 0.65, ((3.4, 6_835), (7.2, 140_869))),
    (192e6, 0.3, ((3.4, 281_738), (5.0, 562_988))),
    (96e6, 0.165, ((2.3, 1_125_976), (3.55, 2_250_976), (3.55, 2_250_976), (3.55, 2_250_976))),
    (48e6, 0.1, ((1.71, 4_501_953), (2.9, 9_001_953), (2.88, 9_001_953), (2.86, 9_001_953))),
    (12e6, 0.03, ((0.965, 9_001_953), (0.965, 9_001_953), (0.96, 9_001_953), (0.965, 9_001_953))),
)
"""Bytes handed on in a group, milliseconds of the pool behind it, (milliseconds, bytes) of convolutions."""
_VGG_LINEAR = ((0.45, 0.5e6, 392_015_625), (0.1, 0.5e6, 64_015_625), (0.05, 0.128e6, 15_628_814))
_VGG_LOSS: Row = ("Loss", 0.01, 0.2, 2e6, 0.0)
_BERT_LAYERS = 48
_BERT_EMBEDDING: Row = ("Embedding", 0.056, 0.0, 4_325_376, 127_131_648)
_BERT_LAYER: Row = ("layer", 2.69, 4.47, 4_325_376, 50_384_896)
_BERT_POOLER: Row = ("Linear", 0.0, 0.0, 0.0, 4_198_400)


def _vgg_rows() -> Iterator[Row]:
    for sent, pool, convolutions in _VGG_GROUPS:
        yield from (("Conv2d", ms, 2 * ms, sent, weights) for ms, weights in convolutions)
        yield "MaxPool2d", pool, 2 * pool, sent / 4, 0.0
    yield from (("Linear", ms, 2 * ms, sent, weights) for ms, sent, weights in _VGG_LINEAR)
    yield _VGG_LOSS


def _graph(name: str, rows: list[Row], samples: int) -> LayerGraph:
    nodes = [
        f"node{i} -- {what} -- forward_compute_time={forward}, backward_compute_time={backward},"
        f" activation_size={sent}, parameter_size={weights}"
        for i, (what, forward, backward, sent, weights) in enumerate(rows)
    ]
    edges = [f"\tnode{i - 1} -- node{i}" for i in range(1, len(rows))]
    settings = {"samples_per_microbatch": samples}
    return read("\n".join([*nodes, *edges]), file=f"{name}.txt", settings=settings)


@cache
def profile(model: str) -> LayerGraph:
    """Return the graph of a profile, of `vgg19` or `bert-48`."""
    if model == "vgg19":
        return _graph("vgg-19-pbs-32", list(_vgg_rows()), 32)
    return _graph("bert-48-pbs-2", [_BERT_EMBEDDING, *[_BERT_LAYER] * _BERT_LAYERS, _BERT_POOLER], 2)
