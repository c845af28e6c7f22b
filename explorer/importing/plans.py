"""Plans from baselines: the model and cluster that a config means, and its degrees on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.base.errors import InputError, PlanError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.importing._megatron_recompute import with_recomputation
from explorer.importing._source import SourceText
from explorer.importing._titan_models import block_numbers
from explorer.importing._titan_plan import located
from explorer.importing.baseline import Baseline
from explorer.importing.guesses import guess_cluster, guess_model
from explorer.importing.spec import Imported
from explorer.models import load_model
from explorer.plan import Provenance, Reference, Resolved, make_plan
from explorer.strategies.degrees import Degrees
from explorer.strategy import Stage, Strategy
from explorer.workload import Workload, default_workload


def plan_of(baseline: Baseline, source: SourceText) -> Imported:
    """Return the plan that a config means, with what was guessed of it and what it has no word for.

    Raises:
        InputError: the model or cluster is unclear (key `--model` or `--cluster`) or unknown.
        PlanError: what the config says contradicts itself or the cluster; one line each.
    """
    assumed = list(baseline.assumed)
    if problems := [*baseline.problems, *contradictions(baseline)]:
        raise PlanError(problems)
    model, graph = _model(baseline, source, assumed)
    cluster_reference, cluster = _cluster(baseline, source, assumed)
    degrees = _degrees(baseline, cluster)
    workload = _workload(baseline, graph, degrees)
    strategy = _strategy(baseline, graph, cluster, workload, degrees)
    title = f"{source.title}, a {baseline.trainer} config"
    said = Provenance(searcher="import", note="; ".join([title, *assumed]))
    plan = make_plan(model, graph, cluster_reference, cluster, workload, strategy, said)
    resolved = Resolved(plan=plan, graphs={"model": graph}, cluster=cluster, folder=source.folder)
    return Imported(resolved=resolved, unknown=baseline.unknown, assumed=tuple(assumed))


def contradictions(baseline: Baseline) -> list[str]:
    """Return the sizes of a config that do not fit each other, one line each."""
    found = []
    inner = baseline.tensor * baseline.pipeline * baseline.context
    words = f"tensor {baseline.tensor} x pipeline {baseline.pipeline} x context {baseline.context}"
    world, replicas = baseline.world_size, baseline.replicas
    if (
        min(baseline.tensor, baseline.pipeline, baseline.context, baseline.expert, baseline.microbatch_size)
        < 1
    ):
        return ["degrees and microbatches are 1 or more"]
    if world and world % inner:
        found.append(
            f"{words} = {inner} does not divide the {world} ranks: change a degree or the world size"
        )
    elif world and replicas and inner * replicas != world:
        found.append(f"{words} x {replicas} replicas = {inner * replicas} are not the {world} ranks")
    count = replicas or (world // inner if world else 0)
    share = baseline.microbatch_size * count
    if baseline.global_batch and share and baseline.global_batch % share:
        found.append(
            f"a batch of {baseline.global_batch} is no multiple of {count} replicas x microbatches of"
            f" {baseline.microbatch_size}"
        )
    if baseline.blocks and baseline.model.layers and sum(baseline.blocks) != baseline.model.layers:
        found.append(f"stages of {sum(baseline.blocks)} blocks for a model of {baseline.model.layers}")
    return found


def _model(baseline: Baseline, source: SourceText, assumed: list[str]) -> tuple[Reference, LayerGraph]:
    """Load the model that the user names, that we wrote into the file, or that has these sizes."""
    said = baseline.references.get("model", "")
    settings: tuple[tuple[str, str], ...] = ()
    if source.model or said:
        reference = source.needed("model", said)
        settings = () if source.model else _settings(baseline.references.get("settings", ""))
    else:
        guess = guess_model(baseline.model)
        if guess is None:
            sizes = f"{baseline.model.layers} layers, width {baseline.model.hidden}, {baseline.model.name}"
            raise InputError(
                f"which model is meant is unclear ({sizes})",
                key="--model",
                allowed="a name from `explorer list models`, or a file",
            )
        reference, settings = guess.reference, guess.settings
        assumed.append(f"model {reference}: {guess.why}")
    path = located(reference, source.folder)
    graph = load_model(path, settings=dict(settings), trust=source.trust)
    length = baseline.sequence_length
    if length and length != graph.defaults.sequence_length:
        graph = load_model(path, sequence_length=length, settings=dict(settings), trust=source.trust)
    else:
        length = 0
    return Reference(reference=reference, sequence_length=length, settings=settings), graph


def _settings(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return tuple((key, value) for key, _, value in pairs)


def _cluster(baseline: Baseline, source: SourceText, assumed: list[str]) -> tuple[str, Cluster]:
    reference = source.cluster or baseline.references.get("cluster", "")
    if not reference:
        inner = baseline.tensor * baseline.pipeline * baseline.context * baseline.replicas
        world = baseline.world_size or inner
        reference = guess_cluster(world, baseline.devices_per_node, baseline.accelerator)
        assumed.append(f"cluster {reference}: {world} ranks")
    return reference, load_cluster(located(reference, source.folder))


def _degrees(baseline: Baseline, cluster: Cluster) -> Degrees:
    inner = baseline.tensor * baseline.pipeline * baseline.context
    world = baseline.world_size or (inner * baseline.replicas) or cluster.device_count // inner * inner
    if world > cluster.device_count or not world:
        what = f"{world or inner} ranks for the {cluster.device_count} devices of {cluster.name!r}"
        raise PlanError([f"{what}: name another --cluster"])
    return Degrees(
        tensor=baseline.tensor, stages=baseline.pipeline, context=baseline.context, expert=baseline.expert,
        replicas=world // inner, chunks=baseline.chunks, microbatch_size=baseline.microbatch_size,
        recompute=baseline.recompute, zero=baseline.zero, schedule=baseline.schedule,
        options=baseline.options, sequence_parallel=baseline.sequence_parallel,
        context_exchange=baseline.context_exchange, bucket_bytes=baseline.bucket_bytes,
    )  # fmt: skip


def _workload(baseline: Baseline, graph: LayerGraph, degrees: Degrees) -> Workload:
    batch = baseline.global_batch or baseline.accumulation * degrees.microbatch_samples
    changes: dict[str, object] = {"global_batch": batch}
    if length := baseline.sequence_length or graph.defaults.sequence_length:
        changes["sequence_length"] = length
    for key in ("precision", "gradient_precision", "optimizer"):
        if value := getattr(baseline, key):
            changes[key] = value
    return default_workload(graph).with_job(**changes)


def _strategy(
    baseline: Baseline, graph: LayerGraph, cluster: Cluster, workload: Workload, degrees: Degrees
) -> Strategy:
    cuts = cuts_at(graph, baseline.blocks) if baseline.blocks else None
    if baseline.blocks and len(baseline.blocks) != degrees.stage_count:
        raise PlanError([f"{len(baseline.blocks)} stages are listed, the degrees make {degrees.stage_count}"])
    devices = [int(text) for text in baseline.references.get("devices", "").split(",") if text.isdigit()]
    devices = devices if len(set(devices)) == degrees.devices else []
    strategy = degrees.build(graph, cluster, workload.job, devices=devices, cuts=cuts)
    job = strategy.job.with_stages(_stage(stage, baseline) for stage in strategy.job.stages)
    if baseline.recompute == "full" and baseline.recomputation is not None:
        job = with_recomputation(graph, job, baseline.recomputation)
    return strategy.with_job(job)


def _stage(stage: Stage, baseline: Baseline) -> Stage:
    return replace(
        stage, zero_replicas=baseline.zero_replicas, offload=baseline.offload, overlap=baseline.overlap
    )


def cuts_at(graph: LayerGraph, blocks: Sequence[int]) -> list[int]:
    """Return the first layer of every stage but the first, where stages have so many blocks.

    What is before the first block is the first stage's, what is behind the last the last stage's; a stage
    without blocks at the end has what is behind them.

    Raises:
        PlanError: the stages have not all blocks of the model.
    """
    numbers = block_numbers(graph)
    if sum(blocks) != len(numbers) or min(blocks) < 0:
        raise PlanError([f"stages of {sum(blocks)} blocks for a model of {len(numbers)}"])
    firsts: dict[int, int] = {}
    behind = len(graph.layers)
    for i, layer in enumerate(graph.layers):
        if layer.block in numbers:
            firsts.setdefault(numbers[layer.block], i)
            behind = i + 1
    found, seen = [], 0
    for count in blocks[:-1]:
        seen += count
        found.append(firsts.get(seen, behind) if seen else 1)
    if sorted(set(found)) != found:
        raise PlanError([f"stages of {', '.join(map(str, blocks))} blocks: one would have no layer"])
    return found
