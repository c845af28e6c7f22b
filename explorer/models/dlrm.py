"""DLRM as MLPerf trains it on Criteo's terabyte: 26 tables, two small networks, all pairs of their vectors.

Its 26 tables have 187,767,399 rows of 128 (with indices capped at 40 million): 24,034,227,072 parameters,
plus 2,368,897 in the two networks; "24 billion" in print.

A step touches few rows of a large table, and its gradient has only those: `Parameter.density` is the share of
distinct rows among as many lookups as the batch has samples, drawn evenly. Real indices repeat more, so this
is an upper bound; `--set samples_per_step` gives the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.graph import Defaults, LayerGraph, Work
from explorer.models import SOURCES
from explorer.models._tables import check_samples, lookup_sum, samples_per_step, touched_share
from explorer.models.builder import GraphBuilder, Value
from explorer.models.vgg import refuse_sequence

PAPER = "Naumov et al. 2019, Deep Learning Recommendation Model, arXiv:1906.00091; MLPerf Training v1.0"
ROWS = (
    39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155,
    4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36,
)  # fmt: skip
"""Rows of the tables: distinct values of Criteo's 26 categories, modulo 40 million."""
_DENSE, _WIDTH, _BOTTOM, _TOP = 13, 128, (512, 256), (1024, 1024, 512, 256)
_BATCH, _SAMPLES = 65_536, 4_195_197_692


def _mlp(b: GraphBuilder, name: str, x: Value, widths: Sequence[int]) -> Value:
    """Add products with bias, each followed by relu; axes are called ``ffn`` and ``embed`` in turn."""
    for i, width in enumerate(widths, start=1):
        (before,) = x.dims
        after = "embed" if before == "ffn" else "ffn"
        x = b.linear(f"{name}.{i}", x, {after: width}, over=(before,), bias=True)
        x = b.activation(f"{name}.relu{i}", x, saves="output")
    return x


def _pairs(b: GraphBuilder, vectors: Sequence[Value]) -> Value:
    """Add the inner products of all pairs: one batched product, cut to the half below its diagonal."""
    count = len(vectors)
    stacked = b.output("interaction.stack", {"vectors": count, "embed": _WIDTH}, vectors)
    copied = Work(moved_elements=2 * stacked.elements)
    b.layer(
        "interaction.stack", "elementwise", reads=vectors, writes=[stacked.seen_as("", "embed")],
        forward=copied, input_grad=copied,
    )  # fmt: skip
    y = b.output("interaction.products", {"embed": count * (count - 1) // 2}, [stacked])
    flops, moved = 2 * count * stacked.elements, count**2 + 2 * y.elements
    b.layer(
        "interaction.products", "matmul", reads=[stacked.seen_as("", "embed")], writes=[y.seen_as("")],
        saves=[stacked], forward=Work(flops=flops, moved_elements=moved + stacked.elements),
        input_grad=Work(flops=2 * flops, moved_elements=moved + 2 * stacked.elements),
    )  # fmt: skip
    return y


@SOURCES.add(
    "dlrm", title="DLRM of MLPerf", paper=PAPER, family="dlrm", parameters=24_036_595_969,
    options=(samples_per_step(_BATCH),),
)  # fmt: skip
def dlrm(*, samples_per_step: int, sequence_length: int | None = None) -> LayerGraph:
    """Build DLRM: 13 numbers and 26 categories a sample, one lookup each.

    Raises:
        InputError: fewer than one sample per step, or a sequence length.
    """
    refuse_sequence("dlrm", sequence_length)
    check_samples(samples_per_step)
    # MLPerf Training v0.7 to v1.1: SGD, one pass over 23 days of clicks at most; batch of NVIDIA's
    # submissions.
    defaults = Defaults(
        global_batch=samples_per_step, precision="fp32", optimizer="sgd", samples_per_epoch=_SAMPLES,
        epochs=((_BATCH, 1.0),), epochs_source="MLPerf training 0.7 to 1.1: one pass at most",
    )  # fmt: skip
    b = GraphBuilder("dlrm", defaults=defaults, source=PAPER)
    dense = _mlp(b, "bottom", b.input("dense", {"features": _DENSE}), (*_BOTTOM, _WIDTH)).seen_as("embed")
    vectors = [dense]
    for i, rows in enumerate(ROWS):
        indices = b.input(f"indices.{i}", {"": 1}, dtype="int64")
        density = touched_share(rows, samples_per_step)
        vectors.append(lookup_sum(b, f"tables.{i}", indices, rows, _WIDTH, density=density))
    x = _mlp(b, "top", b.concat("interaction.concat", dense, _pairs(b, vectors), axis="embed"), _TOP)
    (inner,) = x.dims
    b.loss("loss", b.linear("head", x, {"vocab": 1}, over=(inner,), bias=True), b.input("clicks", {}))
    return b.build()
