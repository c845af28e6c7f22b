"""Megatron-LM: the shell script, argument list or YAML of a running job as a plan; nothing of it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from explorer.importing import IMPORTERS
from explorer.importing._megatron_arguments import MARKS, Argument, Arguments, read_arguments
from explorer.importing._megatron_keys import assumption
from explorer.importing._megatron_recompute import BLOCK, UNIFORM, Recomputation
from explorer.importing._megatron_stages import Stages, stages_of
from explorer.importing._references import references_in
from explorer.importing._source import SourceText
from explorer.importing.baseline import Baseline, Facts
from explorer.importing.plans import plan_of
from explorer.importing.spec import Imported, Importer, UnknownKey
from explorer.strategies.degrees import ALL_TO_ALL, GATHER, RING_EXCHANGE
from explorer.strategies.model_axes import TENSOR
from explorer.strategy import OPTIMIZER, TILES

MAIN = "megatron.yaml"
YAML_ENDINGS = (".yaml", ".yml")
_MOST = 10**12
_EXCHANGES = {"p2p": RING_EXCHANGE, "all_gather": GATHER, "allgather": GATHER, "a2a": ALL_TO_ALL,
              "a2a+p2p": RING_EXCHANGE}  # fmt: skip
_SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
USUAL_BUCKET = 40_000_000
"""Scalars of a bucket of gradients where nobody says otherwise; at least a million for every replica."""


def sniff(source: SourceText) -> bool:
    """Tell whether a text has arguments of Megatron-LM."""
    others = ("Trainer.Config", "megatron.bridge")
    return sum(mark in source.text for mark in MARKS) > 1 and not any(m in source.text for m in others)


@IMPORTERS.add(
    Importer(
        name="megatron",
        title="Megatron-LM: a shell script, an argument list or a YAML of arguments",
        paper="Megatron-LM (Narayanan et al., 2021), arXiv:2104.04473",
        sniff=sniff,
        main=MAIN,
        documentation="https://docs.nvidia.com/megatron-core/developer-guide/latest/index.html",
    )
)
def read(source: SourceText) -> Imported:
    """Read the arguments of a job as a plan.

    Raises:
        InputError: there are no such arguments, or the model or cluster is unclear.
        PlanError: arguments that contradict each other; one line each.
    """
    return plan_of(baseline_of(source), source)


def baseline_of(source: SourceText) -> Baseline:
    """Return what the arguments of a job say of its split.

    Raises:
        InputError: the text has no arguments of Megatron-LM.
    """
    return baseline_from(read_arguments(source.text, is_yaml=source.name.endswith(YAML_ENDINGS)), source)


def baseline_from(found: Arguments, source: SourceText) -> Baseline:
    """Return what arguments, wherever they were said, mean for the split of a job."""
    asked = _Asked(found)
    world = _world(found.ranks)
    pipeline = asked.number("--pipeline-model-parallel-size", 1)
    inner = pipeline * asked.number("--tensor-model-parallel-size", 1)
    inner *= asked.number("--context-parallel-size", 1)
    replicas = max(1, world // max(1, inner))
    model, stages = _model(asked), _stages(asked, pipeline)
    made = Baseline(
        trainer="Megatron-LM",
        model=model,
        world_size=world,
        devices_per_node=found.ranks.get("per_node", 0),
        accelerator="h100" if asked.has("--fp8-format", "--fp8-hybrid") else "",
        tensor=asked.number("--tensor-model-parallel-size", 1),
        pipeline=pipeline,
        context=asked.number("--context-parallel-size", 1),
        expert=_expert(asked),
        chunks=stages.chunks,
        blocks=stages.blocks,
        options=(("blocking", True),) if asked.has("--no-overlap-p2p-communication") else (),
        microbatch_size=asked.number("--micro-batch-size", 1),
        global_batch=asked.number("--global-batch-size", 0),
        sequence_length=asked.number("--seq-length", 0) or asked.number("--encoder-seq-length", 0),
        recompute=_recompute(asked),
        recomputation=_recomputation(asked),
        zero=_zero(asked),
        zero_replicas=_zero_replicas(asked, replicas),
        offload=(OPTIMIZER,) if asked.has("--optimizer-cpu-offload") else (),
        overlap=((TENSOR, TILES),) if asked.has("--tp-comm-overlap") else (),
        sequence_parallel=asked.has("--sequence-parallel"),
        context_exchange=_EXCHANGES.get(asked.word("--cp-comm-type", "p2p"), RING_EXCHANGE),
        bucket_bytes=_buckets(asked, replicas),
        precision=_precision(asked),
        gradient_precision=_gradients(asked),
        optimizer=_optimizer(asked),
        references=references_in(source.text),
        assumed=(*found.notes, *asked.notes),
        problems=(*asked.problems, *stages.problems),
    )
    return replace(made, unknown=asked.unknown())


@dataclass(slots=True)
class _Asked:
    """Arguments, with those noted that were asked for: the others are unknown."""

    found: Arguments
    seen: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def has(self, *keys: str) -> bool:
        """Tell whether one of some flags is given."""
        self.seen.update(keys)
        return any(key in self.found.of for key in keys)

    def word(self, key: str, default: str) -> str:
        """Return the value of an argument."""
        self.seen.add(key)
        argument = self.found.of.get(key)
        return argument.value if argument and argument.values else default

    def number(self, key: str, default: int) -> int:
        """Return a whole number; anything else is a problem."""
        text = self.word(key, str(default)).replace("_", "")
        if text.isdigit() and len(text) < 16 and int(text) <= _MOST:
            return int(text)
        line = self.found.of[key].line
        where = f"line {line}: " if line else ""
        told = f"{where}{key} {text[:60]} is no whole number that the text tells: write it there"
        if told not in self.problems:
            self.problems.append(told)
        return default

    def unknown(self) -> tuple[UnknownKey, ...]:
        """Return the arguments that nobody asked for."""
        rest = [argument for key, argument in self.found.of.items() if key not in self.seen]
        return tuple(_unknown(argument) for argument in rest)


def _unknown(argument: Argument) -> UnknownKey:
    return UnknownKey(
        key=argument.key, line=argument.line, value=argument.value[:200], assumed=assumption(argument.key)
    )


def _world(ranks: Mapping[str, int]) -> int:
    if "per_node" in ranks:
        return ranks["per_node"] * ranks.get("nodes", 1)
    return ranks.get("world", 0)


def _model(asked: _Asked) -> Facts:
    """Return the sizes, with Megatron-LM's own defaults for those that are not given."""
    hidden, heads = asked.number("--hidden-size", 0), asked.number("--num-attention-heads", 0)
    gated = asked.has("--swiglu")
    usual = int(4 * hidden * 2 / 3 / 64) * 64 if gated else 4 * hidden
    experts = asked.number("--num-experts", 0)
    shared = asked.has("--group-query-attention")
    groups = asked.number("--num-query-groups", 1)
    return Facts(
        layers=asked.number("--num-layers", 0) or asked.number("--decoder-num-layers", 0),
        hidden=hidden,
        heads=heads,
        kv_heads=groups if shared else heads,
        head=asked.number("--kv-channels", 0),
        ffn=asked.number("--ffn-hidden-size", 0) or usual,
        vocab=asked.number("--vocab-size", 0),
        experts=experts,
        positions=asked.number("--max-position-embeddings", 0) or asked.number("--seq-length", 0),
        gated=gated,
        tied=not asked.has("--untie-embeddings-and-output-weights"),
    )


def _stages(asked: _Asked, pipeline: int) -> Stages:
    return stages_of(
        layers=asked.number("--num-layers", 0) or asked.number("--decoder-num-layers", 0),
        pipeline=pipeline,
        layout=asked.word("--pipeline-model-parallel-layout", "").strip("\"'"),
        per_chunk=asked.number("--num-layers-per-virtual-pipeline-stage", 0),
        chunks=asked.number("--num-virtual-stages-per-pipeline-rank", 0),
        first=asked.number("--decoder-first-pipeline-num-layers", 0),
        last=asked.number("--decoder-last-pipeline-num-layers", 0),
        embedding_counts=asked.has("--account-for-embedding-in-pipeline-split"),
        loss_counts=asked.has("--account-for-loss-in-pipeline-split"),
    )


def _expert(asked: _Asked) -> int:
    tensor = asked.number("--tensor-model-parallel-size", 1)
    degree = asked.number("--expert-model-parallel-size", 1)
    inside = asked.number("--expert-tensor-parallel-size", tensor)
    if degree > 1 and inside > 1:
        asked.notes.append(f"experts whole on their ranks, where the file cuts each over {inside}")
    return degree


def _recomputation(asked: _Asked) -> Recomputation | None:
    """Return how blocks are computed again that are so in full; None if all are, each by itself."""
    method = asked.word("--recompute-method", UNIFORM)
    count = asked.number("--recompute-num-layers", 1)
    if method not in (BLOCK, UNIFORM):
        if _recompute(asked) != "full":
            return None
        asked.problems.append(f"--recompute-method {method[:60]}: it is {BLOCK} or {UNIFORM}")
        return None
    return None if (method, count) == (UNIFORM, 1) else Recomputation(method, max(1, count))


def _recompute(asked: _Asked) -> str:
    granularity = asked.word("--recompute-granularity", "")
    if asked.has("--checkpoint-activations"):
        granularity = "full"
    if granularity == "full":
        return "full"
    return "selective" if asked.has("--recompute-activations") or granularity == "selective" else "none"


def _zero(asked: _Asked) -> int:
    strategy = asked.word("--data-parallel-sharding-strategy", "no_shard")
    torch = asked.has("--use-torch-fsdp2")
    if asked.has("--use-megatron-fsdp", "--use-custom-fsdp"):
        return _SHARDING.get(strategy, 0)
    return 3 if torch else int(asked.has("--use-distributed-optimizer"))


def _zero_replicas(asked: _Asked, replicas: int) -> int:
    instances = asked.number("--num-distributed-optimizer-instances", 1)
    if instances > 1 and replicas % instances:
        asked.problems.append(f"{instances} instances of the distributed optimizer over {replicas} replicas")
        return 0
    return replicas // instances if instances > 1 else 0


def _buckets(asked: _Asked, replicas: int) -> float:
    """Return the bytes of a bucket: scalars by the bytes of a gradient."""
    overlapped = asked.has("--overlap-grad-reduce")
    size = asked.number("--ddp-bucket-size", max(USUAL_BUCKET, 1_000_000 * replicas))
    return float(size * (4 if _gradients(asked) == "fp32" else 2)) if overlapped else 0.0


def _precision(asked: _Asked) -> str:
    if asked.has("--fp8-format", "--fp8-hybrid", "--fp8-e4m3"):
        return "fp8"
    return "bf16" if asked.has("--bf16") else "fp16" if asked.has("--fp16") else "fp32"


def _gradients(asked: _Asked) -> str:
    """Return the precision of gradients: with bf16 they are fp32 unless somebody says otherwise."""
    in_fp32 = asked.has("--accumulate-allreduce-grads-in-fp32")
    in_bf16 = asked.has("--grad-reduce-in-bf16")
    precision = _precision(asked)
    if precision == "fp16":
        return "fp32" if in_fp32 else "fp16"
    return "bf16" if in_bf16 and precision != "fp32" else "fp32"


def _optimizer(asked: _Asked) -> str:
    """Return the optimizer: Megatron-LM's Adam decouples weight decay, so without any it is plain Adam."""
    name = asked.word("--optimizer", "adam")
    decay = asked.word("--weight-decay", "0.01")
    momentum = asked.word("--sgd-momentum", "0.9")
    if name == "sgd":
        return "sgd" if _is_zero(momentum) else "momentum"
    if name != "adam":
        asked.notes.append(f"optimizer adamw, where the file says {name}")
    return "adam" if _is_zero(decay) else "adamw"


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0
    except ValueError:
        return False
