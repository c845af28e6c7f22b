"""Runs of any model, machine and software: one CSV row each, in columns that name what a user would choose.

`explorer score --rows general=rows.csv`. A row states `source`, `name`, `hardware` (a cluster profile, cut or
repeated to `devices`), `model` (a name of the zoo), `devices` and `global_batch`, one of `step_time_s`,
`tokens_per_s_per_device` and `tflops_per_device` (model FLOPs: three forwards, whatever is computed again),
and optionally the columns of `OPTIONAL`. An empty cell, or no such column, means the default. `settings` is a
JSON object: settings of the model (`explorer show --model NAME --help`), and fields of the layout for
which there is no column (`LAYOUT`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from explorer.base.errors import InputError
from explorer.base.formats import parse_json
from explorer.base.units import GIB
from explorer.calibrate.between_sources import (
    HARDWARE,
    SOFTWARE,
    TIME,
    bundled_errors,
    distant_band,
    time_band,
)
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.framework import Framework
from explorer.framework_files import framework_called, framework_names, load_framework
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.score.machines import nodes_of
from explorer.score.megatron import even_cuts
from explorer.score.reading import Record, positive, read_rows, read_table
from explorer.score.rows import SETS, ReadRows, ScoredCase, ScoredRow
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

REQUIRED = ("source", "name", "hardware", "model", "devices", "global_batch")
"""Columns that every file needs."""
DEGREES = {"tp": "tensor", "pp": "stages", "cp": "context", "ep": "expert", "chunks": "chunks",
           "microbatch": "microbatch_size"}  # fmt: skip
"""Fields of `Degrees` by their columns; all are 1 by default."""
OPTIONAL = (
    "software", "settings", "sequence_length", *DEGREES, "zero", "recompute", "precision",
    "gradient_precision", "peak_memory_gib",
)  # fmt: skip
"""Columns that may be left out, or empty."""
MEASURED = ("step_time_s", "tokens_per_s_per_device", "tflops_per_device")
"""Columns of which every row fills exactly one."""
LAYOUT = ("schedule", "sequence_parallel", "context_exchange", "bucket_bytes")
"""Keys of `settings` that are fields of the layout, and no settings of the model."""
_SEQUENCE_PARALLEL_SINCE = 2022  # Korthikanti et al.; software of an earlier year had none


class _Settings(NamedTuple):
    """What the JSON object of a row says."""

    model: tuple[tuple[str, str], ...]
    layout: Mapping[str, Any]


@SETS.add(
    "general", title="Runs of any kind, a row each", paper="stated by each row", path="", device=(),
    source="rows", unit="s",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read a CSV file of runs; what a row measured becomes the seconds of its step."""
    records, problems = read_table(path, REQUIRED)
    found = read_rows(records, path.name, _row)
    return ReadRows(found.rows, (*problems, *found.problems))


def _row(record: Record) -> ScoredRow:
    settings = _settings(_cell(record, "settings"))
    framework = _framework(_cell(record, "software"))
    tokens = _count(record, "sequence_length", 0)
    graph = _graph(record.text("model"), tokens, settings.model, framework)
    case = _case(record, graph, settings.layout, framework)
    devices, batch = record.count("devices"), record.count("global_batch")
    memory = _cell(record, "peak_memory_gib")
    tokens = case.workload.job.sequence_length
    model = " ".join([record.text("model"), *(f"{name}={value}" for name, value in settings.model)])
    return ScoredRow(
        source=record.text("source"),
        name=f"{record.text('source')}: {record.text('name')}",
        line=record.line,
        group=f"{record.text('source')}: {model} s{tokens} b{batch} n{devices}",
        case=case,
        measured=_seconds(record, case),
        measured_memory_bytes=positive(memory, "peak_memory_gib") * GIB if memory else None,
    )


def _case(record: Record, graph: LayerGraph, layout: Mapping[str, Any], framework: Framework) -> ScoredCase:
    devices = record.count("devices")
    cluster = nodes_of(_profile(record.text("hardware")), devices, framework.name)
    degrees = _degrees(record, devices, layout, framework)
    job = Job(
        global_batch=record.count("global_batch"),
        sequence_length=_count(record, "sequence_length", graph.defaults.sequence_length),
        precision=_cell(record, "precision") or "bf16",
        gradient_precision=_cell(record, "gradient_precision"),
        framework=framework.name,
    )
    cuts = even_cuts(graph, degrees.stage_count) if any(layer.block for layer in graph.layers) else None
    return ScoredCase(graph, cluster, Workload(jobs=(job,)), degrees.build(graph, cluster, job, cuts=cuts))


def _degrees(record: Record, devices: int, layout: Mapping[str, Any], framework: Framework) -> Degrees:
    sizes: dict[str, Any] = {field: _count(record, column, 1) for column, field in DEGREES.items()}
    shared = sizes["tensor"] * sizes["stages"] * sizes["context"]
    if devices % shared:
        raise InputError(
            f"tp {sizes['tensor']} x pp {sizes['stages']} x cp {sizes['context']} on {devices} devices",
            key="devices", found=devices, allowed=f"a multiple of {shared}",
        )  # fmt: skip
    if sizes["chunks"] == 1:
        del sizes["chunks"]
    zero = _cell(record, "zero") or "0"
    if zero not in ("0", "1", "2", "3"):
        raise InputError(f"zero is {zero!r}", key="zero", found=zero, allowed="0, 1, 2, 3")
    given: dict[str, Any] = {"sequence_parallel": framework.year >= _SEQUENCE_PARALLEL_SINCE, **layout}
    recompute = _cell(record, "recompute") or "none"
    return Degrees(**sizes, replicas=devices // shared, zero=int(zero), recompute=recompute, **given)


def _seconds(record: Record, case: ScoredCase) -> float:
    """Return the seconds of a step that the row measured, in whatever unit.

    Raises:
        InputError: none of the columns of `MEASURED` is filled, or several are.
    """
    filled = [column for column in MEASURED if _cell(record, column)]
    if len(filled) != 1:
        raise InputError(
            f"{len(filled)} measured values", key=MEASURED[0], found=", ".join(filled) or "none",
            allowed=f"one of {', '.join(MEASURED)}",
        )  # fmt: skip
    value, job = record.positive(filled[0]), case.workload.job
    if filled[0] == "step_time_s":
        return value
    devices = record.count("devices")
    if filled[0] == "tflops_per_device":
        return 3 * case.graph.flops_per_sample * job.global_batch / (value * 1e12 * devices)
    if not job.sequence_length:
        raise InputError("samples have no tokens", key=filled[0], allowed="step_time_s for such a model")
    return job.global_batch * job.sequence_length / (value * devices)


def _settings(text: str) -> _Settings:
    if not text:
        return _Settings((), {})
    try:
        found = parse_json(text, ours=False)
    except InputError as error:
        raise InputError(f"no JSON: {error.message}", key="settings", allowed='{"layers": 24}') from None
    if not isinstance(found, dict):
        raise InputError(
            f"{text[:40]!r}", key="settings", found=text[:40], allowed='an object: {"layers": 24}'
        )
    for name, value in found.items():
        if not isinstance(value, str | int | float):
            raise InputError(
                f"{name} is {value!r}", key=f"settings.{name}", found=str(value), allowed="text or a number"
            )
    model = {name: _text(value) for name, value in found.items() if name not in LAYOUT}
    return _Settings(
        tuple(sorted(model.items())), {name: value for name, value in found.items() if name in LAYOUT}
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _framework(name: str) -> Framework:
    return load_framework(_known(framework_called(name), "software", framework_names()) if name else "")


def _profile(name: str) -> str:
    return _known(name, "hardware", list(cluster_names()))


def _known(name: str, column: str, names: list[str]) -> str:
    """Return a bundled name; a row never names a file.

    Raises:
        InputError: it is unknown: the nearest one is named, with the band that it would get.
    """
    if name in names:
        return name
    near = _nearest(name, column, names)
    raise InputError(
        f"unknown {column} {name!r}; the nearest known is {near}, in whose place times may be off by"
        f" {_as_near(column, near):.0%}",
        key=column, found=name, allowed=", ".join(names),
    )  # fmt: skip


def _nearest(name: str, column: str, names: list[str]) -> str:
    """Return the newest framework whose title has the words of a name, else the name spelled most alike."""
    words = name.lower().replace("-", " ")
    frameworks = map(load_framework, names if column == "software" else ())
    titled = [item for item in frameworks if words in item.title.lower().replace("-", " ")]
    if titled:
        return max(titled, key=lambda item: item.year).name
    return difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]


def _as_near(column: str, near: str) -> float:
    """Return the band of a time predicted with the nearest name in place of an unknown one: at least that of
    other hardware of its generation, or of other software.
    """
    errors = bundled_errors()
    if column == "software":
        return distant_band(TIME, HARDWARE[0], SOFTWARE[-1], errors).relative
    own = time_band(load_cluster(near))
    hardware = max(own.hardware, "generation", key=HARDWARE.index)
    return distant_band(TIME, hardware, SOFTWARE[0], errors).relative


@cache
def _graph(
    model: str, tokens: int, settings: tuple[tuple[str, str], ...], framework: Framework
) -> LayerGraph:
    return load_model(
        model, sequence_length=tokens or None, settings=dict(settings), framework=framework, trust=False
    )


def _cell(record: Record, column: str) -> str:
    return record.cells.get(column, "").strip()


def _count(record: Record, column: str, default: int) -> int:
    """Return the number in a column that may be left out."""
    return record.count(column) if _cell(record, column) else default
