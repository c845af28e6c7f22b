"""PipeDream: 1F1B without flushes, with a version of the weights stashed for every microbatch in flight."""

from __future__ import annotations

from functools import cache

from explorer.library._ideal import Ideal
from explorer.library._pipedream_rows import ROWS, Row, found, speeds, speedup, words_of
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.synthetic import chain
from explorer.search import Problem, Progress, search
from explorer.workload import default_workload

P, M = 4, 8
VGG, _, ALEXNET, GNMT_16_A, GNMT_16_B, GNMT_8 = ROWS
WHOLE = (
    "over two levels of links its program has no stage of 15 devices, only of whole servers or inside one;"
    " the table below says how much slower what it finds is"
)
DIFFERS = {
    VGG: WHOLE,
    ALEXNET: WHOLE + ", and that by its own costs on one level it is found",
    GNMT_8: "blocks stay whole in its program, which leaves fewer cuts than devices; four stages inside one"
    " server are found, with larger minibatches, which send nothing over the network and are faster in the"
    " simulator (table below)",
}
"""Why what is found is not what was published."""
RESTS = "rests on the seconds of our V100 in fp16, as no profile of GNMT-16 is known to us"
SECONDS = {
    VGG: "our seconds of fp32 convolutions are longer than those of its profiles (cuDNN's Winograd kernels"
    " are not known here), so that reductions are less of a step",
    GNMT_16_A: RESTS,
    GNMT_16_B: RESTS + "; cuts are the planner's own",
}
"""Why speeds are not what was published."""
FITTED = (
    "the best cut that is known here, with the seconds of our V100; what NCCL reaches on the network was"
    " chosen with this table in view (the profile says so)"
)
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


def _configured(row: Row) -> Claim:
    """Return the claim that a published configuration is found: its stages, or its first one."""
    straight = set(row.published) == {1}
    return Claim(
        text=f"{row.words} (table 1): {words_of(row, row.published)}",
        published=len(row.published) if straight else row.published[0],
        unit="stages" if straight else "devices of the first stage",
        measure=lambda: len(found(row)) if straight else found(row)[0],
        why=DIFFERS.get(row, ""),
    )


def _faster(row: Row) -> Claim:
    """Return the claim of the speed of a published configuration."""
    return Claim(
        text=f"{row.words}: speed of {words_of(row, row.published)} over data parallelism",
        published=row.speedup,
        unit="",
        measure=lambda: speedup(row, row.published),
        within=0.1,
        why=SECONDS.get(row, FITTED),
    )


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
            *map(_configured, ROWS),
            *(_faster(row) for row in ROWS if len(row.published) > 1),
        ),
        table=speeds,
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
