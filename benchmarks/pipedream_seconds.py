"""Seconds of `pipedream` beside its published optimizer: `python benchmarks/pipedream_seconds.py FOLDER`.

FOLDER has recorded runs (`expected.json`, wall seconds by whoever recorded them on a machine of theirs) and
their profiles (`NAME.graph.txt`). Runs that took `--least` seconds (1) or more are searched again, each
`--times` times (3): CPU and wall seconds of the fastest, the ratio of the recorded to each, and how far the
value is off. The first search of a process compiles; it is not counted. `--page` writes the table into
docs/search.md.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from searchers_tables import placed

from explorer.models import load_model
from explorer.search import Problem, search
from explorer.workload import default_workload

PAGE, MARK = Path(__file__).parents[1] / "docs" / "search.md", "pipedream_seconds"
COLUMNS = (
    "profile",
    "devices",
    "variant",
    "recorded, s",
    "ours, CPU s",
    "x",
    "ours, wall s",
    "x",
    "T off by",
)
COMPRESSED = "_compressed"


class Taken(NamedTuple):
    """What a search took and found."""

    cpu_s: float
    wall_s: float
    pipeline_s: float


def options_of(run: dict[str, Any]) -> dict[str, str]:
    """Return the options with which a recorded run is made again."""
    return {
        "cost_model": "original",
        "devices": ",".join(map(str, run["n"])),
        "bandwidth_bytes_per_s": ",".join(map(str, run["bandwidth_Bps"])),
        "transfers": "counted" if "--activation_compression_ratio" in run["flags"] else "free",
        "straight": str("--straight_pipeline" in run["flags"]),
        "branches": "compress" if run["profile"].endswith(COMPRESSED) else "keep",
    }


def taken(folder: Path, run: dict[str, Any]) -> Taken:
    """Search once, the profile read anew; reading is not counted."""
    graph = load_model(str(folder / f"{run['profile'].removesuffix(COMPRESSED)}.graph.txt"))
    problem = Problem(graph=graph, cluster=None, workload=default_workload(graph))
    cpu, wall = time.process_time(), time.perf_counter()
    *_, last = search(problem, "pipedream", options=options_of(run))
    return Taken(time.process_time() - cpu, time.perf_counter() - wall, last.foreign_value or 0.0)


def loop_ms() -> float:
    """Return the CPU milliseconds of a million rounds of an empty loop."""
    began = time.process_time()
    for _ in range(1_000_000):
        pass
    return 1e3 * (time.process_time() - began)


def row_of(run: dict[str, Any], own: list[Taken]) -> str:
    """Return a row of the table."""
    recorded, best = run["wall_s_median"], min(own)
    wall_s = min(one.wall_s for one in own)
    flags = [word for flag, word in WORDS.items() if flag in run["flags"]]
    cells = [
        run["profile"].replace(COMPRESSED, ", compressed"), " x ".join(map(str, run["n"])),
        ", ".join(flags) or "-", f"{recorded:.2f}", f"{best.cpu_s:.3f}", f"{recorded / best.cpu_s:.0f}",
        f"{wall_s:.3f}", f"{recorded / wall_s:.0f}",
        f"{abs(best.pipeline_s / run['pipeline_time_s'] - 1):.0e}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


WORDS = {"--activation_compression_ratio": "transfers counted", "--straight_pipeline": "no replicas"}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--least", type=float, default=1.0, help="recorded seconds from which on")
    parser.add_argument("--times", type=int, default=3, help="searches of each")
    parser.add_argument("--page", action="store_true", help="write the table into docs/search.md")
    options = parser.parse_args()
    runs = json.loads((options.folder / "expected.json").read_text(encoding="utf-8"))["runs"]
    chosen = [run for run in runs if run.get("wall_s_median", 0.0) >= options.least]
    taken(options.folder, min(runs, key=lambda run: run.get("wall_s_median", 1e9)))  # compiles, imports
    lines = [
        f"A million rounds of an empty loop took {loop_ms():.0f} ms ({datetime.now(UTC):%Y-%m-%d}).", "",
        f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|",
    ]  # fmt: skip
    print("\n".join(lines))
    for run in chosen:
        lines.append(row_of(run, [taken(options.folder, run) for _ in range(options.times)]))
        print(lines[-1], flush=True)
    if options.page:
        text = placed(PAGE.read_text(encoding="utf-8"), MARK, "\n".join(lines))
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
