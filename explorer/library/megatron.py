"""Megatron-LM: tensor parallelism inside nodes, interleaved pipelines across them, replicas outside."""

from __future__ import annotations

from collections import Counter

from explorer.cluster_profiles import load_cluster
from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.score.machines import nodes_of
from explorer.score.megatron import Gpt, GptRun, gpt_case
from explorer.score.sets.megatron_table1 import step_flops
from explorer.search import Problem, search
from explorer.sharding import megatron_layout, shard
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.workload import default_workload

P, M, V = 4, 8, 2
RUNS = {
    "39.1": (48, 8192, 64, 2, 512, 1536, 4, 138.0),
    "145.6": (80, 12288, 96, 8, 1536, 2304, 2, 148.0),
}
"""Rows of table 1 by billions of parameters: layers, width, heads, pipeline, GPUs, batch, microbatch of the
authors' script, teraFLOP/s per GPU. Tensor parallelism is 8 in both."""


def _interleaved() -> Ideal:
    return Ideal(p=P, m=M, schedule="interleaved_1f1b", chunks=V, forward_s=1 / V, backward_s=2 / V)


def _all_reduced_elements(t: int = 8) -> float:
    """Return the elements a rank sends for a block of GPT-3 175B and one sample by ring all-reduces."""
    graph = load_model("gpt3-175b")
    found = shard(graph, graph.blocks["layers.7"], layout=megatron_layout(), sizes={"tensor": t})
    total: Counter[str] = Counter()
    for item in (*found.forward, *found.backward):
        total[item.op] += item.elements_per_sample  # type: ignore[assignment]
    return 2 * (t - 1) / t * total["all_reduce"]


def _teraflops(name: str) -> float:
    layers, width, heads, pipeline, devices, batch, micro, _ = RUNS[name]
    model = Gpt(layers=layers, embed=width, heads=heads, vocab=51200, sequence=2048, accumulation="separate")
    degrees = Degrees(
        tensor=8, replicas=devices // (8 * pipeline), stages=pipeline, microbatch_size=micro,
        recompute="full", chunks=layers // pipeline // 5 if pipeline > 2 else 1,
    )  # fmt: skip
    run = GptRun(degrees=degrees, batch=batch)
    case = gpt_case(model, run, nodes_of("dgx-a100-128", devices))
    return step_flops(model, batch) / devices / simulate(*case).step_time_s / 1e12


def _tensor_by_rule() -> float:
    """Return the tensor-parallel size that the rule gives a GPT of 76.1 billion parameters on four nodes."""
    settings = {"layers": "60", "embed": "10240", "heads": "80", "positions": "2048", "vocab": "51200"}
    graph = load_model("gpt", settings=settings)
    workload = default_workload(graph).with_job(global_batch=8)
    problem = Problem(graph=graph, cluster=load_cluster("dgx-a100-4"), workload=workload)
    *_, last = search(problem, "megatron", options={"recompute": "full"})
    axes = last.best.strategy.job.stages[0].meshes[0].axes if last.best else ()
    return dict(axes).get("tensor", 1)


@SYSTEMS.add(
    System(
        name="megatron",
        title="Tensor x pipeline x data parallelism with interleaved 1F1B",
        paper="Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters"
        " Using Megatron-LM, SC 2021",
        year=2021,
        uses=Uses(
            schedules=("interleaved_1f1b", "1f1b"), searchers=("megatron",), options=("tensor layout",)
        ),
        claims=(
            Claim(
                text=f"bubble over ideal time (p - 1)/(v m), at p = {P}, m = {M}, v = {V} chunks",
                published=(P - 1) / (V * M),
                unit="",
                measure=lambda: _interleaved().bubble_over_ideal(),
            ),
            Claim(
                text="the first rank keeps 1 + (p - 1)/(p v) of the p microbatches of 1F1B, in chunks of 1/v",
                published=(1 + (P - 1) / (P * V)) * P * V,
                unit="chunks",
                measure=lambda: _interleaved().activations(0),
            ),
            Claim(
                text="a block sends 8 (t - 1)/t b s h elements per rank, at t = 8 for GPT-3 175B and"
                " one sample",
                published=8 * 7 / 8 * 2048 * 12288,
                unit="elements",
                measure=_all_reduced_elements,
            ),
            Claim(
                text="P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)) parameters, GPT-3 175B (V = 50257)",
                published=12 * 96 * 12288**2 * (1 + 13 / (12 * 12288) + (50257 + 2048) / (12 * 96 * 12288)),
                unit="parameters",
                measure=lambda: load_model("gpt3-175b").parameter_count,
                within=1e-6,
                why="the formula leaves out the last normalisation",
            ),
            Claim(
                text="takeaway 1: tensor parallelism up to the g = 8 devices of a node, then pipeline"
                " stages: a GPT of 76.1 billion parameters on 32 A100",
                published=8,
                unit="devices",
                measure=_tensor_by_rule,
            ),
            *(
                Claim(
                    text=f"table 1: GPT of {name} billion parameters on {RUNS[name][4]} A100",
                    published=RUNS[name][-1],
                    unit="TFLOP/s per GPU",
                    measure=lambda name=name: _teraflops(name),  # type: ignore[misc]
                    within=0.1,
                    why="measured on Selene; predicted with the bundled profile, part of whose numbers were"
                    " fitted on runs of the same machine (docs/score.md)",
                )
                for name in RUNS
            ),
        ),
    )
)
def example() -> Example:
    """GPT-3 175B on 64 A100: 8-way tensor parallelism in nodes, 8 pipeline stages."""
    return Example(
        model="gpt3-175b",
        cluster="dgx-a100-128",
        global_batch=64,
        shape={"stages": 8, "tensor": 8, "chunks": 3, "microbatch_size": 1, "recompute": "full"},
    )
