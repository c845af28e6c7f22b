"""The slice run: one rank of a plan at its full size, alone on one device, with faked neighbours.

The rank's own layers (`explorer.run.own.layer_modules`) run in its own order, on tensors of the sizes that
its neighbours would send; what they send themselves goes nowhere. Nothing waits, so the seconds are those of
the layers, and the peak is that of the rank. Both stand beside the prediction: seconds by a profile of the
machine, bytes by the simulation of the plan in the precision that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

import torch

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.costs.compute import LayerCosts, layer_costs
from explorer.costs.memory import stage_memory
from explorer.costs.update_time import update_seconds
from explorer.graph import LayerGraph
from explorer.models.captured_program import CapturedProgram, Capturing, capture_program
from explorer.plan import Resolved, located
from explorer.pricing.layer_columns import sharded_of
from explorer.run.judging.compare import relative_pct, verdict_of
from explorer.run.judging.cost_check import COST_TOLERANCE_PCT, LayerSeconds, clock_of, unfit
from explorer.run.judging.held_bytes import RankBytes
from explorer.run.one_rank.cut_layers import CutRankLayers
from explorer.run.one_rank.findings import ActionSeconds, LayerBytes, SliceCheck
from explorer.run.one_rank.fitting import PRECISION, Fitted, fit, zero_ranks
from explorer.run.one_rank.rank_layers import LayerAlone, RankLayers, one_thread
from explorer.run.one_rank.stage_layers import FULL
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_source import own_source
from explorer.run.own.planned_layers import planned_layers
from explorer.run.ranks.plain_fp32 import plain_fp32
from explorer.run.sharded.own_check import require_pieces
from explorer.run.sharded.requests import request_of
from explorer.sharding.stage import Request
from explorer.strategies.keeping import full_blocks
from explorer.strategy import Stage


def run_slice(
    resolved: Resolved,
    source: Capturing,
    *,
    rank: int | None = None,
    microbatches: int | None = None,
    profile: Cluster | None = None,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda _text: None,
) -> SliceCheck:
    """Run one rank of a plan.

    Args:
        resolved: the plan.
        source: the module behind its model.
        rank: lane to run; None for the busiest.
        microbatches: most microbatches of a step that run; None for one more than the plan has stages.
        profile: profile of this machine; None predicts no seconds.
        device: cpu or cuda.
        tell: called with what begins.

    Raises:
        InputError: a plan of which no rank can run alone, another model, or more bytes than there are.
    """
    fitted = fit(resolved, rank=rank, microbatches=microbatches, device=device)
    tell(f"capturing the model for {fitted.samples} samples")
    program = capture_program(source, samples=fitted.samples)
    with one_thread(), plain_fp32(), _in_room():
        runner = _runner(resolved, fitted, program, source, device)
        tell("timing every layer by itself")
        alone = runner.alone()
        tell("running the rank's order")
        runner.play(fitted.order)  # allocators and kernels settle
        times = runner.play(fitted.order)
        tell("counting bytes")
        peak = runner.counted(fitted.order)
    missing = unfit(profile, ranks=1, device=runner.name)
    known = profile if not missing else None
    actions = _actions(times, resolved.graph, fitted, known)
    predicted = sum(a.predicted_s * a.count for a in actions if a.predicted_s is not None) if known else None
    measured = sum(a.measured_s * a.count for a in actions)
    error = None if predicted is None else relative_pct(predicted, measured)
    return SliceCheck(
        rank=fitted.lane, stages=tuple(fitted.stages), device=runner.name, clock=clock_of(runner.name),
        profile=f"{known.name}: {known.title}" if known else "",
        costs_missing=missing, shortened=fitted.shortened, actions=actions,
        layers=_layer_seconds(alone, resolved.graph if is_cut(fitted) else program.graph, known, fitted),
        saved=_layer_bytes(alone, resolved.graph, fitted),
        memory=RankBytes(rank=fitted.lane, predicted_bytes=fitted.peak_bytes, measured_bytes=peak),
        predicted_s=predicted, measured_s=measured, error_pct=error,
        verdict="" if error is None else verdict_of(
            contention=1.0, numerics_ok=None, error_pct=error, tolerance_pct=COST_TOLERANCE_PCT
        ),
    )  # fmt: skip


@contextmanager
def _in_room() -> Iterator[None]:
    """Say in one line that a device has no room for what a rank has beside its tensors.

    Raises:
        InputError: torch found no memory: kernels' own rooms and gaps between blocks are not foreseen.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        first = str(error).split(". ", 2)
        raise InputError(
            f"the rank does not fit beside what kernels need: {'. '.join(first[:2])}",
            key="engine", found="slice", allowed="a smaller microbatch, or engine likeness",
        ) from None  # fmt: skip


def _runner(
    resolved: Resolved, fitted: Fitted, program: CapturedProgram, source: Capturing, device: str
) -> RankLayers:
    """Make the layers of the rank: whole, or its pieces of them."""
    optimizer = fitted.job.optimizer
    if not is_cut(fitted):
        return RankLayers(program, source, fitted.stages, optimizer, device)
    request = request_of(resolved.plan.strategy.job)
    model = _laid_out(resolved, request, source)
    require_pieces(model, fitted.samples)
    return CutRankLayers(model, program, source, fitted.stages, optimizer, device)


def is_cut(fitted: Fitted) -> bool:
    """Tell whether the rank has pieces of its layers."""
    return any(len(row) > 1 for stage in fitted.stages.values() for mesh in stage.meshes for row in mesh.rows)


def _laid_out(resolved: Resolved, request: Request, source: Capturing) -> OwnModel:
    """Return the model with the layout of the plan's lanes.

    Raises:
        InputError: experts, whose tokens come from the other ranks.
    """
    _, item = resolved.plan.models[0]
    own = own_source(
        located(item.reference, resolved.folder), settings=dict(item.settings),
        sequence_length=item.sequence_length or None, opened=source,
    )  # fmt: skip
    if any(layer.kind == "experts" for layer in own.graph.layers):
        raise InputError(
            "a rank alone has no tokens of others for its experts", key="engine", found="slice",
            allowed="whole layers, or engine layers",
        )  # fmt: skip
    layouts = (request.layout, *(override.layout for override in request.overrides))
    named = {layer.name: layer.name for layer in own.graph.layers}
    dims = {dim for layout in layouts for dim, _ in layout}
    return replace(
        own.model, layout=request.layout, axes=request.sizes,
        exceptions=tuple((override.layers, override.layout) for override in request.overrides),
        planned=planned_layers(own.graph, named, resolved.graph, dims),
    )  # fmt: skip


def _layer_seconds(
    alone: Sequence[LayerAlone], graph: LayerGraph, profile: Cluster | None, fitted: Fitted
) -> list[LayerSeconds]:
    """Put the profile's seconds beside those of every layer; 0 without a profile."""
    samples = fitted.samples
    stage = next(iter(fitted.stages.values()))
    costs = None if profile is None else _costs(graph, profile, stage, samples).seconds
    found = []
    for item in alone:
        at = graph.index[item.layer]
        own = (0.0, 0.0) if costs is None else (float(costs[0, at]), float(costs[1:, at].sum()))
        found.append(
            LayerSeconds(
                layer=item.layer, samples=samples, predicted_s=own,
                measured_s=(item.forward_s, item.backward_s),
            )
        )  # fmt: skip
    return found


def _layer_bytes(alone: Sequence[LayerAlone], graph: LayerGraph, fitted: Fitted) -> list[LayerBytes]:
    """Put the predicted bytes of every layer beside those that it kept."""
    sharded = sharded_of(graph, next(iter(fitted.stages.values()))).shards
    found = []
    for item in alone:
        memory = stage_memory(
            graph, (item.layer,), sharded, precision=PRECISION, optimizer=fitted.job.optimizer,
            zero=0, replicas=1, recompute="none", training=True,
        )  # fmt: skip
        predicted = memory.activation_bytes_per_sample * fitted.samples
        found.append(LayerBytes(layer=item.layer, predicted_bytes=predicted, measured_bytes=item.saved_bytes))
    return found


def _actions(
    times: Mapping[str, Sequence[float]], graph: LayerGraph, fitted: Fitted, profile: Cluster | None
) -> list[ActionSeconds]:
    """Put the profile's seconds beside those of every kind of action."""
    return [
        ActionSeconds(
            action=action, measured_s=median(seconds), count=len(seconds),
            predicted_s=None if profile is None else _predicted_s(
                action[0], fitted.stages[int(action[1:])], graph, fitted, profile
            ),
        )
        for action, seconds in times.items()
    ]  # fmt: skip


def _predicted_s(op: str, stage: Stage, graph: LayerGraph, fitted: Fitted, profile: Cluster) -> float:
    kind = profile.device_kinds[0]
    if op == "U":
        held = {use.name for name in stage.layers for use in graph.layer[name].parameters}
        part = sharded_of(graph, stage).shards.parameter_fraction
        elements = sum(part.get(name, 1.0) * graph.parameter[name].elements for name in held)
        return update_seconds(
            kind, elements=elements / zero_ranks(stage),
            optimizer=fitted.job.optimizer, precision=PRECISION,
        )  # fmt: skip
    layers = [graph.index[name] for name in stage.layers]
    costs = _costs(graph, profile, stage, fitted.samples)
    seconds, again = costs.seconds[:, layers], (costs.seconds[0] - costs.relief)[layers]
    work = seconds[0].sum() if op == "F" else seconds[1:].sum()
    if op == "B":
        whole = stage.recompute == FULL and not any(graph.layers[i].block for i in layers)
        made = {name for names in full_blocks(graph, stage) for name in names}
        work += again[[whole or graph.layers[i].name in made for i in layers]].sum()
    return float(work) + kind.software.action_overhead_s


def _costs(graph: LayerGraph, profile: Cluster, stage: Stage, samples: int) -> LayerCosts:
    """Return the costs of all layers as a stage's ranks have them."""
    shards = sharded_of(graph, stage).shards
    return layer_costs(
        graph, profile.device_kinds[0], samples=samples, precision=PRECISION,
        work=shards.work, split=shards.split, alike=shards.alike,
    )  # fmt: skip
