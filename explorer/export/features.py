"""Features that a plan may use and a target may lack, each with a name and where a plan uses it.

Every exporter states for every feature whether its target has it; so a new feature is a new row here that
no exporter can overlook (a test holds the tables complete).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from explorer.actions import Order
from explorer.cluster import Cluster
from explorer.export._order import order_of_job
from explorer.graph import LayerGraph
from explorer.plan import Resolved
from explorer.schedules import SCHEDULES, Schedule
from explorer.strategies.model_axes import CONTEXT, EXPERT, TENSOR
from explorer.strategy import REPLICA, ROUND_ROBIN, SPLIT, JobStrategy, Mesh, Stage
from explorer.updates import PLAIN
from explorer.workload import Job

MEGATRON_DIMS = frozenset({"heads", "kv_heads", "ffn", "vocab"})
"""Dimensions that Megatron-LM's tensor parallelism splits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """One job of a plan with its inputs."""

    job: Job
    """The job: model, workload and inputs."""
    strategy: JobStrategy
    """The strategy of the job."""
    graph: LayerGraph
    """The model."""
    cluster: Cluster
    """The devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something that a plan may use."""

    name: str
    """Key in capability tables."""
    title: str
    """Title for people, as in "cannot express TITLE"."""
    find: Callable[[PlanPart], Iterable[str]]
    """Finds where a job uses it (or which values of it), in words; nothing if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUse:
    """A feature that a plan uses."""

    name: str
    """Name of the feature."""
    feature: str
    """Title of the feature."""
    where: str
    """Where the plan uses it, or which value."""


def parts(resolved: Resolved) -> list[PlanPart]:
    """Return the jobs of a plan with their models."""
    graphs, jobs = resolved.graphs, {job.name: job for job in resolved.plan.workload.jobs}
    only = next(iter(graphs.values()))
    return [
        PlanPart(
            job=jobs[item.job],
            strategy=item,
            graph=graphs.get(jobs[item.job].graph, only),
            cluster=resolved.cluster,
        )
        for item in resolved.plan.strategy.jobs
        if item.job in jobs
    ]


def uses(resolved: Resolved) -> list[FeatureUse]:
    """Return all features that a plan uses, in the order of `FEATURES`."""
    found = parts(resolved)
    result = []
    for feature in FEATURES:
        if feature.name == "several_jobs":
            where = [", ".join(item.job.name for item in found)] if len(found) > 1 else []
        else:
            where = list(dict.fromkeys(text for item in found for text in feature.find(item)))
        result += [FeatureUse(name=feature.name, feature=feature.title, where=text) for text in where]
    return result


# -- the DAG of stages ----------------------------------------------------------------------------------


def stage_edges(part: PlanPart) -> set[tuple[int, int]]:
    """Return (from, to) of stages between which tensors pass."""
    home = {name: s for s, stage in enumerate(part.strategy.stages) for name in stage.all_layers}
    graph = part.graph
    return {
        (home[source], home[target])
        for tensor, source in graph.producer.items()
        for target in graph.consumers.get(tensor, ())
        if home[source] != home[target]
    }


def blocks_of(graph: LayerGraph, stage: Stage) -> list[str]:
    """Return the blocks of a stage in order; layers outside of blocks count as blocks of their own."""
    return list(dict.fromkeys(graph.layer[name].block or name for name in stage.all_layers))


def _name(index: int, stage: Stage) -> str:
    return stage.name or f"stage {index}"


def _stage_dag(part: PlanPart) -> Iterator[str]:
    wrong = sorted(edge for edge in stage_edges(part) if edge[1] != edge[0] + 1)
    if wrong:
        yield "stages " + ", ".join(f"{a} -> {b}" for a, b in wrong[:4])


def _uneven_stages(part: PlanPart) -> Iterator[str]:
    counts = [len(blocks_of(part.graph, stage)) for stage in part.strategy.stages]
    if len(set(counts)) > 1:
        yield f"{_list(counts)} blocks"


def _virtual_stages(part: PlanPart) -> Iterator[str]:
    stages = part.strategy.stages
    if len(stages) > len({stage.meshes for stage in stages}):
        yield f"{len(stages)} stages on {len({stage.meshes for stage in stages})} device groups"


def _overlapping(part: PlanPart) -> Iterator[str]:
    groups = [set(mesh.devices) for mesh in dict.fromkeys(_first_meshes(part))]
    shared = [(a, b) for a, b in combinations(groups, 2) if a & b]
    if shared:
        yield f"device {min(shared[0][0] & shared[0][1])} is in two different groups"


def _first_meshes(part: PlanPart) -> list[Mesh]:
    return [stage.meshes[0] for stage in part.strategy.stages]


def _mesh_shapes(part: PlanPart) -> Iterator[str]:
    shapes = list(dict.fromkeys(mesh.axes for mesh in _first_meshes(part)))
    if len(shapes) > 1:
        yield " and ".join(" x ".join(f"{size} {name}" for name, size in shape) for shape in shapes[:3])


def _copies(part: PlanPart) -> Iterator[str]:
    if part.strategy.copies > 1:
        yield f"{part.strategy.copies} copies of every stage"


def _where(part: PlanPart, test: Callable[[Stage], bool]) -> list[str]:
    """Return one text that names all stages for which a test is true; nothing if it is true of none."""
    stages = part.strategy.stages
    found = [_name(i, stage) for i, stage in enumerate(stages) if test(stage)]
    if not found:
        return []
    return ["all stages" if len(found) == len(stages) > 1 else _list(found)]


def _list(items: Iterable[object]) -> str:
    found = [str(item) for item in items]
    return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")


def _uneven_share(stage: Stage) -> bool:
    if stage.replicas != SPLIT:
        return False
    return len(set(stage.shares)) > 1 or stage.microbatch_samples % stage.meshes[0].replicas > 0


def _microbatch_sizes(part: PlanPart) -> Iterator[str]:
    sizes = sorted({stage.microbatch_samples for stage in part.strategy.stages})
    if len(sizes) > 1:
        yield f"{_list(sizes)} samples"


def _split_blocks(part: PlanPart) -> Iterator[str]:
    seen: dict[str, int] = {}
    for i, stage in enumerate(part.strategy.stages):
        for block in blocks_of(part.graph, stage):
            if seen.setdefault(block, i) != i:
                yield f"block {block} on stages {seen[block]} and {i}"
                return


def _tied(part: PlanPart) -> Iterator[str]:
    home = {name: s for s, stage in enumerate(part.strategy.stages) for name in stage.all_layers}
    owners: dict[str, set[int]] = {}
    for layer in part.graph.layers:
        for use in layer.parameters:
            owners.setdefault(use.name, set()).add(home[layer.name])
    cut = {layer for stage in part.strategy.stages for layer in (item.layer for item in stage.slices)}
    shared = [name for name, stages in owners.items() if len(stages) > 1]
    if shared and not cut:
        yield f"{shared[0]} on stages {_list(sorted(owners[shared[0]]))}"


# -- layouts and memory --------------------------------------------------------------------------------


def kinds_of_layout(layout: Iterable[tuple[str, str]], mesh: Mesh) -> set[str]:
    """Return ways of sharding that a layout combines over axes longer than one; `other` if unknown."""
    dims: dict[str, set[str]] = {}
    for dim, axis in layout:
        if mesh.size(axis) > 1:
            dims.setdefault(axis, set()).add(dim)
    kinds = set()
    for axis, found in dims.items():
        if axis == TENSOR and found in (MEGATRON_DIMS, MEGATRON_DIMS | {"seq"}):
            kinds |= {TENSOR, *(("sequence",) if "seq" in found else ())}
        elif axis == CONTEXT and found == {"seq"}:
            kinds.add(CONTEXT)
        elif axis != REPLICA and found == {"experts"}:
            kinds.add(EXPERT)
        else:
            kinds.add("other")
    unused = [name for name, size in mesh.axes if size > 1 and name != REPLICA and name not in dims]
    return kinds | ({"other"} if unused else set())


def _layout(kind: str) -> Callable[[PlanPart], list[str]]:
    def test(stage: Stage) -> bool:
        own = kind in kinds_of_layout(stage.layout, stage.meshes[0])
        special = any(
            kind in kinds_of_layout(item.layout, (item.meshes or stage.meshes)[0]) - {"other"}
            for item in stage.shardings
        )
        return own or special

    return lambda part: _where(part, test)


def _zero(level: int) -> Callable[[PlanPart], list[str]]:
    return lambda part: _where(part, lambda stage: stage.zero == level and stage.meshes[0].replicas > 1)


def _mixed(field: str) -> Callable[[PlanPart], list[str]]:
    def find(part: PlanPart) -> list[str]:
        values = list(dict.fromkeys(getattr(stage, field) for stage in part.strategy.stages))
        return [_list(values)] if len(values) > 1 else []

    return find


# -- schedules, devices and the rest -------------------------------------------------------------------


def _schedule(test: Callable[[PlanPart, bool, Schedule], bool]) -> Callable[[PlanPart], list[str]]:
    """Make a finder of the schedule of a training job for which `test(part, flush, schedule)` is true."""

    def find(part: PlanPart) -> list[str]:
        schedule = SCHEDULES.get(part.strategy.schedule)
        flush = schedule.flushes(dict(part.strategy.options))
        return [schedule.name] if test(part, flush, schedule) else []

    return find


def _ordered(test: Callable[[Order], bool]) -> Callable[[PlanPart], list[str]]:
    """Make a finder of a job's schedule if `test` is true of its order; those that torch has are plain."""

    def find(part: PlanPart) -> list[str]:
        schedule = SCHEDULES.get(part.strategy.schedule)
        if schedule.torch_name or schedule.dispatch:
            return []
        order, _ = order_of_job(part.graph, part.cluster, part.job, part.strategy)
        return [schedule.name] if test(order) else []

    return find


def _said(value: object) -> bool:
    return str(value).lower() not in ("false", "0", "no")


def used_nodes(part: PlanPart) -> dict[int, list[int]]:
    """Return node -> its devices that the strategy uses, ascending."""
    nodes: dict[int, list[int]] = {}
    for device in part.strategy.devices:
        nodes.setdefault(part.cluster.node_of(device), []).append(device)
    return nodes


def _uneven_nodes(part: PlanPart) -> Iterator[str]:
    counts = [len(devices) for devices in used_nodes(part).values()]
    if len(set(counts)) > 1:
        yield f"{_list(counts)} devices per node"


def _mixed_devices(part: PlanPart) -> Iterator[str]:
    kinds = dict.fromkeys(part.cluster.kind_of(device).name for device in part.strategy.devices)
    if len(kinds) > 1:
        yield ", ".join(kinds)


def _device_order(part: PlanPart) -> Iterator[str]:
    order = list(dict.fromkeys(device for mesh in _first_meshes(part) for device in mesh.devices))
    for before, after in pairwise(order):
        if before > after:
            yield f"device {after} comes after device {before}"
            return


def _servers(part: PlanPart) -> Iterator[str]:
    if found := [sync for sync in part.strategy.sync if sync.method != "all_reduce"]:
        yield _list(name for sync in found for name in sync.parameters)


def _update_rules(part: PlanPart) -> Iterator[str]:
    for choice in part.strategy.updates:
        if choice.rule != PLAIN.rule:
            yield f"{choice.rule} of {_list(choice.parameters)}"


def _compression(part: PlanPart) -> Iterator[str]:
    if codecs := [f"{item.source} -> {item.target}: {item.codec}" for item in part.strategy.boundaries]:
        yield _list(codecs)


FEATURES: tuple[Feature, ...] = tuple(
    Feature(name=name, title=title, find=find)
    for name, title, find in (
        ("several_jobs", "several jobs", lambda _part: ()),
        ("inference", "a job that does not train", lambda p: [] if p.job.training else [p.job.mode]),
        ("stage_dag", "stages that are not a chain", _stage_dag),
        ("uneven_stages", "uneven stages", _uneven_stages),
        ("virtual_stages", "virtual stages", _virtual_stages),
        ("overlapping_groups", "stages on overlapping device groups", _overlapping),
        ("mesh_shapes", "stages with device meshes of different shapes", _mesh_shapes),
        ("copies", "several copies of every stage", _copies),
        ("round_robin", "replicas that take whole microbatches in turn (round robin)",
         lambda p: _where(p, lambda s: s.replicas == ROUND_ROBIN and s.meshes[0].replicas > 1)),
        ("uneven_shares", "uneven shares of replicas", lambda p: _where(p, _uneven_share)),
        ("microbatch_sizes", "microbatch sizes that differ between stages", _microbatch_sizes),
        ("slices", "a layer cut over several stages", lambda p: _where(p, lambda s: bool(s.slices))),
        ("split_blocks", "a block divided between stages", _split_blocks),
        ("tied_over_stages", "parameters tied across stages", _tied),
        ("layer_meshes", "layers on a mesh other than their stage's",
         lambda p: _where(p, lambda s: any(item.meshes for item in s.shardings))),
        ("layer_layouts", "layers with a layout other than their stage's",
         lambda p: _where(p, lambda s: any(item.layout and not item.meshes for item in s.shardings))),
        ("tensor_parallel", "tensor parallelism", _layout(TENSOR)),
        ("sequence_parallel", "sequence parallelism", _layout("sequence")),
        ("context_parallel", "context parallelism", _layout(CONTEXT)),
        ("expert_parallel", "expert parallelism", _layout(EXPERT)),
        ("other_layout", "a layout by dimension that is none of the known ones, or unequal shards of tensors",
         lambda p: _layout("other")(p) or _where(p, lambda s: bool(s.axis_shares))),
        ("mixed_layout", "layouts that differ between stages", _mixed("layout")),
        ("zero_1", "ZeRO level 1 (optimizer states)", _zero(1)),
        ("zero_2", "ZeRO level 2 (and gradients)", _zero(2)),
        ("zero_3", "ZeRO level 3 (and weights)", _zero(3)),
        ("mixed_zero", "ZeRO levels that differ between stages", _mixed("zero")),
        ("hybrid_zero", "ZeRO inside groups of replicas (hybrid sharding)",
         lambda p: _where(p, lambda s: bool(s.zero and s.zero_replicas))),
        ("reshard", "how long ZeRO keeps gathered weights",
         lambda p: _where(p, lambda s: bool(s.reshard))),
        ("beside_work", "collectives of a lane beside its work",
         lambda p: _where(p, lambda s: bool(s.overlap))),
        ("sparse_states", "states of pruned weights only", lambda p: _where(p, lambda s: s.density < 1)),
        ("offload", "states or activations in host memory", lambda p: _where(p, lambda s: bool(s.offload))),
        ("recompute_selective", "selective recomputation",
         lambda p: _where(p, lambda s: s.recompute == "selective")),
        ("recompute_full", "full recomputation", lambda p: _where(p, lambda s: s.recompute == "full")),
        ("mixed_recompute", "recomputation that differs between stages", _mixed("recompute")),
        ("torch_schedule", "a schedule that torch has",
         _schedule(lambda p, flush, item: flush and bool(item.torch_name) and p.job.training)),
        ("other_schedule", "a synchronous schedule that torch has not",
         _schedule(lambda _part, flush, item: flush and not item.torch_name and not item.literal)),
        ("custom_order", "a custom order",
         _schedule(lambda _part, flush, item: flush and item.literal)),
        ("asynchronous", "an asynchronous schedule (several weight versions)",
         _schedule(lambda _part, flush, _item: not flush)),
        ("newer_weights", "backward on newer weights than its forward",
         _ordered(lambda order: not order.flush and order.read_rule.name == "latest")),
        ("sweeps", "several sweeps over the same samples", _ordered(lambda order: len(order.lag) > 1)),
        ("dispatch", "a dispatch policy in place of an order",
         lambda p: [p.strategy.schedule] if SCHEDULES.get(p.strategy.schedule).dispatch else []),
        ("blocking", "transfers that hold up both their ends",
         lambda p: [p.strategy.schedule] if _said(dict(p.strategy.options).get("blocking", False)) else []),
        ("mixed_devices", "devices of several kinds", _mixed_devices),
        ("uneven_nodes", "different numbers of devices per node", _uneven_nodes),
        ("device_order", "devices that are not in the order of the stages", _device_order),
        ("parameter_server", "parameter servers or sharded tables", _servers),
        ("update_rule", "an update rule other than plain data parallelism", _update_rules),
        ("buckets", "gradients reduced in buckets beside the last backward",
         lambda p: [_list(n for s in p.strategy.sync if s.bucket_bytes for n in s.parameters)]
         if any(s.bucket_bytes for s in p.strategy.sync) else []),
        ("best_transfers", "transfers between stages by the fastest of several ways",
         lambda p: [p.strategy.transfers] if p.strategy.transfers not in ("", "direct") else []),
        ("compression", "compressed gradients or activations", _compression),
        ("checkpoints", "a checkpoint period",
         lambda p: [f"{p.strategy.checkpoint_period_s:g} s"] if p.strategy.checkpoint_period_s else []),
        ("optimizer", "the optimizer", lambda p: [p.job.optimizer] if p.job.training else []),
        ("precision", "the precision", lambda p: [p.job.precision] if p.job.precision != "fp32" else []),
        ("gradient_precision", "gradients reduced in the precision of the weights",
         lambda p: [p.job.gradient_precision or p.job.precision]
         if p.job.training and (p.job.gradient_precision or p.job.precision) != "fp32" else []),
    )
)  # fmt: skip
"""Every feature, in the order in which tables show them."""
