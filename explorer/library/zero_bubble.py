"""Zero bubble: the backward split in two, weight gradients in times when a device would wait."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P, M = 4, 12
F, I, W = 1.0, 1.5, 0.5  # noqa: E741
FORWARD_MS, INPUT_GRAD_MS, WEIGHT_GRAD_MS, TRANSFER_MS = 18.522, 18.086, 9.337, 0.601
"""Stage times of the paper's 1.5B model on eight A100."""
FOUR_DIGITS = "from the paper's stage times, printed to four digits"
TABLE_5 = (
    ("1F1B", "1f1b", 1, 0.2431, 1e-3, FOUR_DIGITS),
    ("ZB-H1", "zb_h1", 1, 0.1585, 1e-3, FOUR_DIGITS),
    ("ZB-H2", "zb_h2", 1, 0.1083, 1e-3, FOUR_DIGITS),
    ("ZB-1p", "zb_auto", 1, 0.1585, 1e-3, FOUR_DIGITS),
    (
        "ZB-2p", "zb_auto", 2, 0.0433, 0.05,
        "from the paper's stage times; its search tries more orders than our greedy clock",
    ),
)  # fmt: skip
"""Bubble rates at p = 8 and m = 24: name, our schedule, its memory limit, published, tolerance, why."""


def _pipeline(schedule: str, *, even: bool = False) -> Ideal:
    forward, inputs, weights = (1.0, 1.0, 1.0) if even else (F, I, W)
    return Ideal(
        p=P, m=M, schedule=schedule, forward_s=forward, backward_s=inputs + weights, weight_grad_s=weights
    )


def _bubble_rate(schedule: str, limit: int) -> float:
    """Return (cost - m (F + I + W)) / cost in the paper's case of eight stages and 24 microbatches."""
    options = {"limit": limit, "kept": 0.5} if schedule == "zb_auto" else {}
    backward = INPUT_GRAD_MS + WEIGHT_GRAD_MS
    return Ideal(
        p=8, m=24, schedule=schedule, options=options, forward_s=FORWARD_MS / 1e3,
        backward_s=backward / 1e3, weight_grad_s=WEIGHT_GRAD_MS / 1e3, transfer_s=TRANSFER_MS / 1e3,
    ).bubble_rate()  # fmt: skip


@SYSTEMS.add(
    System(
        name="zero_bubble",
        title="Split backward: weight gradients fill the bubble",
        paper="Qi, Wan, Huang and Lin, Zero Bubble Pipeline Parallelism, ICLR 2024",
        year=2023,
        uses=Uses(schedules=("zb_h1", "zb_h2", "zb_auto", "1f1b")),
        missing="steps that run on without a flush (post-validation of the update), and its integer program",
        claims=(
            Claim(
                text=f"ZB-H1 idles (p - 1)(F + I - W), at p = {P}, F = {F:g}, I = {I:g}, W = {W:g}",
                published=(P - 1) * (F + I - W),
                unit="s",
                measure=lambda: _pipeline("zb_h1").idle_s(),
            ),
            Claim(
                text="1F1B idles (p - 1)(F + I + W) in the same case",
                published=(P - 1) * (F + I + W),
                unit="s",
                measure=lambda: _pipeline("1f1b").idle_s(),
            ),
            Claim(
                text="ZB-H2 has no bubble where F = I = W: idle from a device's first start to its last end",
                published=0,
                unit="s",
                measure=lambda: _pipeline("zb_h2", even=True).device_idle_s(),
            ),
            *(
                Claim(
                    text=f"stage {s} of {P} keeps p microbatches at most under ZB-H1",
                    published=P,
                    unit="microbatches",
                    measure=lambda s=s: _pipeline("zb_h1").activations(s),  # type: ignore[misc]
                )
                for s in (0, P - 1)
            ),
            *(
                Claim(
                    text=f"stage {s} of {P} keeps 2 p - 1 microbatches at most under ZB-H2",
                    published=2 * P - 1,
                    unit="microbatches",
                    measure=lambda s=s: _pipeline("zb_h2", even=True).activations(s),  # type: ignore[misc]
                )
                for s in (0, P - 1)
            ),
            *(
                Claim(
                    text=f"table 5: bubble rate of {name}, 1.5B model, p = 8, m = 24",
                    published=published,
                    unit="",
                    measure=lambda schedule=schedule, limit=limit: _bubble_rate(  # type: ignore[misc]
                        schedule, limit
                    ),
                    within=within,
                    why=why,
                )
                for name, schedule, limit, published, within, why in TABLE_5
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium over eight A100."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-a100",
        global_batch=48,
        shape={"stages": 8, "microbatches": 24, "schedule": "zb_h1"},
    )
