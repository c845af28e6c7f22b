"""Memory of a stage by tensor: which parameters and which saved activations its bytes belong to.

The sums are those of `explorer.costs.memory`, before anything moves to the host or is pruned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.base.units import scalar_bytes
from explorer.costs.keeping import Recompute
from explorer.costs.kept_by_layer import rules_of
from explorer.costs.memory import FP32_BYTES
from explorer.costs.memory_arrays import FloatArray, graph_arrays
from explorer.costs.memory_counts import Counts, carved_of, held_tensors, kept_tensors
from explorer.costs.memory_peaks import kept_twice
from explorer.graph import LayerGraph
from explorer.sharding import ShardedLayers
from explorer.workload import OPTIMIZERS, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes of one device by parameter of the graph, each of shape (parameters,)."""

    weights: FloatArray
    """One version of the weights."""
    versions: FloatArray
    """Each further version."""
    gradients: FloatArray
    """Gradients of trainable weights."""
    optimizer: FloatArray
    """Master copy and states."""


def states_by_parameter(
    graph: LayerGraph, held: Counts, sharded: ShardedLayers, job: Job, *, zero: int, replicas: int
) -> StateBytes:
    """Return the states of a stage by parameter; the arguments are those of `stage_memory`."""
    table, width = graph_arrays(graph).weight, scalar_bytes(job.precision)
    kind = OPTIMIZERS[job.optimizer]
    master = FP32_BYTES if job.optimizer != "none" else 0.0
    per_scalar = (master if width < FP32_BYTES else 0.0) + kind.states * max(FP32_BYTES, width)
    group = np.maximum(1.0, replicas / carved_of(sharded))
    shard = [1.0 if zero < level else 1.0 / group for level in (1, 2, 3)]
    trained = held.held * table["trainable"] * float(job.training)
    size = table["compute"] * width + table["fixed"]
    gradient = table["compute"] * scalar_bytes(job.gradient_precision or job.precision) + table["fixed"]
    fixed = FP32_BYTES * kind.states * table["states"] + master * table["masters"]
    return StateBytes(
        weights=held.held * size * shard[2],
        versions=held.held * table["trainable"] * size * shard[2],
        gradients=trained * table["density"] * gradient * shard[1],
        optimizer=trained * (table["compute"] * per_scalar + fixed) * shard[0],
    )


def saved_by_tensor(
    graph: LayerGraph, sharded: ShardedLayers, shares: FloatArray, *, precision: str, recompute: Recompute
) -> tuple[FloatArray, FloatArray]:
    """Return the bytes per sample that one device keeps from forward to backward.

    Args:
        graph: the model.
        sharded: sharding of the stage's layers.
        shares: share of every layer of the graph that is here, shape (layers,); 0 for those elsewhere.
        precision: data type of activations.
        recompute: none, selective or full; or a choice for each layer (`explorer.costs.keeping`).

    Returns:
        bytes by tensor, and bytes by layer that it keeps a second time in a form of its own.
    """
    arrays, width = graph_arrays(graph), scalar_bytes(precision)
    inside = shares > 0
    if isinstance(recompute, str):
        kept, again = kept_tensors(arrays, inside)[recompute], inside * (recompute != "full")
    else:
        rules = rules_of(arrays, inside, recompute)
        kept, again = rules.kept, inside & rules.twice
    held = held_tensors(arrays, sharded, shares) * kept
    twice = kept_twice(graph, sharded) * again
    return held * (arrays.compute * width + arrays.fixed), twice[0] * width + twice[1]
