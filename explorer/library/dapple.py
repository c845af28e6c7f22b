"""DAPPLE and PipeDream-Flush: one forward, one backward in turn, with a flush at the end of the step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.library._dapple_plans import (
    CASES,
    PROFILE,
    SOURCES,
    ZOO,
    Case,
    differences,
    found,
    words_of,
)  # fmt: skip
from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.pivot_latency import latency_s

P, M = 4, 12
DOUBLED = (
    "fewer stages, some of two devices, fill and drain sooner; the table below says by how much T and the"
    " simulated step differ"
)
DIFFERS = {
    (CASES[2], ZOO): "our seconds of fp32 convolutions are longer than those of its profile (cuDNN's Winograd"
    " kernels are not known here), so that more backward hides the reduction of data parallelism; the table"
    " below says by how much",
    (CASES[4], PROFILE): DOUBLED,
    (CASES[4], ZOO): DOUBLED,
}
"""Why what is found is not what was published."""
BY_HAND = "worked out by hand from the formula (section 4)"


def _pipeline(m: int = M) -> Ideal:
    return Ideal(p=P, m=m, schedule="1f1b")


def _latency(stages: Sequence[tuple[float, float, float]], m: int) -> float:
    """Return T of stages of (F, B, AR) seconds."""
    return float(latency_s([[np.array(item) for item in stage] for stage in stages], m))


def _configured(case: Case, source: str) -> Claim:
    """Return the claim that the planner finds a published configuration: its stages, or its first one."""
    straight = set(case.published) == {1}

    def measure() -> float:
        counts = found(case, source).counts
        return len(counts) if straight else counts[0]

    return Claim(
        text=f"{case.words}, seconds of {SOURCES[source]}: {words_of(case.published)}",
        published=len(case.published) if straight else case.published[0],
        unit="stages" if straight else "devices of the first stage",
        measure=measure,
        why=DIFFERS.get((case, source), ""),
    )


@SYSTEMS.add(
    System(
        name="dapple",
        title="Early backward, 1F1B with a flush, and its planner",
        paper="Fan et al., DAPPLE: A Pipelined Data Parallel Approach for Training Large Models, PPoPP 2021",
        year=2020,
        uses=Uses(schedules=("1f1b",), searchers=("dapple",), options=("uneven replicas",)),
        missing="its configurations of ResNet-50, GNMT-16, XLNet-36 and AmoebaNet-36, which are not sought",
        claims=(
            Claim(
                text=f"idle (p - 1)(F + B), as GPipe: at p = {P}, F = 1, B = 2",
                published=(P - 1) * 3,
                unit="s",
                measure=lambda: _pipeline().idle_s(),
            ),
            *(
                Claim(
                    text=f"stage {s} of {P} keeps min(p - s, m) microbatches, whatever m is (m = {M})",
                    published=min(P - s, M),
                    unit="microbatches",
                    measure=lambda s=s: _pipeline().activations(s),  # type: ignore[misc]
                )
                for s in range(P)
            ),
            Claim(
                text=f"activations do not grow with m: first stage at m = {4 * M}",
                published=P,
                unit="microbatches",
                measure=lambda: _pipeline(4 * M).activations(0),
            ),
            Claim(
                text=f"T of {P} equal stages, F = 1, B = 2, m = {M}, and gradients that take 0.5 s:"
                " (m + p - 1)(F + B) + AR",
                published=(M + P - 1) * 3 + 0.5,
                unit="s",
                measure=lambda: _latency([(1.0, 2.0, 0.5)] * P, M),
                why=BY_HAND,
            ),
            Claim(
                text="the second of three stages is the pivot, twice as slow, m = 4: 3 F filling, 18 s of its"
                " rounds, 6 s draining, 1 s of the first stage's gradients",
                published=3 + 18 + 6 + 1,
                unit="s",
                measure=lambda: _latency([(1.0, 2.0, 1.0), (2.0, 4.0, 0.0), (1.0, 2.0, 5.0)], 4),
                why=BY_HAND,
            ),
            *(_configured(case, source) for source in SOURCES for case in CASES),
        ),
        table=differences,
    )
)
def example() -> Example:
    """BERT-48 in two stages of eight V100 each, the paper's 8:8, cut where layers are balanced."""
    return Example(
        model="bert-48",
        cluster="dapple-a",
        global_batch=64,
        shape={"stages": 2, "replicas": 8, "microbatches": 4},
    )
