"""Auto-MAP: plans built decision by decision by a deep Q-network, with propagation."""

from __future__ import annotations

from explorer.cluster_profiles import load_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.synthetic import chain
from explorer.planners._pieces.plan_building import KEYS, key_units
from explorer.planners._pieces.q_network import QNetwork, Transition
from explorer.planners._pieces.stage_plans import plan_space
from explorer.search.problem import Problem
from explorer.workload import default_workload

LAYERS = 96


def _decided() -> float:
    """Return how many of many equal layers are decided on."""
    graph = chain([1.0] * LAYERS)
    workload = default_workload(graph).with_job(global_batch=8)
    space = plan_space(Problem(graph=graph, cluster=load_cluster("dgx-1-v100"), workload=workload))
    return len(key_units(space))


def _learned() -> float:
    """Return the value of the action that a network prefers after it saw all four of one step."""
    network, state = QNetwork(1, 4, seed=0), (1.0,)
    worth, none = (0.0, 0.3, 1.0, 0.6), (False,) * 4
    for _ in range(60):
        network.learn([Transition(state, a, worth[a], state, none) for a in range(4)])
    return worth[network.best(state, (True,) * 4)]


@SYSTEMS.add(
    System(
        name="auto_map",
        title="Plans built decision by decision by a deep Q-network",
        paper="Wang et al., Auto-MAP: A DQN Framework for Exploring Distributed Execution Plans for DNN"
        " Workloads, 2020",
        year=2020,
        uses=Uses(searchers=("auto_map",), options=("uneven stages",)),
        missing="operators of XLA: blocks and layers outside of them are decided on; which gradients are"
        " exchanged; its search of about two hours. In 40 evaluations it beats random search"
        " of the plans of all learners on one of five pairs only",
        claims=(
            Claim(
                text=f"of {LAYERS} layers that are alike {KEYS} are decided on, the others propagate",
                published=KEYS,
                unit="units",
                measure=_decided,
                why="worked out by hand; the paper gives no number",
            ),
            Claim(
                text="a network that saw four actions worth 0, .3, 1 and .6 takes the best one",
                published=1,
                unit="",
                measure=_learned,
                why="worked out by hand",
            ),
        ),
    )
)
def example() -> Example:
    """VGG-16 on four V100 in two stages."""
    return Example(
        model="vgg16",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 2, "replicas": 2, "microbatch_size": 8},
    )
