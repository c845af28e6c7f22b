"""PipeDream: 1F1B without flushes, with a version of the weights stashed for every microbatch in flight."""

from __future__ import annotations

from functools import cache

from explorer.cluster_profiles import load_cluster
from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.models.synthetic import chain
from explorer.search import Problem, Progress, search
from explorer.workload import default_workload

P, M = 4, 8
BY_HAND = "worked out by hand from the paper's formulas (section 3.1)"


def _pipeline() -> Ideal:
    return Ideal(p=P, m=M, schedule="pipedream")


BANDWIDTH = 100.0


@cache
def _planned() -> Progress:
    """Return the planner's plan of two layers on four machines, under its own cost model.

    Nine seconds without weights, then three seconds with 1,000 bytes of weights; 30 bytes in between.
    """
    graph = chain([3.0, 1.0], activation_bytes=[30.0, 0.0], parameter_bytes=[0.0, 1000.0])
    problem = Problem(graph=graph, cluster=None, workload=default_workload(graph))
    options = {"cost_model": "original", "devices": "4", "bandwidth_bytes_per_s": f"{BANDWIDTH:g}"}
    *_, last = search(problem, "pipedream", options=options)
    return last


@cache
def _configuration(model: str, per_device: int, devices: int) -> tuple[int, ...]:
    """Return the devices of each stage of the best plan on its cluster A that is found."""
    graph = load_model(model)
    workload = default_workload(graph).with_job(global_batch=16 * per_device)
    problem = Problem(
        graph=graph, cluster=load_cluster("pipedream-a"), workload=workload, weights="any",
        max_devices=devices,
    )  # fmt: skip
    *_, last = search(problem, "pipedream", options={"microbatch_size": str(per_device)})
    return tuple(stage.device_count for stage in last.best.strategy.job.stages) if last.best else ()


@SYSTEMS.add(
    System(
        name="pipedream",
        title="Asynchronous 1F1B with weight stashing, and its planner",
        paper="Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, SOSP 2019",
        year=2018,
        uses=Uses(schedules=("pipedream",), searchers=("pipedream",), options=("round robin replicas",)),
        claims=(
            Claim(
                text=f"no bubble in the steady state: a step of {M} minibatches takes {M} (F + B) at F"
                " = 1, B = 2",
                published=M * 3,
                unit="s",
                measure=lambda: _pipeline().report().step_time_s,
            ),
            *(
                Claim(
                    text=f"stage {s} of {P} stashes p - s versions of its weights",
                    published=P - s,
                    unit="versions",
                    measure=lambda s=s: _pipeline().report().versions[s],  # type: ignore[misc]
                )
                for s in range(P)
            ),
            Claim(
                text="the first stage applies a gradient p - 1 updates after its forward read the weights",
                published=P - 1,
                unit="updates",
                measure=lambda: _pipeline().report().delay[0],
            ),
            Claim(
                text="planner, layers of 9 s and 3 s, the second with 1000 bytes of weights, four machines"
                " at 100 bytes/s: replicas of the first",
                published=3,
                unit="machines",
                measure=lambda: _planned().details["stages"][0]["machines"],
                why=BY_HAND,
            ),
            Claim(
                text="such a pipeline takes as long as its slowest stage, max(9 s / 3, 3 s)",
                published=3,
                unit="s",
                measure=lambda: _planned().foreign_value or 0.0,
                why=BY_HAND,
            ),
            Claim(
                text="data parallelism (12 s + 4 x 3/4 x 1000 bytes / 100 bytes/s) / 4: times as long",
                published=(12 + 4 * 3 / 4 * 1000 / BANDWIDTH) / 4 / 3,
                unit="",
                measure=lambda: _planned().details["speedup_vs_dp"],
                why=BY_HAND,
            ),
            Claim(
                text="ResNet-50, 128 samples a device, on 4 servers of 4 V100 at 10 Gbit/s (table 1): data"
                " parallelism",
                published=16,
                unit="devices of the first stage",
                measure=lambda: _configuration("resnet50", 128, 16)[0],
            ),
            Claim(
                text="GNMT-16, 64 samples a device, on one of them (table 1): a straight pipeline",
                published=4,
                unit="stages",
                measure=lambda: len(_configuration("gnmt-16", 64, 4)),
            ),
            Claim(
                text="VGG-16, 64 samples a device, on all of them (table 1): 15-1",
                published=15,
                unit="devices of the first stage",
                measure=lambda: _configuration("vgg16", 64, 16)[0],
                why="its program finds 12-1-2-1 under our seconds of layers; in the simulator the best 15-1,"
                " cut before fc6, takes 12 % less a step than that (1F1B with a flush, microbatches of 128)",
            ),
        ),
    )
)
def example() -> Example:
    """VGG-16 over four V100 in a chain."""
    return Example(
        model="vgg16",
        cluster="pipedream-a",
        global_batch=256,
        shape={"stages": 4, "microbatch_size": 32, "schedule": "pipedream"},
    )
