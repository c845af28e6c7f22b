"""A model as planners over graphs see it: nodes that stay whole, seconds on each device kind, tensors.

A node is a block (or each of its layers, if asked for), or a layer outside of blocks, with all that must
share its device: layers of one colocation class, the backward layers of its forward layers, and whatever lies
on a circle through them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt

from explorer.base.units import dtype_bytes, tensor_type
from explorer.cluster import DeviceKind
from explorer.costs.compute import layer_times
from explorer.graph import COMPUTE, LayerGraph
from explorer.strategies.cuts import units
from explorer.workload import OPTIMIZERS, Job

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkGraph:
    """Nodes in a topological order, and the tensors that go between them."""

    members: tuple[tuple[int, ...], ...]
    """Layers of each of the n nodes, by position, ascending."""
    above: tuple[int, ...]
    """Nodes that each one needs, over any number of edges, as a bit set."""
    seconds: FloatArray
    """(kinds, n): seconds of one microbatch, forward and backward; infinite where a kind may not run it."""
    held_bytes: FloatArray
    """(n,): bytes on the device that has the node."""
    reduced_bytes: FloatArray
    """(n,): bytes of gradients that replicas reduce."""
    producer: IntArray
    """(t,): node that makes each tensor which others read."""
    readers: tuple[tuple[int, ...], ...]
    """Per tensor: the other nodes that read it."""
    transfer_s: FloatArray
    """(t,): seconds that a device spends to send or to receive it, there and its gradient back."""

    @property
    def count(self) -> int:
        """Number of nodes n."""
        return len(self.members)

    def layers(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return the layers of some nodes, ascending."""
        return tuple(sorted(layer for node in nodes for layer in self.members[node]))


def work_graph(
    graph: LayerGraph,
    kinds: Sequence[DeviceKind],
    job: Job,
    *,
    samples: float,
    bytes_per_s: float,
    latency_s: float = 0.0,
    gradients: bool = True,
    whole_blocks: bool = True,
) -> WorkGraph:
    """Return the nodes of a model, their seconds and bytes, and the tensors between them.

    Bytes held are those of weights, gradients and optimizer states; activations are left to the simulator.

    Args:
        graph: the model.
        kinds: kinds of devices.
        job: its precision, optimizer and mode.
        samples: samples of one microbatch.
        bytes_per_s: rate at which a device sends and receives.
        latency_s: seconds that every transfer takes besides.
        gradients: whether gradients go back over the same way, if the job trains and has no layers for them.
        whole_blocks: whether blocks are nodes; else their layers are.

    Raises:
        InputError: a layer was measured on other kinds of devices only and does not state its work.
    """
    members = _nodes(graph, units(graph) if whole_blocks else ())
    node = {layer: number for number, found in enumerate(members) for layer in found}
    every = np.array([node[layer] for layer in range(len(graph.layers))], dtype=np.int64)
    producer, readers, tensors = _tensors(graph, node)
    explicit = any(layer.backward_of for layer in graph.layers)
    both = 2.0 if gradients and job.training and not explicit else 1.0
    sent = [samples * graph.tensor[name].bytes_per_sample(job.precision) for name in tensors]
    trained, held = _parameter_bytes(graph, job)
    return WorkGraph(
        members=members,
        above=_above(graph, members, node),
        seconds=np.array([_seconds(graph, kind, job, samples, every, len(members)) for kind in kinds]),
        held_bytes=summed(every, held, len(members)),
        reduced_bytes=summed(every, trained, len(members)),
        producer=np.array(producer, dtype=np.int64),
        readers=tuple(readers),
        transfer_s=both * (np.array(sent) / bytes_per_s + latency_s) if sent else np.zeros(0),
    )


def node_sizes(graph: LayerGraph) -> tuple[bool, ...]:
    """Return the values of `whole_blocks` that make different nodes: blocks first, then layers."""
    return (True, False) if any(stop - start > 1 for start, stop in units(graph)) else (False,)


def summed(node: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Return the sums of values by their nodes: shape (count,)."""
    found = np.zeros(count)
    np.add.at(found, node, values)
    return found


def _nodes(graph: LayerGraph, blocks: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return layers that stay together, in a topological order of forward layers."""
    together: nx.Graph[int] = nx.Graph()
    together.add_nodes_from(range(len(graph.layers)))
    for start, stop in blocks:
        together.add_edges_from((start, layer) for layer in range(start + 1, stop))
    first: dict[str, int] = {}
    for layer, item in enumerate(graph.layers):
        if item.colocation:
            together.add_edge(first.setdefault(item.colocation, layer), layer)
        if item.backward_of:
            together.add_edge(graph.index[item.backward_of], layer)
    place = {layer: k for k, found in enumerate(nx.connected_components(together)) for layer in found}
    joined = nx.condensation(_forward(graph, place))
    parts: dict[int, list[int]] = {number: [] for number in joined}
    of = joined.graph["mapping"]
    for layer, k in place.items():
        parts[of[k]].append(layer)
    order = nx.lexicographical_topological_sort(joined, key=lambda number: min(parts[number]))
    return tuple(tuple(sorted(parts[number])) for number in order)


def _forward(graph: LayerGraph, place: Mapping[int, int]) -> nx.DiGraph[int]:
    """Return the edges between forward layers, by the node of each layer."""
    found: nx.DiGraph[int] = nx.DiGraph()
    found.add_nodes_from(place.values())
    for name, writer in graph.producer.items():
        source = graph.index[writer]
        for reader in graph.consumers.get(name, ()):
            target = graph.index[reader]
            backward = graph.layers[source].backward_of or graph.layers[target].backward_of
            if not backward and place[source] != place[target]:
                found.add_edge(place[source], place[target])
    return found


def _above(
    graph: LayerGraph, members: tuple[tuple[int, ...], ...], node: Mapping[int, int]
) -> tuple[int, ...]:
    direct = _forward(graph, node)
    found: list[int] = []
    for number in range(len(members)):
        needed = 0
        for source in direct.predecessors(number):
            needed |= found[source] | 1 << source
        found.append(needed)
    return tuple(found)


def _tensors(
    graph: LayerGraph, node: Mapping[int, int]
) -> tuple[list[int], list[tuple[int, ...]], list[str]]:
    producer, readers, names = [], [], []
    for name, writer in graph.producer.items():
        own = node[graph.index[writer]]
        others = {node[graph.index[reader]] for reader in graph.consumers.get(name, ())} - {own}
        if others:
            producer.append(own)
            readers.append(tuple(sorted(others)))
            names.append(name)
    return producer, readers, names


def _seconds(
    graph: LayerGraph, kind: DeviceKind, job: Job, samples: float, node: IntArray, count: int
) -> FloatArray:
    times = layer_times(graph, kind, samples=samples, precision=job.precision)
    seconds = (times if job.training else times[:1]).sum(axis=0)
    allowed = np.array([not item.device_kinds or kind.name in item.device_kinds for item in graph.layers])
    return summed(node, np.where(allowed, seconds, np.inf), count)


def _parameter_bytes(graph: LayerGraph, job: Job) -> tuple[FloatArray, FloatArray]:
    """Return per layer the bytes of gradients that replicas reduce, and of all that is held; each once."""
    trained, held = np.zeros(len(graph.layers)), np.zeros(len(graph.layers))
    seen: set[str] = set()
    compute = dtype_bytes(tensor_type(job.precision))
    gradient = dtype_bytes(tensor_type(job.gradient_precision or job.precision))
    states = 4.0 * OPTIMIZERS[job.optimizer].states + 4.0 * job.master_copy
    for number, layer in enumerate(graph.layers):
        for use in layer.parameters:
            if use.name in seen:
                continue
            seen.add(use.name)
            item = graph.parameter[use.name]
            held[number] += item.elements * (compute if item.dtype == COMPUTE else dtype_bytes(item.dtype))
            if item.trainable and job.training:
                trained[number] += item.elements * gradient
                held[number] += item.elements * (gradient + states)
    return trained, held
