"""Ideals: every set of layers with what it reads from, and what the runs between two of them cost."""

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.models.synthetic import branches, mlp
from explorer.models.synthetic import chain as chain_of
from explorer.pricing import Pricer
from explorer.strategies.degrees import Degrees
from explorer.strategies.model_axes import expert_patterns, splittable
from explorer.strategy import JobStrategy
from explorer.tables import Ideals, StageChoice, StageRun, StageTable, ideals_of
from explorer.tasks.placement import Piece, place
from explorer.tasks.program import REDUCE, Slot, U
from explorer.workload import default_workload

RESERVE = 1e-12
"""Rounding, as a share of a whole model's seconds or bytes."""


def by_definition(graph: LayerGraph) -> set[frozenset[int]]:
    """All sets of layers that hold what each of their layers reads from."""
    index = graph.index
    needs = [
        {index[graph.producer[use.name]] for use in layer.reads if use.name in graph.producer}
        for layer in graph.layers
    ]
    every = range(len(needs))
    sets = chain.from_iterable(combinations(every, k) for k in range(len(needs) + 1))
    return {frozenset(item) for item in sets if all(needs[i] <= set(item) for i in item)}


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=3), skip=st.booleans())
def test_ideals_are_those_by_definition(lengths: list[int], skip: bool) -> None:
    graph = branches(lengths, skip=skip)
    ideals = ideals_of(graph)
    found = [frozenset(ideals.layers(0, k).tolist()) if k else frozenset() for k in range(ideals.count)]
    assert set(found) == by_definition(graph)
    assert len(set(found)) == ideals.count
    for k in range(ideals.count):
        inside = {i for i in range(ideals.count) if found[i] < found[k]}
        assert set(ideals.within(k).tolist()) == inside
        assert all(i < k for i in inside)


def test_a_chain_has_one_ideal_for_each_cut() -> None:
    graph = chain_of([1.0] * 7)
    ideals = ideals_of(graph)
    assert ideals.count == 8
    assert [ideals.layers(0, k).tolist() for k in range(1, 8)] == [list(range(k)) for k in range(1, 8)]


def test_too_many_are_refused_with_their_number() -> None:
    graph = branches([9] * 12)
    with pytest.raises(InputError, match=r"1,000,000,000,002 ideals of 110 blocks and layers"):
        ideals_of(graph)
    with pytest.raises(InputError) as error:
        ideals_of(branches([2, 2]), limit=10)
    assert error.value.found == 11


@pytest.mark.parametrize("name", ["gpt2-small", "inception-v3", "t5-large"])
def test_models_have_as_many_as_are_listed(name: str) -> None:
    graph = load_model(name)
    ideals = ideals_of(graph)
    assert not ideals.members[0].any()
    assert ideals.members[-1].all()
    assert len(np.unique(ideals.members, axis=0)) == ideals.count


MODELS = {
    "branches": branches([2, 1, 2], activation_bytes=3.0, parameter_bytes=5.0, skip=True),
    "mlp": mlp(4),
    "inception-v3": load_model("inception-v3"),
    "t5-large": load_model("t5-large"),
    "unet-3d": load_model("unet-3d"),
    "mixtral-8x7b": load_model("mixtral-8x7b"),
}
CHOICES = (
    StageChoice(replicas=2, zero=1),
    StageChoice(tensor=2, sequence_parallel=True, recompute="full", overlap=(("tensor", "tiles"),)),
    StageChoice(tensor=2, context=2, context_exchange="ring", recompute="selective", replicas=2, zero=3),
    StageChoice(replicas=4, expert=2, recompute="full"),
)


def splits(name: str, choice: StageChoice) -> bool:
    """Whether a model has all that a choice splits."""
    axes = {axis for axis in ("tensor", "context", "expert") if getattr(choice, axis) > 1}
    return axes <= splittable(MODELS[name])


@pytest.mark.parametrize(
    ("name", "choice"),
    [pytest.param(n, c, id=f"{n}, {c.degrees.label}") for n in MODELS for c in CHOICES if splits(n, c)],
)
def test_runs_between_ideals_cost_what_stages_cost(name: str, choice: StageChoice) -> None:
    graph, machine = MODELS[name], load_cluster("hgx-h100-16")
    job = replace(default_workload(graph).job, global_batch=64)
    ideals = ideals_of(graph)
    table = StageTable(graph, machine, job, positions=ideals)
    rng = np.random.default_rng(ideals.count)
    whole = table.run(choice, 0, ideals.count - 1)
    for stop in rng.integers(1, ideals.count, 4).tolist():
        start = int(rng.choice(ideals.within(stop)))
        compare(table, ideals, choice, (start, stop), whole)


def compare(
    table: StageTable, ideals: Ideals, choice: StageChoice, run: tuple[int, int], whole: StageRun
) -> None:
    """Hold a run to the prices of a strategy with three stages: before, the run, behind."""
    graph, job, (start, stop) = table.graph, table.job, run
    last = ideals.count - 1
    parts = [(0, start), (start, stop), (stop, last)]
    names = [tuple(graph.layers[i].name for i in ideals.layers(a, b)) for a, b in parts if a != b]
    number = 1 if start else 0
    degrees = replace(choice.degrees, stages=len(names))
    stages = [
        replace(item, overlap=choice.overlap) for item in degrees.stages_of(names, (), expert_patterns(graph))
    ]
    strategy = JobStrategy(stages=tuple(stages))
    pricer = Pricer(graph, table.cluster, job, strategy, place(graph, strategy))
    found = table.run(replace(choice, first=number * choice.devices), start, stop)
    section = next(i for i, item in enumerate(pricer.sections) if item.stage == number)
    time = pricer.section_time(section, pricer.sections[section].rows[0][0][0], choice.microbatch_size)
    memory = pricer.memory(section)
    for one, two, most in (
        (found.seconds, time, whole.seconds),
        (astuple(found.memory), astuple(memory), astuple(whole.memory)),
    ):
        for a, b, reserve in zip(one, two, most, strict=True):
            assert a == pytest.approx(b, rel=1e-9, abs=RESERVE * abs(reserve) + 1e-300)
    piece = Piece(section, 0, 0)
    wanted = pricer.price(Slot(U, section, piece, piece, 1)).seconds
    assert float(found.exchange.update_s[0]) == pytest.approx(wanted, rel=1e-9)
    reduced = sum(
        pricer.price(Slot(REDUCE, g, piece, piece, 1)).seconds
        for g, group in enumerate(pricer.placement.skeleton.holders)
        if piece in group.pieces and {item.section for item in group.pieces} == {section}
    )
    both = float(found.exchange.reduce_s[0] + found.exchange.expert_reduce_s[0])
    assert both == pytest.approx(reduced, rel=1e-9)
    assert float(found.exchange.blocks[0]) == pricer.blocks(section)
    if number == 0:
        flows = [f for f, flow in enumerate(pricer.placement.skeleton.flows) if flow.source == section]
        sent = sum(pricer.flow(f)[0] for f in flows)
        assert ideals.crossing_bytes(job.precision)[stop] == pytest.approx(sent, rel=1e-9)


def test_runs_that_are_none_and_transfers_are_refused() -> None:
    graph = branches([2, 2])
    ideals = ideals_of(graph)
    table = StageTable(graph, load_cluster("dgx-a100"), default_workload(graph).job, positions=ideals)
    apart = [k for k in range(ideals.count) if ideals.members[k].sum() == 2]
    larger = next(k for k in range(ideals.count) if ideals.members[k].sum() == 3 and k not in apart)
    outside = next(k for k in apart if k not in ideals.within(larger).tolist())
    for run in ((3, 3), (0, ideals.count), (outside, larger)):
        with pytest.raises(InputError, match="a run from ideal"):
            table.run(StageChoice(), *run)
    with pytest.raises(InputError, match="transfers between ideals"):
        table.crossings.transfer(StageChoice(), StageChoice(first=1), np.array([1]))


def test_degrees_have_the_same_costs_over_ideals_of_a_chain() -> None:
    graph = load_model("gpt", settings={"layers": "4", "embed": "64", "heads": "4", "vocab": "256"})
    machine, job = load_cluster("dgx-a100"), default_workload(graph).job
    ideals = ideals_of(graph)
    choice = StageChoice.of(Degrees(tensor=2, replicas=2, zero=1, recompute="full"))
    plain, other = StageTable(graph, machine, job), StageTable(graph, machine, job, positions=ideals)
    stops = np.arange(1, ideals.count)
    cuts = np.array([len(ideals.layers(0, k)) for k in stops.tolist()])
    one, two = plain.runs(choice, cuts * 0, cuts), other.runs(choice, stops * 0, stops)
    for part in range(3):
        values = [astuple(item[part]) if part == 1 else item[part] for item in (one, two)]
        for a, b in zip(*values, strict=True):
            assert a == pytest.approx(b, rel=1e-9)
