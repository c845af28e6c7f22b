"""Figures of one layer under the layout that it has on its stage: what it costs there by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.cluster import Cluster
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.pricing.lane_collectives import kind_costs
from explorer.pricing.layer_columns import layer_columns, sharded_of
from explorer.pricing.mesh_lines import axis_lines
from explorer.pricing.section_time import section_memory
from explorer.strategy import ROUND_ROBIN, Stage
from explorer.workload import Job


class LayerFigures(NamedTuple):
    """Costs of one layer, of one microbatch on one device of the first replica."""

    work_s: float
    """Seconds of its forward and backward, with what the backward computes again left out."""
    collectives_s: float
    """Seconds of the collectives for which it waits: its own, and those that bring its tensors into the
    layouts of its neighbours; before anything hides them."""
    sent_bytes: float
    """Bytes that each device sends in them."""
    state_bytes: float
    """Bytes of weights, gradients and optimizer states."""
    saved_bytes: float
    """Bytes kept for the backward."""


def layer_figures(graph: LayerGraph, cluster: Cluster, job: Job, stage: Stage, name: str) -> LayerFigures:
    """Return what one layer of a stage costs.

    Args:
        graph: the model.
        cluster: the devices, under the job's framework (`explorer.framework.cluster_under`).
        job: the job.
        stage: the stage that holds the layer.
        name: the layer.
    """
    layer, row = graph.index[name], stage.meshes[0].rows[0]
    replicas = 1 if stage.replicas == ROUND_ROBIN else stage.meshes[0].replicas
    samples = stage.microbatch_samples / replicas
    sharded, kinds = sharded_of(graph, stage), tuple(dict.fromkeys(cluster.kind_of(d).name for d in row))
    inside = sharded.inside
    costs = (
        kind_costs(cluster, inside, axis_lines(stage, 0, row), job.precision, samples)
        if inside is not None
        else None
    )
    found = layer_columns(
        graph, cluster, sharded, costs, kinds=kinds, precision=job.precision, samples=samples
    )
    lane, ways = found.lane, slice(None) if job.training else slice(1)
    memory = section_memory(
        graph, sharded.shards, np.array([layer]), None, (),
        precision=job.precision, gradient_precision=job.gradient_precision, optimizer=job.optimizer,
        training=job.training, zero=stage.zero if job.training else 0,
        replicas=stage.zero_replicas or stage.meshes[0].replicas * len(stage.meshes), recompute="none",
        dummy_gradients=load_framework(job.framework).dummy_gradients,
    )  # fmt: skip
    return LayerFigures(
        work_s=float(found.compute_s[ways, layer].sum()),
        collectives_s=float(lane.comm_s[ways, layer].sum()) if lane else 0.0,
        sent_bytes=float(lane.sent_bytes[ways, layer].sum()) if lane else 0.0,
        state_bytes=memory.weight_bytes + memory.gradient_bytes + memory.optimizer_bytes,
        saved_bytes=memory.activation_bytes_per_sample * samples,
    )
