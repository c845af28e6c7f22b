"""Calibration: from the timings of a launch to the graph and cluster with which `explorer.simulate` predicts
it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from explorer.calibrate.devices import RANK_KIND
from explorer.calibrate.runs import LayerTime, MachineTimes
from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup, Source
from explorer.graph import Defaults, LayerGraph
from explorer.run.judging.exchange_times import ExchangeSeconds, exchange_seconds
from explorer.run.judging.rank_speeds import rank_speeds
from explorer.run.judging.section_times import Halves, Section, section_times
from explorer.run.model import ModelSpec, model_graph
from explorer.run.own.layer_times import graph_with_times, layer_times, no_graph, sum_seconds
from explorer.run.spec import Calibration, FlatGroup
from explorer.workload import OPTIMIZERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """Measurements that a launch made of its own machine and model."""

    graph: LayerGraph
    """The runnable model with measured seconds."""
    cluster: Cluster
    """One node with as many devices as ranks."""
    cpu_share: float
    """Smallest share of a core that a rank got while computing, median over rounds."""
    seconds: Mapping[str, float]
    """Other measured seconds: `update`, `message BYTES`, `reduce BYTES`."""
    optimizer: str
    """Optimizer whose update was timed."""
    precision: str = "fp32"
    """Precision in which layers were timed."""
    speeds: tuple[float, ...] = ()
    """By rank, its seconds of compute over the mean of all ranks."""
    sums: Mapping[str, float] = field(default_factory=dict)
    """By layer, the seconds in which its gradients are added to those of earlier microbatches."""
    sections: Mapping[Section, Halves] = field(default_factory=dict)
    """Seconds of sections as one."""
    exchanges: Mapping[FlatGroup, ExchangeSeconds] = field(default_factory=dict)
    """Seconds of the exchanges of flat weights, by their size."""


def uncalibrated(ranks: int, *, flops_per_s: float = 2e10) -> Cluster:
    """Make a cluster of ranks before anything is measured, good enough to size a run and its watchdog."""
    return _cluster(ranks, latency_s=2e-4, bandwidth=1e9, efficiency=1.0, memory=1e10, flops=flops_per_s)


def calibrate(
    asked: Calibration,
    rows: Iterable[Iterable[Mapping[str, Any]]],
    *,
    ranks: int,
    only: int | None = None,
    graph: LayerGraph | None = None,
) -> Calibrated:
    """Average compute (it adds up, noise included, as in a step), and take medians of messages and
    collectives.

    Args:
        asked: what was timed.
        rows: per rank and round, the result of `Stopwatch.measure`.
        ranks: number of processes.
        only: take compute from the timings before and after this round alone, whose steps are then compared
            with it: the load of a shared machine drifts.
        graph: graph of a model's own layers; None for stand-ins.
    """
    model, optimizer = asked.model, asked.optimizer
    every = [list(rank) for rank in rows]
    flat = [row for rank in every for row in rank]
    around = every if only is None else [rank[only : only + 2] for rank in every]
    now = [row for rank in around for row in rank]
    if isinstance(model, ModelSpec):
        times = _unit_times(model, now)
        measured = model_graph(model, name="calibrated", defaults=Defaults(precision="fp32"), times=times)
    else:
        timed = layer_times(model, now)
        measured = graph_with_times(graph or no_graph(), timed, precision=model.dtype)
    messages = _medians(flat, "messages")
    reduces = _medians(flat, "reduces")
    update_s = fmean(row["update_s"] for row in now)
    latency_s, bandwidth = _line(messages)
    elements = sum(item.elements for item in measured.parameters)
    # as an update is priced: main weights and states of narrow ones are in fp32
    moved = elements * OPTIMIZERS[optimizer].moved_bytes * max(1.0, model.element_bytes / 4)
    cluster = _cluster(
        ranks,
        latency_s=latency_s,
        bandwidth=bandwidth,
        efficiency=_efficiency(reduces, ranks, latency_s, bandwidth),
        memory=moved / update_s if moved and update_s else 1e10,
        flops=2e10,
    )
    known = {"update": update_s}
    known |= {f"message {size}": seconds for size, seconds in messages.items()}
    known |= {f"reduce {size}": seconds for size, seconds in reduces.items()}
    return Calibrated(
        graph=measured,
        cluster=cluster,
        cpu_share=min((median(row["cpu_share"] for row in rank) for rank in every if rank), default=0.0),
        seconds=known,
        optimizer=optimizer,
        precision=model.dtype,
        speeds=rank_speeds(around),
        sums={} if isinstance(model, ModelSpec) else sum_seconds(model, now),
        sections=section_times(asked.cuts, now),
        exchanges={
            group: exchange_seconds([row["exchanges"][i] for row in now])
            for i, group in enumerate(asked.flat_groups)
        },
    )


def machine_times(known: Calibrated, device: str) -> MachineTimes:
    """Return the measurements that concern the machine alone, for a file and for correcting a profile.

    Args:
        known: the measurements of a launch.
        device: the device its ranks ran on, as they name it.
    """

    def by_size(what: str) -> tuple[tuple[str, float], ...]:
        found = {key.removeprefix(what): s for key, s in known.seconds.items() if key.startswith(what)}
        return tuple(found.items())

    elements = known.graph.parameter
    return MachineTimes(
        device=device,
        ranks=known.cluster.device_count,
        layers=tuple(
            LayerTime(
                name=layer.name,
                kind=layer.kind,
                works=(layer.forward, layer.input_grad, layer.weight_grad),
                samples=row.batch,
                seconds=row.forward_s + row.input_grad_s + row.weight_grad_s,
                parameter_elements=sum(elements[use.name].elements for use in layer.parameters),
            )
            for layer in known.graph.layers
            for row in layer.measured
        ),
        update_elements=sum(item.elements for item in known.graph.parameters),
        update_s=known.seconds.get("update", 0.0),
        optimizer=known.optimizer,
        precision=known.precision,
        messages=by_size("message "),
        reduces=by_size("reduce "),
    )


def _unit_times(
    model: ModelSpec, rows: list[Mapping[str, Any]]
) -> dict[tuple[str, int], tuple[float, float]]:
    """Average the times of units of equal kind and width: more measurements of the same thing."""
    found: dict[tuple[str, int, int], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row in rows:
        for samples, pairs in row["units"].items():
            for unit, (forward, backward) in zip(model.units, pairs, strict=True):
                key = (unit.kind, unit.ffn, int(samples))
                found[key][0].append(forward)
                found[key][1].append(backward)
    sizes = sorted({key[2] for key in found})
    return {
        (unit.name, samples): (
            fmean(found[unit.kind, unit.ffn, samples][0]),
            fmean(found[unit.kind, unit.ffn, samples][1]),
        )
        for unit in model.units
        for samples in sizes
    }


def _medians(rows: list[Mapping[str, Any]], key: str) -> dict[int, float]:
    found: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        for size, seconds in row[key].items():
            if seconds > 0:
                found[int(size)].append(seconds)
    return {size: median(values) for size, values in sorted(found.items())}


def _line(messages: Mapping[int, float]) -> tuple[float, float]:
    """Fit (latency, bandwidth) through the smallest and the largest message."""
    if not messages:
        return 2e-4, 1e9
    sizes = sorted(messages)
    small, large = sizes[0], sizes[-1]
    if small == large or messages[large] <= messages[small]:
        return messages[small], max(large / messages[large], 1e6) * 10
    per_byte = (messages[large] - messages[small]) / (large - small)
    return max(messages[small] - small * per_byte, 1e-6), 1 / per_byte


def _efficiency(reduces: Mapping[int, float], ranks: int, latency_s: float, bandwidth: float) -> float:
    """Return the share of the bandwidth at which the ring's formula gives the largest all-reduce measured.

    t = 2 (n - 1) latency + 2 (n - 1) / n * S / (share * bandwidth)
    """
    if not reduces or ranks < 2:
        return 1.0
    size = max(reduces)
    left = max(reduces[size] - 2 * (ranks - 1) * latency_s, 0.2 * reduces[size])
    return 2 * (ranks - 1) / ranks * size / (left * bandwidth)


def _cluster(
    ranks: int, *, latency_s: float, bandwidth: float, efficiency: float, memory: float, flops: float
) -> Cluster:
    source = Source(key="*", how="measured", reference="the calibration of a run")
    kind = DeviceKind(
        name=RANK_KIND,
        memory_bytes=8e9,
        memory_bandwidth_bytes_per_s=memory,
        peak_flops_per_s=(("fp32", flops),),
        sources=(source,),
    )
    level = Level(
        name="host",
        kind="shared_memory",
        scope="all",
        latency_s=latency_s,
        bandwidth_bytes_per_s=bandwidth,
        collective_efficiency=efficiency,
        sources=(source,),
    )
    group = NodeGroup(count=1, device_kind=RANK_KIND, devices_per_node=ranks)
    return Cluster(name="this-machine", device_kinds=(kind,), nodes=(group,), levels=(level,))
