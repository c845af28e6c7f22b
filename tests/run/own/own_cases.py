"""Cases of own layers that tests share."""

from __future__ import annotations

import json
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
CONFIGS: dict[str, dict[str, Any]] = {
    "t5": {"model_type": "t5", "d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8,
           "vocab_size": 60},
    "mixtral": {"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48,
                "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 60, "num_local_experts": 4},
}  # fmt: skip
"""Hugging Face configurations, small."""


def source(
    reference: str, settings: dict[str, str] | None = None, tokens: int | None = None, dtype: str = "fp64"
) -> OwnSource:
    """A model, in fp64 so that a wrong sum cannot hide behind rounding."""
    return own_source(reference, settings=settings, sequence_length=tokens, dtype=dtype)


def configured(folder: Path, name: str, dtype: str = "fp64") -> OwnSource:
    """A model of a Hugging Face configuration."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps(CONFIGS[name]))
    return source(f"hf:{file}", tokens=8, dtype=dtype)


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
    job = Job(name="j", graph="g", global_batch=batch, optimizer=optimizer, precision="fp32")
    return prepare(
        "own", own.graph, CLUSTER, job, strategy, steps=2, model=own.model, check=True, learning_rate=0.01,
        **fields,
    )  # fmt: skip


def cut(own: OwnSource, pipeline: int, replicas: int = 1, **fields: Any) -> tuple[Stage, ...]:
    """All layers dealt out evenly, in order."""
    return stages_of([layer.name for layer in own.graph.layers], pipeline, replicas, **fields)
