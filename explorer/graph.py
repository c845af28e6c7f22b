"""LayerGraph: the model to train, as a DAG of layers over tensors and named parameters.

Layers are at operator granularity (one matrix product, one normalisation, one attention) and fold to
*blocks*, repeated groups that are costed once. A layer's work is written over its own *iteration
dimensions*; tensors and parameters are mapped onto them (`Use.dims`), and from that alone the legal
shardings and their collectives are derived (`explorer.sharding`). All sizes are for one sample: a
dimension called ``sample`` is implied everywhere and split by replicas and microbatches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from explorer.base.caching import Owner
from explorer.base.errors import InputError
from explorer.base.units import dtype_bytes, tensor_type
from explorer.routing import Routing

if TYPE_CHECKING:
    import networkx as nx


COMPUTE = "compute"
"""Data type that follows the precision of the workload; others (``int64``, ``fp32``) stay as they are."""
KEEP, AGAIN, DROP = "keep", "again", "drop"
"""What selective recomputation does with the tensors that a layer writes."""
BY_INPUT, BY_WEIGHT = "input", "weight"
"""Which gradient reads a saved tensor last, if a backward is split in two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An activation: written by one layer (or the input pipeline, if none) and read by any number."""

    name: str
    """Unique among the tensors of the graph."""
    shape: tuple[float, ...]
    """Sizes for one sample, without the sample axis; ``(bytes,)`` from a source that knows only bytes."""
    dtype: str = COMPUTE
    """Data type name, or ``compute`` for the workload's precision."""
    backward: bool = True
    """Whether a gradient flows back through it (False for indices, masks and detached values)."""

    def bytes_per_sample(self, precision: str) -> float:
        """Return the bytes of one sample under the workload's `precision`."""
        own = tensor_type(precision) if self.dtype == COMPUTE else self.dtype
        return math.prod(self.shape) * dtype_bytes(own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A named weight. Layers that use the same name share it (tied embeddings)."""

    name: str
    """Unique among the parameters of the graph."""
    shape: tuple[float, ...]
    """Sizes of its axes; ``(bytes,)`` with dtype ``byte`` from a source that knows only bytes."""
    dtype: str = COMPUTE
    """Data type name, or ``compute``."""
    trainable: bool = True
    """False for frozen weights (LoRA): no gradient, no optimizer state, nothing to reduce."""
    density: float = 1.0
    """Fraction of rows that one step touches (sparse embedding tables), 0 < density <= 1."""

    @property
    def elements(self) -> float:
        """Number of scalars."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a layer uses a tensor or parameter: for each of its axes, the layer's own dimension."""

    name: str
    """The tensor or parameter."""
    dims: tuple[str, ...] = ()
    """One iteration dimension per axis; ``""`` for an axis the layer does not iterate; () if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """One iteration dimension of a layer."""

    name: str
    """Shared names mean the same thing over the whole graph (``heads``, ``ffn``, ``vocab``, ``seq``)."""
    size: float
    """Extent for one sample."""
    splittable: bool = True
    """False if splitting needs more than the einsum rule (softmax axis, convolution window)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one sample costs in one direction."""

    flops: float = 0.0
    """Floating-point operations, a multiply-add counting two (2mnk; causal attention not halved)."""
    moved_elements: float = 0.0
    """Activation elements read and written; the cost model adds the parameters, once per call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Seconds that were measured (or given), used instead of the cost model where they apply."""

    forward_s: float
    """Seconds of the forward of `batch` samples."""
    input_grad_s: float
    """Seconds of the gradient with respect to the inputs."""
    weight_grad_s: float
    """Seconds of the gradient with respect to the weights."""
    device_kind: str = "*"
    """Device kind they were measured on; ``*`` is any."""
    batch: float = 1.0
    """Samples they were measured at. Between batches: linear; outside: proportional to the nearest."""
    tensor_degree: int = 1
    """Tensor-parallel degree they were measured at."""
    halves: bool = False
    """Whether the source gave a single backward time, which was halved."""
    collectives: bool = False
    """Whether the seconds include the collectives of the tensor-parallel group they were measured in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A node of the graph."""

    name: str
    """Unique; a dotted module path (`layers.3.attention.q`), by which views fold."""
    kind: str = "other"
    """linear, attention, norm, embedding, conv, pool, elementwise, loss, experts, router, other, ..."""
    block: str = ""
    """Repeated group it belongs to (`layers.3`); empty if none."""
    dims: tuple[Dim, ...] = ()
    """Iteration dimensions, without `sample`."""
    reads: tuple[Use, ...] = ()
    """Tensors it reads."""
    writes: tuple[Use, ...] = ()
    """Tensors it writes."""
    parameters: tuple[Use, ...] = ()
    """Parameters it uses."""
    forward: Work = Work()
    """Work of the forward for one sample."""
    input_grad: Work = Work()
    """Work of the gradient with respect to what it reads."""
    weight_grad: Work = Work()
    """Work of the gradient with respect to its parameters."""
    saves: tuple[str, ...] = ()
    """Tensors kept from forward to backward; a tensor that two layers save is kept once."""
    last_read_by: tuple[str, ...] = ()
    """For each tensor of `saves`, the gradient that reads it last: `input`, or `weight` (also if both read
    it, since the input gradient comes first). () follows from the kind: `explorer.costs.split_backward`.
    """
    measured: tuple[Measured, ...] = ()
    """Measured seconds, by device kind, batch and tensor degree."""
    occupancy: float = 1.0
    """Share of a device's compute it takes when running alone, 0 < occupancy <= 1."""
    device_kinds: tuple[str, ...] = ()
    """Device kinds it may run on; empty is any."""
    colocation: str = ""
    """Layers of one class must share a device; empty is free."""
    backward_of: str = ""
    """For an explicit backward node: the layer whose backward it is."""
    release_s: float = 0.0
    """Earliest start within a step."""
    causal: bool = False
    """Whether it is a fused attention that skips what its mask hides: half of the products that `forward`
    counts.
    """
    documents: tuple[int, ...] = ()
    """Tokens of the documents that are packed into a sample, one after another and again until it is full; a
    fused attention stays within each. () if a sample is one.
    """
    trips: int = 1
    """Times it runs per sample (a recurrent cell over a sequence)."""
    gradient_passes: int = 0
    """Extra passes of each microbatch's weight gradients through memory, besides the product that makes them:
    3 if a separate kernel adds them to the sum.
    """
    once: bool = False
    """Whether its block's recomputation stops before it: no backward needs what it and those behind it write
    (`Framework.checkpoints`).
    """
    routing: Routing | None = None
    """How tokens reach the experts of a layer that has some; None where a source does not say: then its work
    is that of its products alone.
    """
    selective: str = ""
    """Under selective recomputation: `keep` what it writes, make it `again`, or `drop` it if no backward
    needs it. If no layer says so, the core of every attention is made again.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The workload a model states for itself, used where the user gives none."""

    global_batch: int = 1
    """Samples of one optimizer step."""
    sequence_length: int = 0
    """Tokens of one sample; 0 if samples are not sequences."""
    precision: str = "bf16"
    """Compute precision."""
    optimizer: str = "adam"
    """Optimizer name."""
    samples_per_epoch: int = 0
    """Samples of the training set; 0 if unknown."""
    epochs: tuple[tuple[int, float], ...] = ()
    """Epochs to converge at some global batches: (global_batch, epochs), ascending."""
    epochs_source: str = ""
    """Where the epochs were read, to what target; or why there are none. Empty if nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=True)
class LayerGraph(Owner):
    """Layers in a topological order, with their tensors and parameters. Immutable.

    Raises:
        InputError: a duplicate or unknown name, a tensor with two writers, a layer that reads what a
            later one writes, or a negative size.
    """

    name: str
    """Name of the model."""
    layers: tuple[Layer, ...]
    """In a topological order."""
    tensors: tuple[Tensor, ...] = ()
    """Every tensor read or written."""
    parameters: tuple[Parameter, ...] = ()
    """Every parameter used."""
    defaults: Defaults = Defaults()
    """The model's default workload."""
    source: str = ""
    """Where the graph came from: a paper, a file, a configuration."""
    _memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        _check_names(self)
        _check_uses(self)

    def __hash__(self) -> int:
        return self.memo("hash", lambda: hash((self.name, tuple(item.name for item in self.layers))))

    @property
    def layer(self) -> dict[str, Layer]:
        """Layers by name."""
        return self.memo("layer", lambda: {item.name: item for item in self.layers})

    @property
    def tensor(self) -> dict[str, Tensor]:
        """Tensors by name."""
        return self.memo("tensor", lambda: {item.name: item for item in self.tensors})

    @property
    def parameter(self) -> dict[str, Parameter]:
        """Parameters by name."""
        return self.memo("parameter", lambda: {item.name: item for item in self.parameters})

    @property
    def index(self) -> dict[str, int]:
        """Position of each layer in `layers`."""
        return self.memo("index", lambda: {item.name: i for i, item in enumerate(self.layers)})

    @property
    def producer(self) -> dict[str, str]:
        """Layer that writes each tensor; inputs of the model are absent."""
        return self.memo(
            "producer", lambda: {use.name: item.name for item in self.layers for use in item.writes}
        )

    @property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """Layers that read each tensor, in order."""
        return self.memo("consumers", lambda: _consumers(self))

    @property
    def blocks(self) -> dict[str, tuple[str, ...]]:
        """Layers of each block, in order; a layer outside any block is a block of its own."""
        return self.memo("blocks", lambda: _blocks(self))

    @property
    def parameter_count(self) -> int:
        """Scalars over all parameters, shared ones counted once."""
        return round(sum(item.elements for item in self.parameters))

    @property
    def flops_per_sample(self) -> float:
        """Forward FLOPs of one sample."""
        return sum(item.forward.flops * item.trips for item in self.layers)

    @property
    def needs_gradient(self) -> frozenset[str]:
        """Tensors whose gradient is computed: those downstream of a trainable parameter."""
        return self.memo("needs_gradient", lambda: _needs_gradient(self))

    @property
    def digraph(self) -> nx.DiGraph[str]:
        """networkx view for graph algorithms: nodes are layer names, edges carry `tensors`."""
        return self.memo("digraph", lambda: _digraph(self))


def _duplicates(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]


def _check_names(graph: LayerGraph) -> None:
    for what, items in (
        ("layers", graph.layers),
        ("tensors", graph.tensors),
        ("parameters", graph.parameters),
    ):
        if repeated := _duplicates(item.name for item in items):
            raise InputError(f"duplicate name {repeated[0]!r}", key=what, allowed="each name once")
    if not graph.layers:
        raise InputError("a graph needs at least one layer", key="layers", found=0, allowed="1 or more")
    sizes = [(item.name, item.shape) for item in graph.tensors]
    sizes += [(item.name, item.shape) for item in graph.parameters]
    for name, shape in sizes:
        if any(size < 0 for size in shape):
            raise InputError(f"{name!r} has a negative size", found=shape, allowed=">= 0")


def _check_uses(graph: LayerGraph) -> None:
    tensors = {item.name for item in graph.tensors}
    parameters = {item.name for item in graph.parameters}
    written: set[str] = set()
    all_written = {use.name for item in graph.layers for use in item.writes}
    for item in graph.layers:
        _check_readers(item)
        _check_routing(item)
        for use in item.reads:
            if use.name not in tensors:
                raise InputError(
                    f"layer {item.name!r} reads unknown tensor {use.name!r}",
                    key=f"layers.{item.name}",
                    found=use.name,
                    allowed="a name in tensors",
                )
            if use.name in all_written and use.name not in written:
                raise InputError(
                    f"layer {item.name!r} reads {use.name!r} before it is written",
                    key=f"layers.{item.name}",
                    found=use.name,
                    allowed="layers in topological order, without cycles",
                )
        for use in item.parameters:
            if use.name not in parameters:
                raise InputError(
                    f"layer {item.name!r} uses unknown parameter {use.name!r}",
                    key=f"layers.{item.name}",
                    found=use.name,
                    allowed="a name in parameters",
                )
        for use in item.writes:
            if use.name not in tensors or use.name in written:
                raise InputError(
                    f"layer {item.name!r} writes {use.name!r}, which is unknown or written twice",
                    key=f"layers.{item.name}",
                    found=use.name,
                    allowed="a tensor with one writer",
                )
            written.add(use.name)


_ROUTED = frozenset({"seq", "experts", "embed", "ffn"})
"""Dimensions of a layer whose tokens are routed."""


def _check_routing(item: Layer) -> None:
    if item.routing is not None and not {dim.name for dim in item.dims} >= _ROUTED:
        raise InputError(
            f"layer {item.name!r} routes tokens without the dimensions of experts",
            key="routing",
            found=[dim.name for dim in item.dims],
            allowed=f"{', '.join(sorted(_ROUTED))}, or no routing",
        )


def _check_readers(layer: Layer) -> None:
    if not layer.last_read_by:
        return
    known = set(layer.last_read_by) <= {BY_INPUT, BY_WEIGHT}
    if not known or len(layer.last_read_by) != len(layer.saves):
        raise InputError(
            f"layer {layer.name!r} saves {len(layer.saves)} tensors, last read by {layer.last_read_by}",
            key=f"layers.{layer.name}.last_read_by",
            found=layer.last_read_by,
            allowed=f"nothing, or {BY_INPUT!r} or {BY_WEIGHT!r} for each tensor of saves",
        )


def _consumers(graph: LayerGraph) -> dict[str, tuple[str, ...]]:
    readers: dict[str, list[str]] = {}
    for item in graph.layers:
        for use in item.reads:
            readers.setdefault(use.name, []).append(item.name)
    return {name: tuple(dict.fromkeys(names)) for name, names in readers.items()}


def _blocks(graph: LayerGraph) -> dict[str, tuple[str, ...]]:
    members: dict[str, list[str]] = {}
    for item in graph.layers:
        members.setdefault(item.block or item.name, []).append(item.name)
    return {name: tuple(names) for name, names in members.items()}


def _needs_gradient(graph: LayerGraph) -> frozenset[str]:
    tensor, parameter = graph.tensor, graph.parameter
    found: set[str] = set()
    for item in graph.layers:
        trains = any(parameter[use.name].trainable for use in item.parameters)
        if trains or any(use.name in found for use in item.reads):
            found.update(use.name for use in item.writes if tensor[use.name].backward)
    return frozenset(found)


def _digraph(graph: LayerGraph) -> nx.DiGraph[str]:
    import networkx as nx  # a tenth of a second that most uses do not need

    result: nx.DiGraph[str] = nx.DiGraph()
    result.add_nodes_from(item.name for item in graph.layers)
    for name, source in graph.producer.items():
        for target in graph.consumers.get(name, ()):
            if result.has_edge(source, target):
                result[source][target]["tensors"] += (name,)
            else:
                result.add_edge(source, target, tensors=(name,))
    return result
