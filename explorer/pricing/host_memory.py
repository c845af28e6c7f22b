"""Memory saved on a device: states of pruned weights only, and states and activations kept on its host.

Sparse states (Singh, Bhatele: SAMO, IPDPS 2023): of phi weights of two bytes pruning leaves a share f.
They stay dense for compute; master copy, gradients in both widths and optimizer states exist for the f phi
that are left, with their index of 4 bytes each and a copy of 2 on the way: 2 phi + 24 f phi bytes with Adam.

Offload (Rajbhandari et al., ZeRO-Infinity, 2021), over the device's link to its host, each way on its own:

    optimizer     states come for the update and go back, block by block: max(update, states / bandwidth)
    activations   go out behind the forward and come back ahead of the backward: max(work, bytes / bandwidth);
                  two blocks of a microbatch are on the device. Those of single layers alone (`Stage.keeping`)
                  are what no layer that stays needs here
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from explorer.cluster import Cluster
from explorer.costs.memory import FP32_BYTES, StageMemory
from explorer.costs.memory_counts import Counts
from explorer.strategy import OPTIMIZER, Stage

INDEX_BYTES, COPY_BYTES = 4.0, 2.0
"""Bytes per weight left by pruning: its index, and the copy in which its states are updated."""
BLOCKS_HERE = 2
"""Blocks of offloaded tensors on the device: the one in use and the one that moves meanwhile."""


class Moved(NamedTuple):
    """Activations that go to the host and come back, per sample."""

    all_bytes: float
    """All of them."""
    here_bytes: float
    """Those on the device meanwhile: of `BLOCKS_HERE` blocks."""


def reduced_memory(
    memory: StageMemory, stage: Stage, moved: Moved, held: Counts, width: float, blocks: int
) -> StageMemory:
    """Reduce the memory of a stage by sparse states and offload.

    Args:
        memory: the memory without them.
        stage: the stage, with its choices.
        moved: its activations that go to the host.
        held: counts of what a device holds.
        width: bytes of a gradient.
        blocks: number of blocks of the section.
    """
    share, part = stage.density, min(1.0, BLOCKS_HERE / blocks)
    here = memory
    if share < 1 and memory.gradient_bytes:
        left = share * sum(item.trained.compute for item in held.weights)
        extra = INDEX_BYTES + COPY_BYTES + (FP32_BYTES if width < FP32_BYTES else 0.0)
        here = replace(
            here,
            gradient_bytes=share * here.gradient_bytes,
            optimizer_bytes=share * here.optimizer_bytes,
            buffer_bytes=here.buffer_bytes + extra * left,
        )
    if OPTIMIZER in stage.offload:
        moving = part * here.optimizer_bytes
        here = replace(here, optimizer_bytes=0.0, buffer_bytes=here.buffer_bytes + moving)
    if moved.all_bytes:
        left = here.activation_bytes_per_sample - moved.all_bytes
        here = replace(
            here,
            activation_bytes_per_sample=max(0.0, left),
            # what is on the host makes no room when it is freed
            recompute_in_turn_bytes_per_sample=here.recompute_peak_bytes_per_sample,
            buffer_bytes_per_sample=here.buffer_bytes_per_sample + moved.here_bytes,
        )
    return here


def host_seconds(cluster: Cluster, devices: tuple[int, ...], bytes_count: float) -> float:
    """Return the seconds to move bytes of each of some devices to its host, or back; the slowest counts."""
    return bytes_count / min(cluster.kind_of(device).host_bandwidth_bytes_per_s for device in devices)
