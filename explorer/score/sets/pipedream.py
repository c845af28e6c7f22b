"""PipeDream (Narayanan et al., SOSP 2019), Table 1: speed of a configuration over data parallelism.

Layer times are PipeDream's own profiles, next to the tables (models without one are refused with a message).
A configuration `15-1` is a stage of 15 replicas that take turns and one of 1; `straight` one stage for each
GPU; a single number is data parallelism. Gradients are reduced in buckets behind the backward, as PyTorch
does. Cuts are not published: for two stages the best cut counts, else stages are balanced by time over
replicas. Speeds are of the steady state. `note` names the best predicted of data parallelism, straight and
(n - 1)-1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate
from pathlib import Path

from explorer.base.caching import remembered
from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.score.machines import nodes_of
from explorer.score.published import PATH, read_each, section_of
from explorer.score.reading import Record, count, positive
from explorer.score.rows import SETS, ReadRows, ScoredCase, ScoredRow
from explorer.simulation.simulate import simulate
from explorer.strategies.cuts import default_weights
from explorer.strategies.uniform import uniform
from explorer.strategy import ROUND_ROBIN, SPLIT, Mesh, Stage, Strategy, single
from explorer.workload import Job, Workload, default_workload

PROFILES = {
    "VGG-16": ("vgg16", 128), "ResNet-50": ("resnet50", 128), "AlexNet": ("alexnet", 256),
    "GNMT-8": ("gnmt", 64),
}  # fmt: skip
"""Profile of a model, and samples of the minibatch that was profiled."""
FRAMEWORK = "pipedream-2019"
CLUSTERS = {"A": "pipedream-a", "B": "pipedream-b"}
Counts = tuple[int, ...]
"""Replicas of each stage."""


@SETS.add(
    "pipedream_table1", title="PipeDream over data parallelism, 4 to 16 V100",
    paper="Narayanan et al., PipeDream, SOSP 2019, table 1", path=PATH,
    device=("v100-pcie-16gb", "v100-sxm2-16gb"), source="pipedream", framework=FRAMEWORK, unit="ratio",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read the speed over data parallelism of the published configuration."""
    table = section_of(path, "PipeDream", "Table 1").table("model", "configuration", "speedup")
    return read_each(table, path.name, lambda record: _rows(record, table.head, path.parent))


def _rows(record: Record, head: tuple[str, ...], folder: Path) -> Iterator[ScoredRow]:
    model, machines, configuration, speedup = map(record.text, head[:4])
    form = re.fullmatch(r"(\S+) \((\d+)\)", model)
    place = re.fullmatch(r"(\d+)x(\d+) (\w)", machines)
    if form is None or place is None or place[3] not in CLUSTERS:
        raise InputError(
            f"{model!r} on {machines!r}",
            key=head[0],
            found=record.line,
            allowed="as in 'VGG-16 (64)' on '4x4 A'",
        )
    batch, devices = count(form[2], "batch"), count(place[1], head[1]) * count(place[2], head[1])
    graph = _profile(form[1], folder)
    cluster = nodes_of(CLUSTERS[place[3]], devices, FRAMEWORK)
    counts = stage_counts(configuration, devices)
    yield ScoredRow(
        name=f"{model} {machines} {configuration}",
        line=record.line,
        group=f"{model} {machines}",
        case=best_case(graph, cluster, counts, batch),
        measured=positive(speedup.removesuffix("x"), head[3]),
        predicted=partial(speedup_of, graph, cluster, counts, batch),
        note=partial(_chosen, graph, cluster, devices, batch),
    )


def _profile(model: str, folder: Path) -> LayerGraph:
    if model not in PROFILES:
        raise InputError(f"no profile of {model!r}", key="model", found=model, allowed=", ".join(PROFILES))
    name, samples = PROFILES[model]
    return _load(str(folder / "pipedream" / f"{name}.graph.txt"), samples)


@cache
def _load(path: str, samples: int) -> LayerGraph:
    return load_model(path, settings={"samples_per_microbatch": str(samples)})


def stage_counts(configuration: str, devices: int) -> Counts:
    """Return the replicas of each stage of a configuration in the paper's notation.

    >>> stage_counts("15-1", 16), stage_counts("straight", 3), stage_counts("16 (data parallel)", 16)
    ((15, 1), (1, 1, 1), (16,))

    Raises:
        InputError: it is not in that notation, or has another number of devices.
    """
    text = configuration.partition(" (")[0].strip().lower()
    counts = (
        (1,) * devices
        if text == "straight"
        else tuple(count(part, "configuration") for part in text.split("-"))
    )
    if sum(counts) != devices:
        raise InputError(
            f"{configuration!r} on {devices} GPUs",
            key="configuration",
            found=sum(counts),
            allowed=str(devices),
        )
    return counts


def configuration(counts: Counts) -> str:
    """Write a configuration in the paper's notation."""
    return "straight" if len(counts) > 1 and set(counts) == {1} else "-".join(map(str, counts))


def speedup_of(graph: LayerGraph, cluster: Cluster, counts: Counts, batch: int) -> float:
    """Return the samples per second of a configuration over those of data parallelism."""
    if len(counts) == 1:
        return 1.0
    return _speed(best_case(graph, cluster, counts, batch)) / _speed(
        best_case(graph, cluster, (sum(counts),), batch)
    )


def _chosen(graph: LayerGraph, cluster: Cluster, devices: int, batch: int) -> str:
    choices: list[Counts] = [(devices,), (devices - 1, 1), (1,) * devices]
    best = max(choices, key=lambda counts: speedup_of(graph, cluster, counts, batch))
    return f"best predicted: {configuration(best)}"


@remembered(256)
def best_case(graph: LayerGraph, cluster: Cluster, counts: Counts, batch: int) -> ScoredCase:
    """Return a configuration with its best cut, `batch` samples per replica."""
    if len(counts) == 1:
        return _data_parallel(graph, cluster, counts[0], batch)
    cases = [_pipeline(graph, cluster, counts, cuts, batch) for cuts in _cuts(graph, counts)]
    return max(cases, key=_speed) if len(cases) > 1 else cases[0]


def _speed(case: ScoredCase) -> float:
    return simulate(*case).throughput_samples_per_s


def _job(graph: LayerGraph, batch: int) -> Job:
    return replace(default_workload(graph).job, global_batch=batch, framework=FRAMEWORK)


def _data_parallel(graph: LayerGraph, cluster: Cluster, devices: int, batch: int) -> ScoredCase:
    job = _job(graph, batch * devices)
    plain = uniform(graph, cluster, job, replicas=devices, microbatch_size=batch)
    return ScoredCase(graph, cluster, Workload(jobs=(job,)), plain)


def _pipeline(graph: LayerGraph, cluster: Cluster, counts: Counts, cuts: Counts, batch: int) -> ScoredCase:
    job = _job(graph, batch * math.lcm(*counts))
    return ScoredCase(graph, cluster, Workload(jobs=(job,)), _stages(graph, counts, cuts, batch))


def _stages(graph: LayerGraph, counts: Counts, cuts: Counts, batch: int) -> Strategy:
    names = [layer.name for layer in graph.layers]
    bounds = [0, *cuts, len(names)]
    firsts = [0, *accumulate(counts)]
    stages = tuple(
        Stage(
            layers=tuple(names[bounds[i] : bounds[i + 1]]),
            meshes=(Mesh(devices=tuple(range(firsts[i], firsts[i + 1]))),),
            microbatch_samples=batch,
            replicas=ROUND_ROBIN if replicas > 1 else SPLIT,
        )
        for i, replicas in enumerate(counts)
    )
    # PyTorch reduces a round of minibatches, one of each replica, at once.
    return single(stages=stages, schedule="pipedream", options={"together": True})


def _cuts(graph: LayerGraph, counts: Counts) -> list[Counts]:
    """Return cuts into two stages; for more the cut whose slowest stage is fastest, by time over replicas."""
    if len(counts) == 2:
        return [(cut,) for cut in single_tensor_cuts(graph)]
    return [_balanced(default_weights(graph), counts)]


def single_tensor_cuts(graph: LayerGraph) -> list[int]:
    """Return the positions in model order over which one tensor passes; every position if there is none."""
    last = {
        name: max(graph.index[reader] for reader in readers)
        for name, readers in graph.consumers.items()
        if readers
    }
    alive = [0] * (len(graph.layers) + 1)
    for i, layer in enumerate(graph.layers):
        for use in layer.writes:
            for position in range(i + 1, last.get(use.name, i) + 1):
                alive[position] += 1
    found = [i for i in range(1, len(graph.layers)) if alive[i] == 1]
    return found or list(range(1, len(graph.layers)))


def _balanced(weights: list[float], counts: Counts) -> Counts:
    """Return the cuts that minimise the largest sum of weights over replicas of a stage: dynamic program."""
    sums = [0.0, *accumulate(weights)]
    size = len(weights)
    # best[i]: (slowest stage, cuts) of the first i layers on the stages so far
    best: list[tuple[float, Counts]] = [(sums[i] / counts[0] if i else math.inf, ()) for i in range(size + 1)]
    for stage in range(1, len(counts)):
        best = [
            min(
                (
                    (max(best[j][0], (sums[i] - sums[j]) / counts[stage]), (*best[j][1], j))
                    for j in range(stage, i)
                ),
                default=(math.inf, ()),
            )
            for i in range(size + 1)
        ]
    return best[size][1]
