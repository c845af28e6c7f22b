"""OneFlow: every tensor is split, broadcast or a partial sum over devices; boxing turns one into another."""

from __future__ import annotations

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.sharding.reshard import moved, reshard
from explorer.sharding.states import BROADCAST, PARTIAL, Axis

P = 4
SPLIT, OTHER = 0, 1
BOXING = (
    ("S(i) to S(j)", SPLIT, OTHER, (P - 1) / P),
    ("S to B", SPLIT, BROADCAST, P - 1),
    ("B to S", BROADCAST, SPLIT, 0),
    ("S to P", SPLIT, PARTIAL, 0),
    ("P to S", PARTIAL, SPLIT, P - 1),
    ("P to B", PARTIAL, BROADCAST, 2 * (P - 1)),
)
"""Table 2 of the paper for equal devices: number of tensors that all p devices send together."""


def _sent(source: int, target: int) -> float:
    axes = (Axis(name="a", size=P),)
    return P * moved(reshard((source,), (target,), (16.0, 16.0), axes), axes)


@SYSTEMS.add(
    System(
        name="oneflow",
        title="Split, broadcast, partial: boxing between signatures",
        paper="Yuan et al., OneFlow: Redesign the Distributed Deep Learning Framework from Scratch, 2021",
        year=2021,
        uses=Uses(options=("named-dimension layouts",)),
        missing="credits that bound what is in flight",
        claims=tuple(
            Claim(
                text=f"{name} over p = {P} devices sends this many tensors in all",
                published=published,
                unit="tensors",
                measure=lambda source=source, target=target: _sent(source, target),  # type: ignore[misc]
            )
            for name, source, target, published in BOXING
        ),
    )
)
def example() -> Example:
    """Llama 3 8B, tensor parallel over four A100."""
    return Example(
        model="llama3-8b", cluster="dgx-a100", global_batch=8, shape={"tensor": 4, "microbatch_size": 1}
    )
