"""Breadth-first pipelines: all microbatches through one chunk, so that ZeRO gathers it once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Table, Uses
from explorer.models import load_model
from explorer.score.machines import nodes_of
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.tasks.program import CLOSING, GATHER, REDUCE
from explorer.workload import default_workload

P, M, V = 4, 8, 2
MODEL = {"layers": "64", "embed": "8192", "heads": "64", "positions": "1024", "vocab": "51200"}
"""The paper's 52B model."""
DEVICES, POSITIONS, REPLICAS, CHUNKS = 64, 4, 2, 4


@cache
def _run(schedule: str, chunks: int, zero: int, microbatches: int, reshard: str = "") -> Report:
    """Return the 52B model on 64 A100, recomputed, one sample a microbatch."""
    graph, cluster = load_model("gpt", settings=MODEL), nodes_of("dgx-a100-128", DEVICES)
    workload = default_workload(graph).with_job(global_batch=microbatches * REPLICAS)
    strategy = uniform(
        graph, cluster, workload.job, stages=POSITIONS, replicas=REPLICAS,
        tensor=DEVICES // POSITIONS // REPLICAS, chunks=chunks, microbatch_size=1, schedule=schedule,
        zero=zero, recompute="full",
    )  # fmt: skip
    stages = tuple(replace(stage, reshard=reshard) for stage in strategy.job.stages)
    strategy = strategy.with_job(strategy.job.with_stages(stages))
    return simulate(graph, cluster, workload, strategy)


def _collectives(kind: int, microbatches: int) -> float:
    """Return the gathers or reductions of one chunk and step under ZeRO-3, on the device with most."""
    program = _run("breadth_first", CHUNKS, 3, microbatches).timeline.program
    found: Counter[int] = Counter()
    for number, step in zip(program.slot.tolist(), program.step.tolist(), strict=True):
        slot = program.slots[number]
        if step == 0 and slot.kind == kind and (kind == REDUCE or slot.part == CLOSING):
            found[slot.where] += 1
    return max(found.values())


def _gains() -> Table:
    rows = []
    for zero, m in product((0, 2, 3), (POSITIONS, 2 * POSITIONS, 4 * POSITIONS)):
        times = [
            _run("interleaved_1f1b", CHUNKS, zero, m, "action" if zero else "").step_time_s,
            _run("interleaved_1f1b", CHUNKS, zero, m).step_time_s,
            _run("breadth_first", CHUNKS, zero, m).step_time_s,
        ]
        gains = [f"{100 * (other / times[-1] - 1):+.1f} %" for other in times[:2]]
        rows.append((str(zero), str(m), *(f"{seconds:.3f}" for seconds in times), *gains))
    return Table(
        title=f"The 52B model on {DEVICES} A100, p = {POSITIONS}, {CHUNKS} chunks, {REPLICAS} replicas on"
        " different nodes: seconds of a step. Interleaving gathers and reduces for every action, or once a"
        " run where its order has runs. At m = p both orders run all microbatches of a chunk together, and"
        " are the same but for the backwards of the last chunk: what there is to gain are gathers for each"
        " action (as in depth-first systems). At m above p interleaving comes back to every chunk: no"
        " gradient is whole before its last round (ZeRO 0: reductions pass beside less work), no run is"
        " longer than p.",
        head=(
            "ZeRO",
            "m",
            "interleaved, every action",
            "interleaved",
            "breadth-first",
            "gain",
            "gain over runs",
        ),
        rows=tuple(rows),
    )


@SYSTEMS.add(
    System(
        name="breadth_first",
        title="Breadth-first pipelines: sharded weights are gathered once a chunk",
        paper="Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023",
        year=2022,
        uses=Uses(schedules=("breadth_first",), options=("ZeRO 2 and 3 over runs of actions",)),
        claims=(
            Claim(
                text=f"bubble over ideal (p - 1)/(v m), at p = {P}, m = {M}, v = {V}",
                published=(P - 1) / (V * M),
                unit="",
                measure=lambda: Ideal(
                    p=P, m=M, schedule="breadth_first", chunks=V, forward_s=1 / V, backward_s=2 / V
                ).bubble_over_ideal(),
            ),
            *(
                Claim(
                    text=f"{most} {what} of a chunk in a step under ZeRO-3, at m = {m}",
                    published=most,
                    unit="",
                    measure=lambda kind=kind, m=m: _collectives(kind, m),  # type: ignore[misc]
                )
                for m in (POSITIONS, 2 * POSITIONS)
                for kind, what, most in ((GATHER, "gathers", 2), (REDUCE, "reduction", 1))
            ),
            Claim(
                text="all m microbatches of a position's chunks are in flight",
                published=M * V,
                unit="chunks",
                measure=lambda: Ideal(p=P, m=M, schedule="breadth_first", chunks=V).activations(0),
            ),
        ),
        table=_gains,
    )
)
def example() -> Example:
    """GPT-2 XL over eight A100 in two replicas, three chunks a device, everything sharded."""
    return Example(
        model="gpt2-xl",
        cluster="dgx-a100",
        global_batch=8,
        shape={
            "stages": 4, "replicas": 2, "chunks": 3, "microbatches": 4, "zero": 3,
            "schedule": "breadth_first",
        },
    )  # fmt: skip
