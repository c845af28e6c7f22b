"""BaPipe: every cut of small lines of units, its formulas beside simulated schedules, layers cut in two."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.library._ideal import Ideal, free_cluster
from explorer.library.bapipe import three_layers
from explorer.models import load_model
from explorer.planners._pieces.cut_line import CutLine, Place, cut_line, least_bottleneck
from explorer.planners.bapipe import cuttable, kept, step_s
from explorer.schedules.bapipe import NO_OVERLAP, OVERLAPPED, VARIANTS
from explorer.search import Problem, search
from explorer.search.evaluator import Candidate
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import Job, Workload, default_workload
from tests.planners.test_edgepipe import crossing, random_line


def random_units(draw: random.Random, kinds: int) -> CutLine:
    """A line of up to 4 nodes, of which some have 2 or 3 units, and some are refused by a kind."""
    work = random_line(draw, kinds, most=4)
    seconds = work.seconds.copy()
    if draw.random() < 0.3:
        seconds[draw.randrange(kinds), draw.randrange(work.count)] = np.inf
    parts = [draw.choice([1, 1, 2, 3]) for _ in range(work.count)]
    saved = np.array([float(draw.randint(0, 2)) for _ in range(work.count)])
    return cut_line(replace(work, seconds=seconds), saved, parts)


def brute_force(line: CutLine, places: list[Place], link_s: np.ndarray) -> float:
    """Every choice of places in their order, every cut."""
    best, k = math.inf, line.count
    for length in range(1, len(places) + 1):
        for chosen in itertools.combinations(places, length):
            for inner in itertools.combinations(range(1, k), length - 1):
                value = max((float(link_s[cut]) for cut in inner), default=0.0)
                for (kind, room, kept_there), (a, b) in zip(
                    chosen, itertools.pairwise((0, *inner, k)), strict=True
                ):
                    held = (line.held_bytes + kept_there * line.saved_bytes)[[a, b]]
                    if held[1] - held[0] > room or line.refused[kind, a] < b:
                        value = math.inf
                    value = max(value, line.seconds[kind, b] - line.seconds[kind, a])
                best = min(best, value)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_no_cut_is_better(seed: int) -> None:
    draw = random.Random(seed)
    ended = 0
    for _ in range(60):
        kinds = draw.choice([1, 2])
        line = random_units(draw, kinds)
        places = [
            Place(draw.randrange(kinds), draw.choice([math.inf, 12.0, 7.0]), draw.randint(0, 3))
            for _ in range(draw.randint(1, 3))
        ]
        link_s = line.sent_bytes * draw.choice([0.0, 0.3, 1.0, 3.0])
        least = brute_force(line, places, link_s)
        found = least_bottleneck(line, places, link_s)
        assert (found.seconds if found else math.inf) == pytest.approx(least, rel=1e-9, abs=1e-12)
        if found is not None:
            ended += 1
            ends = [0, *(run.stop for run in found.runs)]
            assert [run.start for run in found.runs] == ends[:-1]
            assert ends[-1] == line.count
            numbers = [run.place for run in found.runs]
            assert numbers == sorted(set(numbers))
    assert ended > 30


def test_units_share_their_node_and_what_it_sends() -> None:
    """A node of four units in the middle: all of its inputs cross every cut, of its outputs what is made."""
    work = random_line(random.Random(5), 1, most=1)
    line3 = replace(
        work,
        members=((0,), (1,), (2,)), above=(0, 1, 3), seconds=np.array([[1.0, 4.0, 1.0]]),
        held_bytes=np.array([1.0, 8.0, 1.0]), reduced_bytes=np.zeros(3), producer=np.array([0, 1]),
        readers=((1,), (2,)), transfer_s=np.array([3.0, 2.0]),
    )  # fmt: skip
    line = cut_line(line3, np.array([0.0, 4.0, 0.0]), [1, 4, 1])
    assert line.first.tolist() == [0, 1, 5, 6]
    assert line.seconds[0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert line.held_bytes.tolist() == [0, 1, 3, 5, 7, 9, 10]
    assert line.saved_bytes.tolist() == [0, 0, 1, 2, 3, 4, 4]
    assert line.sent_bytes.tolist() == [0, 3, 3.5, 4, 4.5, crossing(line3, 2), 0]
    assert line.nodes(0, 3) == [(0, 0, 1), (1, 0, 2)]
    assert line.nodes(3, 6) == [(1, 2, 4), (2, 0, 1)]
    assert line.nodes(2, 4) == [(1, 1, 3)]
    assert line.nodes(1, 5) == [(1, 0, 4)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_its_formulas_are_those_of_the_schedule(variant: str) -> None:
    p, m, x = 4, 8, 0.5 if variant in (OVERLAPPED, NO_OVERLAP) else 0.0
    ideal = Ideal(p=p, m=m, schedule="bapipe", transfer_s=x, options={"variant": variant})
    gained = x if variant == NO_OVERLAP else 0.0  # two neighbours send to each other once more than it says
    assert ideal.report().makespan_s == pytest.approx(step_s(variant, 3.0, x, p, m) - gained, rel=1e-9)
    assert [ideal.activations(s) for s in range(p)] == [kept(variant, p - s) for s in range(p)]


def best_of(problem: Problem, **options: str) -> Candidate:
    found = list(search(problem, "bapipe", options=options))[-1].best
    assert found is not None
    return found


def on_two(graph: LayerGraph) -> Problem:
    workload = Workload(jobs=(Job(global_batch=8, precision="fp32", optimizer="none"),))
    return Problem(graph=graph, cluster=free_cluster(2), workload=workload)


def test_a_layer_between_two_equal_ones_is_halved() -> None:
    """Three layers of 3 s on two devices, m = 8: (m + 1) 4.5 s with half a layer each; 6 m without."""
    problem = on_two(three_layers())
    halved = best_of(problem)
    assert halved.value == pytest.approx(9 * 4.5)
    assert [[(part.start, part.stop) for part in s.slices] for s in halved.strategy.job.stages] == [
        [(0.0, 0.5)], [(0.5, 1.0)],
    ]  # fmt: skip
    assert "2 parts of layers" in halved.label
    whole = best_of(problem, fractional="false")
    assert whole.value == pytest.approx(6 * 8)  # from step to step the slower device never waits
    assert "whole layers" in whole.label


def test_layers_are_cut_along_outputs_and_blocks_stay_whole() -> None:
    graph = load_model("vgg16")
    cuts = {layer.name: cuttable(graph, (i,)) for i, layer in enumerate(graph.layers)}
    assert cuts["fc6"] == ("ffn", 4096)
    assert cuts["conv1_1"] is not None
    assert cuts["conv1_1"][1] == 64
    assert cuts["relu6"] is None
    assert cuttable(graph, (0, 1)) is None
    blocks = Problem(
        graph=load_model("gpt2-small"), cluster=load_cluster("dgx-1-v100"), max_devices=4,
        workload=Workload(jobs=(Job(global_batch=16, precision="fp16", optimizer="adam"),)),
    )  # fmt: skip
    found = [item.new for item in search(blocks, "bapipe") if item.new is not None]
    assert found
    for item in found:
        cut = {part.layer for stage in item.strategy.job.stages for part in stage.slices}
        assert not any(blocks.graph.layer[name].block for name in cut)


def vgg(devices: int, cluster: str = "dgx-1-v100") -> Problem:
    graph = load_model("vgg16")
    workload = default_workload(graph).with_job(global_batch=64)
    return Problem(graph=graph, cluster=load_cluster(cluster), workload=workload, max_devices=devices)


@pytest.mark.parametrize("cluster", ["dgx-1-v100", "ethernet-10g-4x4"])
def test_it_is_never_worse_than_even_stages(cluster: str) -> None:
    problem = vgg(4, cluster)
    best = best_of(problem)
    for size in (1, 2, 4, 8, 16):
        even = uniform(
            problem.graph, problem.needed_cluster, problem.job, stages=4, microbatch_size=size,
            schedule="bapipe",
        )  # fmt: skip
        report = simulate(problem.graph, problem.needed_cluster, problem.workload, even)
        assert not report.feasible or best.value <= report.step_time_s


def test_what_fits_no_more_is_recomputed_or_refused() -> None:
    """Four fifths of the memory of the best plan: less is kept, and the limit holds."""
    free = best_of(vgg(4))
    limit = 0.8 * max(free.report.peak_memory_bytes)
    tight = list(search(replace(vgg(4), memory_limit_bytes=limit), "bapipe"))[-1].best
    assert tight is not None
    assert max(tight.report.peak_memory_bytes) <= limit
    assert tight.value > free.value


def test_a_slower_device_gets_less() -> None:
    """Two kinds, one three times as slow: 9 equal nodes are dealt out 7 to 2 in seconds 7 and 6."""
    work = random_line(random.Random(1), 1, most=1)
    nodes = replace(
        work, members=tuple((v,) for v in range(9)), above=tuple((1 << v) - 1 for v in range(9)),
        seconds=np.array([[1.0] * 9, [3.0] * 9]), held_bytes=np.zeros(9), reduced_bytes=np.zeros(9),
        producer=np.zeros(0, dtype=np.int64), readers=(), transfer_s=np.zeros(0),
    )  # fmt: skip
    line = cut_line(nodes, np.zeros(9), [1] * 9)
    found = least_bottleneck(line, [Place(0, math.inf, 1), Place(1, math.inf, 1)], np.zeros(10))
    assert found is not None
    assert found.seconds == 7.0
    assert [(run.start, run.stop) for run in found.runs] == [(0, 7), (7, 9)]
