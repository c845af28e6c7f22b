"""What a plan is for: a model, a cluster and a workload, loaded once however often they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from explorer.base.caching import interned
from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.models import load_model_and_cluster
from explorer.plan import Reference, Resolved, fingerprint, located
from explorer.workload import Job, Workload, default_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A model, a cluster and the workload."""

    model: Reference
    """Model reference with its sequence length."""
    graph: LayerGraph
    """The model."""
    cluster_name: str
    """Cluster reference."""
    cluster: Cluster
    """The cluster."""
    workload: Workload
    """One job."""

    @property
    def job(self) -> Job:
        """The job."""
        return self.workload.job


Input = TypeVar("Input", LayerGraph, Cluster)


@interned(16, key_of=lambda value: (type(value).__name__, fingerprint(value)))
def shared(value: Input) -> Input:
    """Return the graph or cluster of the same content that was loaded before, if it was one of the last few.

    Whatever is derived from a graph is kept with it, so a plan opened twenty times must not bring twenty of
    them.
    """
    return value


DEFAULT_CLUSTER = "dgx-a100"
"""Cluster on which a model is shown if none was named."""


def load_inputs(
    model: str,
    cluster: str | None,
    *,
    sequence_length: int | None = None,
    changes: Mapping[str, object] | None = None,
    prefer_own: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Inputs:
    """Load a model and a cluster.

    Args:
        model: model reference.
        cluster: cluster reference; None for the devices that the file brings, else for the default.
        sequence_length: sequence length of the model; None for its own.
        changes: fields over those of the model's own workload.
        prefer_own: whether devices that the file brings are taken in place of `cluster`.
        settings: settings of the model, as `--set` takes them.

    Raises:
        InputError: an unknown or wrong model, cluster or value.
    """
    framework = load_framework(str((changes or {}).get("framework", "")))
    graph, own = load_model_and_cluster(
        model, sequence_length=sequence_length, settings=settings, framework=framework
    )
    if own is not None and (prefer_own or not cluster):
        place, devices = model, own
    else:
        place = cluster or DEFAULT_CLUSTER
        devices = load_cluster(place)
    workload = _first_workload(graph, devices)
    given: dict[str, object] = {}
    for key, value in (changes or {}).items():
        if key not in Job.__dataclass_fields__:
            raise InputError(
                f"unknown workload setting {key!r}", key=key, found=value,
                allowed=", ".join(Job.__dataclass_fields__),
            )  # fmt: skip
        given[key] = value
    if sequence_length:
        given["sequence_length"] = sequence_length
    return Inputs(
        model=Reference(
            reference=model, sequence_length=sequence_length or 0, settings=tuple((settings or {}).items())
        ),
        graph=shared(graph),
        cluster_name=place,
        cluster=shared(devices),
        workload=workload.with_job(**given),
    )


FILLS = 4
"""Microbatches for each device in the batch that a measured profile begins with, which states none itself."""


def _first_workload(graph: LayerGraph, devices: Cluster) -> Workload:
    """Return the workload of a model before anything is chosen.

    A measured profile states the one minibatch that was profiled: with no more than that in a step, all
    devices but one would always be idle.
    """
    stated = default_workload(graph)
    measured = any(layer.measured for layer in graph.layers)
    if not measured or not stated.job.training:
        return stated
    return stated.with_job(global_batch=FILLS * len(devices.present) * stated.job.global_batch)


def inputs_of(resolved: Resolved) -> Inputs:
    """Return the inputs of a loaded plan of one job.

    Raises:
        InputError: the plan has several.
    """
    plan = resolved.plan
    if len(plan.workload.jobs) != 1 or len(plan.models) != 1:
        raise InputError(
            f"the plan has {len(plan.workload.jobs)} jobs; the workbench shows one",
            key="plan", found=len(plan.workload.jobs),
            allowed="a plan of one job; `explorer simulate PLAN` predicts several",
        )  # fmt: skip
    # files that the plan names relative to itself are found from here too, by what is made from it here
    model, folder = plan.models[0][1], resolved.folder
    return Inputs(
        model=replace(model, reference=located(model.reference, folder), fingerprint=""),
        graph=shared(resolved.graph),
        cluster_name=located(plan.cluster.reference, folder),
        cluster=shared(resolved.cluster),
        workload=Workload(jobs=(plan.workload.job,)),
    )
