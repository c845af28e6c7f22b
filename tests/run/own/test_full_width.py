"""Own layers at their models' widths: pipelines and replicas have the gradients of one process."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from explorer.run.own.own_source import OwnSource, own_source
from tests.run.own.own_cases import case, cut
from tests.run.threads import on_threads, worst

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
BOUND = {"fp64": 1e-10, "fp32": 1e-5}
ZOO: dict[str, tuple[str, dict[str, str], int | None]] = {
    "gpt2-small": ("gpt", {"layers": "2", "embed": "768", "heads": "12", "vocab": "50257"}, 16),
    "llama": (
        "llama",
        {"layers": "4", "embed": "512", "heads": "8", "kv_heads": "4", "ffn": "1376", "vocab": "8000"},
        16,
    ),
    "resnet50": ("resnet50", {}, None),
    "skip": ("benchmarks.user_modules:skip", {}, None),
}
"""Reference, settings and tokens."""
HF: dict[str, dict[str, Any]] = {
    "t5": {"model_type": "t5", "d_model": 512, "d_ff": 2048, "num_layers": 2, "num_heads": 8, "d_kv": 64,
           "vocab_size": 8000},
    "mixtral": {"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 384, "intermediate_size": 768,
                "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 8000,
                "num_local_experts": 4},
}  # fmt: skip
WAYS = ((2, 1), (4, 1), (1, 2), (2, 2))
"""Stages and replicas."""


@lru_cache(maxsize=1)
def source(name: str, dtype: str, folder: Path) -> OwnSource:
    """The model; the tests of one follow each other."""
    if name in ZOO:
        reference, settings, tokens = ZOO[name]
        return own_source(reference, settings=settings, sequence_length=tokens, dtype=dtype)
    file = folder / f"{name}.json"
    file.write_text(json.dumps(HF[name]))
    return own_source(f"hf:{file}", sequence_length=16, dtype=dtype)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("configurations")


# torch multiplies groups of rows, one for each expert, in fp32 at most; 124 million scalars take long in fp64
MODELS = [
    ("gpt2-small", "fp32"), ("llama", "fp64"), ("llama", "fp32"), ("resnet50", "fp64"), ("skip", "fp64"),
    ("skip", "fp32"), ("t5", "fp64"), ("t5", "fp32"), ("mixtral", "fp32"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), MODELS)
@pytest.mark.parametrize(("pipeline", "replicas"), WAYS)
def test_gradients_at_full_width(name: str, dtype: str, pipeline: int, replicas: int, folder: Path) -> None:
    own = source(name, dtype, folder)
    records = on_threads(case(own, cut(own, pipeline, replicas, size=2), "1f1b", batch=4))
    assert worst(records) <= BOUND[dtype]
    assert sum(record["numerics"]["compared"] for record in records) >= 2 * len(own.graph.parameters)
