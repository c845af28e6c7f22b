"""A small transformer that searchers explore in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pytest

from explorer.graph import Defaults, LayerGraph
from explorer.models.builder import GraphBuilder
from explorer.models.gpt import attention_half, feed_forward_half


@lru_cache(maxsize=8)
def _decoder(blocks: int, embed: int, seq: int) -> LayerGraph:
    defaults = Defaults(global_batch=16, sequence_length=seq, precision="fp16", optimizer="adam")
    b = GraphBuilder(f"decoder-{blocks}", defaults=defaults, source="tests")
    tokens, targets = (b.input(part, {"seq": seq}, dtype="int64") for part in ("tokens", "targets"))
    x = b.embedding("embed", tokens, {"vocab": 1024}, {"embed": embed})
    for i in range(blocks):
        with b.block(f"layers.{i}"):
            x = b.add("attention.add", attention_half(b, b.norm("attention.norm", x), 8), x)
            x = b.add("mlp.add", feed_forward_half(b, b.norm("mlp.norm", x)), x)
    b.loss("loss", b.linear("head", b.norm("norm", x), {"vocab": 1024}), targets)
    return b.build()


@pytest.fixture(scope="session")
def decoder() -> Callable[..., LayerGraph]:
    """`decoder(blocks, embed=..., seq=...)`: a GPT-like model with its own head."""

    def build(blocks: int, embed: int = 1024, seq: int = 512) -> LayerGraph:
        return _decoder(blocks, embed, seq)

    return build
