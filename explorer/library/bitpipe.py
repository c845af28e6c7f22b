"""BitPipe: two pipelines in opposite directions, each there and back over the devices."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

EQUAL_SLOTS = "the greedy order by seconds idles 13 of 61; ours gives every action one slot"
AHEAD = "our order runs forwards whenever no backward can run; the paper prints the range, not the order"


def _pipeline(d: int, backward: float) -> Ideal:
    """Return m = D; F of a device's two chunks is a second, B so many."""
    return Ideal(p=d, m=d, schedule="bitpipe", forward_s=0.5, backward_s=backward / 2)


@SYSTEMS.add(
    System(
        name="bitpipe",
        title="Bidirectional and interleaved: a quarter of the bubble for a second copy of the weights",
        paper="Wu et al., BitPipe: Bidirectional Interleaved Pipeline Parallelism for Accelerating Large"
        " Models Training, 2024",
        year=2024,
        uses=Uses(schedules=("bitpipe",), options=("two copies of every stage",)),
        claims=(
            *(
                Claim(
                    text=f"idle for (D - 2)(F + B)/4 where F = B, at D = m = {d}",
                    published=(d - 2) * 2 / 4,
                    unit="s",
                    measure=lambda d=d: _pipeline(d, 1.0).idle_s(),  # type: ignore[misc]
                )
                for d in (4, 6, 8)
            ),
            *(
                Claim(
                    text=f"bubble (D - 2)/(3 m + D - 2) where B = 2 F, at D = m = {d}",
                    published=(d - 2) / (3 * d + d - 2),
                    unit="",
                    measure=lambda d=d: _pipeline(d, 2.0).bubble(),  # type: ignore[misc]
                    why=EQUAL_SLOTS if d == 8 else "",
                )
                for d in (4, 8)
            ),
            *(
                Claim(
                    text=f"{where} device keeps {formula} microbatches, at D = {d}",
                    published=published,
                    unit="microbatches",
                    measure=lambda d=d, at=at: _pipeline(d, 1.0).activations(at) / 2,  # type: ignore[misc]
                    why=AHEAD if published == 5.5 else "",
                )
                for d, at, where, formula, published in (
                    (4, 0, "an outer", "(D + 3)/2", 3.5),
                    (4, 1, "an inner", "D", 4.0),
                    (8, 0, "an outer", "(D + 3)/2", 5.5),
                    (8, 3, "an inner", "D", 8.0),
                )
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium over four V100, two copies that go there and back."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-1-v100",
        global_batch=16,
        shape={"stages": 4, "microbatches": 4, "schedule": "bitpipe"},
    )
