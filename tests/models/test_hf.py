"""`hf:PATH`: parameter counts, FLOPs, wiring and names of graphs read from Hugging Face configurations."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.models import hf

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.models.hf_configs import PUBLISHED, SEQ, SMALL, small_graph

DECODERS = ("llama", "gpt2", "gemma2", "mixtral", "bloom", "deepseek_v3")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "cache"))


def built(family: str, device: str = "meta") -> Any:
    """The full model, on the meta device or, as it is small, with weights."""
    import torch
    import transformers

    data = SMALL[family]
    kind = getattr(transformers, data["architectures"][0])
    with torch.device(device):
        return kind(kind.config_class.from_dict({**data, "use_cache": False}))


def counted_flops(family: str) -> tuple[float, float]:
    """Forward and backward FLOPs of the full model by FlopCounterMode, really run."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    model = built(family, "cpu").train()
    if family in ("mixtral", "deepseek_v3"):
        model.set_experts_implementation("batched_mm")
    inputs = {"pixel_values": torch.zeros(1, 3, 32, 32)}
    if family != "vit":
        inputs = {"input_ids": torch.ones(1, SEQ, dtype=torch.long)}
    if family == "t5":
        inputs["decoder_input_ids"] = inputs["input_ids"]
    # The fused kernel of CPUs is unknown to the counter.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as forward:
        logits = model(**inputs)[0]
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_parameter_counts(name: str) -> None:
    from explorer.models._pretrained import graph_of

    count, data = PUBLISHED[name]
    graph = graph_of(data, sequence_length=64, name=name)
    assert graph.parameter_count == count
    assert "failed" not in graph.source


@pytest.mark.parametrize("family", SMALL)
def test_parameters_are_those_of_the_full_model(family: str) -> None:
    expected = {name: item.numel() for name, item in built(family).named_parameters()}
    assert {item.name: item.elements for item in small_graph(family).parameters} == expected


@pytest.mark.parametrize("family", SMALL)
def test_flops_are_those_of_flop_counter_mode(family: str) -> None:
    graph = small_graph(family)
    forward, backward = counted_flops(family)
    assert graph.flops_per_sample == pytest.approx(forward, rel=0.01)
    ours = sum(layer.input_grad.flops + layer.weight_grad.flops for layer in graph.layers)
    assert ours == pytest.approx(backward, rel=0.01)


def test_flops_of_a_decoder_in_closed_form() -> None:
    graph = small_graph("llama")
    matrices = sum(item.elements for item in graph.parameters if "norm" not in item.name)
    matrices -= graph.parameter["model.embed_tokens.weight"].elements
    attention = 4 * SEQ * SEQ * 64 * 4
    assert graph.flops_per_sample == 2 * SEQ * matrices + attention


@pytest.mark.parametrize("family", ["llama", "gemma2", "t5", "deepseek_v3"])
def test_repeated_blocks_equal_an_export_of_all(family: str) -> None:
    assert small_graph(family) == small_graph(family, shorten=False)


@pytest.mark.parametrize("family", SMALL)
def test_captured_in_training_mode_by_export(family: str) -> None:
    assert "failed" not in small_graph(family).source
    assert "evaluation" not in small_graph(family).source


@pytest.mark.parametrize("family", SMALL)
def test_every_layer_is_consistent(family: str) -> None:
    graph = small_graph(family)
    for layer in graph.layers:
        sizes = {dim.name: dim.size for dim in layer.dims}
        for use in (*layer.reads, *layer.writes):
            shape = graph.tensor[use.name].shape
            assert len(use.dims) == len(shape), use
            for dim, size in zip(use.dims, shape, strict=True):
                # Rows of chosen experts stand on the axis of all experts.
                assert dim == "" or sizes[dim] == size or dim == "experts", (layer.name, use)
        for use in layer.parameters:
            if use.dims:
                shape = graph.parameter[use.name].shape
                assert all(d == "" or sizes[d] == s for d, s in zip(use.dims, shape, strict=True))
        assert set(layer.saves) <= {use.name for use in (*layer.reads, *layer.writes)}


@pytest.mark.parametrize("family", SMALL)
def test_costs_of_products(family: str) -> None:
    for layer in small_graph(family).layers:
        if layer.kind == "linear" and layer.reads[0].name != "pixel_values":
            assert layer.forward.flops == layer.input_grad.flops == layer.weight_grad.flops > 0
        if layer.kind == "attention":
            assert layer.input_grad.flops == 2 * layer.forward.flops > 0
            assert layer.weight_grad.flops == 0
        if layer.kind in ("norm", "elementwise", "embedding", "loss"):
            assert layer.forward.flops == 0 < layer.forward.moved_elements


@pytest.mark.parametrize("family", SMALL)
def test_blocks_are_of_readable_size(family: str) -> None:
    graph = small_graph(family)
    sizes = Counter(layer.block for layer in graph.layers if layer.block)
    assert (
        len(sizes) == sum(SMALL[family].get(key, 0) for key in ("num_hidden_layers", "n_layer"))
        or family == "t5"
    )
    assert all(9 <= size <= 21 for size in sizes.values())


def test_names_of_dimensions_for_tensor_parallel_layouts() -> None:
    graph = small_graph("llama")
    used = {
        use.name.removeprefix("model.layers.2."): use.dims for item in graph.layers for use in item.parameters
    }
    assert used["self_attn.q_proj.weight"] == ("heads", "head", "embed")
    assert used["self_attn.k_proj.weight"] == ("kv_heads", "head", "embed")
    assert used["self_attn.v_proj.weight"] == ("kv_heads", "head", "embed")
    assert used["self_attn.o_proj.weight"] == ("embed", "heads", "head")
    assert used["mlp.gate_proj.weight"] == used["mlp.up_proj.weight"] == ("ffn", "embed")
    assert used["mlp.down_proj.weight"] == ("embed", "ffn")
    assert used["model.embed_tokens.weight"] == used["lm_head.weight"] == ("vocab", "embed")
    attention = graph.layer["model.layers.2.self_attn.attention"]
    assert {d.name for d in attention.dims if d.splittable} == {"heads", "kv_heads"}
    assert graph.parameter["model.layers.2.self_attn.k_proj.weight"].shape == (2, 8, 64)


@pytest.mark.parametrize("family", [name for name in SMALL if name != "deepseek_v3"])
def test_every_attention_has_heads_and_every_block_a_feed_forward_width(family: str) -> None:
    graph = small_graph(family)
    for layer in graph.layers:
        names = {dim.name for dim in layer.dims}
        if layer.kind == "attention":
            assert {"heads", "head"} <= names
    blocks = {layer.block for layer in graph.layers if layer.block}
    assert blocks == {
        layer.block for layer in graph.layers if layer.block and "ffn" in {d.name for d in layer.dims}
    }


def test_experts_have_their_axis_and_rows_on_it() -> None:
    graph = small_graph("mixtral")
    layer = graph.layer["model.layers.1.mlp.experts"]
    assert layer.kind == "experts"
    sizes = {dim.name: dim.size for dim in layer.dims}
    assert (sizes["experts"], sizes["ffn"]) == (4, 96)
    assert all(use.dims[0] == "experts" for use in layer.parameters)
    assert layer.forward.flops == 6 * SEQ * 2 * 64 * 96
    assert graph.layer["model.layers.1.mlp.gate"].kind == "router"


def test_tied_weights_are_shared() -> None:
    graph = small_graph("gpt2")
    users = [
        layer.name
        for layer in graph.layers
        for use in layer.parameters
        if use.name == "transformer.wte.weight"
    ]
    assert users == ["transformer.wte", "lm_head"]


def test_edges_skip() -> None:
    graph = small_graph("t5")
    bias = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias"
    assert [graph.layer[name].block for name in graph.consumers[bias]] == [
        f"decoder.block.{i}" for i in range(4)
    ]
    llama = small_graph("llama")
    assert llama.consumers["model.layers.1.residual"] == (
        "model.layers.1.post_attention_layernorm",
        "model.layers.1.residual_2",
    )


def test_alternating_layers_are_told_apart() -> None:
    from explorer.models._stacks import find_stacks

    (stack,) = find_stacks(built("gemma2"))
    assert stack.kinds == (0, 1, 0, 1, 0, 1, 0)
    assert stack.keep == (0, 1, 2, 3, 6)
    (mixed,) = find_stacks(built("deepseek_v3"))
    assert mixed.kinds == (0, 0, 0, 1, 1)


@pytest.mark.parametrize("family", ["llama", "bert", "t5", "vit"])
def test_the_loss_ends_the_graph(family: str) -> None:
    graph = small_graph(family)
    loss = graph.layers[-1] if graph.layers[-1].name == "loss" else graph.layers[-2]
    assert loss.kind == "loss"
    logits = graph.tensor[loss.reads[0].name]
    assert math.prod(logits.shape) == (2 if family == "vit" else SEQ * 120)
    assert not loss.dims[-1].splittable
    assert loss.name in graph.digraph


def test_a_backbone_has_no_loss() -> None:
    from explorer.models._pretrained import graph_of

    graph = graph_of({**SMALL["llama"], "architectures": ["LlamaModel"]}, sequence_length=16, name="backbone")
    assert "loss" not in graph.layer


def test_the_sequence_length_is_the_configurations_or_the_users(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL["llama"]))
    assert hf.load(tmp_path).defaults.sequence_length == 64
    graph = hf.load(tmp_path, sequence_length=16)
    assert graph.defaults.sequence_length == 16
    assert graph.tensor["input_ids"].shape == (16,)


def test_the_name_is_that_of_the_folder_or_file(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL["llama"]))
    assert hf.load(folder, sequence_length=16).name == "my-model"


def changed(family: str, **values: Any) -> str:
    return json.dumps({**SMALL[family], **values})


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{not json", None),
        ("[1, 2]", None),
        ("{}", "model_type"),
        ('{"model_type": 3}', "model_type"),
        ('{"model_type": "no-such-model"}', "model_type"),
        (changed("llama", hidden_size="wide"), "hidden_size"),
        (changed("llama", num_hidden_layers=-3), "num_hidden_layers"),
        (changed("llama", num_attention_heads=0), "num_attention_heads"),
        (changed("llama", hidden_act="no-such-activation"), "hidden_act"),
        (changed("gpt2", n_head=7), "n_embd"),
        (changed("gpt2", vocab_size=None), "vocab_size"),
    ],
)
def test_bad_configurations_give_one_line(tmp_path: Path, text: str, key: str | None) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        hf.load(tmp_path)
    error = caught.value
    assert error.file == str(file) or error.file == str(tmp_path)
    assert error.key == key
    assert error.allowed
    assert "\n" not in str(error)


def test_a_missing_file_and_a_setting_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        hf.load(tmp_path / "nothing.json")
    with pytest.raises(InputError, match="no setting 'colour'"):
        hf.load(tmp_path, settings={"colour": "red"})


def test_a_table_of_positions_bounds_the_sequence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL["gpt2"]))
    with pytest.raises(InputError, match="64 positions") as caught:
        hf.load(tmp_path, sequence_length=65)
    assert caught.value.key == "sequence_length"


def test_code_of_the_repository_is_never_run(tmp_path: Path) -> None:
    data = {**SMALL["llama"], "auto_map": {"AutoModelForCausalLM": "evil.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(data))
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    graph: LayerGraph = hf.load(tmp_path, sequence_length=16)
    assert "LlamaForCausalLM" in graph.source
