"""GPipe (Huang et al., NeurIPS 2019), Table 2: throughput of a Transformer of 48 blocks by devices.

Figures are relative to two devices and one microbatch. The accelerators (TPU) are not in the catalogue and
only ratios are published: equal blocks with given seconds, backward twice the forward with the forward again
(GPipe recomputes), transfers free. The batch is the same for every number of microbatches and devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

from explorer.base.errors import InputError
from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.models.synthetic import chain
from explorer.score.published import PATH, section_of
from explorer.score.reading import count, positive
from explorer.score.rows import SETS, ReadRows, RowProblem, ScoredCase, ScoredRow
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import Job, Workload

BLOCKS = 48
BASE = (2, 1)
"""Devices and microbatches to which the table is relative."""
FORWARD_S = 1e-3
"""Seconds of one block and step; ratios do not depend on it."""


@SETS.add(
    "gpipe", title="GPipe: Transformer-48 by devices and microbatches", path=PATH, device=(),
    paper="Huang et al., GPipe, NeurIPS 2019, table 2", source="gpipe", unit="ratio",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read the throughput over that of two devices and one microbatch."""
    section = section_of(path, "GPipe")
    rows: list[ScoredRow] = []
    problems = []
    for line, text in section.text:
        for part in re.split(r"[;.](?=\s|$)", text):
            try:
                rows += _rows(line, part.strip())
            except InputError as error:
                problems.append(RowProblem(path.name, line, str(error)))
    return ReadRows(tuple(rows), tuple(problems))


def _rows(line: int, text: str) -> Iterator[ScoredRow]:
    match = re.fullmatch(r"M=(\d+): (?:K=(\S+) )?(\S+)", text)
    if match is None:
        return  # a sentence, not a series
    microbatches, values = count(match[1], "M"), match[3].split("/")
    devices = [count(part, "K") for part in (match[2] or "2/4/8").split("/")]
    if len(devices) != len(values):
        raise InputError(f"{text!r}", key="K", found=len(values), allowed=f"{len(devices)} numbers")
    for k, value in zip(devices, values, strict=True):
        if (k, microbatches) == BASE:
            continue
        case = _case(k, microbatches)
        yield ScoredRow(
            name=f"K={k} M={microbatches}",
            line=line,
            group=f"M={microbatches}",
            case=case,
            measured=positive(value, f"K={k} M={microbatches}"),
            predicted=partial(_ratio, case),
        )


def _ratio(case: ScoredCase) -> float:
    return simulate(*_case(*BASE)).step_time_s / simulate(*case).step_time_s


@lru_cache(maxsize=64)
def _case(devices: int, microbatches: int) -> ScoredCase:
    # One sample is the whole batch: a microbatch has a part of its work.
    forward = FORWARD_S / microbatches
    graph = chain([forward] * BLOCKS, backward_s=3 * forward, name=f"transformer-{BLOCKS}")
    job = Job(global_batch=microbatches, precision="fp32", optimizer="none")
    cluster = _cluster(devices)
    strategy = uniform(graph, cluster, job, stages=devices, microbatch_size=1, schedule="gpipe")
    return ScoredCase(graph, cluster, Workload(jobs=(job,)), strategy)


def _cluster(devices: int) -> Cluster:
    kind = DeviceKind(
        name="any", memory_bytes=1e12, memory_bandwidth_bytes_per_s=1e12, peak_flops_per_s=(("fp32", 1e12),)
    )
    level = Level(name="any", kind="infiniband", scope="all", latency_s=0.0, bandwidth_bytes_per_s=1e15)
    nodes = (NodeGroup(count=devices, device_kind="any", devices_per_node=1),)
    return Cluster(name="any", device_kinds=(kind,), nodes=nodes, levels=(level,))
