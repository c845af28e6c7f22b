"""Names and words: the same thing is called alike everywhere, and numbers read as what they are."""

from __future__ import annotations

import re

import pytest

import explorer
from explorer.explain.changes import doubles, halves, quarters
from explorer.explain.names import block_name, block_words, one_list
from explorer.explain.questions import Asked
from explorer.graph import LayerGraph
from explorer.models import pipedream
from explorer.views.blocks import _labels, block_ranges
from explorer.views.graph_tree import module_tree

SIZES = "forward_compute_time=1.0, backward_compute_time=2.0, activation_size=8.0, parameter_size=4.0"
PROFILE = pipedream.read(
    f"node1 -- Conv2d(3, 8) -- {SIZES}\nnode15 -- Conv2d(8, 8) -- {SIZES}\nnode16 -- ReLU() -- {SIZES}\n"
    "\tnode1 -- node15\n\tnode15 -- node16\n"
)  # fmt: skip


@pytest.mark.parametrize("graph", [PROFILE, *map(explorer.load_model, ("unet-3d", "gpt2-small"))])
def test_what_is_numbered_is_called_alike_on_the_board_in_the_graph_and_in_sentences(
    graph: LayerGraph,
) -> None:
    tree, ranges = module_tree(graph), block_ranges(graph)
    labels = _labels(graph, ranges)
    assert len(set(labels)) == len(labels)
    seen = 0
    for label, (key, first, _) in zip(labels, ranges, strict=True):
        layer = graph.layers[first]
        part = tree.part.get(tree.alias.get(key, key))
        if part is None or not re.search(r"\d+$", key):
            continue
        board = block_words(graph, key) if layer.block else label
        assert board == part.label == block_name(graph, layer.name)
        seen += 1
    assert seen, "the model has something numbered"


def test_a_number_says_which_block_only_where_all_count_on_in_one_list() -> None:
    gpt, unet = explorer.load_model("gpt2-small"), explorer.load_model("unet-3d")
    assert one_list(gpt)
    assert block_words(gpt, "layers.7") == "block 7"
    assert not one_list(unet)
    assert block_words(unet, "down.3") == "down 3"


def test_half_the_size_is_said_with_twice_the_number() -> None:
    graph = explorer.load_model("gpt2-small")
    cluster = explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=32)
    strategy = explorer.uniform(graph, cluster, workload.job, stages=4, replicas=2, microbatch_size=4)
    report = explorer.simulate(graph, cluster, workload, strategy)
    asked = Asked(graph=graph, cluster=cluster, workload=workload, strategy=strategy, report=report)
    said = [label for make in (halves, quarters, doubles) for label, _ in make(asked)]
    assert said == [
        "use microbatch size 2 instead of 4 (8 microbatches)",
        "use microbatch size 1 instead of 4 (16 microbatches)",
        "use microbatch size 8 instead of 4 (2 microbatches)",
        "use microbatch size 16 instead of 4 (1 microbatch)",
    ]
    for make in (halves, quarters, doubles):
        for label, change in make(asked):
            size = int(re.findall(r"\d+", label)[0])
            assert {stage.microbatch_samples for stage in change().job.stages} == {2 * size}
