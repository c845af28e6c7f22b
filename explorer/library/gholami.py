"""Integrated batch, model and domain parallelism over a grid of Pr x Pc devices."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.models.builder import GraphBuilder
from explorer.planners.gholami import DOMAIN, MODEL, Links, Way, best_way, seconds, weighted
from explorer.sharding import shard
from explorer.simulation.simulate import simulate
from explorer.strategy import REPLICA, Mesh, Sharding, Stage, single
from explorer.workload import Job, Workload

WIDTHS, BATCH = (8, 16, 32, 16), 24
GRIDS = ((1, 4), (4, 1), (2, 4))
"""Pr x Pc: batch parallelism alone, model parallelism alone, both."""


@cache
def _layers() -> LayerGraph:
    """Return fully connected layers; every width is a dimension of its own."""
    b = GraphBuilder("chain")
    x = b.input("x", {"d0": WIDTHS[0]})
    for i, width in enumerate(WIDTHS[1:], start=1):
        x = b.linear(f"fc{i}", x, {f"d{i}": width}, over=(f"d{i - 1}",))
    return b.build()


def _published(rows: int, columns: int) -> float:
    """Return the fp32 bytes a device sends (equation 5): 3 B/Pc (Pr-1)/Pr sum d_i + 2 (Pc-1)/Pc |W|/Pr."""
    model = 3 * BATCH / columns * (rows - 1) / rows * sum(WIDTHS[1:-1])
    weights = sum(a * b for a, b in pairwise(WIDTHS))
    return 4.0 * (model + 2 * (columns - 1) / columns * weights / rows)


def _sent(rows: int, columns: int) -> float:
    """Return the bytes that a device sends in a step: layers split by outputs over Pr, the batch over Pc."""
    graph = _layers()
    mesh = Mesh(devices=tuple(range(rows * columns)), axes=((REPLICA, columns), ("model", rows)))
    by_outputs = tuple(
        Sharding(layers=(layer.name,), layout=((f"d{i}", "model"),))
        for i, layer in enumerate(graph.layers, start=1)
    )
    stage = Stage(
        layers=tuple(layer.name for layer in graph.layers),
        meshes=(mesh,),
        microbatch_samples=BATCH,
        shardings=by_outputs if rows > 1 else (),
    )
    workload = Workload(jobs=(Job(global_batch=BATCH, precision="fp32", optimizer="sgd"),))
    report = simulate(graph, load_cluster("dgx-a100"), workload, single(stages=(stage,)))
    return sum(report.traffic_bytes.values()) / (rows * columns)


def _by_its_formulas(rows: int, columns: int) -> float:
    """Return the bytes of the same step as the planner counts them."""
    links, graph, count = Links(0.0, 4.0), _layers(), rows * columns
    found = [weighted(graph, layer) for layer in graph.layers]
    way = Way(MODEL, rows)
    items = [item for item in found if item is not None]
    # the last layer's outputs stay divided in the simulated step, and the first reads an input
    last = links.ring(rows, BATCH / columns * items[-1].written)
    first = 2 * links.ring(rows, BATCH / columns * items[0].read)
    return sum(seconds(item, way, count, BATCH, 1, links) for item in items) - last - first


def _ways(batch: int, devices: int) -> list[str]:
    """Return how the layers of VGG-16 are divided where bytes alone count."""
    graph, links = load_model("vgg16"), Links(0.0, 1.0)
    rows = [2**k for k in range(devices.bit_length())]
    found = [weighted(graph, layer) for layer in graph.layers]
    return [best_way(item, devices, batch, batch, links, rows).kind for item in found if item is not None]


def _out_of_place() -> float:
    """Return how many layers come in another order than early ones cut by height, then weights split."""
    ways = _ways(16, 64)
    early = ways.count(DOMAIN)
    return sum(way != (DOMAIN if k < early else MODEL) for k, way in enumerate(ways)) + (early == 0)


KERNEL, HEIGHT, WIDTH, CHANNELS, FILTERS, PARTS = 5, 32, 24, 8, 16, 4
"""Kernel, input and filters of a convolution whose height is divided into parts."""


def _halo(*, backward: bool) -> float:
    """Return the elements of a sample that a device exchanges with each neighbour."""
    b = GraphBuilder("image")
    x = b.conv2d("first", b.input("x", {"channels": 3, "height": HEIGHT, "width": WIDTH}), CHANNELS, 1)
    b.conv2d("second", x, FILTERS, KERNEL, padding=KERNEL // 2)
    found = shard(b.build(), ("first", "second"), layout=(("height", "rows"),), sizes={"rows": PARTS})
    items = found.backward if backward else found.forward
    return sum(item.elements_per_sample for item in items if item.op == "halo")


@SYSTEMS.add(
    System(
        name="gholami",
        title="Batch, model and domain parallelism by layer",
        paper="Gholami et al., Integrated Model, Batch, and Domain Parallelism in Training Neural"
        " Networks, SPAA 2018",
        year=2017,
        uses=Uses(searchers=("gholami",), options=("layouts by layer", "halos")),
        claims=(
            *(
                Claim(
                    text=f"bytes a device sends, Pr = {rows}, Pc = {columns}, three layers, B = {BATCH}",
                    published=_published(rows, columns),
                    unit="bytes",
                    measure=lambda rows=rows, columns=columns: _sent(rows, columns),  # type: ignore[misc]
                )
                for rows, columns in GRIDS
            ),
            *(
                Claim(
                    text=f"its planner counts as many: Pr = {rows}, Pc = {columns}",
                    published=_published(rows, columns),
                    unit="bytes",
                    measure=lambda rows=rows, columns=columns: _by_its_formulas(rows, columns),  # type: ignore[misc]
                )
                for rows, columns in GRIDS
            ),
            Claim(
                text="batch of 256 on 8 devices: VGG-16 splits weights of its fully connected layers alone",
                published=3,
                unit="layers",
                measure=lambda: _ways(256, 8).count(MODEL),
                why="the paper says so of AlexNet; where bytes alone count",
            ),
            Claim(
                text="more devices than samples, 64 for 16: early layers are cut by height, later ones by"
                " weights; layers out of this order",
                published=0,
                unit="layers",
                measure=_out_of_place,
                why="the paper says no number of layers; where bytes alone count",
            ),
            *(
                Claim(
                    text=f"halo of a sample {way}: {formula} floor(k_h / 2) elements a neighbour,"
                    f" k_h = {KERNEL}",
                    published=WIDTH * channels * (KERNEL // 2),
                    unit="elements",
                    measure=lambda backward=way == "back": _halo(backward=backward),  # type: ignore[misc]
                )
                for way, formula, channels in (
                    ("forward", "X_W X_C", CHANNELS),
                    ("back", "Y_W Y_C", FILTERS),
                )
            ),
        ),
    )
)
def example() -> Example:
    """VGG-16 on eight V100, replicas of pairs."""
    return Example(
        model="vgg16", cluster="dgx-1-v100", global_batch=256, shape={"replicas": 8, "microbatch_size": 32}
    )
