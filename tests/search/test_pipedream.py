"""PipeDream's planner: what its published optimizer printed, brute force on chains, and its parts apart."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.models.pipedream import read
from explorer.search import Problem, Progress, search
from explorer.search._antichains import MinibatchCosts, States, bits, find_states, mask
from explorer.search._pipedream_bisection import plan_threshold
from explorer.search._pipedream_program import Choice, PlanLevel, plan_dense
from explorer.workload import default_workload

BANDWIDTH = 1e9


def last(items: Iterator[Any]) -> Any:
    """What a generator ends with."""
    found = None
    for item in items:
        found = item if item is not None else found
    assert found is not None
    return found


def run(graph: LayerGraph, **options: str) -> Progress:
    problem = Problem(graph=graph, cluster=None, workload=default_workload(graph))
    return last(search(problem, "pipedream", options={"cost_model": "original", **options}))


# ---- against the published optimizer ------------------------------------------------------------


@pytest.mark.reference
def test_agrees_with_every_published_run(reference_dir: Path) -> None:
    folder = reference_dir / "pipedream"
    runs = [r for r in json.loads((folder / "expected.json").read_text())["runs"] if "pipeline_time_s" in r]
    assert len(runs) > 50
    wrong = []
    for expected in runs:
        name = expected["profile"]
        file = folder / f"{name.removesuffix('_compressed')}.graph.txt"
        if not file.exists():
            continue
        found = run(
            load_model(str(file)),
            devices=",".join(map(str, expected["n"])),
            bandwidth_bytes_per_s=",".join(map(str, expected["bandwidth_Bps"])),
            transfers="counted" if "--activation_compression_ratio" in expected["flags"] else "free",
            straight=str("--straight_pipeline" in expected["flags"]),
            branches="compress" if name.endswith("_compressed") else "keep",
        )
        assert found.optimal
        assert found.lower_bound == found.foreign_value
        same = found.foreign_value == pytest.approx(expected["pipeline_time_s"], rel=1e-9)
        for key in ("states", "single_worker_time_s", "dp_speedup_vs_1", "speedup_vs_dp"):
            same = same and found.details[key] == pytest.approx(expected[key], rel=1e-9)
        if not same:
            wrong.append((name, expected["n"], expected["flags"], found.foreign_value))
    assert wrong == []


# ---- brute force --------------------------------------------------------------------------------


def chain(nodes: Sequence[tuple[float, float, float]]) -> LayerGraph:
    """A profile of a chain: (milliseconds, activation bytes, parameter bytes) per node."""
    lines = [
        f"node{i} -- Linear({i}) -- forward_compute_time={t}, backward_compute_time={2 * t}, "
        f"activation_size={a}, parameter_size={p}"
        for i, (t, a, p) in enumerate(nodes)
    ]
    lines += [f"\tnode{i} -- node{i + 1}" for i in range(len(nodes) - 1)]
    return read("\n".join(lines))


def brute_force(nodes: Sequence[tuple[float, float, float]], machines: int, *, counted: bool) -> float:
    """Least seconds per minibatch over all cuts of a chain and all counts of machines that add up."""
    best = math.inf
    positions = range(1, len(nodes))
    for stages in range(1, min(machines, len(nodes)) + 1):
        for cuts in itertools.combinations(positions, stages - 1):
            parts = list(zip((0, *cuts), (*cuts, len(nodes)), strict=True))
            for used in itertools.product(range(1, machines + 1), repeat=stages):
                if sum(used) == machines:
                    slowest = max(
                        _stage_s(nodes, a, b, m, counted=counted)
                        for (a, b), m in zip(parts, used, strict=True)
                    )
                    best = min(best, slowest)
    return best


def _stage_s(
    nodes: Sequence[tuple[float, float, float]], a: int, b: int, machines: int, *, counted: bool
) -> float:
    compute = sum(3e-3 * t for t, _, _ in nodes[a:b])
    weights = sum(p for _, _, p in nodes[a:b])
    found = (compute + 4 * (machines - 1) * weights / (BANDWIDTH * machines)) / machines
    if counted and a:
        received = 2 * nodes[a - 1][1] / (BANDWIDTH * machines)
        sent = 2 * nodes[b - 1][1] / (BANDWIDTH * machines) if b < len(nodes) else 0.0
        found = max(found, received, sent)
    return found


NODES = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 40_000_000), st.integers(0, 40_000_000)),
    min_size=1,
    max_size=6,
)


@given(nodes=NODES, machines=st.integers(1, 4), counted=st.booleans())
def test_is_the_optimum_of_a_chain(
    nodes: list[tuple[float, float, float]], machines: int, counted: bool
) -> None:
    found = run(
        chain(nodes),
        devices=str(machines),
        bandwidth_bytes_per_s=str(BANDWIDTH),
        transfers="counted" if counted else "free",
    )
    assert found.foreign_value == pytest.approx(brute_force(nodes, machines, counted=counted), rel=1e-12)


# ---- its parts ----------------------------------------------------------------------------------


@st.composite
def costs(draw: st.DrawFn) -> MinibatchCosts:
    """Random DAGs of up to nine layers, each reading some earlier one (or nothing)."""
    count = draw(st.integers(1, 9))
    readers: list[set[int]] = [set() for _ in range(count)]
    for layer in range(1, count):
        for source in draw(st.sets(st.integers(0, layer - 1), max_size=3)):
            readers[source].add(layer)
    numbers = st.lists(st.integers(0, 100), min_size=count, max_size=count)
    return MinibatchCosts(
        seconds=tuple(draw(numbers)),
        parameter_bytes=tuple(draw(numbers)),
        activation_bytes=tuple(draw(numbers)),
        readers=tuple(tuple(sorted(items)) for items in readers),
    )


def naive_states(model: MinibatchCosts) -> dict[int, tuple[float, float]]:
    """Every state, found one move at a time, with its seconds and output bytes."""
    count = len(model.readers)
    above = [0] * count
    for layer in range(count):
        for target in model.readers[layer]:
            above[target] |= above[layer] | 1 << layer
    found, queue = {1}, [1]
    while queue:
        state = queue.pop()
        for layer in {r for item in bits(state) for r in model.readers[item] if not state >> r & 1}:
            after = state | above[layer] | 1 << layer
            if after not in found:
                found.add(after)
                queue.append(after)
    result = {}
    for state in found:
        tops = [v for v in bits(state) if not any(above[w] >> v & 1 for w in bits(state))]
        open_layers = set(tops)
        for top in tops:
            own = above[top] | 1 << top
            open_layers |= {v for v in bits(above[top]) if any(not own >> r & 1 for r in model.readers[v])}
        output = sum(model.activation_bytes[v] for v in open_layers)
        result[state] = (float(sum(model.seconds[v] for v in bits(state))), float(output))
    return result


@given(model=costs())
def test_states_are_those_of_the_definition(model: MinibatchCosts) -> None:
    states: States = last(find_states(model))
    expected = naive_states(model)
    found = {
        states.layers(i): (float(states.seconds[i]), float(states.output_bytes[i]))
        for i in range(states.count)
    }
    assert len(found) == states.count
    assert found == expected
    for j in range(states.count):
        inside = [states.layers(i) & ~states.layers(j) == 0 and i != j for i in range(states.count)]
        assert states.within(j).tolist() == inside
        assert not states.within(j)[j:].any()  # predecessors come first
    for source, target in states.edges.tolist():
        assert states.within(target)[source]


@given(model=costs(), machines=st.integers(1, 4), counted=st.booleans(), straight=st.booleans())
def test_bisection_equals_the_tables(
    model: MinibatchCosts, machines: int, counted: bool, straight: bool
) -> None:
    states: States = last(find_states(model))
    level = PlanLevel(machines=machines, bandwidth_bytes_per_s=3.0)
    choice = Choice(counted=counted, straight=straight)
    dense, threshold = last(plan_dense(states, (level,), choice)), last(plan_threshold(states, level, choice))
    assert threshold.seconds == pytest.approx(dense.seconds, rel=1e-10, abs=1e-12)
    if math.isfinite(dense.seconds):
        for plan in (dense, threshold):
            assert sum(cut.machines for cut in plan.cuts) == machines
            assert [cut.before for cut in plan.cuts[1:]] == [cut.last for cut in plan.cuts[:-1]]


@given(nodes=NODES.filter(lambda items: len(items) > 1))
def test_an_outer_level_of_one_machine_changes_nothing(nodes: list[tuple[float, float, float]]) -> None:
    graph = chain(nodes)
    one = run(graph, devices="3", bandwidth_bytes_per_s="1e9")
    two = run(graph, devices="3,1", bandwidth_bytes_per_s="1e9,1e6")
    assert two.foreign_value == pytest.approx(one.foreign_value, rel=1e-12)


def test_compressing_joins_the_runs_inside_branches() -> None:
    text = "\n".join(
        f"node{i} -- ReLU -- forward_compute_time=1.0, backward_compute_time=1.0, "
        f"activation_size={i}.0, parameter_size=0.0"
        for i in range(1, 8)
    )
    edges = [(1, 2), (2, 3), (2, 5), (3, 4), (5, 6), (4, 7), (6, 7)]
    graph = read(text + "".join(f"\n\tnode{a} -- node{b}" for a, b in edges))
    options = {"devices": "2", "bandwidth_bytes_per_s": "1e9"}
    assert run(graph, **options).details["states"] == 3 * 3 + 2  # 1, 2, {0..2} x {0..2} of the branches, 7
    assert run(graph, branches="compress", **options).details["states"] == 2 * 2 + 2


def test_refuses_a_model_whose_branches_multiply() -> None:
    model = MinibatchCosts(
        seconds=(1.0,) * 41,
        parameter_bytes=(0.0,) * 41,
        activation_bytes=(0.0,) * 41,
        readers=(tuple(range(1, 41)), *((),) * 40),
    )
    with pytest.raises(InputError, match="cut positions"):
        last(find_states(model, limit=5000))


def test_a_bit_set_and_its_positions() -> None:
    assert list(bits(mask([0, 5, 70]))) == [0, 5, 70]


# ---- options, and our own cost model ------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"devices": "four", "bandwidth_bytes_per_s": "1e9"}, "devices"),
        ({"devices": "0", "bandwidth_bytes_per_s": "1e9"}, "devices"),
        ({"devices": "2.5", "bandwidth_bytes_per_s": "1e9"}, "devices"),
        ({"devices": "2,2", "bandwidth_bytes_per_s": "1e9"}, "bandwidth_bytes_per_s"),
        ({"devices": "2", "bandwidth_bytes_per_s": "-1"}, "bandwidth_bytes_per_s"),
        ({"devices": "2", "bandwidth_bytes_per_s": "inf"}, "bandwidth_bytes_per_s"),
        ({"devices": "2"}, "bandwidth_bytes_per_s"),
        ({"bandwidth_bytes_per_s": "1e9"}, "devices"),
        ({"devices": "2", "bandwidth_bytes_per_s": "1e9", "transfers": "maybe"}, "transfers"),
        ({"devices": "2", "bandwidth_bytes_per_s": "1e9", "cost_model": "mine"}, "cost_model"),
        ({"devices": "2", "bandwidth_bytes_per_s": "1e9", "cost_model": "ours"}, "cluster"),
        ({"devices": "9", "bandwidth_bytes_per_s": "1e9", "straight": "true"}, "devices"),
        ({"devices": "2", "bandwidth_bytes_per_s": "1e9", "microbatch_size": "0"}, "microbatch_size"),
        ({"machines": "2"}, "machines"),
    ],
)
def test_bad_options_are_named(options: dict[str, str], key: str) -> None:
    with pytest.raises(InputError) as caught:
        run(chain([(1, 1, 1), (2, 2, 2)]), **options)
    assert caught.value.key == key


def test_a_model_without_measured_seconds_needs_a_cluster() -> None:
    with pytest.raises(InputError, match="no measured seconds"):
        run(load_model("gpt2-small"), devices="4", bandwidth_bytes_per_s="1e9")


def test_with_a_cluster_the_plan_is_simulated_as_well() -> None:
    graph = chain([(30, 1_000_000, 2_000_000)] * 6)
    problem = Problem(
        graph=graph,
        cluster=load_cluster("ethernet-10g-4x4"),
        workload=default_workload(graph).with_job(global_batch=32),
        max_devices=4,
    )
    options = {"cost_model": "original", "devices": "4", "bandwidth_bytes_per_s": "1e9"}
    found = last(search(problem, "pipedream", options=options))
    assert found.foreign_value == pytest.approx(run(graph, **options, transfers="counted").foreign_value)
    assert found.best is not None
    # a sample takes 540 ms; four devices cannot be faster than a quarter of 32 of them
    assert found.best.value >= 32 * 0.54 / 4
    assert {name for stage in found.best.strategy.job.stages for name in stage.layers} == set(graph.index)
