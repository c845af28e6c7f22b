"""The order as the compute-only CSV that torch's `_PipelineScheduleRuntime._load_csv` takes.

One row per rank of one pipeline, in the order of the lanes; every replica runs the same file. Stage modules,
their devices, sharding and memory choices are the trainer's business: the file holds only what runs when.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.actions import BACKWARD, FORWARD, INPUT_GRAD, Order
from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.export import EXPORTERS
from explorer.export._order import order_of
from explorer.export._support import Capabilities, no, yes
from explorer.export.features import FEATURES
from explorer.export.spec import ORDER, Exporter
from explorer.importing._source import SourceText
from explorer.models import load_model
from explorer.plan import Provenance, Resolved, make_plan
from explorer.schedules import SCHEDULES
from explorer.schedules._common import LaneOrders
from explorer.schedules._torch_notation import from_torch_csv, named_actions, to_torch_csv
from explorer.schedules.custom import lanes_text
from explorer.strategies.cuts import balanced_cuts
from explorer.strategy import Mesh, Stage, single
from explorer.workload import default_workload

FILE = "schedule.csv"

_REFUSED = {
    "several_jobs": "export a plan with one job for each",
    "inference": "torch's runtime trains; use the export `plan`",
    "stage_dag": "its runtime sends to the next stage only; merge stages until they are a chain",
    "copies": "it runs one copy of a stage; use 1f1b in place of a bidirectional schedule",
    "round_robin": "every replica runs all microbatches; set replicas: split",
    "mesh_shapes": "a pipeline has one rank for each stage; give all stages meshes of one shape",
    "microbatch_sizes": "all stages run the same microbatches; give them one size",
    "slices": "a stage is whole modules; move the boundary to the end of the layer",
    "overlapping_groups": "a stage belongs to one rank; put stages on equal or disjoint groups",
    "dispatch": "it runs one fixed order; use 1f1b",
    "newer_weights": "it keeps one weight version; use 1f1b",
    "sweeps": "torch runs every microbatch once; use 1f1b",
    "asynchronous": "it keeps one weight version; use 1f1b (as pipedream, with a flush)",
}
_TRAINERS = "not part of an order; set in the trainer that loads it"


def _table() -> Capabilities:
    """Return the capability table: rows hold the order; everything else is the trainer's."""
    own = {
        "uneven_stages": "stages are whatever modules the trainer gives them",
        "virtual_stages": "a row holds the actions of all stages of its rank",
        "torch_schedule": "its actions one by one",
        "other_schedule": "its actions one by one",
        "custom_order": "its actions one by one",
        "mixed_devices": "an order has no device kinds",
    }
    return {
        feature.name: no(_REFUSED[feature.name])
        if feature.name in _REFUSED
        else yes(own.get(feature.name, _TRAINERS))
        for feature in FEATURES
    }


def read(source: SourceText) -> Resolved:
    """Read a plan with the order of a CSV: stages of equal cost on ranks 0, 1, ..., one device each.

    The file names neither model nor cluster nor where stages end: the first two must be given.

    Raises:
        InputError: the text is not such a CSV, or does not fit the model, cluster or batch.
        PlanError: the order does not cover its stages; lists every way in which it does not.
    """
    lanes = from_torch_csv(source.text, file=source.name)
    home, microbatches = _stages_of(lanes)
    reference, cluster_reference = source.needed("model"), source.needed("cluster")
    graph, cluster = load_model(reference, trust=source.trust), load_cluster(cluster_reference)
    if len(lanes) > cluster.device_count:
        raise InputError(
            f"{len(lanes)} rows for the {cluster.device_count} devices of {cluster.name!r}",
            found=len(lanes),
            allowed=f"<= {cluster.device_count}",
        )
    workload = default_workload(graph)
    batch = workload.job.global_batch
    if batch % microbatches:
        batch = microbatches * max(1, round(batch / microbatches))
        workload = workload.with_job(global_batch=batch)
    bounds = [0, *balanced_cuts(graph, len(home)), len(graph.layers)]
    stages = tuple(
        Stage(
            layers=tuple(layer.name for layer in graph.layers[bounds[i] : bounds[i + 1]]),
            meshes=(Mesh(devices=(home[i],)),),
            microbatch_samples=batch // microbatches,
        )
        for i in range(len(home))
    )
    strategy = single(
        stages=stages, schedule="custom", options={"lanes": lanes_text(lanes)}, job=workload.job.name
    )
    plan = make_plan(
        reference, graph, cluster_reference, cluster, workload, strategy,
        Provenance(searcher="import", note=f"order of {source.name}; stages cut evenly"),
    )  # fmt: skip
    return Resolved(plan=plan, graphs={"model": graph}, cluster=cluster, folder=source.folder)


def _stages_of(lanes: LaneOrders) -> tuple[dict[int, int], int]:
    """Return the rank of every stage, and the number of microbatches.

    Raises:
        InputError: there are no actions, a stage is on two ranks, or numbers do not run from 0.
    """
    home: dict[int, int] = {}
    for rank, actions in enumerate(lanes):
        for action in actions:
            if home.setdefault(action.stage, rank) != rank:
                raise InputError(
                    f"stage {action.stage} is on ranks {home[action.stage]} and {rank}",
                    key=f"row {rank}",
                    found=str(action),
                    allowed="each stage on one rank",
                )
    forwards = {a.first_microbatch for lane in lanes for a in lane if a.op == FORWARD}
    backwards = any(a.op in (BACKWARD, INPUT_GRAD) for lane in lanes for a in lane)
    counted = sorted(home) == list(range(len(home))) and forwards == set(range(len(forwards)))
    if not home or not backwards or not counted:
        raise InputError(
            "no order of a training step",
            found=f"stages {sorted(home)}, microbatches {sorted(forwards)}",
            allowed="forwards and backwards of stages 0, 1, ... and microbatches 0, 1, ...",
        )
    return dict(sorted(home.items())), len(forwards)


def problems(resolved: Resolved) -> list[str]:
    """Return the problems that no capability row states: those that only the order itself shows.

    Raises:
        InputError: the schedule cannot order the shape.
        PlanError: a literal order does not cover the shape.
    """
    if SCHEDULES.get(resolved.plan.strategy.job.schedule).dispatch:
        return []
    order, _ = order_of(resolved)
    found = [f"schedule_csv cannot express {text}" for text in _only_in_order(order)]
    if order.steps > 1:
        found.append(f"schedule_csv cannot express an order over {order.steps} steps: write it for one")
    return found


def _only_in_order(order: Order) -> list[str]:
    """Return what torch's runtime cannot express and the capability table does not name."""
    added = ["dependencies that the schedule adds: torch waits for tensors only"] if order.edges else []
    return [*added, *(f"{text}; leave them out of the order" for text in named_actions(order))]


@EXPORTERS.add(
    Exporter(
        name="schedule_csv",
        title="The order as CSV for torch.distributed.pipelining (_PipelineScheduleRuntime)",
        capabilities=_table(),
        problems=problems,
        read=read,
        main=FILE,
        keeps=ORDER,
    )
)
def write(resolved: Resolved) -> dict[str, str]:
    """Write `schedule.csv`.

    Raises:
        PlanError: the order has something that torch cannot express; lists all of it.
    """
    return {FILE: csv_of(resolved)}


def csv_of(resolved: Resolved) -> str:
    """Write the first step of a plan's order as CSV.

    Raises:
        PlanError: the order has something that torch cannot express; lists all of it.
    """
    return to_torch_csv(*order_of(resolved))


def rows_of(text: str) -> Mapping[int, tuple[int, ...]]:
    """Return rank -> stages of a CSV's rows, ascending."""
    lanes = from_torch_csv(text)
    return {rank: tuple(sorted({action.stage for action in lane})) for rank, lane in enumerate(lanes)}
