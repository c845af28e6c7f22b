"""The zoo: published counts, the contract of dimension names, and what every graph must satisfy."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from explorer.base.errors import InputError
from explorer.graph import Layer, LayerGraph
from explorer.models import SOURCES, load_model

NAMES = SOURCES.names()
SEQUENCES = [name for name in NAMES if load_model(name).defaults.sequence_length]
OTHERS = [name for name in NAMES if name not in SEQUENCES]
FAMILIES = ("gpt", "llama", "mixtral", "bert", "vit", "t5", "opt", "deepseek")
TRANSFORMERS = [name for name in NAMES if SOURCES.get(name).family in FAMILIES]
PUBLISHED = {
    "resnet50": 25_557_032, "vgg16": 138_357_544, "gpt2-small": 124_439_808, "gpt2-medium": 354_823_168,
    "gpt2-xl": 1_557_611_200, "bert-large": 335_141_888, "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496, "llama3-405b": 405_853_388_800, "mixtral-8x7b": 46_702_792_704,
    "vit-l16": 304_326_632, "t5-large": 737_668_096, "opt-350m": 331_196_416,
    "deepseek-v2": 235_741_434_880, "deepseek-v3": 671_026_419_200,
    "alexnet": 61_100_840, "inception-v3": 27_161_264, "unet-3d": 19_069_955, "awd-lm": 24_221_600,
    "gnmt-8": 193_765_952, "vgg19": 143_667_240, "bert-48": 637_451_264,
}  # fmt: skip
DIMS = {
    "seq", "embed", "heads", "kv_heads", "head", "ffn", "vocab", "experts", "qkv", "height", "width",
    "in_channels", "out_channels", "channels", "kernel_height", "kernel_width", "pooled",
    "kv_seq", "v_head", "key_value", "q_lora", "kv_lora", "kv_latent", "word", "depth", "kernel_depth",
    "up_depth", "up_height", "up_width", "gates", "hidden", "state", "units", "features",
}  # fmt: skip
PRODUCTS = {
    "linear", "conv", "attention", "router", "experts", "recurrent", "matmul", "scores", "context",
}  # fmt: skip
WITH_WEIGHT_GRADIENT = (PRODUCTS - {"attention", "context"}) | {"norm", "embedding"}


@pytest.fixture(params=NAMES)
def graph(request: pytest.FixtureRequest) -> LayerGraph:
    return load_model(request.param)


def sizes(layer: Layer) -> dict[str, float]:
    return {dim.name: dim.size for dim in layer.dims}


def leaves(graph: LayerGraph, block: str) -> list[str]:
    return [name.removeprefix(f"{block}.") for name in graph.blocks[block]]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_parameter_counts(name: str) -> None:
    assert load_model(name).parameter_count == PUBLISHED[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_states_its_count(name: str) -> None:
    entry = SOURCES.get(name)
    assert load_model(name).parameter_count == entry.parameters
    assert entry.paper
    assert entry.title


@pytest.mark.parametrize(("name", "counts"), [("vgg16", (2, 2, 3, 3, 3)), ("vgg19", (2, 2, 4, 4, 4))])
def test_parameters_of_a_vgg_follow_from_its_table(name: str, counts: tuple[int, ...]) -> None:
    """9 c c' + c' of every convolution from c to c' channels; (n + 1) n' of 25,088 to 4096, 4096 and 1000."""
    channels = [3]
    for after, count in zip((64, 128, 256, 512, 512), counts, strict=True):
        channels += [after] * count
    convolutions = sum((9 * before + 1) * after for before, after in pairwise(channels))
    linear = sum((before + 1) * after for before, after in pairwise((512 * 7 * 7, 4096, 4096, 1000)))
    assert load_model(name).parameter_count == convolutions + linear
    assert [layer.kind for layer in load_model(name).layers].count("conv") == sum(counts)


@pytest.mark.parametrize(("name", "layers"), [("bert-large", 24), ("bert-48", 48)])
def test_parameters_of_a_bert_follow_from_its_sizes(name: str, layers: int) -> None:
    """(V + s + 2) h + 2 h of the embeddings, L (12 h^2 + 13 h), h^2 + h of the pooler."""
    h, vocab, positions = 1024, 30522, 512
    tables, pooler = (vocab + positions + 2) * h + 2 * h, h * h + h
    assert load_model(name).parameter_count == tables + layers * (12 * h * h + 13 * h) + pooler


def test_bert_48_is_its_authors_profile() -> None:
    """Bytes in fp32 of `bert-48-pbs-2.txt`: embeddings, every layer, pooler; 384 tokens."""
    graph = load_model("bert-48")
    held: Counter[str] = Counter()
    for layer in graph.layers:
        for use in layer.parameters:
            held[layer.block.removesuffix(".attention").removesuffix(".mlp") or "outside"] += round(
                4 * graph.parameter[use.name].elements
            )
    assert held.pop("outside") == 127_131_648 + 4_198_400
    assert set(held.values()) == {50_384_896}
    assert len(held) == 48
    assert graph.defaults.sequence_length == 384
    assert graph.defaults.precision == "fp32"


def test_gpt3_is_175_billion() -> None:
    assert load_model("gpt3-175b").parameter_count == pytest.approx(175e9, rel=0.003)


def test_only_dimensions_of_the_contract(graph: LayerGraph) -> None:
    assert {dim.name for layer in graph.layers for dim in layer.dims} <= DIMS


def test_axes_fit_their_dimensions(graph: LayerGraph) -> None:
    # Strided windows read more than they iterate; experts keep rows only of the chosen ones, and a sampled
    # softmax scores only the drawn classes.
    loose = {"conv", "pool", "experts", "matmul"}
    for layer in graph.layers:
        if layer.kind in loose:
            continue
        shapes = [(use, graph.tensor[use.name].shape) for use in (*layer.reads, *layer.writes)]
        shapes += [(use, graph.parameter[use.name].shape) for use in layer.parameters]
        for use, shape in shapes:
            assert len(use.dims) == len(shape), (layer.name, use)
            for dim, size in zip(use.dims, shape, strict=True):
                assert not dim or sizes(layer)[dim] == size, (layer.name, use)


def test_matrix_products_cost_twice_their_iteration_space(graph: LayerGraph) -> None:
    for layer in graph.layers:
        if layer.kind in ("linear", "conv", "router"):
            assert layer.forward.flops == pytest.approx(2 * math.prod(sizes(layer).values())), layer.name


def test_only_products_have_flops(graph: LayerGraph) -> None:
    for layer in graph.layers:
        assert (layer.forward.flops > 0) == (layer.kind in PRODUCTS), layer.name
        assert layer.forward.moved_elements > 0


def test_gradients_only_where_something_learns(graph: LayerGraph) -> None:
    for layer in graph.layers:
        learns = layer.kind in WITH_WEIGHT_GRADIENT and bool(layer.parameters)
        assert (layer.weight_grad.moved_elements > 0) == learns, layer.name
        moving = any(use.name in graph.needs_gradient for use in layer.reads)
        assert (layer.input_grad.moved_elements > 0) <= moving, layer.name
        if layer.kind != "embedding" and moving:
            assert layer.input_grad.moved_elements > 0, layer.name


def test_saved_tensors_are_the_layers_own(graph: LayerGraph) -> None:
    for layer in graph.layers:
        own = {use.name for use in (*layer.reads, *layer.writes)}
        assert set(layer.saves) <= own, layer.name


def test_internal_tensors_go_nowhere(graph: LayerGraph) -> None:
    read = {use.name for layer in graph.layers for use in layer.reads}
    for layer in graph.layers:
        for use in layer.writes[1:]:
            if layer.kind in ("attention", "pool", "loss", "experts", "recurrent", "scores"):
                assert use.name not in read
                assert not graph.tensor[use.name].backward


def test_blocks_of_transformers_are_equal() -> None:
    """Those with layers of the same names; DeepSeek's first ones are dense, T5 has two halves."""
    for name in TRANSFORMERS:
        graph, first = load_model(name), {}
        for block in graph.blocks:
            if re.fullmatch(r"\w+\.\d+", block):
                members = [graph.layer[item] for item in graph.blocks[block]]
                names = (block.split(".")[0], *leaves(graph, block))
                numbers = [(m.kind, m.dims, m.forward, m.input_grad) for m in members]
                assert first.setdefault(names, numbers) == numbers
        assert len(first) <= 2, name


def test_llama_block() -> None:
    graph = load_model("llama3-8b")
    assert leaves(graph, "layers.3") == [
        "attention.norm", "attention.q", "attention.k", "attention.v", "attention.rope",
        "attention.attention", "attention.o", "attention.add",
        "mlp.norm", "mlp.gate", "mlp.up", "mlp.silu_mul", "mlp.down", "mlp.add",
    ]  # fmt: skip
    assert graph.parameter["layers.3.attention.q.weight"].shape == (32, 128, 4096)
    assert graph.parameter["layers.3.attention.k.weight"].shape == (8, 128, 4096)
    outside = [layer.name for layer in graph.layers if not layer.block]
    assert outside == ["embed", "norm", "head", "loss"]


def test_gpt_block() -> None:
    assert leaves(load_model("gpt2-small"), "layers.0") == [
        "attention.norm", "attention.qkv", "attention.attention", "attention.proj", "attention.add",
        "mlp.norm", "mlp.up", "mlp.gelu", "mlp.down", "mlp.add",
    ]  # fmt: skip


def test_bert_block_is_post_norm() -> None:
    assert leaves(load_model("bert-large"), "layers.0") == [
        "attention.qkv", "attention.attention", "attention.proj", "attention.add", "attention.norm",
        "mlp.up", "mlp.gelu", "mlp.down", "mlp.add", "mlp.norm",
    ]  # fmt: skip


def test_attention_splits_by_heads_only() -> None:
    layer = load_model("llama3-8b").layer["layers.0.attention.attention"]
    splittable = {dim.name for dim in layer.dims if dim.splittable}
    assert splittable == {"heads", "kv_heads"}
    assert layer.input_grad.flops == 2 * layer.forward.flops
    assert layer.weight_grad.flops == 0


def test_tied_embedding_is_one_parameter() -> None:
    graph = load_model("gpt2-small")
    users = [layer.name for layer in graph.layers if any(u.name == "embed.weight" for u in layer.parameters)]
    assert users == ["embed", "head"]
    assert not [item for item in graph.parameters if item.name == "head.weight"]


def test_llama_head_is_untied() -> None:
    assert {"embed.weight", "head.weight"} <= set(load_model("llama3-8b").parameter)


def test_experts_cost_only_the_active() -> None:
    graph = load_model("mixtral-8x7b", sequence_length=512)
    layer = graph.layer["layers.0.moe.experts"]
    assert layer.forward.flops == 6 * 512 * 2 * 4096 * 14336
    assert all("experts" in use.dims for use in layer.parameters)
    weights = sum(graph.parameter[use.name].elements for use in layer.parameters)
    assert weights == 8 * 3 * 4096 * 14336


def test_saved_activations_of_a_gpt_block() -> None:
    """Korthikanti et al. 2022, equation 1: 34 sbh + 5 as^2b bytes in 16 bit, less what is not there.

    That is 2 sbh of dropout masks and the attention matrices, which a fused kernel does not keep; it keeps
    one fp32 number per head and token instead.
    """
    graph = load_model("gpt2-small")
    members = [graph.layer[item] for item in graph.blocks["layers.5"]]
    saved = {name for layer in members for name in layer.saves}
    total = sum(graph.tensor[name].bytes_per_sample("bf16") for name in saved)
    assert total == 32 * 1024 * 768 + 4 * 12 * 1024


def test_first_convolution_has_no_input_gradient() -> None:
    first_of = {
        "vgg16": "conv1_1", "resnet50": "conv1", "alexnet": "conv1", "inception-v3": "stem.1.conv",
        "unet-3d": "down.0.conv1",
    }  # fmt: skip
    for name, first in first_of.items():
        layer = load_model(name).layer[first]
        assert layer.input_grad.flops == 0
        assert layer.weight_grad.flops == layer.forward.flops


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequence_length_rebuilds(name: str) -> None:
    short, shorter = load_model(name, sequence_length=256), load_model(name, sequence_length=128)
    assert short.defaults.sequence_length == 256
    assert short.parameter_count == load_model(name).parameter_count
    assert 2 <= short.flops_per_sample / shorter.flops_per_sample < 2.1


@pytest.mark.parametrize("name", OTHERS)
def test_samples_that_are_no_sequences_have_no_length(name: str) -> None:
    with pytest.raises(InputError, match="not sequences"):
        load_model(name, sequence_length=128)


@pytest.mark.parametrize(("name", "limit"), [("gpt2-small", 1024), ("gpt3-175b", 2048), ("bert-48", 512)])
def test_learned_positions_end(name: str, limit: int) -> None:
    assert load_model(name, sequence_length=limit).defaults.sequence_length == limit
    with pytest.raises(InputError, match=f"1 to {limit}"):
        load_model(name, sequence_length=limit + 1)


def test_equal_requests_share_one_graph() -> None:
    assert load_model("vgg16") is load_model("vgg16")


def test_listing_the_zoo_is_light() -> None:
    code = (
        "import sys; from explorer.models import SOURCES, load_model; load_model('gpt2-small');"
        "print(sorted({'torch', 'transformers', 'pydantic'} & set(sys.modules)), len(SOURCES.names()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(" ", 1)[0] == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_epochs_say_where_they_were_read(name: str) -> None:
    stated = load_model(name).defaults
    batches = [batch for batch, _ in stated.epochs]
    assert batches == sorted(set(batches))
    assert all(epochs > 0 for _, epochs in stated.epochs)
    assert bool(stated.epochs) <= bool(stated.epochs_source)
    assert bool(stated.epochs) <= bool(stated.samples_per_epoch)


def test_epochs_grow_with_the_batch_where_several_are_published() -> None:
    for name in ("resnet50", "bert-large", "gnmt-8"):
        points = load_model(name).defaults.epochs
        assert len(points) > 3
        assert points[-1][1] > 1.5 * points[0][1]
    for name in ("inception-v3", "biglstm", "gnmt-16"):
        assert len(load_model(name).defaults.epochs) < 2
        assert "could not be looked up" in load_model(name).defaults.epochs_source or name == "gnmt-16"
