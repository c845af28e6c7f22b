"""Zero Bubble Pipeline Parallelism (Qi et al., ICLR 2024): throughput (Table 4) and bubbles (Table 5).

Table 4 is predicted as ratios: samples per second of a schedule over those of 1F1B, with the same model and
microbatches. GPT on A100 80 GB without data or tensor parallelism; embedding and head count as a block each,
and are weights of their own (the authors' script says --untie-embeddings-and-output-weights); unfused
attention; fp16; interleaving has one block per chunk. Table 5 runs the published seconds of F, I, W
and transfers through the simulator; its quantity is the step over its ideal m (F + I + W), which is
1 / (1 - bubble).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from explorer.base.caching import remembered
from explorer.base.errors import InputError
from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.models.synthetic import chain
from explorer.score.machines import nodes_of
from explorer.score.megatron import Gpt, GptRun, gpt_case
from explorer.score.published import PATH, Section, numbers, read_each, section_of
from explorer.score.reading import Record, count, positive
from explorer.score.rows import SETS, ReadRows, RowProblem, ScoredCase, ScoredRow
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.strategies.uniform import uniform
from explorer.workload import Job, Workload

PAPER = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024"
FRAMEWORK = "zero-bubble-2023"
VOCABULARY = 50304
BASE = "1F1B"
HALF = 0.5
"""Share of a microbatch's activations that weight gradients read, if only seconds are known."""


class Model(NamedTuple):
    """A model of the paper."""

    name: str
    layers: int
    heads: int
    hidden: int
    sequence: int
    stages: int
    micro: int

    @property
    def chunks(self) -> int:
        """Chunks per device of one block each, with embedding and head counted as blocks."""
        return (self.layers + 2) // self.stages

    @property
    def kept(self) -> float:
        """Share of a block's activations that weight gradients read (section 3.1): 32 of 34 + 5 a s / h."""
        return 32 / (34 + 5 * self.heads * self.sequence / self.hidden)


def _models(section: Section) -> dict[str, Model]:
    found = re.findall(r"([\d.]+B) (\d+)/(\d+)/(\d+)/(\d+)/(\d+)/(\d+)", section.prose)
    return {
        name: Model(name, *(count(part, f"shapes of {name}") for part in sizes)) for name, *sizes in found
    }


def _model(models: Mapping[str, Model], name: str) -> Model:
    if name not in models:
        raise InputError(f"no shapes of {name!r}", key="model", found=name, allowed=", ".join(models))
    model = models[name]
    if (model.layers + 2) % model.stages:
        raise InputError(
            f"{model.layers} layers and two ends on {model.stages} stages", key=name, found=model.layers,
            allowed="2 less than a multiple of the stages",
        )  # fmt: skip
    return model


# ---- Table 4 ------------------------------------------------------------------------------------


@SETS.add(
    "zero_bubble", title="Zero bubble: speed over 1F1B, 8 to 32 A100", paper=f"{PAPER}, table 4",
    path=PATH, device=("a100-sxm-80gb",), source="zero_bubble",
    framework=FRAMEWORK, unit="ratio",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read the speed of each schedule over that of 1F1B."""
    section = section_of(path, "Zero Bubble")
    models = _models(section)
    table = section.table("Table 4")
    schedules, columns = table.head[0], table.head[1:]
    base = next((record for record in table.records if record.cells[schedules] == BASE), None)
    if base is None:
        raise InputError(f"table 4 has no line {BASE}", file=str(path), key="Table 4", allowed="a line 1F1B")

    def rows(record: Record) -> Iterator[ScoredRow]:
        schedule = record.text(schedules)
        if schedule == BASE:
            return
        make = _table_4_case(schedule)
        for column in columns:
            if " m=" in column:
                yield from _speeds(_model(models, column.split()[0]), column, schedule, make, record, base)

    return read_each(table, path.name, rows)


def _speeds(
    model: Model,
    column: str,
    schedule: str,
    make: Callable[[Model, int], ScoredCase],
    record: Record,
    base: Record,
) -> Iterator[ScoredRow]:
    at = numbers(column.partition("m=")[2])
    values = record.text(column).split("/")
    bases = base.text(column).split("/")
    if not len(values) == len(bases) == len(at):
        raise InputError(
            f"{record.text(column)!r} for {column!r}", key=column, found=record.text(column),
            allowed=f"{len(at)} numbers with / between them",
        )  # fmt: skip
    for microbatches, value, other in zip(map(int, at), values, bases, strict=True):
        case = make(model, microbatches)
        yield ScoredRow(
            name=f"{model.name} m{microbatches} {schedule}",
            line=record.line,
            group=f"{model.name} m{microbatches}",
            case=case,
            measured=positive(value, column) / positive(other, column),
            predicted=partial(_ratio, model, microbatches, case),
        )


def _ratio(model: Model, microbatches: int, case: ScoredCase) -> float:
    return _base_step_s(model, microbatches, case.cluster) / simulate(*case).step_time_s


@remembered(64)
def _base_step_s(model: Model, microbatches: int, cluster: Cluster) -> float:
    return simulate(*_gpt(model, microbatches)._replace(cluster=cluster)).step_time_s


def _table_4_case(schedule: str) -> Callable[[Model, int], ScoredCase]:
    if schedule.startswith("1F1B interleaved"):
        return partial(_gpt, interleaved=True)
    match = re.fullmatch(r"ZB-([12])p", schedule)
    if match is None:
        raise InputError(
            f"unknown schedule {schedule!r}", key="schedule", found=schedule,
            allowed="1F1B, 1F1B interleaved, ZB-1p, ZB-2p",
        )  # fmt: skip
    return partial(_gpt_zero_bubble, limit=int(match[1]))


def _gpt(model: Model, microbatches: int, *, interleaved: bool = False) -> ScoredCase:
    gpt = Gpt(
        layers=model.layers, embed=model.hidden, heads=model.heads, vocab=VOCABULARY, sequence=model.sequence,
        tied=False,
    )  # fmt: skip
    degrees = Degrees(
        stages=model.stages, microbatch_size=model.micro, chunks=model.chunks if interleaved else 1
    )
    run = GptRun(degrees=degrees, batch=microbatches * model.micro, ends_as_blocks=True, framework=FRAMEWORK)
    return gpt_case(gpt, run, nodes_of("dgx-a100-128", model.stages, FRAMEWORK))


def _gpt_zero_bubble(model: Model, microbatches: int, *, limit: int) -> ScoredCase:
    """Order for the seconds that the simulator prices (ZB-1p, ZB-2p)."""
    return under(_gpt(model, microbatches), "zb_auto", limit=limit, kept=model.kept, uniform=True)


def under(case: ScoredCase, schedule: str, **options: object) -> ScoredCase:
    """Return the same case under another schedule."""
    part = replace(case.strategy.job, schedule=schedule, options=tuple(options.items()))
    return case._replace(strategy=case.strategy.with_job(part))


# ---- Table 5 ------------------------------------------------------------------------------------


@SETS.add(
    "zero_bubble_bubbles", title="Zero bubble: step over its ideal, from published stage times",
    paper=f"{PAPER}, table 5", path=PATH, device=(), source="zero_bubble_times", unit="ratio",
)  # fmt: skip
def read_bubbles(path: Path) -> ReadRows:
    """Read the step over m (F + I + W): only order and waiting are left to the simulator."""
    section = section_of(path, "Zero Bubble")
    models, times = _models(section), _times(section)
    table = section.table("Table 5", "1F1B")
    first, columns = table.head[0], [name for name in table.head[1:] if name in ORDERS]
    current = ""

    def rows(record: Record) -> Iterator[ScoredRow]:
        nonlocal current
        current = record.cells[first] or current
        model = _model(models, current.split()[0] if current else "")
        if model.name not in times:
            raise InputError(
                f"no times of {model.name}", key="model", found=model.name, allowed=", ".join(times)
            )
        microbatches, seconds = record.count("m"), times[model.name]
        for column in columns:
            rate = positive(record.text(column), column)
            if rate >= 1:
                raise InputError(f"bubble rate {rate}", key=column, found=rate, allowed="between 0 and 1")
            case = ORDERS[column](model, microbatches, seconds)
            yield ScoredRow(
                name=f"{model.name} m{microbatches} {column}",
                line=record.line,
                group=f"{model.name} m{microbatches}",
                case=case,
                measured=1 / (1 - rate),
                predicted=partial(_over_ideal, case, microbatches * sum(seconds[:3])),
            )

    found = read_each(table, path.name, rows)
    return (
        found
        if times
        else ReadRows(found.rows, (*found.problems, RowProblem(path.name, section.line, "no times")))
    )


def _over_ideal(case: ScoredCase, ideal_s: float) -> float:
    return simulate(*case).step_time_s / ideal_s


Times = tuple[float, float, float, float]
"""Seconds of F, I, W of a stage and of a transfer."""


def _times(section: Section) -> dict[str, Times]:
    form = r"([\d.]+B) p=\d+: ([\d.]+), ([\d.]+), ([\d.]+), ([\d.]+)"
    return {
        name: (float(f) / 1e3, float(b) / 1e3, float(w) / 1e3, float(c.rstrip(".")) / 1e3)
        for name, f, b, w, c in re.findall(form, section.prose)
    }


def _line(model: Model, microbatches: int, times: Times, *, chunks: int = 1) -> ScoredCase:
    """Return equal stages with the published seconds; a transfer lasts the published time at any size."""
    forward, inputs, weights, transfer = times
    count_ = model.stages * chunks
    graph = chain(
        [forward / chunks] * count_, input_grad_s=inputs / chunks, weight_grad_s=weights / chunks,
        activation_bytes=1.0, name=f"{model.name} of {count_} stages",
    )  # fmt: skip
    job = Job(global_batch=microbatches, precision="fp32", optimizer="none")
    cluster = _transfers_of(model.stages, transfer)
    strategy = uniform(
        graph,
        cluster,
        job,
        stages=model.stages,
        chunks=chunks,
        microbatch_size=1,
        cuts=list(range(1, count_)),
    )
    return ScoredCase(graph, cluster, Workload(jobs=(job,)), strategy)


@lru_cache(maxsize=64)
def _transfers_of(devices: int, seconds: float) -> Cluster:
    kind = DeviceKind(
        name="any", memory_bytes=1e12, memory_bandwidth_bytes_per_s=1e12, peak_flops_per_s=(("fp32", 1e12),)
    )
    level = Level(name="any", kind="infiniband", scope="all", latency_s=seconds, bandwidth_bytes_per_s=1e30)
    nodes = (NodeGroup(count=devices, device_kind="any", devices_per_node=1),)
    return Cluster(name="given times", device_kinds=(kind,), nodes=nodes, levels=(level,))


def _ordered(schedule: str, **options: object) -> Callable[[Model, int, Times], ScoredCase]:
    """Make a function that puts equal stages under a schedule."""

    def make(model: Model, microbatches: int, times: Times) -> ScoredCase:
        return under(_line(model, microbatches, times), schedule, **options)

    return make


def _interleaved(model: Model, microbatches: int, times: Times) -> ScoredCase:
    return _line(model, microbatches, times, chunks=model.chunks)


ORDERS: Mapping[str, Callable[[Model, int, Times], ScoredCase]] = {
    "1F1B": _line,
    "interleaved": _interleaved,
    "ZB-H1": _ordered("zb_h1"),
    "ZB-H2": _ordered("zb_h2"),
    "ZB-1p": _ordered("zb_auto", limit=1, kept=HALF),
    "ZB-2p": _ordered("zb_auto", limit=2, kept=HALF),
}
"""Functions that order each column of table 5."""
