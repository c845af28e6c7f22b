"""What the workbench knows, without any widget: points of a history, and how each edit makes the next one.

A `Point` is a whole state: inputs, strategy, device groups and report. Nothing is changed in place, so undo
and redo are steps along a list. An edit that is wrong raises and leaves the history as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.cluster import Cluster
from explorer.edit import Group
from explorer.errors import InputError
from explorer.graph import LayerGraph
from explorer.models import load_model_and_cluster
from explorer.plan import Plan, Provenance, Reference, Resolved, make_plan
from explorer.profiles import load_cluster
from explorer.report import Report
from explorer.simulate import simulate
from explorer.strategy import Strategy
from explorer.views import Scene, make_scene
from explorer.workload import Job, Workload, default_workload

MOST_POINTS = 500
"""States that undo can go back to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """A model, a cluster and what is asked of them."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One state of the workbench."""

    inputs: Inputs
    """What it is for."""
    strategy: Strategy
    """What is chosen."""
    scene: Scene
    """What the views look at; holds the report and the device groups."""
    note: str = ""
    """What was done to get here, in a few words."""
    maker: str = "board"
    """Who made it: `board`, `start`, or the name of a searcher."""

    @property
    def report(self) -> Report:
        """What is predicted."""
        return self.scene.report

    @property
    def groups(self) -> tuple[Group, ...]:
        """Device groups: board lanes, those without layers included."""
        return self.scene.groups

    def plan(self) -> Plan:
        """The plan of this state, with fingerprints."""
        from explorer import __version__

        made = Provenance(
            searcher=self.maker, version=__version__, step_time_s=self.report.step_time_s, note=self.note
        )
        own = self.inputs
        return make_plan(
            own.model, own.graph, own.cluster_name, own.cluster, own.workload, self.strategy, made
        )

    def resolved(self) -> Resolved:
        """The plan with its inputs, for export and runs."""
        return Resolved(plan=self.plan(), graphs={"model": self.inputs.graph}, cluster=self.inputs.cluster)


def make_point(
    inputs: Inputs, strategy: Strategy, groups: Sequence[Group] = (), *, note: str = "", maker: str = "board"
) -> Point:
    """Simulate a strategy.

    Raises:
        ExplorerError: it cannot be lowered.
    """
    report = simulate(inputs.graph, inputs.cluster, inputs.workload, strategy)
    scene = make_scene(inputs.graph, inputs.cluster, inputs.workload, strategy, report, groups)
    return Point(inputs=inputs, strategy=strategy, scene=scene, note=note, maker=maker)


def load_inputs(
    model: str,
    cluster: str | None,
    *,
    sequence_length: int | None = None,
    changes: Mapping[str, object] | None = None,
) -> Inputs:
    """Load a model and a cluster; `changes` go over the fields of the model's own workload.

    Raises:
        InputError: an unknown or wrong model, cluster or value.
    """
    graph, own = load_model_and_cluster(model, sequence_length=sequence_length)
    if not cluster and own is None:
        raise InputError("a cluster is needed", key="cluster", allowed="a bundled profile or a file")
    devices = load_cluster(cluster) if cluster else own
    assert devices is not None  # one of the two is there
    workload = default_workload(graph)
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
        model=Reference(reference=model, sequence_length=sequence_length or 0),
        graph=graph,
        cluster_name=cluster or model,
        cluster=devices,
        workload=workload.with_job(**given),
    )


def inputs_of(resolved: Resolved) -> Inputs:
    """The inputs of a loaded plan of one job."""
    plan = resolved.plan
    return Inputs(
        model=replace(plan.models[0][1], fingerprint=""),
        graph=resolved.graph,
        cluster_name=plan.cluster.reference,
        cluster=resolved.cluster,
        workload=Workload(jobs=(plan.workload.job,)),
    )


@dataclass(slots=True, kw_only=True)
class History:
    """Points in the order they were made, and which one is shown."""

    points: list[Point] = field(default_factory=list)
    """All that can be reached."""
    at: int = -1
    """Position of the one shown; -1 while there is none."""

    @property
    def now(self) -> Point | None:
        """The state shown."""
        return self.points[self.at] if self.points else None

    @property
    def can_undo(self) -> bool:
        """Whether there is an earlier state."""
        return self.at > 0

    @property
    def can_redo(self) -> bool:
        """Whether there is a later one."""
        return self.at < len(self.points) - 1

    def push(self, point: Point) -> None:
        """Show a new state; those that were undone are gone."""
        del self.points[self.at + 1 :]
        self.points.append(point)
        del self.points[:-MOST_POINTS]
        self.at = len(self.points) - 1

    def step(self, by: int) -> bool:
        """Go back (-1) or forth (1); whether there was a state to go to."""
        if not 0 <= self.at + by < len(self.points):
            return False
        self.at += by
        return True
