"""PipeDream profiles: every line understood or refused by its number; the optimizer's dropping rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.models.pipedream import read, without_unused


def node(name: str, what: str = "Linear(2, 2)", forward: object = 1.0, **given: object) -> str:
    values = {"backward": 2.0, "activation": 8.0, "parameters": 16.0, **given}
    return (
        f"{name} -- {what} -- forward_compute_time={forward}, backward_compute_time={values['backward']}, "
        f"activation_size={values['activation']}, parameter_size={values['parameters']}"
    )


def edge(source: str, target: str) -> str:
    return f"\t{source} -- {target}"


def profile(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def test_units_and_halves() -> None:
    graph = read(profile(node("node1", forward=3.0, backward=8.0)), settings={"samples_per_microbatch": 4})
    (layer,) = graph.layers
    (measured,) = layer.measured
    assert (measured.forward_s, measured.input_grad_s, measured.weight_grad_s) == (0.003, 0.004, 0.004)
    assert measured.halves
    assert measured.batch == 4
    assert graph.tensors[0].bytes_per_sample("bf16") == 2.0
    assert graph.parameter_count == 4
    assert graph.parameters[0].dtype == "fp32"
    assert layer.saves == ("node1",)


def test_list_of_activations_counts_its_sum() -> None:
    graph = read(profile(node("node1", activation="[1.0; 2.0; 3.5]")))
    assert graph.tensors[0].shape == (6.5,)


def test_description_with_commas_and_dashes() -> None:
    what = "Conv2d(3, 64, kernel_size=(3, 3)) -- (cell): X(a=1, b=2)"
    assert read(profile(node("node1", what))).layers[0].kind == "conv"


def test_stage_numbers_of_an_optimised_profile_are_ignored() -> None:
    assert read(profile(node("node1") + " -- stage_id=3")).layers[0].name == "node1"


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("BatchNorm2d(64)", "norm"), ("ReLU(inplace)", "elementwise"), ("Input0", "input"),
        ("MaxPool2d(k=2)", "pool"), ("LSTM(1, 2)", "recurrent"), ("__getitem__(0)", "getitem"),
        ("hidden", "other"), ("(strange)", "other"),
    ],
)  # fmt: skip
def test_kinds(what: str, kind: str) -> None:
    assert read(profile(node("node1", what)), settings={"inputs": "keep"}).layers[0].kind == kind


@given(st.permutations(range(6)))
def test_nodes_may_stand_in_any_order(order: list[int]) -> None:
    lines = [node(f"node{i}") for i in order] + [edge(f"node{i}", f"node{i + 1}") for i in range(5)]
    assert [layer.name for layer in read(profile(*lines)).layers] == [f"node{i}" for i in range(6)]


def test_optimizer_drops_inputs_and_unread_parts_once() -> None:
    text = profile(
        node("node1", "Input", forward=9.0),
        node("node2"),
        node("node3", "__getitem__(0)"),
        node("node4", "__getitem__(1)"),
        node("node5", "__getitem__(0)"),
        edge("node1", "node2"), edge("node2", "node3"), edge("node2", "node4"), edge("node4", "node5"),
    )  # fmt: skip
    graph = without_unused(read(text, settings={"inputs": "keep"}))
    assert [layer.name for layer in graph.layers] == ["node2", "node4"]
    assert graph.layers[0].reads == ()
    assert set(graph.tensor) == {"node2", "node4"}
    assert read(text) == graph  # data loading is no compute


@pytest.mark.parametrize(
    ("lines", "key", "words"),
    [
        ([node("node1"), node("node1")], "line 2", "twice"),
        ([node("node1"), "garbage"], "line 2", "no node"),
        ([node("node1"), "\tnode1 node1"], "line 2", "no edge"),
        ([node("node1"), "", edge("node1", "node9")], "line 3", "unknown node 'node9'"),
        ([node("node1", forward="fast")], "line 1", "forward_compute_time is 'fast'"),
        ([node("node1", forward=-1)], "line 1", "forward_compute_time is '-1'"),
        ([node("node1", backward="nan")], "line 1", "backward_compute_time"),
        ([node("node1", activation="[1.0; x]")], "line 1", "activation_size is 'x'"),
        ([node("node1", parameters="1e999")], "line 1", "parameter_size"),
        ([node("node1"), node("node2"), edge("node1", "node2"), edge("node2", "node1")], "edges", "cycle"),
        ([edge("node1", "node2")], "line 1", "unknown node"),
        ([], "layers", "at least one layer"),
    ],
)
def test_wrong_lines_are_named(lines: list[str], key: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(profile(*lines), file="a.graph.txt")
    assert (caught.value.file, caught.value.key) == ("a.graph.txt", key)
    assert words in str(caught.value)


def test_cycle_is_spelt_out() -> None:
    lines = [node(f"node{i}") for i in range(4)]
    edges = [edge("node0", "node1"), edge("node1", "node2"), edge("node2", "node1"), edge("node2", "node3")]
    with pytest.raises(InputError, match="node1 -> node2 -> node1"):
        read(profile(*lines, *edges))
