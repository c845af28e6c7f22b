"""FlexFlow: a Markov chain over strategies, accepted by Metropolis; what did not change is looked up."""

from __future__ import annotations

import math
import random

from explorer.cluster_profiles import load_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.synthetic import chain
from explorer.planners._pieces.stage_plans import plan_space
from explorer.planners.flexflow import accepted
from explorer.search.problem import Problem
from explorer.workload import default_workload

DRAWS, STAGES = 20_000, 8


def _accepted() -> float:
    """Return the share of proposals 10 % worse in the logarithm that are accepted at beta = 10."""
    luck = random.Random(0)
    return sum(accepted(1.0, 1.1, 10.0, luck) for _ in range(DRAWS)) / DRAWS


def _uphill() -> float:
    """Return how many worse proposals are accepted at a very large beta."""
    luck = random.Random(0)
    return sum(accepted(1.0, 1.1, 1e9, luck) for _ in range(DRAWS))


def _priced_anew() -> float:
    """Return how many stages of a pipeline are others after one boundary moved."""
    graph = chain([1.0] * 16)
    workload = default_workload(graph).with_job(global_batch=STAGES)
    space = plan_space(Problem(graph=graph, cluster=load_cluster("dgx-1-v100"), workload=workload))
    plan = space.line([(0, 1)] * STAGES)
    if plan is None:
        return math.nan
    parts = (plan.parts[0]._replace(stop=plan.parts[0].stop + 1), *plan.parts[1:])
    before, after = (space.strategy(item).job.stages for item in (plan, plan._replace(parts=parts)))
    return sum(a is not b for a, b in zip(before, after, strict=True))


@SYSTEMS.add(
    System(
        name="flexflow",
        title="Strategies by a Markov chain of random changes",
        paper="Jia, Zaharia and Aiken, Beyond Data and Model Parallelism for Deep Neural Networks,"
        " MLSys 2019",
        year=2018,
        uses=Uses(searchers=("flexflow",), options=("layouts by layer",)),
        missing="single operators on any set of devices: stages, and units within them, change here; its"
        " task graph, of which only the changed part is simulated again: here only changed stages are priced"
        " again, and all tasks are put in order. In 40 evaluations it"
        " beats random search of the same plans on three of five pairs only",
        claims=(
            Claim(
                text="a proposal that costs .1 more is accepted with probability exp(-1) at beta = 10",
                published=math.exp(-1),
                unit="",
                measure=_accepted,
                within=0.03,
                why=f"the share of {DRAWS:,} draws of one seed",
            ),
            Claim(
                text="as beta grows the chain only goes downhill: worse proposals accepted",
                published=0,
                unit="",
                measure=_uphill,
            ),
            Claim(
                text=f"a boundary that moves changes two of {STAGES} stages; the others are looked up",
                published=2,
                unit="stages",
                measure=_priced_anew,
                why="worked out by hand; the paper simulates again the tasks that a change reaches",
            ),
        ),
    )
)
def example() -> Example:
    """AlexNet on four V100, convolutions on samples of their own."""
    return Example(
        model="alexnet", cluster="dgx-1-v100", global_batch=64, shape={"replicas": 4, "microbatch_size": 16}
    )
