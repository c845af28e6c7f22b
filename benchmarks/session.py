"""Memory of the kernel over a long session without a browser. `python benchmarks/session.py [ROUNDS]`

Random drags, boundary moves, pickers, undos, searches and opened plans through the gestures of the page. The
second half of the session is compared with the end of the first, when caches are filled.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import tempfile
import time
from pathlib import Path

import psutil

import explorer
from explorer.simulation.report import Report
from widgets import Explorer

ROUNDS = 500
SEARCH_S = 0.2


def megabytes() -> float:
    """Memory of this process."""
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 1e6


def live_reports() -> int:
    """Reports with their arrays that something still holds."""
    return sum(isinstance(item, Report) for item in gc.get_objects())


async def gesture(bench: Explorer, rng: random.Random, plan: Path) -> str:
    """One random gesture; its name."""
    kind = rng.choices(
        ("drag", "boundary", "undo", "redo", "picker", "search", "load"), (50, 20, 15, 5, 5, 2, 3)
    )[0]
    lanes = bench.board.view["lanes"]
    if kind == "drag":
        block = rng.choice(bench.board.blocks)
        layers = [layer["id"] for layer in block["layers"]]
        bench.board.send_intent("move", layers=layers, to_lane=rng.choice(lanes)["id"])
    elif kind == "boundary" and len(bench.strategy.job.stages) > 1:
        before = rng.randrange(len(bench.strategy.job.stages) - 1)
        bench.board.send_intent(
            "move_boundary", before=before, after=before + 1, layers=rng.choice((-2, -1, 1, 2))
        )
    elif kind in ("undo", "redo"):
        bench.board.send_intent(kind)
    elif kind == "picker":
        key, values = rng.choice((("zero", "01"), ("recompute", ("none", "full")), ("stages", (2, 4, 8))))
        bench.controls.send_intent("set", key=key, value=rng.choice(values))
    elif kind == "search":
        bench.searcher, bench.search_budget_s = "megatron", SEARCH_S
        bench.search()
        await asyncio.sleep(SEARCH_S * 3)
    else:
        bench.open_plan(plan)
    return kind


async def session(rounds: int, seed: int = 0) -> list[dict[str, float]]:
    """Memory at ten points of a session."""
    rng = random.Random(seed)
    bench = Explorer("llama3-8b", "dgx-a100", global_batch=64)
    rows, start = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.yaml"
        explorer.save_plan(bench.plan, bench.resolved().graphs, plan)
        for number in range(1, rounds + 1):
            await gesture(bench, rng, plan)
            await asyncio.sleep(0)
            if number % max(1, rounds // 10) == 0:
                await asyncio.sleep(0.5)  # what follows a gesture in quiet moments is part of it
                rows.append(
                    {
                        "gestures": number,
                        "rss_mb": megabytes(),
                        "states": len(bench.history.points),
                        "reports": live_reports(),
                        "wall_s": time.perf_counter() - start,
                    }
                )
    bench.close()
    return rows


def main() -> None:
    """Print a table and the growth after warm-up."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    rows = asyncio.run(session(rounds))
    print("| gestures | memory, MB | states kept | whole reports alive | wall, s |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['gestures']:.0f} | {row['rss_mb']:.0f} | {row['states']:.0f} | {row['reports']:.0f} |"
            f" {row['wall_s']:.0f} |"
        )
    middle, end = rows[len(rows) // 2 - 1]["rss_mb"], rows[-1]["rss_mb"]
    print(f"\nGrowth of the second half: {end / middle - 1:+.1%}")


if __name__ == "__main__":
    main()
