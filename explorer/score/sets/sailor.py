"""Sailor (Strati et al., SOSP 2025): OPT-350M and others on nodes of GH200, and on servers of unlike cards.

Single precision (TF32 if a GPU has it), nothing recomputed, 1F1B of a Megatron-DeepSpeed engine: how stages
send and wait is the framework's. A plan's model is named by itself or by its file
(`clariden_OPT-350_N16_...`). Seconds of layers are the published profiles, or physics where a GPU has none;
links and the memory that a process reserves are in the cluster profiles `sailor-gh200` and `sailor-rtx`. The
two runs on pairs of RTX cards state less memory than the states of the model and its activations together.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from explorer.base.caching import remembered
from explorer.base.errors import ExplorerError, InputError
from explorer.base.formats import parse_json
from explorer.cluster import Cluster, DeviceKind, NodeGroup
from explorer.graph import LayerGraph
from explorer.score.machines import machine as bundled
from explorer.score.reading import read_text, reference_if_any
from explorer.score.rows import SETS, ReadRows, RowProblem, ScoredCase, ScoredRow
from explorer.score.sets._sailor_models import OPT_350M
from explorer.score.sets._sailor_plan import PlanStage, SailorPlan, read_plan
from explorer.score.sets._sailor_profile import (
    PREFIX,
    SEQUENCE,
    group_of,
    measured_graph,
    profile_file,
)
from explorer.sharding.layouts import megatron_layout
from explorer.strategy import REPLICA, Mesh, Stage, Strategy, single
from explorer.workload import Job, Workload

PAPER = (
    "Strati et al., Sailor: Automating Distributed Training over Dynamic, Heterogeneous, and Geo-distributed"
    " Clusters, SOSP 2025"
)
FRAMEWORK = "megatron-deepspeed-2024"
_PATH = "measured/sailor"


class _Machine(NamedTuple):
    """Machine of the GPUs of one name."""

    cluster: str
    """Name of a bundled profile."""
    kind: str
    """Device kind in the profile."""


MACHINES = {
    "GH-96": _Machine("sailor-gh200", "sailor-gh200"),
    "RTX-3090": _Machine("sailor-rtx", "sailor-rtx-3090"),
    "RTX-2080": _Machine("sailor-rtx", "sailor-rtx-2080"),
    "Titan-RTX": _Machine("sailor-rtx", "sailor-titan-rtx"),
    "A100-40": _Machine("dgx-a100-40gb", "a100-sxm-40gb"),
    "A100-80": _Machine("dgx-a100", "a100-sxm-80gb"),
    "V100-16": _Machine("dgx-1-v100", "v100-sxm2-16gb"),
}
"""Machines by the names of GPUs in plans and profiles."""
_MODEL = re.compile(r"(?:[a-z]+_)?(?P<model>[^_]*\d[^_]*)_N\d+_")
"""Name of a plan's file, with its model."""


@SETS.add(
    "sailor", title="Sailor, OPT-350M on GH200 and on mixed RTX", paper=PAPER, path=_PATH,
    device=("sailor-gh200", "sailor-rtx-3090", "sailor-rtx-2080", "sailor-titan-rtx"), source="sailor",
    framework=FRAMEWORK, unit="s",
)  # fmt: skip
def read_sailor(path: Path) -> ReadRows:
    """Read a folder of plans, one JSON file each, or one such file; profiles lie in it or in the reference.

    Raises:
        InputError: there is no such folder or file.
    """
    if not path.exists():
        raise InputError(
            "cannot read it: no such file", file=str(path), allowed="a folder of plans, or a plan"
        )
    files = [path] if path.is_file() else sorted(path.glob("*.json"))
    folder = path.parent if path.is_file() else path
    rows: list[ScoredRow] = []
    problems: list[RowProblem] = []
    for file in files:
        if file.name.startswith(PREFIX):
            continue
        try:
            rows.append(_row(file, folder))
        except ExplorerError as error:
            problems.append(RowProblem(file.name, 1, str(error)))
    return ReadRows(tuple(rows), tuple(problems))


def _row(file: Path, folder: Path) -> ScoredRow:
    named = _MODEL.match(file.stem)
    plan = read_plan(_json(file), named["model"] if named else OPT_350M)
    gpus = " + ".join(f"{number} {name}" for name, number in sorted(plan.gpus.items()))
    return ScoredRow(
        name=file.stem,
        line=1,
        group=f"{plan.model.name}, batch {plan.batch}, {gpus}",
        case=_case(plan, folder),
        measured=plan.seconds,
        measured_memory_bytes=plan.memory_bytes,
    )


def _json(file: Path) -> Any:
    try:
        return parse_json(read_text(file), ours=False, number=False)
    except InputError as error:
        raise InputError(f"no JSON: {error.message}", allowed="a plan in JSON") from None


def _case(plan: SailorPlan, folder: Path) -> ScoredCase:
    """Return the problem of one plan.

    Raises:
        InputError: a GPU is in no known cluster, or the clusters are not joined.
    """
    unknown = sorted(set(plan.gpus) - set(MACHINES))
    if unknown:
        near = difflib.get_close_matches(unknown[0], MACHINES, n=1, cutoff=0.0)[0]
        raise InputError(
            f"unknown GPU {unknown[0]!r}; the nearest known is {near}", key="tmp_per_stage", found=unknown,
            allowed=", ".join(MACHINES),
        )  # fmt: skip
    clusters = {MACHINES[name].cluster for name in plan.gpus}
    if len(clusters) != 1:
        raise InputError(
            f"no cluster has {', '.join(sorted(plan.gpus))}", key="tmp_per_stage", found=sorted(plan.gpus),
            allowed="GPUs of one cluster, as RTX-3090, RTX-2080 and Titan-RTX",
        )  # fmt: skip
    files = {name: _profile_of(plan.model.name, name, folder) for name in plan.gpus}
    profiles = tuple(sorted((MACHINES[name].kind, file) for name, file in files.items() if file))
    graph = measured_graph(plan.model, profiles)
    machine = bundled(clusters.pop(), FRAMEWORK)
    placed = _place(plan, machine)
    job = Job(
        global_batch=plan.batch,
        sequence_length=SEQUENCE,
        precision="fp32",
        optimizer="adam",
        framework=FRAMEWORK,
    )
    strategy = _strategy(plan, graph, placed.devices)
    return ScoredCase(graph, _cluster(machine, placed.nodes), Workload(jobs=(job,)), strategy)


def _profile_of(model: str, gpu: str, folder: Path) -> Path | None:
    """Return the profile of a model on a GPU, next to the plans or in the reference folder; None without."""
    reference = reference_if_any()
    for place in (folder, *((reference / _PATH,) if reference else ())):
        if (file := profile_file(place, model, gpu)).is_file():
            return file.resolve()
    return None


# ---- placement -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    kind: str
    used: int


class _Placed(NamedTuple):
    nodes: tuple[tuple[str, int], ...]
    """(device kind, devices used) of every node."""
    devices: tuple[tuple[tuple[int, ...], ...], ...]
    """Devices per stage and replica."""


def _place(plan: SailorPlan, machine: Cluster) -> _Placed:
    """Choose devices stage by stage and replica by replica, filling one node after another."""
    room = {group.device_kind: group.devices_per_node for group in machine.nodes}
    nodes: list[_Node] = []
    open_nodes: dict[str, int] = {}
    places: list[list[list[tuple[int, int]]]] = []
    for stage in plan.stages:
        places.append([])
        for replica in stage.replicas:
            taken: list[tuple[int, int]] = []
            for name, number in replica.gpus:
                kind = MACHINES[name].kind
                taken += _take(nodes, open_nodes, kind, number, room[kind])
            places[-1].append(taken)
    first = [sum(node.used for node in nodes[:i]) for i in range(len(nodes))]
    devices = tuple(
        tuple(tuple(first[node] + slot for node, slot in taken) for taken in stage) for stage in places
    )
    return _Placed(tuple((node.kind, node.used) for node in nodes), devices)


def _take(
    nodes: list[_Node], open_nodes: dict[str, int], kind: str, number: int, room: int
) -> Iterable[tuple[int, int]]:
    """Take (node, device in it) of a number of devices of a kind, in one node if they fit in one."""
    taken = []
    for k in range(number):
        current = open_nodes.get(kind, -1)
        needed = min(room, number - k) if k % room == 0 else 1
        if current < 0 or nodes[current].used + needed > room:
            current = open_nodes[kind] = len(nodes)
            nodes.append(_Node(kind, 0))
        taken.append((current, nodes[current].used))
        nodes[current].used += 1
    return taken


@remembered(256)
def _cluster(machine: Cluster, nodes: tuple[tuple[str, int], ...]) -> Cluster:
    """Build a cluster of these nodes; all processes of a node have a context on its first device.

    `DeviceKind.reserved_bytes` of the profile is that of one context.
    """
    most = {kind: max(used for other, used in nodes if other == kind) for kind, _ in nodes}
    kinds = tuple(_reserving(kind, most[kind.name]) for kind in machine.device_kinds if kind.name in most)
    groups = tuple(NodeGroup(count=1, device_kind=kind, devices_per_node=used) for kind, used in nodes)
    return replace(machine, device_kinds=kinds, nodes=groups)


def _reserving(kind: DeviceKind, contexts: int) -> DeviceKind:
    return replace(kind, reserved_bytes=kind.reserved_bytes * contexts)


# ---- strategy ------------------------------------------------------------------------------------------


def _strategy(
    plan: SailorPlan,
    graph: LayerGraph,
    devices: tuple[tuple[tuple[int, ...], ...], ...],
) -> Strategy:
    group = group_of(graph)
    stages = [
        _stage(plan, stage, rows, tuple(name for name in group if group[name] in stage.layers))
        for stage, rows in zip(plan.stages, devices, strict=True)
    ]
    return single(stages=tuple(stages), schedule="1f1b")


def _stage(
    plan: SailorPlan, stage: PlanStage, rows: tuple[tuple[int, ...], ...], layers: tuple[str, ...]
) -> Stage:
    replicas, tensor = len(stage.replicas), stage.replicas[0].tensor
    mesh = Mesh(
        devices=tuple(device for row in rows for device in row),
        axes=((REPLICA, replicas), ("tensor", tensor)),
    )
    return Stage(
        layers=layers,
        meshes=(mesh,),
        microbatch_samples=plan.micro * replicas,
        layout=megatron_layout() if tensor > 1 else (),
    )
