"""Device-placement workloads: a graph with measured times on two device kinds, and the devices themselves.

The JSON of Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", NeurIPS
2020: nodes with milliseconds on an accelerator (there "FPGA") and on a CPU, bytes on an accelerator and a
colour class; edges with the milliseconds that one copy between an accelerator and host memory takes; and
``maxFPGAs``, ``maxCPUs``, ``maxSizePerFPGA``.

Each node becomes one layer ``ID:NAME``, with its times under the kinds ``accelerator`` and ``cpu`` and its
size as a frozen parameter (everything the node takes, so no optimizer state is added). Colour classes become
colocation, backward nodes layers of their own with `backward_of`, and each producer gets one tensor.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.plain_data import read_json
from explorer.base.units import MS
from explorer.cluster import Cluster
from explorer.graph import Defaults, Layer, LayerGraph, Measured, Parameter, Tensor, Use
from explorer.models._folding import fold_backward
from explorer.models._host import ACCELERATOR, CPU, host_cluster
from explorer.models._order import topological

__all__ = ["ACCELERATOR", "CPU", "fold_backward", "load_partitioning", "looks_like", "node_id", "read"]

HOST_BYTES_PER_S = 2.0**31
"""The format's cost in seconds is bytes / 2^31; used unless a file's sizes say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    name: str
    accelerator_s: float
    cpu_s: float
    on_accelerator: bool
    backward: bool
    color: str
    size_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    source: str
    target: str
    cost_s: float
    size_bytes: float


def looks_like(data: Any) -> bool:
    """Tell whether parsed JSON is a partitioning file."""
    return isinstance(data, dict) and {"nodes", "edges", "maxFPGAs"} <= set(data)


def node_id(layer: str) -> int:
    """Return the file's id of a layer.

    >>> node_id("26:bert/layer_1")
    26
    """
    return int(layer.partition(":")[0])


def load_partitioning(path: str | Path) -> tuple[LayerGraph, Cluster]:
    """Load the graph and devices of a partitioning JSON.

    Raises:
        InputError: no such file, or a missing or wrong key.
    """
    return read(read_json(path), file=str(path))


def read(data: Any, *, file: str = "") -> tuple[LayerGraph, Cluster]:
    """Read the graph and devices of parsed JSON.

    Raises:
        InputError: a missing or wrong key, an unknown or repeated node, a cycle.
    """
    try:
        if not isinstance(data, dict):
            raise InputError("this is not an object", found=type(data).__name__, allowed="an object")
        nodes = _nodes(_list(data, "nodes"))
        edges = _edges(_list(data, "edges"), nodes)
        rate = _host_rate(edges)
        name = Path(file).name.removesuffix(".json") or "workload"
        return _graph(name, nodes, edges, rate), _devices(name, data, rate)
    except InputError as error:
        raise error.within(file=file or None) from None


# -- reading ---------------------------------------------------------------------------------------


def _list(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        raise InputError(
            f"{key} is {type(value).__name__}", key=key, found=type(value).__name__, allowed="a list"
        )
    return value


def _number(item: Any, key: str, at: str, default: float | None = None) -> float:
    value = item.get(key, default) if isinstance(item, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise InputError(
            f"{key} is {value!r}", key=f"{at}.{key}" if at else key, found=value, allowed="a number >= 0"
        )
    return value


def _whole(item: Any, key: str, at: str) -> int:
    value = _number(item, key, at)
    if value != int(value):
        raise InputError(
            f"{key} is {value!r}", key=f"{at}.{key}" if at else key, found=value, allowed="a whole number"
        )
    return int(value)


def _flag(item: Mapping[str, Any], key: str, at: str, *, default: bool) -> bool:
    value = item.get(key, default)
    if value not in (0, 1):  # also True and False
        raise InputError(f"{key} is {value!r}", key=f"{at}.{key}", found=value, allowed="true, false, 0 or 1")
    return bool(value)


def _nodes(items: Sequence[Any]) -> dict[int, _Node]:
    result: dict[int, _Node] = {}
    for i, item in enumerate(items):
        at = f"nodes[{i}]"
        number = _whole(item, "id", at)
        if number in result:
            raise InputError(
                f"id {number} stands there twice", key=f"{at}.id", found=number, allowed="each once"
            )
        color = item.get("colorClass")
        result[number] = _Node(
            name=f"{number}:{item.get('name', 'node')}",
            accelerator_s=_number(item, "fpgaLatency", at) * MS,
            cpu_s=_number(item, "cpuLatency", at) * MS,
            on_accelerator=_flag(item, "supportedOnFpga", at, default=True),
            backward=_flag(item, "isBackwardNode", at, default=False),
            color="" if color is None else f"color {color}",
            size_bytes=_number(item, "size", at, 0.0),
        )
    return result


def _edges(items: Sequence[Any], nodes: Mapping[int, _Node]) -> list[_Edge]:
    result: dict[tuple[str, str], _Edge] = {}
    for i, item in enumerate(items):
        at = f"edges[{i}]"
        ends = []
        for key in ("sourceId", "destId"):
            number = _whole(item, key, at)
            if number not in nodes:
                raise InputError(
                    f"unknown node {number}", key=f"{at}.{key}", found=number, allowed="an id in nodes"
                )
            ends.append(nodes[number].name)
        cost = _number(item, "cost", at) * MS
        size = _number(item, "size", at, 0.0)
        result[ends[0], ends[1]] = _Edge(source=ends[0], target=ends[1], cost_s=cost, size_bytes=size)
    return list(result.values())


def _host_rate(edges: Sequence[_Edge]) -> float:
    """Return bytes/s between a device and the host, such that bytes and seconds of every edge agree.

    Some files state sizes of a whole minibatch next to costs of one sample: their own ratio is then the rate,
    if all edges share it; if sizes are absent or disagree, costs alone decide.
    """
    rates = [edge.size_bytes / edge.cost_s for edge in edges if edge.size_bytes and edge.cost_s]
    if rates and max(rates) <= min(rates) * (1 + 1e-6):
        return rates[0]
    return HOST_BYTES_PER_S


def _devices(name: str, data: Mapping[str, Any], rate: float) -> Cluster:
    accelerators = _whole(data, "maxFPGAs", "")
    cpus = _whole(data, "maxCPUs", "") if "maxCPUs" in data else 0
    if accelerators + cpus < 1:
        raise InputError("there is no device", key="maxFPGAs", found=0, allowed="maxFPGAs + maxCPUs >= 1")
    size = _number(data, "maxSizePerFPGA", "", 0.0)
    return host_cluster(name, accelerators, cpus, accelerator_bytes=size, rate=rate)


# -- the graph -------------------------------------------------------------------------------------


def _graph(name: str, nodes: Mapping[int, _Node], edges: Sequence[_Edge], rate: float) -> LayerGraph:
    order = topological(
        [node.name for node in nodes.values()], [(edge.source, edge.target) for edge in edges]
    )
    by_name = {node.name: node for node in nodes.values()}
    forward_of = _forward_of(order, by_name, edges)
    colors = Counter(node.color for node in by_name.values())
    outputs, reads = _tensors(edges)
    writes: dict[str, list[str]] = {}
    for tensor, source, _ in outputs:
        writes.setdefault(source, []).append(tensor)
    layers = [
        _layer(
            by_name[item],
            reads=reads.get(item, ()),
            writes=writes.get(item, ()),
            colocation=by_name[item].color if colors[by_name[item].color] > 1 else "",
            backward_of=forward_of.get(item, ""),
        )
        for item in order
    ]
    return LayerGraph(
        name=name,
        layers=tuple(layers),
        tensors=tuple(Tensor(name=t, shape=(cost * rate,), dtype="byte") for t, _, cost in outputs),
        parameters=tuple(
            Parameter(name=_held(node), shape=(node.size_bytes,), dtype="byte", trainable=False)
            for node in nodes.values()
            if node.size_bytes
        ),
        defaults=Defaults(precision="fp32", optimizer="none"),
        source=f"partitioning workload {name}",
    )


def _held(node: _Node) -> str:
    return f"{node.name}.memory"


def _tensors(edges: Sequence[_Edge]) -> tuple[list[tuple[str, str, float]], dict[str, list[str]]]:
    """Return tensors as (name, source, cost in s), and the names that each node reads.

    All edges out of a node normally have one cost and are one tensor; if costs differ, there is one tensor
    per cost.
    """
    names: dict[tuple[str, float], str] = {}
    count: dict[str, int] = {}
    reads: dict[str, list[str]] = {}
    for edge in edges:
        key = (edge.source, edge.cost_s)
        if key not in names:
            number = count[edge.source] = count.get(edge.source, 0) + 1
            names[key] = edge.source if number == 1 else f"{edge.source}.{number}"
        reads.setdefault(edge.target, []).append(names[key])
    return [(tensor, source, cost) for (source, cost), tensor in names.items()], reads


def _layer(
    node: _Node, *, reads: Sequence[str], writes: Sequence[str], colocation: str, backward_of: str
) -> Layer:
    kinds = {CPU: node.cpu_s, **({ACCELERATOR: node.accelerator_s} if node.on_accelerator else {})}
    return Layer(
        name=node.name,
        kind="backward" if backward_of else "other",
        reads=tuple(Use(name=item) for item in reads),
        writes=tuple(Use(name=item) for item in writes),
        parameters=(Use(name=_held(node)),) if node.size_bytes else (),
        measured=tuple(_measured(kind, seconds, bool(backward_of)) for kind, seconds in kinds.items()),
        device_kinds=() if node.on_accelerator else (CPU,),
        colocation=colocation,
        backward_of=backward_of,
    )


def _measured(kind: str, seconds: float, backward: bool) -> Measured:  # noqa: FBT001 - private
    # A backward node's time is backward time; the file does not say how much of it is weight gradient.
    half = seconds / 2 if backward else 0.0
    return Measured(
        forward_s=0.0 if backward else seconds,
        input_grad_s=half,
        weight_grad_s=half,
        device_kind=kind,
        halves=backward,
    )


def _forward_of(order: Sequence[str], nodes: Mapping[str, _Node], edges: Sequence[_Edge]) -> dict[str, str]:
    """Map each backward node to its forward layer.

    That is the last forward node of its colour class; if the class has none (or the node no class), it is the
    nearest forward node along the edges, walked against them first.
    """
    by_color = {nodes[item].color: item for item in order if not nodes[item].backward and nodes[item].color}
    near: dict[str, list[str]] = {item: [] for item in order}
    for edge in edges:
        near[edge.target].insert(0, edge.source)
        near[edge.source].append(edge.target)
    result = {}
    for item in order:
        if nodes[item].backward:
            found = by_color.get(nodes[item].color) or _nearest_forward(item, nodes, near)
            if found:
                result[item] = found
    return result


def _nearest_forward(start: str, nodes: Mapping[str, _Node], near: Mapping[str, Sequence[str]]) -> str:
    seen, queue = {start}, deque([start])
    while queue:
        item = queue.popleft()
        if not nodes[item].backward:
            return item
        fresh = [other for other in near[item] if other not in seen]
        seen.update(fresh)
        queue.extend(fresh)
    return ""
