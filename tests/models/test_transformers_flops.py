"""FLOPs and parameters of further transformers against the `transformers` package, eager attention.

Sizes beside the number of blocks are the real ones. Nothing is computed: shapes only.
"""

from __future__ import annotations

from typing import Any

import pytest

from explorer.graph import LayerGraph
from explorer.models import load_model
from tests.models.test_zoo_flops import agree, count

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SEQ = 128
EAGER = {"attn_implementation": "eager", "use_cache": False}


def model_of(kind: str, head: str, **config: Any) -> Any:
    return getattr(transformers, f"{kind}{head}")(getattr(transformers, f"{kind}Config")(**EAGER, **config))


def tokens(length: int = SEQ) -> Any:
    return torch.zeros(1, length, dtype=torch.long)


def parameters(kind: str, head: str, **config: Any) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in model_of(kind, head, **config).parameters())


def per_block(one: tuple[float, float], two: tuple[float, float], layers: int) -> tuple[float, float]:
    """Forward and backward of `layers` equal blocks from those of one and of two."""
    forward, backward = (a + (layers - 1) * (b - a) for a, b in zip(one, two, strict=True))
    return forward, backward


OPT = {
    "vocab_size": 50272, "word_embed_proj_dim": 512, "hidden_size": 1024, "ffn_dim": 4096,
    "num_attention_heads": 16, "do_layer_norm_before": False,
}  # fmt: skip


@pytest.mark.parametrize("attention", ["fused", "unfused"])
def test_opt(attention: str) -> None:
    def counted(layers: int) -> tuple[float, float]:
        def build() -> tuple[Any, Any]:
            model = model_of("OPT", "ForCausalLM", **OPT, num_hidden_layers=layers)
            return model, lambda m: m(input_ids=tokens()).logits.sum()

        return count(build)

    graph = load_model("opt-350m", sequence_length=SEQ, settings={"attention": attention})
    agree(graph, *per_block(counted(1), counted(2), 24))
    assert graph.parameter_count == parameters("OPT", "ForCausalLM", **OPT, num_hidden_layers=24)


T5 = {"vocab_size": 32128, "d_model": 1024, "d_ff": 4096, "d_kv": 64, "num_heads": 16}


def test_t5() -> None:
    def counted(layers: int) -> tuple[float, float]:
        def build() -> tuple[Any, Any]:
            model = model_of("T5", "ForConditionalGeneration", **T5, num_layers=layers)
            targets = tokens(SEQ * 114 // 512)
            return model, lambda m: m(input_ids=tokens(), decoder_input_ids=targets).logits.sum()

        return count(build)

    graph = load_model("t5-large", sequence_length=SEQ)
    agree(graph, *per_block(counted(1), counted(2), 24))
    assert graph.parameter_count == parameters("T5", "ForConditionalGeneration", **T5, num_layers=24)


VIT = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_labels": 1000}


def test_vit(monkeypatch: pytest.MonkeyPatch) -> None:
    # How weights start needs their values, which there are none of.
    monkeypatch.setattr(torch.nn.init, "_no_grad_trunc_normal_", lambda weight, *_, **__: weight)

    def counted(layers: int) -> tuple[float, float]:
        def build() -> tuple[Any, Any]:
            model = model_of("ViT", "ForImageClassification", **VIT, num_hidden_layers=layers)
            return model, lambda m: m(pixel_values=torch.zeros(1, 3, 224, 224)).logits.sum()

        return count(build)

    graph = load_model("vit-l16")
    agree(graph, *per_block(counted(1), counted(2), 24))
    assert graph.parameter_count == parameters("ViT", "ForImageClassification", **VIT, num_hidden_layers=24)


SMALL = {
    "vocab_size": 1024, "hidden_size": 512, "intermediate_size": 1536, "moe_intermediate_size": 256,
    "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 8, "n_shared_experts": 2,
    "n_routed_experts": 16, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "kv_lora_rank": 128,
    "q_lora_rank": 192, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 48, "n_group": 4,
    "topk_group": 2,
}  # fmt: skip


def small_deepseek(**settings: str) -> LayerGraph:
    sizes = {
        "vocab": 1024, "embed": 512, "ffn": 1536, "expert_ffn": 256, "layers": 3, "heads": 8,
        "shared_ffn": 512, "experts": 16, "active": 4, "dense_layers": 1, "kv_lora": 128, "q_lora": 192,
        "rope": 32, "head": 64, "v_head": 48,
    }  # fmt: skip
    given = {name: str(size) for name, size in sizes.items()}
    return load_model("deepseek", sequence_length=SEQ, settings={**given, **settings})


@pytest.mark.parametrize("version", [2, 3])
def test_deepseek(version: int) -> None:
    """Every part has a size of its own, so that no two can be mistaken for one another."""
    kind = f"DeepseekV{version}"

    def build() -> tuple[Any, Any]:
        model = model_of(kind, "ForCausalLM", **SMALL)
        model.set_experts_implementation("batched_mm")
        return model, lambda m: m(input_ids=tokens()).logits.sum()

    graph = small_deepseek(balanced=str(version == 3).lower())
    agree(graph, *count(build))
    expected = parameters(kind, "ForCausalLM", **SMALL)
    # The package keeps the biases that balance the experts as a buffer.
    assert graph.parameter_count == expected + (2 * 16 if version == 3 else 0)


def test_deepseek_without_narrow_queries() -> None:
    expected = parameters("DeepseekV2", "ForCausalLM", **{**SMALL, "q_lora_rank": None})
    assert small_deepseek(balanced="false", q_lora="0").parameter_count == expected
