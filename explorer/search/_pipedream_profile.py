"""A model as PipeDream's optimizer sees it: seconds and bytes of one minibatch per layer, and the way back.

The optimizer leaves out input sources and unused ``__getitem__`` sinks; with `compress` it also joins the
layers of each run inside a branch (between a fork and a join) into one, as its branch compression does.
Blocks of models that have them stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.base.units import dtype_bytes, tensor_type
from explorer.cluster import DeviceKind
from explorer.graph import COMPUTE, Layer, LayerGraph
from explorer.models.pipedream import without_unused
from explorer.search._antichains import MinibatchCosts, bits
from explorer.strategies.cuts import units


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """Input of the optimizer."""

    costs: MinibatchCosts
    """Costs per item: a layer, or a run of layers joined into one."""
    members: tuple[tuple[str, ...], ...]
    """Layers of each item."""
    samples: float
    """Samples of one minibatch."""

    def names(self, items: int) -> set[str]:
        """Return the layers of a bit set of items."""
        return {name for item in bits(items) for name in self.members[item]}


def profiled(
    graph: LayerGraph,
    *,
    precision: str,
    kind: DeviceKind | None = None,
    samples: int = 1,
    compress: bool = False,
) -> Profiled:
    """Return the costs of a model: its measured seconds, or those predicted for a kind of device.

    Raises:
        InputError: a layer has no measured seconds, and there is no kind of device to predict them for.
    """
    kept = without_unused(graph)
    measured = all(layer.measured for layer in kept.layers)
    batch = max(layer.measured[0].batch for layer in kept.layers) if measured else float(samples)
    seconds = [_measured_s(layer, batch) for layer in kept.layers] if measured else None
    costs = MinibatchCosts(
        seconds=tuple(seconds if seconds is not None else _predicted_s(kept, kind, samples, precision)),
        parameter_bytes=tuple(_parameter_bytes(kept, layer, precision) for layer in kept.layers),
        activation_bytes=tuple(
            batch * sum(kept.tensor[use.name].bytes_per_sample(precision) for use in layer.writes)
            for layer in kept.layers
        ),
        readers=_readers(kept),
    )
    members: tuple[tuple[str, ...], ...] = tuple((layer.name,) for layer in kept.layers)
    if any(layer.block for layer in kept.layers):
        costs, members = _joined(costs, members, _blocks(kept))
    if compress:
        costs, members = _joined(costs, members, _branches(costs.readers))
    return Profiled(costs=costs, members=members, samples=batch)


def _measured_s(layer: Layer, batch: float) -> float:
    first = layer.measured[0]
    return (first.forward_s + first.input_grad_s + first.weight_grad_s) * batch / first.batch


def _predicted_s(graph: LayerGraph, kind: DeviceKind | None, samples: int, precision: str) -> list[float]:
    if kind is None:
        raise InputError(
            f"model {graph.name!r} has no measured seconds",
            key="cluster",
            allowed="a PipeDream profile, or --cluster NAME to predict them",
        )
    from explorer.costs.compute import layer_times

    times = layer_times(graph, kind, samples=float(samples), precision=precision)
    found: list[float] = times.sum(axis=0).tolist()
    return found


def _parameter_bytes(graph: LayerGraph, layer: Layer, precision: str) -> float:
    items = [graph.parameter[use.name] for use in layer.parameters]
    return sum(
        item.elements * dtype_bytes(tensor_type(precision) if item.dtype == COMPUTE else item.dtype)
        for item in items
    )


def _readers(graph: LayerGraph) -> tuple[tuple[int, ...], ...]:
    found: list[set[int]] = [set() for _ in graph.layers]
    for i, layer in enumerate(graph.layers):
        for use in layer.reads:
            if use.name in graph.producer:
                found[graph.index[graph.producer[use.name]]].add(i)
    return tuple(tuple(sorted(items)) for items in found)


def _joined(
    costs: MinibatchCosts, members: Sequence[tuple[str, ...]], runs: Sequence[Sequence[int]]
) -> tuple[MinibatchCosts, tuple[tuple[str, ...], ...]]:
    """Join each run of layers into one: its seconds and parameters added up, the outputs that others read."""
    place = {layer: number for number, run in enumerate(runs) for layer in run}
    readers = [
        sorted({place[target] for layer in run for target in costs.readers[layer]} - {number})
        for number, run in enumerate(runs)
    ]
    outputs = [
        sum(costs.activation_bytes[layer] for layer in run if not _inner(costs.readers[layer], run))
        for run in runs
    ]
    joined = MinibatchCosts(
        seconds=tuple(sum(costs.seconds[layer] for layer in run) for run in runs),
        parameter_bytes=tuple(sum(costs.parameter_bytes[layer] for layer in run) for run in runs),
        activation_bytes=tuple(outputs),
        readers=tuple(map(tuple, readers)),
    )
    return joined, tuple(tuple(name for layer in run for name in members[layer]) for run in runs)


def _inner(readers: Sequence[int], run: Sequence[int]) -> bool:
    """Tell whether an output is read, and only inside its run."""
    return bool(readers) and all(target in run for target in readers)


def _blocks(graph: LayerGraph) -> list[list[int]]:
    """Return repeated blocks as runs; a layer outside of blocks is a run of its own."""
    return [list(range(start, stop)) for start, stop in units(graph)]


def _branches(readers: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the layers of each branch between fork and join as runs, in the order of their last layers."""
    inputs: list[list[int]] = [[] for _ in readers]
    for layer, targets in enumerate(readers):
        for target in targets:
            inputs[target].append(layer)
    in_branch = [False] * len(readers)  # descends from a fork, and from no join since
    run_of: list[list[int]] = []
    for layer, sources in enumerate(inputs):
        run_of.append([layer])
        if len(sources) != 1:
            continue
        source = sources[0]
        in_branch[layer] = in_branch[source] or len(readers[source]) > 1
        if in_branch[source] and len(readers[source]) == 1:
            run_of[layer] = run_of[source]
            run_of[layer].append(layer)
    distinct = {id(run): run for run in run_of}
    return sorted(distinct.values(), key=lambda run: run[-1])
