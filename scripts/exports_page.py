"""Write docs/exports.md: what every target of `explorer export` makes of every feature of a plan.

usage: python scripts/exports_page.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from explorer.cluster_profiles import load_cluster
from explorer.export import EXPORTERS
from explorer.export.features import FEATURES
from explorer.export.nearest import APPROXIMATE, answers
from explorer.models import load_model
from explorer.plan import Resolved, make_plan
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.workload import default_workload

PAGE = Path(__file__).parents[1] / "docs" / "exports.md"
HEAD = """# Exports

What `explorer export --to NAME` makes of a plan: = exactly, ~ nearly, x refused by name before anything is
written. Values in brackets are those that a target has. Behind ~ stands how much longer a step takes with
what runs in its place, simulated for one of the plans below the table; where nothing stands, the target's own
way is not a plan that can be simulated, or costs the same. The Export tab says the seconds of your plan.
`--nearest` exports the nearest plan that a target can run and says what it costs. This page is made by
`python scripts/exports_page.py`.

In the tests the files are read by the trainers' own parsers where these are installed: Megatron-Core's,
DeepSpeed's, Accelerate's, torchtitan's. Modules for Megatron Bridge, which needs GPUs, are read by
`explorer import` alone, and the names of their fields compared with Megatron-Core's. Steps of a small
model are run on processors with the script of `torch`, with Accelerate and with DeepSpeed (ZeRO 2; its
pipeline is read only).
"""


EXAMPLES: dict[str, Degrees] = {
    "stages": Degrees(stages=4, replicas=2, microbatch_size=1),
    "stages whose transfers block": Degrees(stages=4, replicas=2, options=(("blocking", True),)),
    "selective recomputation": Degrees(stages=4, replicas=2, recompute="selective"),
    "replicas with buckets": Degrees(replicas=8, tensor=1, zero=1, bucket_bytes=25 * 2**20),
}
"""Plans of `MODEL` on `CLUSTER`, one for each approximation that is another plan."""
MODEL, CLUSTER = "llama3-8b", "dgx-a100"


def page() -> str:
    """Return the text of the page."""
    entries, prices = list(EXPORTERS), priced()
    lines = [HEAD, "| a plan uses | " + " | ".join(entry.name for entry in entries) + " |"]
    lines.append("|---" * (len(entries) + 1) + "|")
    for feature in FEATURES:
        cells = []
        for entry in entries:
            support = entry.capabilities[feature.name]
            sign = "x" if not support.supported else "=" if support.exact else "~"
            price = prices.get((feature.name, entry.name), "")
            cells.append(sign + price + (f" ({', '.join(support.only)})" if support.only else ""))
        lines.append(f"| {feature.title} | {' | '.join(cells)} |")
    plans = "; ".join(f"{words} ({degrees.label})" for words, degrees in EXAMPLES.items())
    lines += ["", f"Plans that were simulated, {MODEL} on {CLUSTER}: {plans}."]
    return "\n".join(lines) + "\n"


def priced() -> dict[tuple[str, str], str]:
    """Return by (feature, target) what an approximation costs in the first example that uses the feature."""
    found: dict[tuple[str, str], str] = {}
    for degrees in EXAMPLES.values():
        plan = example(degrees)
        before_s = simulate(plan.graph, plan.cluster, plan.plan.workload, plan.plan.strategy).step_time_s
        for entry in EXPORTERS:
            for answer in answers(plan, entry.name):
                if answer.answer == APPROXIMATE and answer.step_time_s is not None:
                    ratio = answer.step_time_s / before_s
                    price = f" {ratio - 1:+.1%}" if ratio < 2 else f" x{ratio:.0f}"
                    found.setdefault((answer.name, entry.name), price)
    return found


def example(degrees: Degrees) -> Resolved:
    """Return a plan of the model on the cluster, with its inputs."""
    graph, cluster = load_model(MODEL), load_cluster(CLUSTER)
    workload = default_workload(graph).with_job(global_batch=64)
    strategy = degrees.build(graph, cluster, workload.job)
    plan = make_plan(MODEL, graph, CLUSTER, cluster, workload, strategy)
    return Resolved(plan=plan, graphs={"model": graph}, cluster=cluster)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
