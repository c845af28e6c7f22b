"""Gholami et al.'s choice of a grid and a kind of parallelism for every layer, by closed forms.

P devices are a grid of Pr x Pc: Pc groups work on samples of their own, the Pr devices of a group split the
layer. With B samples a step, m microbatches, |W| weights, d_in and d_out activations a sample, and a ring's
seconds alpha ceil(log2 n) + beta (n - 1)/n |x|, the transfers of a step take (SPAA 2018, equations 3 to 9)

    batch    Pr = 1                          2 ring(P, |W|)
    model    outputs split over Pr           m ring(Pr, B/(m Pc) d_out) + 2 m ring(Pr, B/(m Pc) d_in)
                                             + 2 ring(Pc, |W|/Pr)
    domain   an image's height over Pr       m (alpha + beta B/(m Pc) X_W X_C floor(k_h/2)) + the same of
                                             Y_W Y_C + 2 ring(P, |W|)

where the first layer needs no d_in. Work is shared alike by all, so transfers decide; the paper leaves out
what re-sharding between two layers takes. Every layer's best is taken: of each grid, and of all of them.
Layers without weights go as what they read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from explorer.base.units import scalar_bytes
from explorer.graph import Layer, LayerGraph, Use
from explorer.planners._pieces.fleet import fleet_of
from explorer.planners._pieces.layer_meshes import by_microbatch
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.exhaustive import divisors
from explorer.search.problem import Problem
from explorer.strategy import REPLICA, Mesh, Sharding, Stage, Strategy, single

BATCH, MODEL, DOMAIN = "batch", "model", "domain"
AXIS = "grid"


class Weighted(NamedTuple):
    """A layer with weights, as the closed forms see it."""

    weights: float
    """Trained weights |W|."""
    read: float
    """Activations d_in that it reads of a sample; 0 if their gradient is not needed."""
    written: float
    """Activations d_out."""
    outputs: tuple[str, float] = ("", 1.0)
    """The largest dimension of its weights that it writes and does not read, and its size; "" for none."""
    height: tuple[str, float] = ("", 1.0)
    """The first dimension that it reads and writes and no weight has, and its size; "" for none."""
    halo: tuple[float, float] = (0.0, 0.0)
    """Elements of a sample that a neighbour along the height needs: forward, and back."""


class Way(NamedTuple):
    """How a layer is divided."""

    kind: str
    rows: int
    """Pr."""
    dim: str = ""
    """What its Pr devices split."""


class Links(NamedTuple):
    """Transfers between the devices of a grid."""

    latency_s: float
    """alpha."""
    element_s: float
    """beta: seconds of an element."""

    def ring(self, count: int, elements: float) -> float:
        """Return the seconds to gather or to scatter so many elements over a group."""
        if count == 1:
            return 0.0
        return self.latency_s * math.ceil(math.log2(count)) + self.element_s * (count - 1) / count * elements


@SEARCHERS.add(
    Searcher(
        name="gholami",
        title="A grid and batch, model or domain parallelism for every layer, by closed forms",
        paper="Gholami et al., Integrated Model, Batch, and Domain Parallelism in Training Neural"
        " Networks, SPAA 2018",
        space=Space(words="grids x batch, model, domain, layer by layer"),
        rigid=True,
        alone=True,
        together=True,
        objectives=("time",),
    )
)
def gholami(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Choose for every layer on each grid and among all of them, and have the plans judged.

    Raises:
        InputError: there is no cluster.
    """
    fleet, job = fleet_of(problem), problem.job
    links = Links(fleet.latency_s, scalar_bytes(job.precision) / fleet.bytes_per_s)
    layers = {layer.name: weighted(problem.graph, layer) for layer in problem.graph.layers}
    devices = tuple(problem.order)

    def plans(size: int) -> Iterator[tuple[Strategy, str] | None]:
        grids = divisors(len(devices))
        for rows in (None, *(k for k in grids if size * k % len(devices) == 0)):
            of = grids if rows is None else [rows]
            ways = {
                name: best_way(item, len(devices), job.global_batch, size, links, of)
                for name, item in layers.items()
                if item is not None
            }
            words = "grids by layer" if rows is None else f"a grid of {rows} x {len(devices) // rows}"
            every = followed(problem.graph, ways, Way(MODEL, len(devices)))
            yield _strategy(problem, every, size), f"{words}, microbatches of {size}"

    yield from by_microbatch(problem, evaluator, plans)


def best_way(
    layer: Weighted, count: int, batch: int, microbatch: int, links: Links, rows: Sequence[int]
) -> Way:
    """Return the way of least transfers; of equal ones few rows first, and domain before model.

    Args:
        layer: the layer.
        count: devices P.
        batch: samples B of a step.
        microbatch: samples of a microbatch.
        links: what transfers take.
        rows: values of Pr that are allowed; where no way is left, all devices do the same.
    """
    found = [
        (seconds(layer, way, count, batch, batch // microbatch, links), k, way)
        for k, way in enumerate(ways_of(layer, count, microbatch, rows))
    ]
    return min(found)[2] if found else Way(MODEL, count)


def ways_of(layer: Weighted, count: int, microbatch: int, rows: Sequence[int]) -> list[Way]:
    """Return the ways of a layer that leave whole samples and something of each dimension to every device."""
    found = []
    for r in rows:
        if microbatch % (count // r):
            continue
        if r == 1:
            found.append(Way(BATCH, 1))
            continue
        for kind, (dim, size) in ((DOMAIN, layer.height), (MODEL, layer.outputs)):
            if dim and size >= r:
                found.append(Way(kind, r, dim))
    return found


def seconds(layer: Weighted, way: Way, count: int, batch: int, times: int, links: Links) -> float:
    """Return the seconds of a layer's transfers in a step of so many microbatches."""
    columns = count // way.rows
    samples = batch / times / columns
    if way.kind == MODEL:
        forward = links.ring(way.rows, samples * layer.written)
        back = 2 * links.ring(way.rows, samples * layer.read) if layer.read else 0.0
        return times * (forward + back) + 2 * links.ring(columns, layer.weights / way.rows)
    halos = 0.0
    if way.kind == DOMAIN:
        halos = sum(links.latency_s + links.element_s * samples * part for part in layer.halo if part)
    return times * halos + 2 * links.ring(count, layer.weights)


def weighted(graph: LayerGraph, layer: Layer) -> Weighted | None:
    """Return a layer as the closed forms see it; None if it has no trained weights."""
    weights = [use for use in layer.parameters if graph.parameter[use.name].trainable]
    if not weights:
        return None
    size = {dim.name: dim.size for dim in layer.dims}
    of_weights = {dim for use in weights for dim in use.dims}
    read = {dim for use in layer.reads for dim in use.dims}
    written = [dim for use in layer.writes for dim in use.dims if dim]
    outputs = [dim for dim in written if dim in of_weights and dim not in read]
    heights = [dim for dim in written if dim in read and dim not in of_weights]
    height = heights[0] if heights else ""
    there, back = _elements(graph, layer.reads), _elements(graph, layer.writes)
    rows = [_extent(graph, uses, height) for uses in (layer.reads, layer.writes)]
    reach = math.floor(size.get(f"kernel_{height}", 1.0) / 2)
    moved = any(graph.tensor[use.name].backward for use in layer.reads)
    return Weighted(
        weights=sum(graph.parameter[use.name].elements for use in weights),
        read=there if moved else 0.0,
        written=back,
        outputs=max(((dim, size[dim]) for dim in outputs), key=lambda item: item[1], default=("", 1.0)),
        height=(height, min(rows)),
        halo=(there / rows[0] * reach, back / rows[1] * reach),
    )


def _elements(graph: LayerGraph, uses: Sequence[Use]) -> float:
    names = dict.fromkeys(use.name for use in uses)
    return sum(math.prod(graph.tensor[name].shape) for name in names)


def _extent(graph: LayerGraph, uses: Sequence[Use], dim: str) -> float:
    """Return the size of the first axis that tensors have along a dimension; 1 if there is none."""
    sizes = [graph.tensor[use.name].shape[use.dims.index(dim)] for use in uses if dim and dim in use.dims]
    return sizes[0] if sizes else 1.0


def followed(graph: LayerGraph, ways: Mapping[str, Way], other: Way) -> dict[str, Way]:
    """Return the way of every layer: without one of its own that of a layer whose tensor it reads.

    Args:
        graph: the model.
        ways: those of layers with weights.
        other: what is taken if there are none; layers before the first of them go as that one.
    """
    found = dict(ways)
    first = next(iter(ways.values()), other)
    for layer in graph.layers:
        if layer.name not in found:
            sources = [graph.producer[use.name] for use in layer.reads if use.name in graph.producer]
            found[layer.name] = next((found[name] for name in sources if name in found), first)
    return {layer.name: found[layer.name] for layer in graph.layers}


def _strategy(problem: Problem, ways: Mapping[str, Way], size: int) -> Strategy:
    """Return the strategy whose layers have their grids, as exceptions from a stage on all devices."""
    devices = tuple(problem.order)
    layers: dict[Way, list[str]] = {}
    for name, way in ways.items():
        layers.setdefault(way, []).append(name)
    shardings = tuple(
        Sharding(
            layers=tuple(names),
            layout=((way.dim, AXIS),) if way.dim else (),
            meshes=(Mesh(devices=devices, axes=((REPLICA, len(devices) // way.rows), (AXIS, way.rows))),),
        )
        for way, names in layers.items()
    )
    stage = Stage(
        layers=tuple(layer.name for layer in problem.graph.layers),
        meshes=(Mesh(devices=devices, axes=((AXIS, len(devices)),)),),
        microbatch_samples=size,
        shardings=shardings,
    )
    return single(stages=(stage,), job=problem.job.name)
