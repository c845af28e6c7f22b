"""Cases of own layers that tests share."""

from __future__ import annotations

import json
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from explorer.run.cases.build import Prepared, prepare
from explorer.run.own.own_source import OwnSource, own_source
from explorer.strategy import JobStrategy, Stage
from explorer.workload import Job
from tests.run.programs import CLUSTER, stages_of

FACTORIES = "tests.run.own.own_factories"
GPT = ("gpt", {"layers": "3", "embed": "32", "heads": "4", "vocab": "50"}, 8)
LLAMA = (
    "llama",
    {"layers": "3", "embed": "32", "heads": "4", "kv_heads": "2", "ffn": "48", "vocab": "50"},
    8,
)
RESNET = ("resnet50", {"image": "72", "width": "4", "classes": "10"})
"""Rows of 36, 18, 9, 5 and 3: some do not divide."""
CONFIGS: dict[str, dict[str, Any]] = {
    "t5": {"model_type": "t5", "d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8,
           "vocab_size": 60},
    "mixtral": {"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48,
                "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 60, "num_local_experts": 4},
    "library_llama": {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32,
                      "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
                      "vocab_size": 60},
}  # fmt: skip
"""Hugging Face configurations, small."""
CONFIGS["three experts"] = {**CONFIGS["mixtral"], "num_local_experts": 3}

WIDE: dict[str, tuple[str, dict[str, str], int | None]] = {
    "gpt2-small": ("gpt", {"layers": "2", "embed": "768", "heads": "12", "vocab": "50257"}, 16),
    "llama": (
        "llama",
        {"layers": "4", "embed": "512", "heads": "8", "kv_heads": "4", "ffn": "1376", "vocab": "8000"},
        16,
    ),
    "resnet50": ("resnet50", {}, None),
    "skip": ("benchmarks.user_modules:skip", {}, None),
}
"""Models at the widths of their own: reference, settings and tokens."""
WIDE_CONFIGS: dict[str, dict[str, Any]] = {
    "t5": {"model_type": "t5", "d_model": 512, "d_ff": 2048, "num_layers": 2, "num_heads": 8, "d_kv": 64,
           "vocab_size": 8000},
    "mixtral": {"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 384, "intermediate_size": 768,
                "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 8000,
                "num_local_experts": 4},
}  # fmt: skip
"""The same, as Hugging Face configurations."""
_FOLDER = tempfile.TemporaryDirectory()
"""Where they lie as long as this process lives: ranks read them again."""


def source(
    reference: str, settings: dict[str, str] | None = None, tokens: int | None = None, dtype: str = "fp64"
) -> OwnSource:
    """A model, in fp64 so that a wrong sum cannot hide behind rounding."""
    return own_source(reference, settings=settings, sequence_length=tokens, dtype=dtype)


def configuration(name: str) -> str:
    """The reference of a small model of a Hugging Face configuration."""
    return _configuration(name, CONFIGS[name])


def small_resnet(dtype: str) -> OwnSource:
    """A narrow ResNet-50 of the first block of every stage: few norms by channel, which double roundings."""
    keep = tuple((f"stage{i + 1}", count, (0,)) for i, count in enumerate((3, 4, 6, 3)))
    return own_source(RESNET[0], settings=RESNET[1], keep=keep, dtype=dtype)


def configured(name: str, dtype: str = "fp64") -> OwnSource:
    """A small model of a Hugging Face configuration."""
    return source(configuration(name), tokens=8, dtype=dtype)


def _configuration(name: str, config: dict[str, Any]) -> str:
    """Write a configuration; forked ranks share the folder, and read it while others write theirs."""
    file = Path(_FOLDER.name) / f"{name}-{config['vocab_size']}.json"
    own = file.with_suffix(f".{os.getpid()}")
    own.write_text(json.dumps(config))
    own.replace(file)
    return f"hf:{file}"


@lru_cache(maxsize=1)
def full_width(name: str, dtype: str) -> OwnSource:
    """A model at its own widths; tests of one follow each other."""
    if name in WIDE:
        return source(*WIDE[name], dtype)
    return source(_configuration(name, WIDE_CONFIGS[name]), tokens=16, dtype=dtype)


def case(
    own: OwnSource,
    stages: tuple[Stage, ...],
    schedule: str,
    *,
    batch: int = 8,
    optimizer: str = "sgd",
    **fields: Any,
) -> Prepared:
    """A case of a strategy over own layers."""
    options = fields.pop("options", ())
    strategy = JobStrategy(stages=stages, schedule=schedule, job="j", options=options)
    job = Job(name="j", graph="g", global_batch=batch, optimizer=optimizer, precision=own.model.dtype)
    job = fields.pop("job", job)
    return prepare(
        "own", own.graph, CLUSTER, job, strategy, steps=2, model=own.model, check=True, learning_rate=0.01,
        **fields,
    )  # fmt: skip


def cut(own: OwnSource, pipeline: int, replicas: int = 1, **fields: Any) -> tuple[Stage, ...]:
    """All layers dealt out evenly, in order."""
    return stages_of([layer.name for layer in own.graph.layers], pipeline, replicas, **fields)
