"""Lane: the devices that run layers in lockstep, and on how much: what a layer's cost depends on besides its
sharding.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.cluster import Cluster, DeviceKind
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.pricing.layer_columns import devices_of
from explorer.pricing.mesh_lines import Lines, axis_lines
from explorer.sharding.states import Axis
from explorer.strategy import REPLICA, ROUND_ROBIN, Stage
from explorer.workload import Job


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lane:
    """The first row of a stage's devices with one microbatch."""

    graph: LayerGraph
    cluster: Cluster
    """The cluster under the job's framework."""
    job: Job
    stage: Stage
    """Its devices and everything chosen for it but the sharding of its layers."""
    axes: tuple[Axis, ...]
    """Mesh axes over which layers may be split."""
    lines: Lines
    """Devices along the axes."""
    kinds: tuple[DeviceKind, ...]
    """Kinds of devices in the row."""
    samples: float
    """Samples of one call on one replica."""
    degree: int
    """Tensor-parallel size, by which measured seconds are found."""

    @property
    def dummy_gradients(self) -> bool:
        """Whether the framework writes placeholders of gradients (`Framework.dummy_gradients`)."""
        return load_framework(self.job.framework).dummy_gradients

    @property
    def devices(self) -> int:
        """Devices of the stage that meet at every update; one where nothing is trained."""
        return self.stage.device_count if self.job.training else 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kinds of devices."""
        return tuple(kind.name for kind in self.kinds)


def lane_of(graph: LayerGraph, cluster: Cluster, job: Job, stage: Stage) -> Lane:
    """Return the lane of a stage's first replica.

    Raises:
        InputError: the devices of the stage have unequal shares, or its layers exceptions or slices.
    """
    unable = {
        "axis_shares": stage.axis_shares, "shardings": stage.shardings, "keeping": stage.keeping,
        "slices": stage.slices,
    }  # fmt: skip
    for key, given in unable.items():
        if given:
            raise InputError(
                f"tables of layers take no stage with {key}", key=key, found=len(given), allowed="()"
            )
    under = cluster_under(cluster, load_framework(job.framework))
    mesh = stage.meshes[0]
    row = mesh.rows[0]
    axes = tuple((name, size) for name, size in mesh.axes if name != REPLICA and size > 1)
    replicas = 1 if stage.replicas == ROUND_ROBIN else mesh.replicas
    names = dict.fromkeys(under.kind_of(device).name for device in row)
    return Lane(
        graph=graph,
        cluster=under,
        job=job,
        stage=stage,
        axes=tuple(Axis(name=name, size=size) for name, size in axes),
        lines=axis_lines(stage, 0, row),
        kinds=tuple(devices_of(under, tuple(names))),
        samples=stage.microbatch_samples / replicas,
        degree=dict(axes).get("tensor", 1),
    )
