"""Plans built step by step are legal; the network learns what a table would; it leaves torch's luck alone."""

from __future__ import annotations

import random
import subprocess
import sys

import torch

from explorer.planners._pieces.plan_building import KEYS, again, building, key_units
from explorer.planners._pieces.q_network import RATE, Adam, QNetwork, Transition
from explorer.planners._pieces.stage_plans import plan_space
from explorer.planners.auto_map import played
from tests.planners.test_moves import check, mixed, small


def test_whatever_is_decided_is_a_legal_plan() -> None:
    space, luck, plans = mixed(), random.Random(3), set()
    empty = building(space)
    for _ in range(40):
        built = again(empty)
        while not built.done:
            allowed = built.allowed()
            assert len(built.state()) == len(empty.state())
            assert all(0 <= value <= 1 for value in built.state())
            built.take(luck.choice([a for a, may in enumerate(allowed) if may]))
        assert not any(built.allowed())
        plan = built.plan()
        if plan is not None:
            check(space, plan)
            assert all(part.stop in (*built.keys, len(space.units)) for part in plan.parts)
            plans.add(plan)
    assert len(plans) > 25


def test_units_are_keys_where_they_differ_from_the_one_before() -> None:
    space = mixed()
    keys = key_units(space)
    assert keys[0] == 0
    assert list(keys) == sorted(set(keys))
    assert len(keys) <= KEYS
    kinds = [[layer.kind for layer in space.problem.graph.layers[a:b]] for a, b in space.units]
    changes = [u for u in range(1, len(kinds)) if kinds[u] != kinds[u - 1]]
    assert set(changes) <= set(key_units(space, 17))
    assert key_units(plan_space(small()), 3)[0] == 0


def test_the_network_learns_a_choice_whose_end_alone_is_rewarded() -> None:
    """Two steps of two actions: only the second one after the first one is worth 1."""
    network, luck = QNetwork(3, 2, seed=1), random.Random(0)
    states = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    for _ in range(120):
        one, two = luck.randrange(2), luck.randrange(2)
        after = states[1 + one]
        network.learn(
            [
                Transition(states[0], one, 0.0, after, (True, True)),
                Transition(after, two, float((one, two) == (0, 1)), after, (False, False)),
            ]
        )
    assert network.best(states[0], (True, True)) == 0
    assert network.best(states[1], (True, True)) == 1
    assert network.best(states[1], (True, False)) == 0


def test_a_seed_is_enough_and_torch_draws_on_as_if_nothing_was() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3).tolist()
    torch.manual_seed(5)
    empty = building(plan_space(small()))
    walks = [
        played(QNetwork(len(empty.state()), empty.actions, 2), empty, random.Random(0), 0.2)[1]
        for _ in range(2)
    ]
    assert walks[0] == walks[1]
    assert torch.rand(3).tolist() == wanted


def test_adam_is_that_of_torch() -> None:
    torch.manual_seed(4)
    ours = torch.nn.Linear(5, 3)
    theirs = torch.nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    own, other = Adam(ours.parameters()), torch.optim.Adam(theirs.parameters(), lr=RATE)
    for _ in range(20):
        given = torch.randn(7, 5)
        for net, adam in ((ours, own), (theirs, other)):
            net.zero_grad()
            (net(given) ** 2).sum().backward()
            adam.step()
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, two)


LOADING = """
import sys
from explorer.planners._pieces import q_network
from explorer.planners._pieces.torch_loading import load_torch_libraries

assert "torch" not in sys.modules
loaded = load_torch_libraries()
network = q_network.QNetwork(1, 2, seed=0)
network.learn([q_network.Transition((0.0,), 0, 1.0, (1.0,), (False, False))])
print(",".join(loaded), "torch._dynamo" in sys.modules)
"""


def test_torch_is_loaded_library_first_and_no_more_of_it_than_needed() -> None:
    found = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=True)
    *loaded, more = found.stdout.split()
    assert more == "False"
    if sys.platform == "linux":
        assert loaded == ["libtorch_global_deps.so,libtorch_cpu.so"]
