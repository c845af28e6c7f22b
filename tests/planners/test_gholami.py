"""Gholami et al.'s closed forms by hand, the best way of every layer, and layers that follow."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models.builder import GraphBuilder
from explorer.planners.gholami import (
    BATCH,
    DOMAIN,
    MODEL,
    Links,
    Way,
    Weighted,
    best_way,
    followed,
    seconds,
    ways_of,
    weighted,
)
from explorer.search import Problem, search
from explorer.workload import Job, Workload

BETA = Links(latency_s=0.0, element_s=1.0)


def test_closed_forms_by_hand() -> None:
    """|W| = 48, d_in = 5, d_out = 7, halos of 2 and 3, B = 8, P = 4; alpha of 10 twice for a ring of 4."""
    layer = Weighted(48.0, 5.0, 7.0, ("out", 9.0), ("height", 6.0), (2.0, 3.0))
    alpha = Links(latency_s=10.0, element_s=1.0)

    def cost(way: Way, links: Links, times: int = 1) -> float:
        return seconds(layer, way, 4, 8, times, links)

    assert cost(Way(BATCH, 1), BETA) == 2 * 48 * 3 / 4
    assert cost(Way(BATCH, 1), alpha) == 2 * (20 + 48 * 3 / 4)
    assert cost(Way(MODEL, 4, "out"), BETA) == 3 / 4 * 8 * 7 + 2 * 3 / 4 * 8 * 5
    assert cost(Way(MODEL, 4, "out"), alpha) == 3 * 20 + 3 / 4 * 8 * 7 + 2 * 3 / 4 * 8 * 5
    grid = 1 / 2 * 4 * 7 + 2 * 1 / 2 * 4 * 5 + 2 * 1 / 2 * 48 / 2
    assert cost(Way(MODEL, 2, "out"), BETA) == grid
    assert cost(Way(DOMAIN, 2, "height"), BETA) == 4 * 2 + 4 * 3 + 2 * 48 * 3 / 4
    assert cost(Way(DOMAIN, 2, "height"), alpha) == 2 * 10 + 4 * 5 + 2 * (20 + 36)
    # microbatches send as many bytes of activations, in more messages, and reduce once
    assert cost(Way(MODEL, 2, "out"), BETA, times=2) == grid
    assert cost(Way(MODEL, 2, "out"), alpha, times=2) == grid + 2 * 3 * 10 + 2 * 10
    first = layer._replace(read=0.0)
    assert seconds(first, Way(MODEL, 4, "out"), 4, 8, 1, alpha) == 20 + 3 / 4 * 8 * 7


@pytest.mark.parametrize("seed", range(3))
def test_no_combination_of_ways_takes_fewer_transfers(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        count, batch = draw.choice([2, 4, 6, 8]), draw.choice([2, 8, 24])
        links = Links(draw.choice([0.0, 5.0]), 1.0)
        layers = [
            Weighted(
                float(draw.randint(1, 400)), draw.choice([0.0, float(draw.randint(1, 60))]),
                float(draw.randint(1, 60)), draw.choice([("", 1.0), ("out", float(draw.randint(1, 9)))]),
                draw.choice([("", 1.0), ("height", float(draw.randint(1, 9)))]),
                draw.choice([(0.0, 0.0), (1.0, 2.0), (9.0, 9.0)]),
            )
            for _ in range(draw.randint(1, 4))
        ]  # fmt: skip
        rows = [k for k in range(1, count + 1) if count % k == 0]
        every = [ways_of(layer, count, batch, rows) for layer in layers]
        totals = [
            sum(seconds(a, w, count, batch, 1, links) for a, w in zip(layers, ways, strict=True))
            for ways in itertools.product(*every)
        ]
        if not totals:  # a layer that no grid divides: all devices do the same
            empty = next(a for a, ways in zip(layers, every, strict=True) if not ways)
            assert best_way(empty, count, batch, batch, links, rows) == Way(MODEL, count)
            continue
        found = [best_way(layer, count, batch, batch, links, rows) for layer in layers]
        total = sum(seconds(a, w, count, batch, 1, links) for a, w in zip(layers, found, strict=True))
        assert total == pytest.approx(min(totals), rel=1e-12)


def test_ways_leave_whole_samples_and_something_to_split() -> None:
    layer = Weighted(48.0, 5.0, 7.0, ("out", 3.0), ("height", 6.0), (2.0, 3.0))
    found = ways_of(layer, 8, 4, [1, 2, 4, 8])
    assert found == [Way(DOMAIN, 2, "height"), Way(MODEL, 2, "out"), Way(DOMAIN, 4, "height")]
    assert ways_of(layer._replace(height=("", 1.0), outputs=("", 1.0)), 8, 8, [1, 2]) == [Way(BATCH, 1)]


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Two convolutions with few weights, two fully connected layers with many, as AlexNet ends."""
    b = GraphBuilder("small-alexnet")
    x = b.input("image", {"channels": 3, "height": 64, "width": 64})
    x = b.activation("relu1", b.conv2d("conv1", x, 32, 5, padding=2))
    x = b.activation("relu2", b.conv2d("conv2", x, 32, 3, padding=1))
    x = b.linear("fc1", x, {"hidden": 512}, over=("channels", "height", "width"))
    x = b.activation("relu3", x)
    x = b.linear("fc2", x, {"classes": 1024}, over=("hidden",))
    b.activation("end", x)
    job = Job(global_batch=16, precision="fp32", optimizer="sgd")
    return Problem(
        graph=b.build(), cluster=load_cluster("dgx-1-v100"), workload=Workload(jobs=(job,)), max_devices=4
    )


def test_layers_are_seen_by_their_shapes(problem: Problem) -> None:
    graph = problem.graph
    layers = {layer.name: weighted(graph, layer) for layer in graph.layers}
    assert layers["relu1"] is None
    first, second, dense = layers["conv1"], layers["conv2"], layers["fc1"]
    assert first is not None
    assert second is not None
    assert dense is not None
    assert second.weights == 32 * 32 * 9
    assert (second.read, second.written) == (32 * 64 * 64, 32 * 64 * 64)
    assert second.height == ("height", 64.0)
    assert second.halo == (32 * 64, 32 * 64)  # one row above and below
    assert first.halo == (2 * 3 * 64, 2 * 32 * 64)
    assert dense.outputs == ("hidden", 512.0)
    assert dense.height == ("", 1.0)


def test_convolutions_share_samples_and_dense_layers_split_weights(problem: Problem) -> None:
    new = [item.new for item in search(problem, "gholami") if item.new]
    best = new[0]  # grids by layer
    ways = {
        name: (dict(item.meshes[0].axes), item.layout)
        for item in best.strategy.job.stages[0].shardings
        for name in item.layers
    }
    assert ways["conv2"] == ways["relu2"] == ({"replica": 4, "grid": 1}, ())
    assert ways["fc1"][1] == ways["relu3"][1] == (("hidden", "grid"),)
    assert len(new) == 4  # by layer, and three grids of four devices
    # beyond one sample a device there is no batch parallelism: images are cut
    few = replace(problem, workload=problem.workload.with_job(global_batch=2))
    best = next(item.new for item in search(few, "gholami") if item.new)
    cut = {name for item in best.strategy.job.stages[0].shardings for name in item.layers if item.layout}
    assert {"conv2", "fc1"} <= cut
    layouts = {item.layout for item in best.strategy.job.stages[0].shardings if "conv2" in item.layers}
    assert layouts == {(("height", "grid"),)}


def test_layers_without_weights_go_as_what_they_read(problem: Problem) -> None:
    ways = {"conv2": Way(BATCH, 1), "fc1": Way(MODEL, 2, "hidden")}
    found = followed(problem.graph, ways, Way(MODEL, 4))
    assert found["relu2"] == found["conv1"] == found["relu1"] == Way(BATCH, 1)
    assert found["relu3"] == found["fc2"] == Way(MODEL, 2, "hidden")
    assert set(followed(problem.graph, {}, Way(MODEL, 4)).values()) == {Way(MODEL, 4)}
