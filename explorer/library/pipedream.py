"""PipeDream: 1F1B for ever, with a version of the weights stashed for every microbatch in flight."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P, M = 4, 8


def _pipeline() -> Ideal:
    return Ideal(p=P, m=M, schedule="pipedream")


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
