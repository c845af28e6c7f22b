"""How far the orders of `optpipe` may be from the shortest, in the memory of 1F1B and in twice that.

usage: python benchmarks/optpipe_gaps.py [SECONDS]

A row for every number of positions and microbatches: stages whose seconds and bytes differ by some ten per
cent, transfers of up to 1.5 forwards, backwards in two parts. Prints the seconds from step to step and the
gap to what no order is below, with which the solver begins and after SECONDS of it (10 by default).
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from explorer.actions import UPDATE, Shape
from explorer.schedules import make_order
from explorer.schedules._step_clock import chain_of, seconds_of
from tests.schedules.test_optpipe import uneven

SIZES = ((4, 8), (4, 12), (4, 16), (8, 8), (8, 12), (8, 16))


def even(p: int, m: int) -> Shape:
    """Return stages that take a second for F, I and W each."""
    ones = (1.0,) * p
    shape = replace(uneven(random.Random(0), p, m), forward_s=ones, input_grad_s=ones, weight_grad_s=ones)
    return replace(
        shape, transfer_s=(0.0,) * (p - 1), activation_bytes=ones, waiting_bytes=(0.5,) * p
    )  # fmt: skip


def found(shape: Shape, limit: int, seconds: float) -> tuple[float, float, float]:
    """Return the seconds of a step, the gap, and the processor seconds of this process."""
    begun = time.process_time()
    options = {"limit": limit, "nodes": 10**9, "seconds": seconds, "choices": 10**6 * (seconds > 0)}
    order = make_order("optpipe", shape, options=options)
    lanes = tuple(tuple((a.op, a.first_microbatch) for a in lane if a.op != UPDATE) for lane in order.lanes)
    lanes = tuple(
        tuple(part for op, n in lane for part in ([("I", n), ("W", n)] if op == "B" else [(op, n)]))
        for lane in lanes
    )
    step_s = seconds_of(chain_of(shape, limit), lanes).period_s
    return step_s, float(order.options["gap"]), time.process_time() - begun


def main() -> None:
    """Print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    print(f"| p | m | limit | stages | begins with | gap | CPU s | after {seconds:g} s | gap |")
    print("|---:|---:|---:|---|---:|---:|---:|---:|---:|")
    for p, m in SIZES:
        for limit in (1, 2):
            for name, shape in (("even", even(p, m)), ("uneven", uneven(random.Random(1), p, m))):
                start_s, start_gap, cpu = found(shape, limit, 0.0)
                end_s, end_gap, _ = found(shape, limit, seconds)
                print(
                    f"| {p} | {m} | {limit} | {name} | {start_s:.2f} | {100 * start_gap:.1f} % | {cpu:.1f} |"
                    f" {end_s:.2f} | {100 * end_gap:.1f} % |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
