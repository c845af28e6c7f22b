"""Keys of torchtitan configs that a plan has no word for, with their lines: by syntax, of TOML by text.

A module's keys are the keyword arguments of nested calls and the attributes that are assigned:

    Trainer.Config(training=TrainingConfig(steps=10))     training.steps
    config.metrics.log_freq = 5                           metrics.log_freq
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from explorer.base.errors import cut
from explorer.importing.spec import UnknownKey

NO_EFFECT, EAGER, IN_BF16 = (
    "no effect on the split",
    "kernels are those of eager PyTorch",
    "products are in bf16",
)

READ = frozenset(
    (
        *(f"parallelism.{key}_degree" for key in (
            "data_parallel_replicate", "data_parallel_shard", "tensor_parallel", "context_parallel",
            "pipeline_parallel", "expert_parallel",
        )),
        *(f"parallelism.{key}" for key in (
            "enable_sequence_parallel", "fsdp_reshard_after_forward", "module_fqns_per_model_part",
        )),
        *(f"parallelism.pipeline_parallel_{key}" for key in (
            "schedule", "schedule_csv", "split_points", "microbatch_size", "microbatches", "layers_per_stage",
            "first_stage_less_layers", "last_stage_less_layers",
        )),
        *(f"training.{key}" for key in (
            "local_batch_size", "batch_size", "global_batch_size", "seq_len", "mixed_precision_param",
            "enable_cpu_offload", "tensor_parallel_degree", "data_parallel_degree",
            "data_parallel_replicate_degree", "data_parallel_shard_degree",
        )),
        "model_spec", "model.name", "model.flavor", "optimizer", "optimizer.name", "optimizer.param_groups",
        "activation_checkpoint", "activation_checkpoint.mode", "activation_checkpoint.type",
    )
)  # fmt: skip
"""Keys that a plan has a word for."""

EFFECTS: Mapping[str, str] = {
    "compile*": EAGER,
    "training.compile": EAGER,
    "float8*": IN_BF16,
    "mx*": IN_BF16,
    "quantize*": IN_BF16,
    "model_converters*": IN_BF16,
    "parallelism.enable_async_tensor_parallel": "collectives of a lane wait for its work",
    "parallelism.context_parallel_rotate_method": "keys and values are gathered",
    "training.mixed_precision_reduce": "gradients are reduced in fp32",
    "training.disable_cuda_graphs": EAGER,
    "fault_tolerance*": "every replica lives to the end",
    "activation_checkpoint.*": "attention's inner part is computed again, or all",
    **dict.fromkeys(
        (
            "job.*", "metrics*", "profiling*", "profiler*", "checkpoint*", "comm*", "debug*", "validation*",
            "validator*", "lr_scheduler*", "dataloader*", "hf_assets_path", "tokenizer*", "dump_folder",
            "description", "loss*", "optimizer.*", "training.steps", "training.max_norm", "training.seed",
            "training.dataset*", "training.gc_*", "training.deterministic", "training.warmup_steps",
            "model.tokenizer_path", "model.hf_assets_path", "model.norm_type", "model.print_after_conversion",
            "memory_estimation*", "experimental.custom_*",
        ),
        NO_EFFECT,
    ),
}  # fmt: skip
"""What is assumed of other keys, by shell pattern; the first that fits counts."""


class _Key(NamedTuple):
    key: str
    line: int
    value: str


def unknown_keys(text: str, *, toml: bool) -> tuple[UnknownKey, ...]:
    """Return the keys of a config that a plan has no word for, in the order of their lines."""
    found = _of_toml(text) if toml else _of_module(text)
    rest = {
        item.key: item for item in found if item.key.replace("experimental.", "parallelism.", 1) not in READ
    }
    return tuple(
        UnknownKey(key=item.key, line=item.line, value=cut(item.value), assumed=_assumed(item.key))
        for item in sorted(rest.values(), key=lambda item: item.line)
    )


def _home(key: str) -> str:
    """Return a key under its later name: what is experimental in one release is parallelism in the next."""
    return key.replace("experimental.", "parallelism.", 1)


def _assumed(key: str) -> str:
    said = next((said for pattern, said in EFFECTS.items() if fnmatchcase(key, pattern)), "")
    return said or "as if it were not there"


_TABLE = re.compile(r"^\s*\[\[?\s*([\w.\-]+)\s*\]\]?")
_PAIR = re.compile(r"^\s*([\w.\-]+)\s*=\s*(.*?)\s*$")


def _of_toml(text: str) -> Iterator[_Key]:
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _TABLE.match(line):
            table = f"{match[1]}."
        elif match := _PAIR.match(line):
            yield _Key(table + match[1], number, match[2].partition(" #")[0].strip())


def _of_module(text: str) -> Iterator[_Key]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the reader of the module says what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func).endswith("Trainer.Config"):
            yield from _of_call(node, "")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            path = _name(node.targets[0]).partition(".")[2]
            yield from _of_value(path, node.value)


def _of_call(call: ast.Call, above: str) -> Iterator[_Key]:
    for item in call.keywords:
        if item.arg:
            yield from _of_value(f"{above}{item.arg}", item.value)


def _of_value(path: str, value: ast.expr) -> Iterator[_Key]:
    whole = path in ("model_spec", "optimizer", "activation_checkpoint", "loss", "dataloader")
    if isinstance(value, ast.Call) and value.keywords and not whole:
        yield from _of_call(value, f"{path}.")
    elif path:
        yield _Key(path, value.lineno, ast.unparse(value))


def _name(node: ast.expr) -> str:
    """Return the dotted name of an attribute, or nothing where it is of something else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
