"""Seconds until `auto` has a plan that fits. `python benchmarks/first_plan.py [--only MODEL] [--budget S]`

CPU seconds of a new process for each pair: of importing and opening model and cluster, and from the start of
the search to its first plan that fits, with how many strategies were costed by then and who found it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

ALONE = "--alone"
PAIRS = (
    ("llama3-405b", "hgx-h100-2048"), ("gpt3-175b", "dgx-a100-128"), ("llama3-8b", "dgx-a100"),
    ("mixtral-8x7b", "hgx-h100-16"), ("deepseek-v2", "hgx-h100-16"), ("gnmt-16", "pipedream-a"),
    ("resnet50", "dgx-1-v100"), ("bert-large", "rtx4090-pcie-4"), ("inception-v3", "ethernet-10g-4x4"),
    ("dlrm", "dgx-a100"), ("opt-350m", "mixed-v100-a100"), ("gpt2-xl", "ethernet-10g-4x4"),
)  # fmt: skip
"""Model and cluster; the batch is the model's own."""


def measure(model: str, cluster: str, budget_s: float) -> dict[str, object]:
    """Search until a plan fits; seconds are of this process, which must be new."""
    import explorer
    from explorer.search import Problem, search

    graph, devices = explorer.load_model(model), explorer.load_cluster(cluster)
    problem = Problem(graph=graph, cluster=devices, workload=explorer.default_workload(graph))
    opened = time.process_time()
    row: dict[str, object] = {"open_s": opened, "first_s": None, "label": "nothing fits", "tried": 0}
    for found in search(problem, budget_s=budget_s):
        row["tried"] = found.evaluations
        if found.best is not None:
            row |= {"first_s": time.process_time() - opened, "value": found.best.value}
            row |= {"label": found.best.label, "finder": found.best.finder}
            break
    return row


def main() -> None:
    """Print one row per pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=30.0, help="seconds for each search")
    parser.add_argument("--only", default="", help="name of one model")
    parser.add_argument(ALONE, nargs=2, help="measure one pair in this process and print JSON")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measure(*options.alone, options.budget)))
        return
    began = time.perf_counter()
    for _ in range(1_000_000):
        pass
    print(f"loop {1e3 * (time.perf_counter() - began):.1f} ms")
    print(
        f"{'model':<14}{'cluster':<18}{'open, s':>8}{'first, s':>9}{'tried':>6}{'value':>11}  found by, plan"
    )
    for model, cluster in PAIRS:
        if options.only not in ("", model):
            continue
        command = [sys.executable, __file__, "--budget", str(options.budget), ALONE, model, cluster]
        row = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        first = "-" if row["first_s"] is None else f"{row['first_s']:.2f}"
        print(
            f"{model:<14}{cluster:<18}{row['open_s']:>8.2f}{first:>9}{row['tried']:>6}"
            f"{row.get('value', 0.0):>11.4f}  {row.get('finder', '')}: {row['label']}"
        )


if __name__ == "__main__":
    main()
