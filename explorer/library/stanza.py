"""Stanza: convolutions on most workers, the heavy fully connected layers on few."""

from __future__ import annotations

from functools import cache

import numpy as np

from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.library._ideal import free_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.synthetic import chain
from explorer.planners.stanza import Part, step_s
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Mesh, Stage, Strategy, single
from explorer.workload import Job, Workload

WORKERS, SAMPLES = 3, 2
"""Workers that hold the convolutions, samples of each; one more holds the rest."""
CONV, CUT, DENSE = 60.0, 10.0, 900.0
"""Bytes of the convolutions' weights, of a sample's activations between the parts, of the dense weights."""
STEP_S = 3 * SAMPLES * (1 + WORKERS) + 2 * WORKERS * SAMPLES * CUT + 2 * (WORKERS - 1) / WORKERS * CONV
"""Layers of 1 s forward and 2 s back a sample, links of a byte a second."""
BY_HAND = "worked out by hand from the mechanism"


def _stages(layers: tuple[str, ...], cut: int, devices: int, samples: int) -> tuple[Stage, ...]:
    """Return the layers before the cut on all devices but the last, which holds the others."""
    many = Mesh(devices=tuple(range(devices - 1)))
    return (
        Stage(layers=layers[:cut], meshes=(many,), microbatch_samples=samples),
        Stage(layers=layers[cut:], meshes=(Mesh(devices=(devices - 1,)),), microbatch_samples=samples),
    )


@cache
def _report(*, separated: bool) -> Report:
    """Return a step of a model of one convolution and one dense layer, separated or data parallel."""
    graph = chain([1.0, 1.0], activation_bytes=[CUT, 0.0], parameter_bytes=[CONV, DENSE])
    layers = tuple(layer.name for layer in graph.layers)
    devices = WORKERS + 1
    batch = SAMPLES * (WORKERS if separated else devices)
    together = (
        Stage(layers=layers, meshes=(Mesh(devices=tuple(range(devices))),), microbatch_samples=batch),
    )
    stages = _stages(layers, 1, devices, batch) if separated else together
    workload = Workload(jobs=(Job(global_batch=batch, precision="fp32", optimizer="none"),))
    return simulate(graph, free_cluster(devices, 1.0), workload, single(stages=stages, schedule="gpipe"))


def _sent(*, separated: bool, by: int = 0) -> float:
    """Return the bytes that a device sends in a step."""
    traffic = _report(separated=separated).traffic_bytes
    return sum(size for (source, _), size in traffic.items() if source == by)


def _separated(graph: LayerGraph, _cluster: Cluster, job: Job) -> Strategy:
    """Return convolutions on seven devices and all that follows the last of them on the eighth."""
    layers = tuple(layer.name for layer in graph.layers)
    cut = layers.index("fc6")
    return single(stages=_stages(layers, cut, 8, job.global_batch), schedule="gpipe", job=job.name)


def _planned_s() -> float:
    """Return the seconds of the separated step as its planner counts them."""
    seconds = [np.array(item) for item in (SAMPLES, 2 * SAMPLES, 2 * (WORKERS - 1) / WORKERS * CONV)]
    dense = [np.array(item) for item in (WORKERS * SAMPLES, 2 * WORKERS * SAMPLES, 0.0)]
    passed = np.array(WORKERS * SAMPLES * CUT)
    return float(step_s(Part(*seconds), Part(*dense), passed, passed, 1))


@SYSTEMS.add(
    System(
        name="stanza",
        title="Layer separation: workers for convolutions, others for fully connected layers",
        paper="Wu et al., Stanza: Layer Separation for Distributed Training in Deep Learning, 2018",
        year=2018,
        uses=Uses(schedules=("gpipe",), searchers=("stanza",), options=("replicas per stage",)),
        claims=(
            Claim(
                text=f"a convolution worker of N = {WORKERS} sends 2 (N - 1)/N of the convolutions' weights"
                " and the activations of its samples",
                published=2 * (WORKERS - 1) / WORKERS * CONV + SAMPLES * CUT,
                unit="bytes",
                measure=lambda: _sent(separated=True),
                why=BY_HAND,
            ),
            Claim(
                text="the other worker sends gradients of those activations, and none of its weights",
                published=WORKERS * SAMPLES * CUT,
                unit="bytes",
                measure=lambda: _sent(separated=True, by=WORKERS),
                why=BY_HAND,
            ),
            Claim(
                text=f"data parallelism over n = {WORKERS + 1} workers sends 2 (n - 1)/n of all weights",
                published=2 * WORKERS / (WORKERS + 1) * (CONV + DENSE),
                unit="bytes",
                measure=lambda: _sent(separated=False),
                why=BY_HAND,
            ),
            *(
                Claim(
                    text=f"seconds of the separated step {how}: C + X + D + D' + X' + C' and 2 (N - 1)/N of"
                    " the convolutions' weights",
                    published=STEP_S,
                    unit="s",
                    measure=measure,
                    why=BY_HAND,
                )
                for how, measure in (
                    ("as simulated", lambda: _report(separated=True).makespan_s),
                    ("as its planner counts them", _planned_s),
                )
            ),
        ),
    )
)
def example() -> Example:
    """VGG-16 on eight V100, its three fully connected layers on one of them."""
    return Example(model="vgg16", cluster="dgx-1-v100", global_batch=56, divide=_separated)
