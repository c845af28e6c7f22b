"""Megatron-LM: its arguments as a script with torchrun and as YAML.

Written for Megatron-Core 0.16. Ranks are numbered as Megatron-LM does it: tensor innermost, then context,
replicas, pipeline outermost (`tp-cp-ep-dp-pp`).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from itertools import pairwise

from explorer.base.errors import ExplorerError, PlanError
from explorer.export import EXPORTERS, notes
from explorer.export._megatron_settings import (
    Setting,
    block_counts,
    expert_degree,
    pipeline_ranks,
    settings,
)
from explorer.export._pipeline_grid import grid_of
from explorer.export._references import references
from explorer.export._script import Start, nodes_of, run_script
from explorer.export._stage_features import kinds_of_layout
from explorer.export._support import Capabilities, nearly, no, yes
from explorer.export._trainers import TRAINER
from explorer.export.spec import Exporter
from explorer.graph import LayerGraph
from explorer.importing._megatron_arguments import flag_text
from explorer.importing._references import references_line
from explorer.importing.guesses import facts_of, guess_model
from explorer.importing.plans import cuts_at
from explorer.models import load_model
from explorer.plan import Resolved
from explorer.sharding.layouts import expert_layout
from explorer.strategies.degrees import MESH_AXES
from explorer.strategies.model_axes import EXPERT, TENSOR
from explorer.strategy import OPTIMIZER, TILES, JobStrategy

VERSION = "0.16"
SCRIPT, YAML = "run.sh", "megatron.yaml"
DOCUMENTATION = "https://docs.nvidia.com/megatron-core/developer-guide/latest/index.html"
YOURS: Mapping[str, Setting] = {
    "--mock-data": True,
    "--tokenizer-type": "NullTokenizer",
    "--train-iters": 100,
    "--lr": 0.0003,
    "--eval-iters": 0,
}
"""Arguments that Megatron-LM needs and a plan has no word for."""

CAPABILITIES: Capabilities = {
    **TRAINER,
    "inference": no("it trains; use the export `plan`"),
    "stage_dag": no("its stages are a chain; merge stages until they are one"),
    "uneven_stages": yes(
        "--decoder-first-pipeline-num-layers and --decoder-last-..., or --pipeline-model-parallel-layout"
    ),
    "virtual_stages": yes("--num-layers-per-virtual-pipeline-stage, or --pipeline-model-parallel-layout"),
    "copies": no("one copy of a stage; use 1f1b in place of a bidirectional schedule", instead="1f1b"),
    "uneven_shares": no("all ranks get equal batches; drop the shares and let microbatches divide evenly"),
    "microbatch_sizes": no("one --micro-batch-size; give all stages one size"),
    "slices": no("a stage is whole blocks; move the boundary to the end of the layer", instead="even"),
    "split_blocks": no("a stage is whole blocks; move the boundary to the end of the block", instead="even"),
    "tied_over_stages": yes("the embedding is on both ends, which add up its gradients"),
    "layer_meshes": yes("--expert-model-parallel-size, for experts alone"),
    "layer_layouts": no("it shards all blocks alike; drop the exceptions"),
    "tensor_parallel": yes("--tensor-model-parallel-size"),
    "sequence_parallel": yes("--sequence-parallel"),
    "context_parallel": yes("--context-parallel-size"),
    "context_exchange": yes("--cp-comm-type"),
    "expert_parallel": yes("--expert-model-parallel-size with --expert-tensor-parallel-size 1"),
    "other_layout": no("it knows tensor, sequence, context and expert parallelism only"),
    "zero_1": yes("--use-distributed-optimizer"),
    "zero_2": yes("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"),
    "zero_3": yes("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"),
    "hybrid_zero": yes("--num-distributed-optimizer-instances"),
    "reshard": no("it gathers and drops by its own rule; leave reshard empty"),
    "beside_work": nearly("--tp-comm-overlap cuts by rules of its own", instead="-"),
    "offload": nearly("--optimizer-cpu-offload also computes the update on the host", instead="-"),
    "recompute_selective": yes("--recompute-granularity selective --recompute-modules core_attn"),
    "recompute_full": yes("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"),
    "mixed_recompute": no("one granularity for all stages"),
    "recompute_first": yes("--recompute-granularity full --recompute-method block --recompute-num-layers"),
    "recompute_groups": yes("--recompute-granularity full --recompute-method uniform --recompute-num-layers"),
    "recompute_blocks": no(
        "it recomputes the first blocks of every stage, as many of each, or all; drop the exceptions"
    ),
    "torch_schedule": yes(
        "1F1B, interleaved where stages are virtual; allowed: 1f1b, interleaved_1f1b",
        only=("1f1b", "interleaved_1f1b"),
        instead="1f1b",
    ),
    "other_schedule": no("it has 1F1B and interleaved 1F1B; use 1f1b", instead="1f1b"),
    "custom_order": no("it has 1F1B and interleaved 1F1B; use 1f1b", instead="1f1b"),
    "dispatch": no("it runs one fixed order; use 1f1b", instead="1f1b"),
    "asynchronous": no("it keeps one weight version; use 1f1b", instead="1f1b"),
    "newer_weights": no("it keeps one weight version; use 1f1b", instead="1f1b"),
    "sweeps": no("it runs every sample once a step; use 1f1b", instead="1f1b"),
    "blocking": yes("--no-overlap-p2p-communication"),
    "uneven_nodes": yes("the script starts as many ranks on each node as it gives devices"),
    "buckets": yes("--overlap-grad-reduce --ddp-bucket-size"),
    "checkpoints": no("it counts in steps: drop checkpoint_period_s and set --save-interval in the file"),
    "optimizer": yes(
        "--optimizer; allowed: adam, adamw, sgd, momentum",
        only=("adam", "adamw", "sgd", "momentum"),
        instead="adamw",
    ),
    "precision": yes(
        "--bf16, --fp16, --fp8-format; allowed: bf16, fp16, fp8", only=("bf16", "fp16", "fp8"), instead="bf16"
    ),
    "gradient_precision": yes("--grad-reduce-in-bf16, or the precision of --fp16"),
}


def problems(resolved: Resolved) -> list[str]:
    """Return the problems that no capability row states: models, placements and combinations."""
    strategy, graph = resolved.plan.strategy.job, resolved.graph
    mesh = strategy.stages[0].meshes[0]
    ranks = pipeline_ranks(strategy)
    pipeline = max(ranks) + 1
    axes = [name for name, size in mesh.axes if size > 1]
    looped = len(ranks) % pipeline == 0 and ranks == [s % pipeline for s in range(len(ranks))]
    zero = strategy.stages[0].zero
    known = _is_known(graph)
    checks = (
        (
            not known,
            f"the model {graph.name!r}: it has decoders of equal blocks such as gpt, llama or mixtral-8x7b",
        ),
        (
            axes != [name for name in MESH_AXES if name in axes],
            f"a mesh of axes {', '.join(axes)}: order them {', '.join(MESH_AXES)}",
        ),
        (len(ranks) > 1 and pipeline == 1, "several stages on one device group: merge them into one"),
        (not looped, "which rank has which stages: deal them out in turn (stage s on group s mod p)"),
        (
            zero > 1 and pipeline > 1,
            f"ZeRO level {zero} of a pipeline: its FSDP has none, use ZeRO level 1 (or one stage)",
        ),
        (
            zero > 1 and strategy.stages[0].zero_replicas not in (0, mesh.replicas),
            f"ZeRO level {zero} inside groups of replicas: drop zero_replicas, or use level 1",
        ),
        (
            any(set(stage.offload) - {OPTIMIZER} for stage in strategy.stages),
            "activations in host memory: keep offload to optimizer",
        ),
        (
            len({(s.offload, s.overlap, s.zero_replicas) for s in strategy.stages}) > 1,
            "offload, overlap or zero_replicas that differ between stages: give all stages the same",
        ),
        (
            any(set(stage.overlap) - {(TENSOR, TILES)} for stage in strategy.stages),
            "this overlap: it has tiles of the tensor axis (--tp-comm-overlap), drop the others",
        ),
        (
            len({sync.parameters for sync in strategy.sync} - {("*",)}) > 0,
            "buckets of some parameters: of all",
        ),
    )
    found = [f"megatron cannot express {text}" for wrong, text in checks if wrong]
    return (
        found
        + _mixture_problems(strategy)
        + _round_problems(resolved, pipeline)
        + (_cut_problems(graph, strategy) if known else [])
    )


def _round_problems(resolved: Resolved, pipeline: int) -> list[str]:
    """Return why interleaved microbatches do not go round: they are dealt out in groups of one a rank."""
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    microbatches = job.global_batch // strategy.stages[0].microbatch_samples
    if len(strategy.stages) <= pipeline or microbatches % pipeline == 0:
        return []
    what = f"{microbatches} microbatches through virtual stages on {pipeline} ranks"
    return [f"megatron cannot express {what}: take a multiple of {pipeline}"]


def _is_known(graph: LayerGraph) -> bool:
    """Tell whether a model is what Megatron-LM builds of its sizes: ours of these has as many scalars."""
    facts = facts_of(graph)
    guess = guess_model(facts) if facts.layers and facts.heads else None
    if guess is None:
        return False
    try:
        known = load_model(guess.reference, settings=dict(guess.settings))
    except ExplorerError:
        return False
    return abs(known.parameter_count - graph.parameter_count) <= 1e-3 * graph.parameter_count


def _mixture_problems(strategy: JobStrategy) -> list[str]:
    found = []
    for index, stage in enumerate(strategy.stages):
        for item in stage.shardings:
            own = item.meshes and item.layout == expert_layout() and item.meshes[0].size(EXPERT) > 1
            if not own:
                found.append(f"megatron cannot express stage {index}'s own layout of some layers: drop it")
    degrees = {expert_degree(stage) for stage in strategy.stages} - {1}
    first = strategy.stages[0]
    kinds = kinds_of_layout(first.layout, first.meshes[0])
    if degrees and TENSOR in kinds and "sequence" not in kinds:
        found.append(
            "megatron cannot express experts over devices beside tensor parallelism without sequence"
            " parallelism: split norms by sequence too"
        )
    if len(degrees) > 1:
        found.append("megatron cannot express experts over different numbers of devices: give them one")
    return found


def _cut_problems(graph: LayerGraph, strategy: JobStrategy) -> list[str]:
    """Return why stages are not whole blocks with the embedding first, norm, head and loss last."""
    blocks = block_counts(graph, strategy)
    names = [layer.name for layer in graph.layers]
    try:
        bounds = [0, *cuts_at(graph, blocks), len(names)] if len(blocks) > 1 else [0, len(names)]
    except PlanError:
        bounds = []
    made = [tuple(names[a:b]) for a, b in pairwise(bounds)]
    if made == [stage.layers for stage in strategy.stages]:
        return []
    return [
        (
            "megatron cannot express where the layers outside of blocks are: put the embedding on the first"
            " stage, norm, head and loss on the last"
        )
    ]


def _references(resolved: Resolved) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the files say of model and cluster, and those that these refer to; `--seq-length` has the
    length.
    """
    found, files = references(resolved)
    return {key: value for key, value in found.items() if key != "sequence_length"}, files


def start(resolved: Resolved) -> Start:
    """Return how Megatron-LM's ranks are started: `pretrain_gpt.py` of a checkout with all arguments."""
    strategy = resolved.plan.strategy.job
    said, _ = _references(resolved)
    lines = [flag_text(key, value) for key, value in (settings(resolved) | dict(YOURS)).items()]
    mesh = strategy.stages[0].meshes[0]
    # one connection orders kernels of tensor and context parallelism; FSDP needs several
    single = mesh.size("tensor") * mesh.size("context") > 1 and strategy.stages[0].zero < 2
    differences = [f"differs from the plan: {text}" for text in notes(resolved, "megatron")]
    return Start(
        program='"$MEGATRON/pretrain_gpt.py" "${ARGUMENTS[@]}" "$@"',
        devices=grid_of(strategy).devices,
        prepare="\n".join(
            [
                ': "${MEGATRON:?run.sh: set MEGATRON to a checkout of Megatron-LM}"',
                'export PYTHONPATH="$MEGATRON${PYTHONPATH:+:$PYTHONPATH}"',
                *(["export CUDA_DEVICE_MAX_CONNECTIONS=1"] if single else []),
                "ARGUMENTS=(",
                *(f"  {line}" for line in lines),
                ")  # those from --mock-data on do not come from the plan: yours to set",
            ]
        ),
        comments=(
            f"Trains {resolved.graph.name} with Megatron-LM (Megatron-Core {VERSION}).",
            references_line(said),
            *(part for text in differences for part in textwrap.wrap(text, 100)),
        ),
    )


@EXPORTERS.add(
    Exporter(
        name="megatron",
        title=f"Megatron-LM (Megatron-Core {VERSION}): arguments as a script and as YAML",
        paper="Megatron-LM (Narayanan et al., 2021), arXiv:2104.04473",
        capabilities=CAPABILITIES,
        problems=problems,
        settings=settings,
        start=start,
        documentation=DOCUMENTATION,
        client="megatron-core 0.16.1",
        main=YAML,
    )
)
def write(resolved: Resolved) -> dict[str, str]:
    """Write `run.sh` and the same arguments as `megatron.yaml`.

    Raises:
        PlanError: ranks go back and forth between nodes.
    """
    said, files = _references(resolved)
    devices = grid_of(resolved.plan.strategy.job).devices
    nodes = nodes_of(resolved.cluster, devices)
    equal = len({node.ranks for node in nodes}) == 1
    launch = {"nodes": len(nodes), "per_node": nodes[0].ranks} if equal else {"world": len(devices)}
    head = (
        f"# Arguments of Megatron-LM (Megatron-Core {VERSION}) for {resolved.graph.name}, as in {SCRIPT}.\n"
        f"# {references_line(said)}\n"
    )
    lines = ["LAUNCH:", *(f"  {key}: {value}" for key, value in launch.items()), "MODEL_ARGS:"]
    lines += [f"  {key}: {json.dumps(value)}" for key, value in (settings(resolved) | dict(YOURS)).items()]
    script = run_script(resolved, start(resolved))
    return {SCRIPT: script, YAML: head + "\n".join(lines) + "\n", **files}
