"""HyPar-Flow: partitions of a model times replicas of each partition."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

PARTITIONS, REPLICAS, WEIGHTS = 4, 2, 800.0
BY_HAND = "worked out by hand from the mechanism"


def _grid(partitions: int, replicas: int) -> Ideal:
    """Return a model of 12 s of work a sample for 8 samples of each replica."""
    return Ideal(
        p=partitions, m=8, schedule="gpipe", replicas=replicas, forward_s=4 / partitions,
        backward_s=8 / partitions, parameter_bytes=WEIGHTS / partitions,
    )  # fmt: skip


@SYSTEMS.add(
    System(
        name="hypar_flow",
        title="Model partitions times replicas, all-reduce by partition",
        paper="Awan et al., HyPar-Flow: Exploiting MPI and Keras for Scalable Hybrid-Parallel DNN"
        " Training using TensorFlow, ISC 2020",
        year=2019,
        uses=Uses(schedules=("gpipe",)),
        claims=(
            *(
                Claim(
                    text=f"a device of {p} partitions x {r} replicas sends 2 (r - 1)/r of its own partition"
                    " for an update",
                    published=2 * (r - 1) / r * WEIGHTS / p,
                    unit="bytes",
                    measure=lambda p=p, r=r: _grid(p, r).sent_bytes(),  # type: ignore[misc]
                    why=BY_HAND,
                )
                for p, r in ((1, PARTITIONS * REPLICAS), (PARTITIONS, REPLICAS))
            ),
            Claim(
                text=f"p = {PARTITIONS} partitions, m = 8 microbatches: (m + p - 1)/p times a sample's time",
                published=(8 + PARTITIONS - 1) / PARTITIONS * 12,
                unit="s",
                measure=lambda: _grid(PARTITIONS, REPLICAS).report().makespan_s,
                why=BY_HAND,
            ),
        ),
    )
)
def example() -> Example:
    """ResNet-50 on eight V100: four partitions, two replicas of each."""
    return Example(
        model="resnet50",
        cluster="dgx-1-v100",
        global_batch=256,
        shape={"stages": 4, "replicas": 2, "microbatches": 8, "schedule": "gpipe"},
    )
