"""Arguments of Megatron-LM that say what a plan says, in the order in which its scripts group them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.base.units import DTYPE_BYTES, tensor_type
from explorer.export._order_features import said
from explorer.export._plan_parts import blocks_of
from explorer.export._stage_features import CONTEXT_EXCHANGES, kinds_of_layout
from explorer.graph import LayerGraph
from explorer.importing._megatron_recompute import recomputation_of
from explorer.importing._megatron_stages import layout_text
from explorer.importing._titan_models import block_numbers
from explorer.importing.baseline import Facts
from explorer.importing.guesses import facts_of
from explorer.plan import Resolved
from explorer.strategies.model_axes import CONTEXT, EXPERT, TENSOR
from explorer.strategy import OPTIMIZER, JobStrategy, Stage
from explorer.workload import Job

Setting = str | int | float | bool
EXCHANGES = {"gather": "all_gather", "ring": "p2p", "all_to_all": "a2a"}
SHARDING = {2: "optim_grads", 3: "optim_grads_params"}


def settings(resolved: Resolved) -> dict[str, Setting]:
    """Return argument -> value of a plan of one job; True is a flag."""
    job, strategy, graph = resolved.plan.workload.job, resolved.plan.strategy.job, resolved.graph
    pairs = [
        *_model(graph, job),
        *_grid(strategy, graph),
        *_experts(strategy, facts_of(graph)),
        *_batch(job, strategy.stages[0]),
        *_memory(graph, strategy),
        *_gradients(strategy, job),
        *_precision(job),
    ]
    return {key: value for key, value in pairs if value is not False}


def pipeline_ranks(strategy: JobStrategy) -> list[int]:
    """Return the pipeline rank of every stage: device groups in the order in which stages first use them."""
    groups = list(dict.fromkeys(stage.meshes[0] for stage in strategy.stages))
    return [groups.index(stage.meshes[0]) for stage in strategy.stages]


def block_counts(graph: LayerGraph, strategy: JobStrategy) -> list[int]:
    """Return the transformer blocks of every stage."""
    numbers = block_numbers(graph)
    return [sum(block in numbers for block in blocks_of(graph, stage)) for stage in strategy.stages]


def expert_degree(stage: Stage) -> int:
    """Return the devices that share the experts of a stage."""
    return max((mesh.size(EXPERT) for item in stage.shardings for mesh in item.meshes), default=1)


def _model(graph: LayerGraph, job: Job) -> Iterator[tuple[str, Setting]]:
    facts = facts_of(graph)
    yield from (
        ("--num-layers", facts.layers),
        ("--hidden-size", facts.hidden),
        ("--ffn-hidden-size", facts.ffn),
        ("--num-attention-heads", facts.heads),
        ("--kv-channels", facts.head),
        ("--group-query-attention", facts.kv_heads != facts.heads),
    )
    if facts.kv_heads != facts.heads:
        yield "--num-query-groups", facts.kv_heads
    yield from (
        ("--seq-length", job.sequence_length),
        ("--max-position-embeddings", job.sequence_length),
        ("--vocab-size", facts.vocab),
        ("--make-vocab-size-divisible-by", 1),
        ("--untie-embeddings-and-output-weights", not facts.tied),
    )
    yield from _style(facts)


def _style(facts: Facts) -> Iterator[tuple[str, Setting]]:
    """Yield what tells a Llama from a GPT."""
    if not facts.gated:
        yield "--position-embedding-type", "learned_absolute"
        return
    yield from (
        ("--swiglu", True),
        ("--normalization", "RMSNorm"),
        ("--position-embedding-type", "rope"),
        ("--disable-bias-linear", True),
    )


def _grid(strategy: JobStrategy, graph: LayerGraph) -> Iterator[tuple[str, Setting]]:
    stage, ranks = strategy.stages[0], pipeline_ranks(strategy)
    mesh, pipeline = stage.meshes[0], max(ranks) + 1
    yield "--tensor-model-parallel-size", mesh.size(TENSOR)
    yield "--sequence-parallel", "sequence" in kinds_of_layout(stage.layout, mesh)
    yield "--pipeline-model-parallel-size", pipeline
    if pipeline > 1:
        yield from _stages(block_counts(graph, strategy), pipeline)
    if said(dict(strategy.options).get("blocking", False)):
        yield "--no-overlap-p2p-communication", True
    yield "--context-parallel-size", mesh.size(CONTEXT)
    if mesh.size(CONTEXT) > 1:
        dims = frozenset(dim for dim, axis in stage.layout if axis == CONTEXT)
        yield "--cp-comm-type", EXCHANGES[CONTEXT_EXCHANGES.get(dims, "gather")]
    if any(axis == TENSOR for axis, _ in stage.overlap):
        yield "--tp-comm-overlap", True


def _stages(blocks: Sequence[int], pipeline: int) -> Iterator[tuple[str, Setting]]:
    """Yield nothing for an even cut, the first and last stage where only these differ, else a layout."""
    chunks = len(blocks) // pipeline
    if len(set(blocks)) == 1:
        if chunks > 1:
            yield "--num-layers-per-virtual-pipeline-stage", blocks[0]
    elif chunks == 1 and len(set(blocks[1:-1])) < 2 and min(blocks) > 0:
        yield "--decoder-first-pipeline-num-layers", blocks[0]
        yield "--decoder-last-pipeline-num-layers", blocks[-1]
    else:
        yield "--pipeline-model-parallel-layout", layout_text(blocks)


def _experts(strategy: JobStrategy, facts: Facts) -> Iterator[tuple[str, Setting]]:
    if not facts.experts:
        return
    degree = max(expert_degree(stage) for stage in strategy.stages)
    tensor = strategy.stages[0].meshes[0].size(TENSOR)
    yield from (
        ("--num-experts", facts.experts),
        ("--moe-router-topk", 2),  # as the only mixture that is known by its sizes has it
        ("--moe-token-dispatcher-type", "alltoall"),
        ("--expert-model-parallel-size", degree),
        ("--expert-tensor-parallel-size", 1 if degree > 1 else tensor),
    )


def _batch(job: Job, stage: Stage) -> Iterator[tuple[str, Setting]]:
    yield "--micro-batch-size", stage.microbatch_samples // stage.meshes[0].replicas
    yield "--global-batch-size", job.global_batch


def _memory(graph: LayerGraph, strategy: JobStrategy) -> Iterator[tuple[str, Setting]]:
    stage, again = strategy.stages[0], recomputation_of(graph, strategy)
    if again is not None:
        yield from (
            ("--recompute-granularity", "full"),
            ("--recompute-method", again.method),
            ("--recompute-num-layers", again.blocks),
        )
    elif stage.recompute == "selective":
        yield from (("--recompute-granularity", "selective"), ("--recompute-modules", "core_attn"))
    if OPTIMIZER in stage.offload:
        yield from (("--optimizer-cpu-offload", True), ("--optimizer-offload-fraction", 1.0))


def _gradients(strategy: JobStrategy, job: Job) -> Iterator[tuple[str, Setting]]:
    stage = strategy.stages[0]
    replicas = stage.meshes[0].replicas
    yield "--use-distributed-optimizer", stage.zero > 0
    if stage.zero > 1:
        yield from (
            ("--use-megatron-fsdp", True),
            ("--data-parallel-sharding-strategy", SHARDING[stage.zero]),
            ("--ckpt-format", "fsdp_dtensor"),
        )
    if stage.zero == 1 and stage.zero_replicas not in (0, replicas):
        yield "--num-distributed-optimizer-instances", replicas // stage.zero_replicas
    buckets = next((sync.bucket_bytes for sync in strategy.sync), 0.0)
    if buckets:
        yield "--overlap-grad-reduce", True
        yield "--ddp-bucket-size", int(buckets / gradient_bytes(job))


def gradient_bytes(job: Job) -> float:
    """Return the bytes of a scalar of a gradient."""
    return DTYPE_BYTES[tensor_type(job.gradient_precision or job.precision)]


def _precision(job: Job) -> Iterator[tuple[str, Setting]]:
    if job.precision in ("bf16", "fp8"):
        yield "--bf16", True
    elif job.precision == "fp16":
        yield "--fp16", True
    if job.precision == "fp8":
        yield "--fp8-format", "hybrid"
        yield "--transformer-impl", "transformer_engine"
    if job.precision != "fp32":
        in_fp32 = gradient_bytes(job) == DTYPE_BYTES["fp32"]
        yield "--accumulate-allreduce-grads-in-fp32", in_fp32
        yield "--grad-reduce-in-bf16", not in_fp32 and job.precision != "fp16"
    if job.optimizer in ("adam", "adamw"):
        yield "--optimizer", "adam"
        yield "--weight-decay", 0.1 if job.optimizer == "adamw" else 0.0
    else:
        yield "--optimizer", "sgd"
        yield "--sgd-momentum", 0.9 if job.optimizer == "momentum" else 0.0
