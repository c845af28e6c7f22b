"""Configurations that tests of Hugging Face models share: small ones of many families, and published ones."""

from __future__ import annotations

from functools import cache
from typing import Any

from explorer.graph import LayerGraph

SEQ = 32

SMALL: dict[str, dict[str, Any]] = {
    "llama": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 120,
        "max_position_embeddings": 64,
    },
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 48, "n_layer": 4, "n_head": 4,
        "vocab_size": 120, "n_positions": 64,
    },
    "gemma2": {
        "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 7, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 120, "sliding_window": 8,
    },
    "mixtral": {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 120,
    },
    "t5": {
        "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_model": 64, "d_kv": 16,
        "d_ff": 96,
        "num_layers": 4, "num_heads": 4, "vocab_size": 120, "is_encoder_decoder": True,
        "decoder_start_token_id": 0,
    },
    "bert": {
        "architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 120,
    },
    "vit": {
        "architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 32,
        "patch_size": 8,
    },
    "bloom": {
        "architectures": ["BloomForCausalLM"], "model_type": "bloom", "hidden_size": 64, "n_layer": 3,
        "n_head": 4,
        "vocab_size": 120,
    },
    "deepseek_v3": {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 64,
        "intermediate_size": 96, "moe_intermediate_size": 32, "num_hidden_layers": 5,
        "first_k_dense_replace": 3,
        "num_attention_heads": 4, "num_key_value_heads": 4, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "n_group": 2, "topk_group": 1, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 16, "vocab_size": 120,
    },
}  # fmt: skip

_LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256,
    "num_key_value_heads": 8, "tie_word_embeddings": False, "max_position_embeddings": 8192,
}  # fmt: skip
_GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024}

PUBLISHED: dict[str, tuple[int, dict[str, Any]]] = {
    "gpt2-small": (124_439_808, {**_GPT2, "n_embd": 768, "n_layer": 12, "n_head": 12}),
    "gpt2-medium": (354_823_168, {**_GPT2, "n_embd": 1024, "n_layer": 24, "n_head": 16}),
    "gpt2-xl": (1_557_611_200, {**_GPT2, "n_embd": 1600, "n_layer": 48, "n_head": 25}),
    "bert-large": (
        335_141_888,
        {
            "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 30522,
        },
    ),
    "bert-48": (
        637_451_264,
        {
            "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 1024,
            "num_hidden_layers": 48,
            "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 30522,
        },
    ),
    "llama3-8b": (
        8_030_261_248,
        {
            **_LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32,
        },
    ),
    "llama3-70b": (
        70_553_706_496,
        {
            **_LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
            "num_attention_heads": 64,
        },
    ),
    "llama3-405b": (
        405_853_388_800,
        {
            **_LLAMA, "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
            "num_attention_heads": 128,
        },
    ),
    "mixtral-8x7b": (
        46_702_792_704,
        {
            "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096,
            "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "num_local_experts": 8, "vocab_size": 32000,
        },
    ),
}  # fmt: skip


@cache
def small_graph(family: str, *, shorten: bool = True) -> LayerGraph:
    """The graph of a small configuration, made once."""
    from explorer.models._pretrained import graph_of

    return graph_of(SMALL[family], sequence_length=SEQ, name=family, shorten=shorten)
