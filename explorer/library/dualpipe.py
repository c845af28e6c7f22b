"""DualPipe and DualPipeV: forwards and backwards of two microbatches as one action."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P = 8
LONGER = "with F = I, as in the paper's drawing; where input gradients are longer it is less"


def _pipeline(name: str, weight_grad_s: float = 1.0) -> Ideal:
    """Return twice as many microbatches as stages of one way; F = I = 1, W as given."""
    positions = P // 2 if name == "dualpipe_v" else P
    return Ideal(
        p=positions, m=2 * P, schedule=name, backward_s=1.0 + weight_grad_s, weight_grad_s=weight_grad_s
    )


def _bubble(weight: float) -> float:
    """Return (p/2 - 1)(F&B + B - 3W), if F&B = F + B hides nothing."""
    backward = 1.0 + weight
    return (P / 2 - 1) * (1.0 + backward + backward - 3 * weight)


@SYSTEMS.add(
    System(
        name="dualpipe",
        title="Forwards and backwards as one action, so that experts' all-to-all passes beside work",
        paper="DeepSeek-AI, DeepSeek-V3 Technical Report, 2024",
        year=2024,
        uses=Uses(schedules=("dualpipe", "dualpipe_v"), options=("overlapped actions",)),
        missing="the share of a device's units that communicates, which its kernels set by hand",
        claims=(
            *(
                Claim(
                    text=f"idle for (PP/2 - 1)(F&B + B - 3W), PP = {P}, W = {weight:g}: {title}",
                    published=_bubble(weight),
                    unit="s",
                    measure=lambda name=name, weight=weight: _pipeline(  # type: ignore[misc]
                        name, weight
                    ).idle_s(),
                    why=LONGER,
                )
                for name, title in (("dualpipe", "DualPipe"), ("dualpipe_v", "DualPipeV on half the devices"))
                for weight in (1.0, 0.5)
            ),
            *(
                Claim(
                    text=f"device {at} of {P} keeps PP + 1 microbatches under DualPipe",
                    published=P + 1,
                    unit="microbatches",
                    measure=lambda at=at: _pipeline("dualpipe").activations(at),  # type: ignore[misc]
                )
                for at in (0, P // 2)
            ),
            Claim(
                text=f"DualPipeV keeps as many of its halves: PP + 1 on each of {P // 2} devices",
                published=P + 1,
                unit="chunks",
                measure=lambda: _pipeline("dualpipe_v").activations(0),
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium over four pairs of A100, collectives of one microbatch beside the work of another."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-a100",
        global_batch=16,
        shape={"stages": 4, "tensor": 2, "microbatches": 16, "schedule": "dualpipe_v"},
    )
