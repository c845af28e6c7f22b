"""WAP: only as many devices for a layer as pay off."""

from __future__ import annotations

from explorer.cluster_profiles import load_cluster
from explorer.library._ideal import free_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.models.synthetic import chain
from explorer.planners._pieces.fleet import fleet_of
from explorer.planners.wap import best_counts, charges, costs_of
from explorer.search import Problem
from explorer.simulation.simulate import simulate
from explorer.strategy import Mesh, Sharding, Stage, single
from explorer.workload import Job, Workload, default_workload


def _step_s(*, last_on: tuple[int, ...]) -> float:
    """Return the seconds of a step of three layers on four devices, the last of them on some of those."""
    graph = chain(
        [2.0, 2.0, 1.0],
        backward_s=[4.0, 4.0, 1.0],
        activation_bytes=[5.0, 1.0, 0.0],
        parameter_bytes=[4.0, 4.0, 100.0],
    )
    apart = (Sharding(layers=("layers.2",), meshes=(Mesh(devices=last_on),)),)
    stage = Stage(
        layers=tuple(layer.name for layer in graph.layers),
        meshes=(Mesh(devices=(0, 1, 2, 3)),),
        microbatch_samples=4,
        shardings=apart if len(last_on) < 4 else (),
    )
    workload = Workload(jobs=(Job(global_batch=4, precision="fp32", optimizer="none"),))
    strategy = single(stages=(stage,), schedule="gpipe")
    return simulate(graph, free_cluster(4, 1.0), workload, strategy).makespan_s


def _devices(batch: int) -> int:
    """Return the most devices that a layer of VGG-16 gets on four servers of four V100."""
    graph = load_model("vgg16")
    workload = default_workload(graph).with_job(global_batch=batch)
    problem = Problem(graph=graph, cluster=load_cluster("pipedream-a"), workload=workload)
    devices = tuple(problem.order)
    costs, _ = costs_of(problem, fleet_of(problem), devices, batch)
    return costs.counts[max(best_counts(costs, charges(problem, devices, costs.counts)))]


@SYSTEMS.add(
    System(
        name="wap",
        title="Fewer devices for layers that do not pay for more",
        paper="Wang et al., Workload-aware Automatic Parallelization for Multi-GPU DNN Training, ICASSP 2019",
        year=2018,
        uses=Uses(schedules=("gpipe",), searchers=("wap",), options=("layers on part of a stage's devices",)),
        claims=(
            Claim(
                text="a layer of many weights on one of four devices: 4 + 1 + 8 + 1 + 8 + 12 s",
                published=34,
                unit="s",
                measure=lambda: _step_s(last_on=(0,)),
                why="worked out by hand from the mechanism; the paper prints no such case",
            ),
            Claim(
                text="and on all four: 5 + 1 + 8 s of work and 2 x 3/4 x 108 s of all-reduce",
                published=5 + 9 + 2 * 3 / 4 * 108,
                unit="s",
                measure=lambda: _step_s(last_on=(0, 1, 2, 3)),
                why="worked out by hand from the mechanism; the paper prints no such case",
            ),
            Claim(
                text="VGG-16 on four servers of four V100: a batch of 16 gets as many devices as one of 256"
                " (0: it gets fewer)",
                published=0,
                unit="",
                measure=lambda: float(_devices(16) >= _devices(256)),
                why="the paper says so without numbers; by its planner's own costs 4 and 16 devices, and 16"
                " for a batch of 32 already",
            ),
        ),
    )
)
def example() -> Example:
    """AlexNet on four V100."""
    return Example(
        model="alexnet",
        cluster="dgx-1-v100",
        global_batch=256,
        shape={"replicas": 4, "microbatch_size": 64, "schedule": "gpipe"},
    )
