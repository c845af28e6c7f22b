"""Megatron Bridge (NeMo): a module that takes a recipe and sets every field that a plan decides.

What it can express is what Megatron-LM can: its `ConfigContainer` holds Megatron-Core's own fields. A field
that a plan leaves out is set to its default, so that nothing of the recipe's own split stays. Written for
Megatron Bridge 0.2 and later.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace

from explorer.export import EXPORTERS, notes
from explorer.export._megatron_settings import pipeline_ranks
from explorer.export._megatron_settings import settings as megatron_settings
from explorer.export._pipeline_grid import grid_of
from explorer.export._references import references
from explorer.export._script import Start, run_script
from explorer.export._support import Capabilities, Support, nearly, no, yes
from explorer.export.megatron import CAPABILITIES as MEGATRON
from explorer.export.megatron import problems as megatron_problems
from explorer.export.spec import Exporter, Setting
from explorer.importing._bridge_fields import (
    FIELDS,
    IN_FP32,
    OVERLAPPED,
    PRECISION,
    PRECISIONS,
    RECIPES,
    TIED,
)
from explorer.importing._references import references_line
from explorer.importing.guesses import facts_of
from explorer.plan import Resolved

FILE = "recipe.py"
DOCUMENTATION = "https://docs.nvidia.com/nemo/megatron-bridge/latest/recipe-usage.html"

RESETS: Mapping[str, Setting | None] = {
    "model.sequence_parallel": False,
    "model.virtual_pipeline_model_parallel_size": None,
    "model.num_layers_in_first_pipeline_stage": None,
    "model.num_layers_in_last_pipeline_stage": None,
    "model.pipeline_model_parallel_layout": None,
    "model.account_for_embedding_in_pipeline_split": False,
    "model.account_for_loss_in_pipeline_split": False,
    OVERLAPPED: False,
    "model.batch_p2p_comm": True,
    "model.cp_comm_type": None,
    "model.tp_comm_overlap": False,
    "model.recompute_granularity": None,
    "model.recompute_modules": None,
    "model.recompute_method": None,
    "model.recompute_num_layers": None,
    TIED: True,
    "optimizer.optimizer_cpu_offload": False,
    "optimizer.use_distributed_optimizer": False,
    "ddp.use_distributed_optimizer": False,
    "ddp.use_megatron_fsdp": False,
    "dist.use_megatron_fsdp": False,
    "ddp.data_parallel_sharding_strategy": "no_shard",
    "ddp.num_distributed_optimizer_instances": 1,
    "ddp.overlap_grad_reduce": False,
    "ddp.overlap_param_gather": False,
    "ddp.bucket_size": None,
    "checkpoint.ckpt_format": "torch_dist",
    "comm_overlap": None,
}
"""What a field is where a plan says nothing: recipes set many of them."""

OF_THE_RECIPE = frozenset({
    "--group-query-attention", "--swiglu", "--normalization", "--position-embedding-type",
    "--disable-bias-linear", "--transformer-impl", "--max-position-embeddings",
})  # fmt: skip
"""Arguments of Megatron-LM that tell one family from another: the recipe has them."""
OTHERWISE = frozenset({
    "--untie-embeddings-and-output-weights", "--no-overlap-p2p-communication",
    "--num-layers-per-virtual-pipeline-stage", "--bf16", "--fp16", "--fp8-format",
    "--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16",
})  # fmt: skip
"""Arguments that are said by a field of another meaning."""

_LISTS = frozenset({"model.recompute_modules"})
_OTHER_LLAMAS = RECIPES["llama3-8b"]
_FLAG = re.compile(r"--[a-z0-9-]*[a-z0-9]")


def _worded(support: Support) -> Support:
    """Return a row with fields in place of Megatron-LM's arguments."""
    return replace(support, how=_FLAG.sub(lambda found: FIELDS.get(found[0], found[0][2:]), support.how))


CAPABILITIES: Capabilities = {
    **{name: _worded(support) for name, support in MEGATRON.items()},
    "uneven_stages": yes(
        "model.num_layers_in_first_pipeline_stage and ..._last_..., or model.pipeline_model_parallel_layout"
    ),
    "virtual_stages": yes("model.virtual_pipeline_model_parallel_size"),
    "expert_parallel": no("its recipes of mixtures are of other models; export to megatron"),
    "blocking": nearly(f"{OVERLAPPED} = False; with one stage a rank its transfers always hold up both ends"),
    "checkpoints": no("it counts in steps: drop checkpoint_period_s and set checkpoint.save_interval"),
    "precision": yes(
        f"{PRECISION}; allowed: {', '.join(PRECISIONS)}", only=tuple(PRECISIONS), instead="bf16"
    ),
    "gradient_precision": yes(IN_FP32),
}


def problems(resolved: Resolved) -> list[str]:
    """Return Megatron-LM's problems, and models and precisions for which there is no recipe."""
    found = [text.replace("megatron", "megatron_bridge", 1) for text in megatron_problems(resolved)]
    facts = facts_of(resolved.graph)
    if resolved.graph.name not in RECIPES and (not facts.gated or facts.experts):
        known = ", ".join(RECIPES)
        found.append(
            f"megatron_bridge cannot express the model {resolved.graph.name!r}: it has recipes of {known} and"
            " of Llama of any size"
        )
    if resolved.plan.workload.job.precision == "fp32":
        found.append("megatron_bridge cannot express fp32: its recipes are of mixed precision, use bf16")
    return found


def settings(resolved: Resolved) -> dict[str, Setting]:
    """Return what the module sets of a `ConfigContainer`, by dotted field, beside what it only resets."""
    return {**{key: value for key, value in RESETS.items() if value is not None}, **dict(_fields(resolved))}


def _fields(resolved: Resolved) -> Iterator[tuple[str, Setting]]:
    """Yield every field that a plan says."""
    job = resolved.plan.workload.job
    said = megatron_settings(resolved)
    yield from ((FIELDS[flag], value) for flag, value in said.items() if flag in FIELDS)
    yield TIED, "--untie-embeddings-and-output-weights" not in said
    yield "dataset.seq_length", job.sequence_length
    ranks = pipeline_ranks(resolved.plan.strategy.job)
    chunks = len(ranks) // (max(ranks) + 1)
    if chunks > 1:
        overlapped = "--no-overlap-p2p-communication" not in said
        yield "model.virtual_pipeline_model_parallel_size", chunks
        yield OVERLAPPED, overlapped
        yield "model.batch_p2p_comm", not overlapped
    if "--use-distributed-optimizer" in said:
        yield "optimizer.use_distributed_optimizer", True
    if "--use-megatron-fsdp" in said:
        yield "dist.use_megatron_fsdp", True
        yield "ddp.average_in_collective", False  # its FSDP does not scale inside collectives
    decay = said.get("--weight-decay", 0.0)
    # the scheduler writes its own decay over the optimizer's
    yield from (("scheduler.start_weight_decay", decay), ("scheduler.end_weight_decay", decay))
    yield PRECISION, PRECISIONS[job.precision]
    yield IN_FP32, "--accumulate-allreduce-grads-in-fp32" in said
    if job.precision == "fp8":
        yield "mixed_precision.fp8_param_gather", False


def start(resolved: Resolved) -> Start:
    """Return how the recipe is started: the module itself trains."""
    differences = [f"differs from the plan: {text}" for text in notes(resolved, "megatron_bridge")]
    return Start(
        program=f'"$HERE/{FILE}" "$@"',
        devices=grid_of(resolved.plan.strategy.job).devices,
        comments=(
            f"Trains {resolved.graph.name} with Megatron Bridge as {FILE} says.",
            *(part for text in differences for part in textwrap.wrap(text, 100)),
        ),
    )


@EXPORTERS.add(
    Exporter(
        name="megatron_bridge",
        title=f"Megatron Bridge (NeMo): {FILE}, which overrides a recipe, and a start script",
        paper="Megatron-LM (Narayanan et al., 2021), arXiv:2104.04473",
        capabilities=CAPABILITIES,
        problems=problems,
        settings=settings,
        start=start,
        documentation=DOCUMENTATION,
        main=FILE,
    )
)
def write(resolved: Resolved) -> dict[str, str]:
    """Write `recipe.py` and `run.sh`.

    Raises:
        PlanError: ranks go back and forth between nodes.
    """
    said, files = references(resolved)
    said.pop("sequence_length", None)  # model.seq_length says it
    package, recipe = RECIPES.get(resolved.graph.name, _OTHER_LLAMAS)
    fields: dict[str, Setting | None] = {**RESETS, **dict(_fields(resolved))}
    text = _MODULE.format(
        model=resolved.graph.name,
        references=references_line(said),
        package=package,
        recipe=recipe,
        ranks=len(grid_of(resolved.plan.strategy.job).devices),
        lines="".join(f"    config.{key} = {_text(key, value)}\n" for key, value in fields.items()),
    )
    return {FILE: text, "run.sh": run_script(resolved, start(resolved)), **files}


def _text(key: str, value: Setting | None) -> str:
    """Return a value as Python has it."""
    if key == PRECISION:
        return f'get_mixed_precision_config("{value}")'  # a value of its own, whose fields can be set
    if key in _LISTS and value is not None:
        return "[" + ", ".join(f'"{word}"' for word in str(value).split()) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


_MODULE = '''\
"""A recipe of Megatron Bridge with the choices of a plan for {model}. Written by strategy-explorer.

    bash run.sh                 # or: torchrun ... recipe.py

Data, tokenizer (at most model.vocab_size words), learning rate and steps are the recipe's: set yours below.
"""
# {references}

import os

from megatron.bridge.recipes.{package} import {recipe}
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import get_mixed_precision_config
from megatron.bridge.training.pretrain import pretrain

RANKS = {ranks}


def plan_config():
    """Return the recipe's `ConfigContainer` with everything that the plan decides."""
    config = {recipe}()
{lines}    return config


if __name__ == "__main__":
    if int(os.environ.get("WORLD_SIZE", "1")) != RANKS:
        raise SystemExit(f"recipe.py: the plan is for {{RANKS}} ranks; start it with run.sh")
    pretrain(config=plan_config(), forward_step_func=forward_step)
'''
