"""Times of recurrent cells and of sparse tables, in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.cluster import DeviceKind, Tile
from explorer.costs.compute import layer_times
from explorer.graph import LayerGraph
from explorer.matrix_products import contraction
from explorer.models import load_model
from explorer.models._tables import lookup_sum
from explorer.models.builder import GraphBuilder

UNITS = 4
DEVICE = DeviceKind(
    name="tiled", memory_bytes=1e12, memory_bandwidth_bytes_per_s=1e15, peak_flops_per_s=(("fp32", 1e12),),
    compute_units=UNITS, tiles=(Tile(rows=32, columns=32, fraction=0.5),),
)  # fmt: skip
SEQ, HIDDEN = 5, 64


def cells(projection: int = 0) -> LayerGraph:
    b = GraphBuilder("cells")
    x = b.linear("first", b.input("x", {"seq": SEQ, "features": 1}), {"embed": 8}, over=("features",))
    b.lstm("lstm", x, HIDDEN, projection=projection)
    return b.build()


def product_s(rows: int, columns: int, depth: int) -> float:
    """All tiles in waves, each 2 r c k at half of a unit's share of the peak."""
    waves = -(-(-(-rows // 32) * -(-columns // 32)) // UNITS)
    return waves * 2 * 32 * 32 * depth / (0.5 * 1e12 / UNITS)


def test_every_step_is_a_small_product_and_the_weight_gradient_one_large() -> None:
    samples = 32
    forward, back, weight = layer_times(cells(), DEVICE, samples=samples, precision="fp32")[:, 2]
    assert forward == pytest.approx(SEQ * product_s(samples, 4 * HIDDEN, HIDDEN))
    # A single wave of the other gradient splits its depth over idle units.
    assert back <= SEQ * product_s(samples, HIDDEN, 4 * HIDDEN) * (1 + 1e-9)
    assert weight == pytest.approx(product_s(HIDDEN, 4 * HIDDEN, samples * SEQ))


def test_few_samples_do_not_fill_a_tile() -> None:
    """A step takes as long for one sample as for a tile of them: recurrent nets want large batches."""
    one, full, more = (layer_times(cells(), DEVICE, samples=n, precision="fp32")[0, 2] for n in (1, 32, 33))
    assert one == full
    assert more == pytest.approx(2 * full)


@pytest.mark.parametrize("projection", [0, 16])
def test_the_contraction_of_a_cell_has_its_flops(projection: int) -> None:
    layer = cells(projection).layers[2]
    found = contraction(layer)
    assert found is not None
    assert 2 * np.prod(found.sizes) == layer.forward.flops
    assert found.shares((("hidden", 0.25), ("seq", 0.5))) == (1.0, 0.25, 1.0)


def test_a_sparse_gradient_moves_only_its_rows() -> None:
    """Whatever the table's size: (1 row written and 1 gradient read) x width, for every lookup."""
    times = []
    for rows in (10**4, 10**8):
        b = GraphBuilder("table")
        lookup_sum(b, "table", b.input("indices", {"": 1}, dtype="int64"), rows, 128, density=1e-3)
        slow = DeviceKind(
            name="slow",
            memory_bytes=1e12,
            memory_bandwidth_bytes_per_s=1e9,
            peak_flops_per_s=(("fp32", 1e12),),
        )
        times.append(layer_times(b.build(), slow, samples=7, precision="fp32")[:, 0].tolist())
    assert times[0] == times[1] == [7 * 2 * 128 * 4 / 1e9, 0.0, 7 * 2 * 128 * 4 / 1e9]


@pytest.mark.parametrize(
    "name", ["gnmt-8", "biglstm", "dlrm", "alexnet", "inception-v3", "unet-3d", "awd-lm"]
)
def test_all_layers_take_time_and_more_with_more_samples(name: str) -> None:
    graph = load_model(name)
    few, many = (layer_times(graph, DEVICE, samples=n, precision="fp32") for n in (4, 64))
    assert (few[0] > 0).all()
    assert (many >= few).all()
