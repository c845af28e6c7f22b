"""The text of a torchtitan config module: keyword constants only, so it can be read without running."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.importing._titan_models import VERSION, Flavor

MODULE = "explorer_plan"
REFERENCES = "EXPLORER"
"""Name of the module's constant that states the model and cluster for which it was made."""

_POLICIES = {"selective": "SelectiveAC", "full": "FullAC"}
_OPTIMIZERS = {"adam": "Adam", "adamw": "AdamW"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Values of a plan for a `Trainer.Config`."""

    training: Mapping[str, Any]
    """Arguments of `TrainingConfig`."""
    parallelism: Mapping[str, Any]
    """Arguments of `ParallelismConfig`, without the schedule file."""
    recompute: str
    """none, selective or full."""
    optimizer: str
    """adam or adamw."""
    csv: str
    """Schedule file next to the module; empty if there is none."""


def module_text(
    flavor: Flavor, fields: Fields, references: Mapping[str, str], ranks: int, notes: Sequence[str]
) -> str:
    """Write a `config_registry`-style module with one function."""
    policy = _POLICIES.get(fields.recompute)
    parts = [
        _head(flavor, ranks, notes),
        _imports(flavor, fields, policy),
        f"{REFERENCES} = {_literal(dict(references), 0)}",
        f"\n\ndef {flavor.function}() -> Trainer.Config:",
        f'    """{flavor.name} on {ranks} ranks."""',
        f'    model_spec = model_registry("{flavor.name}")',
        "    return Trainer.Config(",
        "        model_spec=model_spec,",
        "        loss=ChunkedLossWrapper.Config(",
        "            loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),",
        "        ),",
        f"        training={_call('TrainingConfig', fields.training)},",
        f"        parallelism={_call('ParallelismConfig', fields.parallelism, _csv(fields.csv))},",
        f"        activation_checkpoint={f'{policy}.Config()' if policy else 'None'},",
        "        # From here on nothing comes from the plan: yours to set.",
        f'        hf_assets_path="./assets/hf/{flavor.assets}",',
        '        dataloader=HuggingFaceTextDataLoader.Config(dataset="c4"),',
        f"        optimizer={_optimizer(fields.optimizer, flavor.learning_rate)},",
        "    )",
    ]
    return "\n".join(parts) + "\n"


def _head(flavor: Flavor, ranks: int, notes: Sequence[str]) -> str:
    lines = [
        f'"""torchtitan {VERSION} config of a plan, for {ranks} ranks. Written by strategy-explorer.',
        "",
        f"    torchrun ... -m torchtitan.train --module {MODULE} --config {flavor.function}",
        "",
        "`run.sh` beside it does that. Other versions of torchtitan name some of these fields differently.",
    ]
    if notes:
        lines += ["", "What differs from the plan:", ""]
        for note in notes:
            lines += textwrap.wrap(note, 104, initial_indent="- ", subsequent_indent="  ")
    return "\n".join([*lines, '"""', ""])


def _imports(flavor: Flavor, fields: Fields, policy: str | None) -> str:
    adamw = fields.optimizer == "adamw"
    lines = ["from pathlib import Path\n"] if fields.csv else []
    lines += [
        "from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss",
        "from torchtitan.components.optimizer import "
        + ("default_adamw" if adamw else "OptimizersContainer, ParamGroupConfig"),
        "from torchtitan.config import ParallelismConfig, TrainingConfig",
    ]
    if policy:
        lines.append(f"from torchtitan.distributed.activation_checkpoint import {policy}")
    lines += [
        "from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader",
        "from torchtitan.models.common.config_utils import decoder_vocab_size",
        f"from torchtitan.models.{flavor.module} import model_registry",
        "from torchtitan.trainer import Trainer",
        "",
    ]
    return "\n".join(lines)


def _csv(name: str) -> list[str]:
    return [f'pipeline_parallel_schedule_csv=str(Path(__file__).with_name("{name}"))'] if name else []


def _optimizer(name: str, rate: float) -> str:
    if name == "adamw":
        return f"default_adamw(lr={rate!r})"
    return (
        "OptimizersContainer.Config(\n            param_groups=[\n"
        f'                ParamGroupConfig(pattern=".*", optimizer_name="{_OPTIMIZERS[name]}",'
        f' optimizer_kwargs={{"lr": {rate!r}}}),\n            ],\n        )'
    )


def _call(name: str, arguments: Mapping[str, Any], more: Sequence[str] = ()) -> str:
    lines = [f"{key}={_literal(value, 12)}" for key, value in arguments.items()] + list(more)
    return f"{name}(\n" + "".join(f"            {line},\n" for line in lines) + "        )"


def _literal(value: Any, indent: int) -> str:
    """Write a constant as Python text with double quotes, long lists one item a line."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {_literal(item, 0)}' for key, item in value.items()) + "}"
    if isinstance(value, list):
        items = [_literal(item, indent + 4) for item in value]
        flat = f"[{', '.join(items)}]"
        if len(flat) + indent <= 100:
            return flat
        pad = " " * (indent + 4)
        body = textwrap.fill(", ".join(items), 100, initial_indent=pad, subsequent_indent=pad,
                             break_long_words=False) if isinstance(value[0], str) else "".join(
            f"{pad}{item},\n" for item in items).rstrip("\n")  # fmt: skip
        return f"[\n{body}\n{' ' * indent}]"
    return repr(value)
