"""HAP: A* finds the cheapest program, shares follow speeds, plans say what a strategy can say."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models.builder import GraphBuilder
from explorer.planners._pieces.best_first import cheapest
from explorer.planners._pieces.unlike_devices import best_shares
from explorer.search import Problem, search
from explorer.workload import Job, Workload
from tests.planners.random_choices import all_choices, random_choices


@pytest.mark.parametrize("near", [0.3, 0.9])
def test_no_program_is_cheaper(near: float) -> None:
    """60 graphs; A* goes on from fewer states than there are programs."""
    draw, fewer = random.Random(int(10 * near)), 0
    for _ in range(30):
        costs = random_choices(draw, near=near)
        found, every = cheapest(costs), list(all_choices(costs))
        assert found.seconds == pytest.approx(min(costs.total_s(chosen) for chosen in every))
        assert costs.total_s(found.chosen) == pytest.approx(found.seconds)
        fewer += found.states < len(every)
    assert fewer > 30 / 2


def test_too_many_states_are_counted_and_the_way_out_is_said() -> None:
    draw = random.Random(2)
    costs = random_choices(draw, most=6)
    while costs.count < 6:
        costs = random_choices(draw, most=6)
    with pytest.raises(InputError, match=r"more than 2 programs of 6 layers.*states=N") as caught:
        cheapest(costs, most=2)
    assert "\n" not in str(caught.value)


# ---- shares ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("seconds", "counts"), [((1.0, 3.0), (2, 2)), ((2.0, 1.0, 5.0), (1, 3, 2))])
def test_on_one_layer_without_transfers_shares_are_speeds(
    seconds: tuple[float, ...], counts: tuple[int, ...]
) -> None:
    found = best_shares([np.array(seconds)], 0.0, counts)
    whole = sum(n / s for n, s in zip(counts, seconds, strict=True))
    assert found == pytest.approx([1 / s / whole for s in seconds], rel=1e-6)


@pytest.mark.usefixtures("here")
def test_shares_of_several_layers_are_no_worse_than_any_on_a_grid() -> None:
    """Layers that one kind does relatively well, and padded transfers: every share of a fine grid."""
    draw = random.Random(4)
    for _ in range(10):
        loads = [np.array([draw.uniform(0, 2), draw.uniform(0, 2)]) for _ in range(draw.randint(1, 4))]
        sent, counts = draw.choice([0.0, draw.uniform(0, 4)]), (draw.randint(1, 3), draw.randint(1, 3))

        def seconds(shares: tuple[float, ...], *, loads=loads, sent=sent, counts=counts) -> float:  # type: ignore[no-untyped-def]
            stretch = sum(counts) * np.array(shares)
            return sum(float((own * stretch).max()) for own in loads) + sent * float(stretch.max())

        found = best_shares(loads, sent, counts)
        assert np.dot(found, counts) == pytest.approx(1.0)
        grid = np.linspace(0.02, 0.98, 97) / counts[0]
        every = [(float(a), float(1 - counts[0] * a) / counts[1]) for a in grid]
        assert seconds(found) <= min(seconds(item) for item in every if min(item) > 0.02) + 1e-6


def test_transfers_that_cost_more_than_work_leave_equal_shares() -> None:
    assert best_shares([], 1.0, (2, 2)) == (0.25, 0.25)
    assert best_shares([np.array([1.0])], 1.0, (4,)) == (0.25,)


# ---- models ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A feed-forward half whose devices are two V100 and two A100."""
    b = GraphBuilder("block")
    x = b.input("x", {"seq": 512, "embed": 2048})
    y = b.activation("gelu", b.linear("up", b.norm("norm", x), {"ffn": 8192}))
    b.add("add", b.linear("down", y, {"embed": 2048}, over=("ffn",)), x)
    cluster = load_cluster("mixed-v100-a100")
    kinds: dict[str, list[int]] = {}
    for device in cluster.order:
        kinds.setdefault(cluster.kind_of(device).name, []).append(device)
    chosen = tuple(sorted(device for own in kinds.values() for device in own[:2]))
    job = Job(global_batch=64, precision="fp16", optimizer="sgd")
    return Problem(graph=b.build(), cluster=cluster, workload=Workload(jobs=(job,)), devices=chosen)


def test_faster_devices_take_more_samples_or_larger_shards(problem: Problem) -> None:
    new = [item.new for item in search(problem, "hap") if item.new is not None]
    stages = [item.strategy.job.stages[0] for item in new]
    assert any(stage.shares or stage.axis_shares for stage in stages)
    cluster = problem.needed_cluster
    for item, stage in zip(new, stages, strict=True):
        for _, shares in [*stage.axis_shares, *([("replica", stage.shares)] if stage.shares else [])]:
            by_kind = {
                cluster.kind_of(d).name: share
                for d, share in zip(stage.meshes[0].devices, shares, strict=True)
            }
            fast = max(by_kind, key=by_kind.__getitem__)
            assert "A100" in fast.upper()
            assert len(set(shares)) == len(set(by_kind.values()))
            assert ":" in item.label
    best = min(item.value for item in new)
    even = [item.new.value for item in search(problem, "tapas") if item.new is not None]
    assert best < min(even)  # shares pay on unlike devices


def test_alike_devices_have_equal_shares(problem: Problem) -> None:
    alike = replace(problem, cluster=load_cluster("dgx-a100"), devices=(0, 1, 2, 3))
    for item in search(alike, "hap"):
        if item.new is not None:
            stage = item.new.strategy.job.stages[0]
            assert not stage.shares
            assert not stage.axis_shares
