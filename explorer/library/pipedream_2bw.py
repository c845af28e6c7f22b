"""PipeDream-2BW: 1F1B without flushes with two buffered versions of the weights."""

from __future__ import annotations

from dataclasses import replace

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P, M = 4, 8


def _pipeline() -> Ideal:
    return Ideal(p=P, m=M, schedule="pipedream_2bw")


@SYSTEMS.add(
    System(
        name="pipedream_2bw",
        title="Asynchronous 1F1B with double-buffered weights",
        paper="Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021",
        year=2020,
        uses=Uses(schedules=("pipedream_2bw", "1f1b"), searchers=("pipedream_2bw",)),
        claims=(
            *(
                Claim(
                    text=f"at most two versions of the weights, at stage {s} of {P} too",
                    published=2,
                    unit="versions",
                    measure=lambda s=s: _pipeline().report().versions[s],  # type: ignore[misc]
                )
                for s in (0, P - 1)
            ),
            Claim(
                text="a constant delay of one update: W(t + 1) = W(t) - lr grad f(W(t - 1))",
                published=1,
                unit="updates",
                measure=lambda: max(_pipeline().report().delay),
            ),
            Claim(
                text=f"no flush: a step of m = {M} microbatches takes m (F + B) at F = 1, B = 2",
                published=M * 3,
                unit="s",
                measure=lambda: _pipeline().report().step_time_s,
            ),
            *(
                Claim(
                    text=f"a reduction of {reduction_s:g} s over replicas is hidden up to 24 s of compute",
                    published=max(24.0, reduction_s),
                    unit="s",
                    measure=lambda s=reduction_s: (
                        replace(  # type: ignore[misc]
                            _pipeline(), p=1, replicas=2, parameter_bytes=s, bandwidth_bytes_per_s=1.0
                        )
                        .report()
                        .step_time_s
                    ),
                )
                for reduction_s in (12.0, 30.0)
            ),
        ),
    )
)
def example() -> Example:
    """BERT large over eight V100 in a chain."""
    return Example(
        model="bert-large",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 8, "microbatch_size": 4, "schedule": "pipedream_2bw"},
    )
