"""How true predictions of short real runs are: their order given their parts, and their parts by a profile.

python benchmarks/two_questions.py [--profile FILE] [--rounds 3] [--only k..l] [--likeness] [--precision plan]
                                   [--rows FILE]

Runs of 2 ranks with models' own layers: GPT-2 small, a Llama of 4 blocks at width 512, ResNet-50, a T5, a
Mixtral of small width and a user's module with a skip connection; the first twenty are pipelines of several
schedules and replicas, the other eight are sharded: ZeRO 1 to 3, tensor and sequence parallelism, experts.
(a) is the error of the step, given times of its parts from the same run; (b) that of the seconds of compute
by a profile of this machine, made first unless a file is given; memory is the largest error of a rank's peak
tensor bytes. The share of a core that ranks got, and the load, stand beside. Ends with 1 if a run computes
wrong numbers or an error is larger than asked. Runs are in fp32 on any machine; with `--precision plan` in
the bf16 of their plans where the machine has it. With `--rows`, what runs came to is added to a file and the
table is over all of it, so that they can be made in parts; `--only 0` makes none. Wants an idle machine with
two cores: a verdict needs most of a core for each rank.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from explorer.base.errors import ExplorerError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.plan import Reference, Resolved, make_plan, resolve
from explorer.profiling import profile_machine
from explorer.run import validate
from explorer.run.cases.likeness import UnitSize
from explorer.run.judging.compare import TOO_NOISY, Comparison
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

CLUSTER, BATCH = "dgx-a100", 64
ASKED = (("(a) step", 5.0, 15.0), ("(b) compute", 15.0, 30.0), ("memory", 5.0, 5.0))
"""Largest median and worst error, in per cent."""
WIDE = 40.0
"""Largest error of (b) under tensor parallelism, in per cent."""
VERDICTS = 0.9
"""Least share of the runs with a verdict."""
SIZES = {"vocab": "8000", "layers": "4", "embed": "512", "heads": "8"}
CONFIGS: dict[str, dict[str, Any]] = {
    "t5": {"model_type": "t5", "d_model": 384, "d_ff": 1024, "num_layers": 4, "num_heads": 6, "d_kv": 64,
           "vocab_size": 8000},
    "mixtral": {"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 384, "intermediate_size": 768,
                "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 8000,
                "num_local_experts": 4},
}  # fmt: skip
"""Hugging Face configurations."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is run."""

    reference: str
    settings: tuple[tuple[str, str], ...] = ()
    tokens: int = 0


MODELS = {
    "gpt2-small": Model("gpt2-small"),
    "llama": Model("llama", (*SIZES.items(), ("kv_heads", "4"), ("ffn", "1376")), 64),
    "resnet50": Model("resnet50"),
    "t5": Model("hf:t5.json", tokens=64),
    "mixtral": Model("hf:mixtral.json", tokens=64),
    "skip": Model("benchmarks.user_modules:skip"),
}
PIPELINE: dict[str, Any] = {"stages": 2, "microbatches": 8}
REPLICAS: dict[str, Any] = {"replicas": 2, "microbatches": 4}
TENSOR: dict[str, Any] = {"tensor": 2, "microbatches": 4}
RUNS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gpt2-small", PIPELINE),
    ("gpt2-small", REPLICAS),
    ("gpt2-small", {**PIPELINE, "schedule": "gpipe"}),
    ("gpt2-small", {**PIPELINE, "schedule": "zb_h1"}),
    ("llama", PIPELINE),
    ("llama", REPLICAS),
    ("llama", {**PIPELINE, "schedule": "gpipe"}),
    ("llama", {**PIPELINE, "schedule": "zb_h1"}),
    ("llama", {**PIPELINE, "schedule": "pipedream_2bw"}),
    ("resnet50", PIPELINE),
    ("resnet50", REPLICAS),
    ("resnet50", {**PIPELINE, "schedule": "gpipe"}),
    ("t5", PIPELINE),
    ("t5", REPLICAS),
    ("t5", {**PIPELINE, "schedule": "gpipe"}),
    ("mixtral", PIPELINE),
    ("mixtral", REPLICAS),
    ("skip", PIPELINE),
    ("skip", REPLICAS),
    ("skip", {**PIPELINE, "schedule": "zb_h1"}),
    ("llama", {**REPLICAS, "zero": 3}),
    ("gpt2-small", {**REPLICAS, "zero": 2}),
    ("resnet50", {**REPLICAS, "zero": 3}),
    ("t5", {**REPLICAS, "zero": 1}),
    ("llama", TENSOR),
    ("llama", {**TENSOR, "sequence_parallel": True}),
    ("gpt2-small", TENSOR),
    ("mixtral", {**REPLICAS, "expert": 2}),
)


def plan(name: str, shape: dict[str, Any], folder: Path = Path()) -> Resolved:
    """A plan of a model on two devices; `folder` holds the configurations."""
    model = MODELS[name]
    reference = model.reference.replace("hf:", f"hf:{folder}/")
    graph = load_model(reference, settings=dict(model.settings), sequence_length=model.tokens or None)
    cluster = load_cluster(CLUSTER)
    workload = default_workload(graph).with_job(global_batch=BATCH)
    strategy = uniform(graph, cluster, workload.job, **shape)
    named = Reference(reference=reference, settings=model.settings, sequence_length=model.tokens)
    return resolve(make_plan(named, graph, CLUSTER, cluster, workload, strategy), trust=True)


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run came to."""

    number: int
    text: str
    """Its row of the table."""
    errors: tuple[float, ...] = ()
    """(a), (b) and memory in per cent; () if it could not be made. (b) is nan without a profile."""
    right: bool = False
    """Whether its numbers were right."""
    told: bool = False
    """Whether it had a verdict."""


def ended(number: int, words: str, found: Comparison, seconds: float) -> Ended:
    """Return what a run came to."""
    costs = found.costs
    second = costs.error_pct if costs else float("nan")
    memory = max((100 * (m.predicted_bytes / m.measured_bytes - 1) for m in found.memory), key=abs)
    verdicts = f"{found.verdict}, {costs.verdict if costs else found.costs_missing}"
    text = (
        f"| {number} | {words} | {found.error_pct:+.1f} % | {second:+.1f} % | {memory:+.1f} % |"
        f" {found.numerics.get('gradient', 0.0):.0e} | {found.contention:.2f} | {os.getloadavg()[0]:.1f} |"
        f" {seconds:.0f} s | {verdicts} |"
    )
    errors = (found.error_pct, second, memory)
    return Ended(number, text, errors, bool(found.numerics_ok), found.verdict != TOO_NOISY)


def main(arguments: list[str]) -> int:
    """Print a table of the runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", help="profile of this machine; made first if none is given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=f"1..{len(RUNS)}", metavar="k..l", help="the runs from k to l")
    parser.add_argument("--likeness", action="store_true", help="stand-ins in place of own layers")
    parser.add_argument(
        "--precision", choices=("fp32", "plan"), default="fp32", help="precision of own layers"
    )
    parser.add_argument("--rows", type=Path, help="file of what runs came to, to which these are added")
    options = parser.parse_args(arguments)
    low, _, high = options.only.partition("..")
    sys.path.insert(0, str(Path(__file__).parents[1]))  # where the user's module is found
    profile = load_cluster(options.profile) if options.profile else None
    if profile is None and options.only != "0":
        profile = profile_machine("here", devices="cpu", ranks=2)
    made: dict[int, Ended] = {}
    if options.rows and options.rows.exists():
        rows = map(json.loads, options.rows.read_text(encoding="utf-8").splitlines())
        made = {row["number"]: Ended(**row) for row in rows}
    print("| run | plan | (a) step | (b) compute | memory | gradients | cores got | load | took | verdicts |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, config in CONFIGS.items():
            (Path(folder) / f"{name}.json").write_text(json.dumps(config))
        for number in range(1, len(RUNS) + 1):
            if int(low) <= number <= int(high or low):
                made[number] = _run(number, Path(folder), options, profile)
                if options.rows:
                    with options.rows.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(made[number])) + "\n")
            if number in made:
                print(made[number].text, flush=True)
    return int(not _holds(list(made.values())))


def _run(number: int, folder: Path, options: argparse.Namespace, profile: Cluster | None) -> Ended:
    """Make one run."""
    model, shape = RUNS[number - 1]
    words = f"{model} {', '.join(f'{key} {value}' for key, value in shape.items())}"
    begin = time.monotonic()
    try:
        found = validate(
            plan(model, shape, folder), steps=options.rounds, ranks=2, profile=profile,
            engine="likeness" if options.likeness else "layers", precision=options.precision,
            size=UnitSize(step_s=1.0) if options.likeness else None,
        )  # fmt: skip
    except ExplorerError as error:
        return Ended(number, f"| {number} | {words} | {error} |")
    return ended(number, words, found, time.monotonic() - begin)


def _holds(every: Sequence[Ended]) -> bool:
    """Print medians and worst errors beside what is asked; tell whether all is met."""
    judged = [item for item in every if item.errors]
    if not judged:
        return not every
    print("\n| over all runs | median | asked | worst | asked | met |\n|---|---|---|---|---|---|")
    met = [all(item.right for item in every)]
    for k, (what, middle, most) in enumerate(ASKED):
        errors = [abs(item.errors[k]) for item in judged]
        limits = [WIDE if k == 1 and "tensor" in RUNS[item.number - 1][1] else most for item in judged]
        within = [error <= limit for error, limit in zip(errors, limits, strict=True)]
        met += [median(errors) <= middle or math.isnan(errors[0]), all(within) or math.isnan(errors[0])]
        print(
            f"| {what} | {median(errors):.1f} % | {middle:g} % | {max(errors):.1f} % | {most:g} % |"
            f" {sum(within)} of {len(every)} runs |"
        )
    told = sum(item.told for item in every)
    print(f"| verdicts | | | {told} of {len(every)} | {VERDICTS * len(every):g} | |")
    return all(met) and told >= VERDICTS * len(every)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
