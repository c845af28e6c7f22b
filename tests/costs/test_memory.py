"""Memory by part against the published formulas, and rules that hold for any graph."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.costs.memory import StageMemory, stage_memory
from explorer.graph import Layer, LayerGraph, Parameter, Tensor, Use
from explorer.models import load_model
from explorer.models.builder import GraphBuilder
from explorer.sharding import Override, expert_layout, megatron_layout, shard
from explorer.sharding.layouts import context_layout, ulysses_layout
from explorer.workload import OPTIMIZERS

PLAIN: dict[str, Any] = {
    "precision": "bf16", "optimizer": "adam", "zero": 0, "replicas": 1, "recompute": "none", "training": True,
}  # fmt: skip


def memory(
    graph: LayerGraph,
    layers: tuple[str, ...] = (),
    *,
    tensor: int = 1,
    sequence: bool = False,
    **changes: Any,
) -> StageMemory:
    layers = layers or tuple(layer.name for layer in graph.layers)
    layout = megatron_layout(sequence_parallel=sequence)
    sharded = shard(graph, layers, layout=layout, sizes={"tensor": tensor})
    return stage_memory(graph, layers, sharded, **{**PLAIN, **changes})


@pytest.fixture(scope="module")
def gpt() -> LayerGraph:
    return load_model("gpt2-medium")


def parts(found: StageMemory) -> tuple[float, float, float]:
    return found.weight_bytes, found.gradient_bytes, found.optimizer_bytes


@pytest.mark.parametrize(
    ("changes", "bytes_per_parameter"),
    [
        ({}, (2, 2, 12)),  # Rajbhandari et al., section 3.1
        ({"gradient_precision": "fp32"}, (2, 4, 12)),
        ({"precision": "fp32"}, (4, 4, 8)),
        ({"optimizer": "momentum"}, (2, 2, 8)),
        ({"optimizer": "sgd", "precision": "fp32"}, (4, 4, 0)),
        ({"optimizer": "none"}, (2, 2, 0)),
        ({"precision": "fp64"}, (8, 8, 16)),
        ({"training": False}, (2, 0, 0)),
    ],
)
def test_bytes_per_parameter(gpt: LayerGraph, changes: dict[str, Any], bytes_per_parameter: Any) -> None:
    found = memory(gpt, **changes)
    assert parts(found) == tuple(gpt.parameter_count * count for count in bytes_per_parameter)


@pytest.mark.parametrize("n", [1, 4, 64])
def test_zero_levels(gpt: LayerGraph, n: int) -> None:
    """(2 + 2 + K) Psi; 4 Psi + K Psi / N; 2 Psi + (2 + K) Psi / N; (4 + K) Psi / N with K = 12."""
    psi = gpt.parameter_count
    totals = [sum(parts(memory(gpt, zero=level, replicas=n))) for level in range(4)]
    expected = [16 * psi, 4 * psi + 12 * psi / n, 2 * psi + 14 * psi / n, 16 * psi / n]
    assert totals == pytest.approx(expected)


def test_zero_buffers_hold_whole_blocks(gpt: LayerGraph) -> None:
    """The largest block here is the embedding: gradients of one, and at level 3 weights of two."""
    largest = max(item.elements for item in gpt.parameters)
    buffers = [memory(gpt, zero=level, replicas=4).buffer_bytes for level in range(4)]
    assert buffers == [0, 0, 2 * largest, 6 * largest]
    assert memory(gpt, zero=3).buffer_bytes == 0


@pytest.mark.parametrize("t", [2, 8])
def test_activations_of_a_gpt_block(t: int) -> None:
    """Korthikanti et al. (2022), table 2, with fused attention and no dropout.

    Of s b h (10 + 24/t + 5as/ht) the quadratic part goes, and of the 10 the two masks of dropout; fused
    attention keeps one fp32 number a head and row more. With sequence parallelism all of it is divided by t.
    """
    graph = load_model("gpt3-175b")
    s, h, a = 2048, 12288, 96
    block, statistics = graph.blocks["layers.5"], 4 * a * s
    plain = memory(graph, block, tensor=t)
    assert plain.activation_bytes_per_sample == s * h * (8 + 24 / t) + statistics / t
    split = memory(graph, block, tensor=t, sequence=True)
    assert split.activation_bytes_per_sample == (s * h * 32 + statistics) / t
    full = memory(graph, block, tensor=t, recompute="full")
    assert full.activation_bytes_per_sample == 2 * s * h
    assert full.recompute_peak_bytes_per_sample == s * h * (6 + 24 / t) + statistics / t


def unfused_gpt_block(s: int, h: int, a: int) -> LayerGraph:
    """A block as Korthikanti et al. count it: attention in parts, dropout with masks of one byte."""
    tensors: list[Tensor] = []
    layers: list[Layer] = []

    def tensor(name: str, elements: float, dtype: str = "compute") -> str:
        tensors.append(Tensor(name=name, shape=(elements,), dtype=dtype))
        return name

    def layer(name: str, reads: list[str], writes: list[str], saves: list[str], kind: str = "linear") -> None:
        uses = [tuple(Use(name=item) for item in items) for items in (reads, writes)]
        layers.append(
            Layer(name=name, kind=kind, block="b", reads=uses[0], writes=uses[1], saves=tuple(saves))
        )

    def wide(name: str, times: float = 1) -> str:
        return tensor(name, s * h * times)

    def square(name: str, dtype: str = "compute") -> str:
        return tensor(name, a * s * s, dtype)

    def mask(name: str) -> str:
        return tensor(name, s * h, "int8")

    x = wide("x")
    layer("norm1", [x], [wide("n1")], [x], "norm")
    layer("qkv", ["n1"], [wide("q"), wide("k"), wide("v")], ["n1"])
    layer("scores", ["q", "k"], [square("scores")], ["q", "k"], "attention")
    layer("softmax", ["scores"], [square("chance")], ["chance"], "softmax")
    layer("drop", ["chance"], [square("dropped"), square("m0", "int8")], ["m0"], "attention")
    layer("over", ["dropped", "v"], [wide("o")], ["dropped", "v"], "attention")
    layer("proj", ["o"], [wide("p")], ["o"])
    layer("drop1", ["p", x], [wide("r"), mask("m1")], ["m1"], "elementwise")
    layer("norm2", ["r"], [wide("n2")], ["r"], "norm")
    layer("up", ["n2"], [wide("u", 4)], ["n2"])
    layer("gelu", ["u"], [wide("g", 4)], ["u"], "elementwise")
    layer("down", ["g"], [wide("d")], ["g"])
    layer("drop2", ["d", "r"], [wide("y"), mask("m2")], ["m2"], "elementwise")
    return LayerGraph(name="block", layers=tuple(layers), tensors=tuple(tensors))


@pytest.mark.parametrize(("s", "h", "a"), [(8, 16, 4), (2048, 12288, 96)])
def test_activations_of_an_unfused_block(s: int, h: int, a: int) -> None:
    """s b h (34 + 5 a s / h): selective recompute drops the quadratic part, full all but the input."""
    graph = unfused_gpt_block(s, h, a)
    none, selective, full = (memory(graph, recompute=r) for r in ("none", "selective", "full"))
    assert none.activation_bytes_per_sample == s * h * 34 + 5 * a * s * s
    assert selective.activation_bytes_per_sample == s * h * 34
    assert selective.recompute_peak_bytes_per_sample == 5 * a * s * s
    assert full.activation_bytes_per_sample == s * h * 2
    assert full.recompute_peak_bytes_per_sample == s * h * 32 + 5 * a * s * s


def test_a_tensor_that_two_layers_save_is_kept_once() -> None:
    b = GraphBuilder("three")
    x = b.norm("norm", b.input("x", {"seq": 4, "embed": 8}))
    for name in "qkv":
        b.linear(name, x, {name: 8})
    graph = b.build()
    assert memory(graph, ("q", "k", "v")).activation_bytes_per_sample == 2 * 32
    assert memory(graph).activation_bytes_per_sample == 2 * 2 * 32


def test_a_stage_without_blocks_is_recomputed_as_a_whole() -> None:
    """GPipe: only the stage's input is kept; everything is made again."""
    graph = _chain(6)
    full = memory(graph, ("f2", "f3", "f4"), recompute="full", precision="fp32")
    assert full.activation_bytes_per_sample == 100
    assert full.recompute_peak_bytes_per_sample == 200
    assert memory(graph, ("f2", "f3", "f4"), precision="fp32").activation_bytes_per_sample == 300


def _chain(count: int, *, dtype: str = "byte", density: float = 1.0) -> LayerGraph:
    """Layers f0, f1, ... that save their input of 100 bytes and have a weight of 40."""
    return LayerGraph(
        name="chain",
        layers=tuple(
            Layer(
                name=f"f{i}",
                reads=(Use(name=f"t{i}"),),
                writes=(Use(name=f"t{i + 1}"),),
                parameters=(Use(name=f"w{i}"),),
                saves=(f"t{i}",),
            )
            for i in range(count)
        ),
        tensors=tuple(Tensor(name=f"t{i}", shape=(100,), dtype="byte") for i in range(count + 1)),
        parameters=tuple(
            Parameter(name=f"w{i}", shape=(40,), dtype=dtype, density=density) for i in range(count)
        ),
    )


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("byte", (40, 40, 80)), ("fp32", (160, 160, 320)), ("bf16", (80, 80, 480)), ("compute", (80, 80, 480))],
)
def test_parameters_of_a_type_of_their_own(dtype: str, expected: tuple[float, float, float]) -> None:
    """Known only in bytes: taken as fp32. Narrower than fp32: with a master copy."""
    assert parts(memory(_chain(1, dtype=dtype))) == expected


def test_frozen_and_sparse_parameters() -> None:
    graph = _chain(2, dtype="compute", density=0.25)
    frozen = replace(graph, parameters=(replace(graph.parameters[0], trainable=False), graph.parameters[1]))
    found = memory(frozen)
    assert parts(found) == (160, 20, 480)
    assert found.version_bytes == 80


def test_tied_parameters_are_held_once() -> None:
    graph = load_model("gpt2-small")
    assert memory(graph).weight_bytes == 2 * 124_439_808


def test_slices_scale_what_they_cut() -> None:
    graph = _chain(3)
    found = memory(graph, ("f0", "f1"), fractions={"f1": 0.25})
    assert found.weight_bytes == 40 + 10
    # t1 is written by the whole f0, and kept by the quarter of f1; the larger share counts
    assert found.activation_bytes_per_sample == 200
    assert memory(graph, ("f2",), fractions={"f2": 0.25}).activation_bytes_per_sample == 25


def test_experts_are_replicated_less() -> None:
    """ZeRO divides the experts, of which each device has an eighth, by an eighth of the replicas."""
    graph = load_model("mixtral-8x7b")
    block = graph.blocks["layers.1"]
    override = Override(layers=("*.experts*",), layout=expert_layout(), sizes=(("expert", 8),))
    sharded = shard(graph, block, overrides=(override,))
    experts = sum(p.elements for p in graph.parameters if p.name.startswith("layers.1.moe.experts"))
    others = sum(p.elements for p in graph.parameters if p.name.startswith("layers.1.")) - experts
    found = stage_memory(graph, block, sharded, **{**PLAIN, "zero": 3, "replicas": 16})
    assert sum(parts(found)) == pytest.approx(16 * (experts / 8 / 2 + others / 16))
    plain = stage_memory(graph, block, sharded, **PLAIN)
    assert plain.weight_bytes == 2 * (experts / 8 + others)


def test_buffers_hold_logits_in_fp32() -> None:
    graph = load_model("gpt2-small")
    logits = 1024 * 50257
    found = memory(graph, tuple(layer.name for layer in graph.layers[-2:]))
    assert found.buffer_bytes_per_sample >= 4 * logits + 2 * logits
    assert memory(graph, graph.blocks["layers.1"]).buffer_bytes_per_sample < logits


def test_a_fused_loss_needs_no_fp32() -> None:
    """Cross entropy that writes its gradient over the logits: those once, in the compute type."""
    sizes = {"layers": "1", "embed": "64", "heads": "2", "kv_heads": "2", "ffn": "128", "vocab": "4096"}
    graphs = [
        load_model("llama", sequence_length=128, settings={**sizes, "fused_loss": fused})
        for fused in ("false", "true")
    ]
    apart, fused = (memory(graph, ("head", "loss")) for graph in graphs)
    logits, hidden, targets = 128 * 4096, 128 * 64, 8 * 128
    assert fused.activation_bytes_per_sample == 2 * hidden + targets
    assert apart.activation_bytes_per_sample == 2 * hidden + targets + 4 * logits
    border = 2 * hidden  # the gradient sent back
    # worst at the head, when the targets are freed; else at the loss, with its copy in fp32
    assert fused.buffer_bytes_per_sample == 2 * (logits + hidden) - targets + border
    assert apart.buffer_bytes_per_sample == 2 * logits + 4 * logits + border + 4  # of the scalar


def gated_block(t: int, f: int, h: int, s: int) -> tuple[LayerGraph, StageMemory]:
    sizes = {"layers": "1", "embed": str(h), "heads": "2", "kv_heads": "2", "ffn": str(f), "vocab": "64"}
    graph = load_model("llama", sequence_length=s, settings=sizes)
    return graph, memory(graph, graph.blocks["layers.0"], tensor=t, sequence=t > 1)


@pytest.mark.parametrize(("f", "h"), [(256, 64), (512, 64), (1024, 128)])
def test_the_backward_frees_what_it_needs_no_more(f: int, h: int) -> None:
    """At the product of a gated feed-forward: gradients of gate, up, product and residual, less the product
    that the layer behind saved, freed by then; what is sent on and back comes on top."""
    s = 32
    _, found = gated_block(1, f, h, s)
    assert found.buffer_bytes_per_sample == 2 * s * (3 * f + h - f) + 2 * s * 2 * h


def test_sequence_parallelism_gathers_and_scatters_whole_tensors() -> None:
    """One tensor gathered for a product and one sum before it is scattered: 2 x 2 s h bytes, not split."""
    s, f, h, t = 32, 256, 64, 2
    _, found = gated_block(t, f, h, s)
    split = 2 * s * (3 * f + h - f) / t + 2 * s * 2 * h / t
    assert found.buffer_bytes_per_sample == split + 2 * 2 * s * h


@given(st.integers(1, 6), st.sampled_from([1, 2, 4]))
def test_placeholders_are_one_block_of_products(layers: int, t: int) -> None:
    """Where fp32 gradients are summed in place: one unwritten gradient of each product's weight and shape."""
    h, f, vocab = 64, 256, 512
    sizes = {"layers": layers, "embed": h, "heads": 4, "kv_heads": 4, "ffn": f, "vocab": vocab}
    graph = load_model("llama", sequence_length=8, settings={k: str(v) for k, v in sizes.items()})
    found = memory(graph, tensor=t, gradient_precision="fp32").buffer_bytes
    assert found == 2 * (4 * h * h + 3 * h * f + vocab * h) / t
    assert memory(graph, tensor=t).buffer_bytes == 0  # of the weights' own type: they are the gradients
    sharded = memory(graph, gradient_precision="fp32", zero=2, replicas=2)
    assert sharded.buffer_bytes == 4 * (4 * h * h + 3 * h * f + 2 * h)  # a block before it is scattered


def test_placeholders_of_experts_are_those_of_one() -> None:
    graph = load_model("mixtral-8x7b")
    block, embed, ffn = graph.blocks["layers.1"], 4096, 14336
    found = memory(graph, block, gradient_precision="fp32").buffer_bytes
    attention = sum(graph.parameter[f"layers.1.attention.{name}.weight"].elements for name in "qkvo")
    assert found == 2 * (attention + 3 * embed * ffn)


@given(st.sampled_from([2, 4, 8]), st.integers(1, 4), st.sampled_from([1, 2, 3]))
def test_zero_divides_over_context_ranks_too(context: int, replicas: int, zero: int) -> None:
    """No parameter is split over them, so that they hold equal weights as replicas do."""
    graph = load_model("llama3-8b")
    block = graph.blocks["layers.3"]
    given = {**PLAIN, "zero": zero}
    sharded = shard(graph, block, layout=ulysses_layout(), sizes={"context": context})
    found = stage_memory(graph, block, sharded, **{**given, "replicas": replicas})
    plain = stage_memory(graph, block, shard(graph, block), **{**given, "replicas": replicas * context})
    assert parts(found) == pytest.approx(parts(plain))


def test_zero_divides_norms_over_replicas_only_where_tensor_ranks_split_other_weights(
    gpt: LayerGraph,
) -> None:
    """Megatron shards optimizer states over data-parallel ranks, those of norms like all others."""
    block = gpt.blocks["layers.5"]
    found = memory(gpt, block, tensor=2, sequence=True, zero=1, replicas=4)
    plain = memory(gpt, block, tensor=2, sequence=True)
    assert found.optimizer_bytes == pytest.approx(plain.optimizer_bytes / 4)


def test_an_all_to_all_makes_a_second_copy_where_both_ends_save() -> None:
    """By heads inside the attention, by sequence outside: its output is kept in both forms, for one device in
    `n` twice s h / n; queries, keys and values only as the attention read them."""
    graph = load_model("llama3-8b", sequence_length=1024)
    block, n = graph.blocks["layers.3"], 4
    exchanged = shard(graph, block, layout=ulysses_layout(), sizes={"context": n})
    gathered = shard(graph, block, layout=context_layout(), sizes={"context": n})
    found, other = (stage_memory(graph, block, item, **PLAIN) for item in (exchanged, gathered))
    more = found.activation_bytes_per_sample - other.activation_bytes_per_sample
    assert more == 2 * 1024 * 4096 / n


def test_border_counts_what_is_sent_and_sent_back() -> None:
    graph = _chain(4)
    inner, whole = memory(graph, ("f1", "f2")), memory(graph)
    assert inner.buffer_bytes_per_sample == 200 + 100 + 100  # a layer's gradients, output, input's gradient
    assert whole.buffer_bytes_per_sample == 200


def test_inference_keeps_nothing(gpt: LayerGraph) -> None:
    found = memory(gpt, training=False)
    assert found.activation_bytes_per_sample == found.recompute_peak_bytes_per_sample == 0
    assert found.buffer_bytes_per_sample > 0


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"optimizer": "adan"}, "optimizer"),
        ({"zero": 4}, "zero"),
        ({"recompute": "some"}, "recompute"),
        ({"replicas": 0}, "replicas"),
    ],
)
def test_wrong_choices_are_named(gpt: LayerGraph, changes: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as caught:
        memory(gpt, **changes)
    assert caught.value.key == key


def test_saving_an_unknown_tensor_is_an_error() -> None:
    graph = LayerGraph(name="g", layers=(Layer(name="f", saves=("nothing",)),))
    with pytest.raises(InputError, match="saves unknown tensor 'nothing'"):
        memory(graph)


LEVELS = st.integers(0, 3)
CUTS = st.tuples(st.integers(0, 240), st.integers(1, 60))


@given(CUTS, LEVELS, st.integers(1, 64), st.sampled_from(sorted(OPTIMIZERS)), st.sampled_from([1, 2, 4]))
def test_more_sharding_never_needs_more_state(
    cut: tuple[int, int], level: int, replicas: int, optimizer: str, tensor: int
) -> None:
    graph = load_model("gpt2-medium")
    names = tuple(layer.name for layer in graph.layers)[cut[0] : sum(cut)] or ("loss",)
    layers = tuple(name for name in names if name in graph.layer) or (graph.layers[0].name,)
    base = memory(graph, layers, tensor=tensor, zero=level, replicas=replicas, optimizer=optimizer)
    changes = (
        {"zero": min(3, level + 1)},
        {"replicas": replicas + 1},
        {"tensor": 2 * tensor},
    )
    for change in changes:
        given = {"tensor": tensor, "zero": level, "replicas": replicas, "optimizer": optimizer, **change}
        other = memory(graph, layers, **given)
        assert sum(parts(other)) <= sum(parts(base)) * (1 + 1e-12)
        assert other.activation_bytes_per_sample <= base.activation_bytes_per_sample


@given(st.integers(1, 240), st.sampled_from(["none", "selective", "full"]))
def test_recompute_only_saves(cut: int, recompute: str) -> None:
    graph = load_model("gpt2-medium")
    layers = tuple(layer.name for layer in graph.layers[:cut])
    none, other = memory(graph, layers), memory(graph, layers, recompute=recompute)
    assert other.activation_bytes_per_sample <= none.activation_bytes_per_sample
    peak = other.activation_bytes_per_sample + other.recompute_peak_bytes_per_sample
    assert peak <= none.activation_bytes_per_sample * 2
    assert parts(other) == parts(none)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 240), min_size=1, max_size=5, unique=True))
def test_stages_hold_together_what_the_model_holds(cuts: list[int]) -> None:
    """Parameters add up, tied ones once in every stage that uses them; activations at least as much."""
    graph = load_model("bert-large")
    names = tuple(layer.name for layer in graph.layers)
    edges = [0, *sorted(cuts), len(names)]
    stages = [names[a:b] for a, b in itertools.pairwise(edges) if a < b]
    held = [memory(graph, stage) for stage in stages]
    whole = memory(graph)
    users = {
        p.name: sum(any(u.name == p.name for n in s for u in graph.layer[n].parameters) for s in stages)
        for p in graph.parameters
    }
    again = sum(2 * p.elements * (users[p.name] - 1) for p in graph.parameters)
    assert sum(item.weight_bytes for item in held) == whole.weight_bytes + again
    assert sum(item.activation_bytes_per_sample for item in held) >= whole.activation_bytes_per_sample
