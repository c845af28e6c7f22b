"""Features that a plan may use and a target may lack, each with a name and where a plan uses it.

Every exporter states for every feature whether its target has it; so a new feature is a new row here that
no exporter can overlook (a test holds the tables complete).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from explorer.export._kept_features import BLOCKS, FIRST, GROUPS, LAYERS, offloading, recomputing
from explorer.export._order_features import (
    compression,
    device_order,
    mixed_devices,
    of_order,
    of_schedule,
    said,
    servers,
    uneven_nodes,
    update_rules,
)
from explorer.export._plan_parts import PlanPart, listed, parts, where_true
from explorer.export._stage_features import (
    context_exchange,
    copies,
    mesh_shapes,
    microbatch_sizes,
    mixed,
    of_layout,
    of_zero,
    overlapping,
    split_blocks,
    stage_dag,
    tied,
    uneven_share,
    uneven_stages,
    virtual_stages,
)
from explorer.plan import Resolved
from explorer.schedules import SCHEDULES
from explorer.strategies.model_axes import CONTEXT, EXPERT, TENSOR
from explorer.strategy import ROUND_ROBIN


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


FEATURES: tuple[Feature, ...] = tuple(
    Feature(name=name, title=title, find=find)
    for name, title, find in (
        ("several_jobs", "several jobs", lambda _part: ()),
        ("inference", "a job that does not train", lambda p: [] if p.job.training else [p.job.mode]),
        ("stage_dag", "stages that are not a chain", stage_dag),
        ("uneven_stages", "uneven stages", uneven_stages),
        ("virtual_stages", "virtual stages", virtual_stages),
        ("overlapping_groups", "stages on overlapping device groups", overlapping),
        ("mesh_shapes", "stages with device meshes of different shapes", mesh_shapes),
        ("copies", "several copies of every stage", copies),
        ("round_robin", "replicas that take whole microbatches in turn (round robin)",
         lambda p: where_true(p, lambda s: s.replicas == ROUND_ROBIN and s.meshes[0].replicas > 1)),
        ("uneven_shares", "uneven shares of replicas", lambda p: where_true(p, uneven_share)),
        ("microbatch_sizes", "microbatch sizes that differ between stages", microbatch_sizes),
        ("slices", "a layer cut over several stages", lambda p: where_true(p, lambda s: bool(s.slices))),
        ("split_blocks", "a block divided between stages", split_blocks),
        ("tied_over_stages", "parameters tied across stages", tied),
        ("layer_meshes", "layers on a mesh other than their stage's",
         lambda p: where_true(p, lambda s: any(item.meshes for item in s.shardings))),
        ("layer_layouts", "layers with a layout other than their stage's",
         lambda p: where_true(p, lambda s: any(not item.meshes for item in s.shardings))),
        ("tensor_parallel", "tensor parallelism", of_layout(TENSOR)),
        ("sequence_parallel", "sequence parallelism", of_layout("sequence")),
        ("context_parallel", "context parallelism", of_layout(CONTEXT)),
        ("context_exchange", "how attention sees the whole sequence", context_exchange),
        ("expert_parallel", "expert parallelism", of_layout(EXPERT)),
        ("other_layout", "a layout by dimension that is none of the known ones, or unequal shards of tensors",
         lambda p: of_layout("other")(p) or where_true(p, lambda s: bool(s.axis_shares))),
        ("mixed_layout", "layouts that differ between stages", mixed("layout")),
        ("zero_1", "ZeRO level 1 (optimizer states)", of_zero(1)),
        ("zero_2", "ZeRO level 2 (and gradients)", of_zero(2)),
        ("zero_3", "ZeRO level 3 (and weights)", of_zero(3)),
        ("mixed_zero", "ZeRO levels or groups that differ between stages",
         lambda p: [*mixed("zero")(p), *mixed("zero_replicas")(p)]),
        ("hybrid_zero", "ZeRO inside groups of replicas (hybrid sharding)",
         lambda p: where_true(p, lambda s: bool(s.zero and s.zero_replicas))),
        ("reshard", "how long ZeRO keeps gathered weights",
         lambda p: where_true(p, lambda s: bool(s.reshard))),
        ("beside_work", "collectives of a lane beside its work",
         lambda p: where_true(p, lambda s: bool(s.overlap))),
        ("sparse_states", "states of pruned weights only", lambda p: where_true(p, lambda s: s.density < 1)),
        ("offload", "states or activations in host memory",
         lambda p: where_true(p, lambda s: bool(s.offload))),
        ("recompute_selective", "selective recomputation",
         lambda p: where_true(p, lambda s: s.recompute == "selective")),
        ("recompute_full", "full recomputation", lambda p: where_true(p, lambda s: s.recompute == "full")),
        ("mixed_recompute", "recomputation that differs between stages", mixed("recompute")),
        ("recompute_first", "recomputation of the first blocks of every stage", recomputing(FIRST)),
        ("recompute_groups", "recomputation of groups of blocks, of which only the input is kept",
         recomputing(GROUPS)),
        ("recompute_blocks", "recomputation that single blocks choose", recomputing(BLOCKS)),
        ("recompute_layers", "recomputation that single layers choose", recomputing(LAYERS)),
        ("offload_layers", "activations of single layers in host memory", offloading),
        ("torch_schedule", "a schedule that torch has",
         of_schedule(lambda p, flush, item: flush and bool(item.torch_name) and p.job.training)),
        ("other_schedule", "a synchronous schedule that torch does not have",
         of_schedule(lambda _part, flush, item: flush and not item.torch_name and not item.literal)),
        ("custom_order", "a custom order",
         of_schedule(lambda _part, flush, item: flush and item.literal)),
        ("asynchronous", "an asynchronous schedule (several weight versions)",
         of_schedule(lambda _part, flush, _item: not flush)),
        ("newer_weights", "backward on newer weights than its forward",
         of_order(lambda order: not order.flush and order.read_rule.name == "latest")),
        ("sweeps", "several sweeps over the same samples", of_order(lambda order: len(order.lag) > 1)),
        ("dispatch", "a dispatch policy in place of an order",
         lambda p: [p.strategy.schedule] if SCHEDULES.get(p.strategy.schedule).dispatch else []),
        ("blocking", "transfers that hold up both their ends",
         lambda p: [p.strategy.schedule] if said(dict(p.strategy.options).get("blocking", False)) else []),
        ("mixed_devices", "devices of several kinds", mixed_devices),
        ("uneven_nodes", "different numbers of devices per node", uneven_nodes),
        ("device_order", "devices that are not in the order of the stages", device_order),
        ("parameter_server", "parameter servers or sharded tables", servers),
        ("update_rule", "an update rule other than plain data parallelism", update_rules),
        ("buckets", "gradients reduced in buckets beside the last backward",
         lambda p: [listed(n for s in p.strategy.sync if s.bucket_bytes for n in s.parameters)]
         if any(s.bucket_bytes for s in p.strategy.sync) else []),
        ("best_transfers", "transfers between stages by the fastest of several ways",
         lambda p: [p.strategy.transfers] if p.strategy.transfers not in ("", "direct") else []),
        ("compression", "compressed gradients or activations", compression),
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
