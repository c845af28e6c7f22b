"""Fit the levels of bundled profiles to measured collectives (NVIDIA aiconfigurator), and judge the fit.

A part of `scripts/fit_costs.py kernels`. Errors are judged on what was left out: every other size (then the
others), each number of devices, and each kind of device. A kind left out has the links of its own data sheet,
and of every other number the geometric mean of the other kinds on links of its kind: this is how a machine is
described that nobody has measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import NamedTuple

from fit_blocks import Block, Fitted, markdown

from explorer.calibrate.collective_fit import (
    CollectiveTime,
    collective_errors,
    fit_collectives,
    with_documented_protocols,
)
from explorer.cluster import Cluster, Level, Protocol
from explorer.cluster_profiles import load_cluster
from explorer.score.kernel_sets.collectives import COUNTED_BYTES, times_of

SET = "collectives"
KINDS = {
    "a100-sxm-80gb": ("dgx-a100", (0,), False),
    "h100-sxm-80gb": ("hgx-h100", (0,), True),
    "b200-sxm-180gb": ("b200", (0,), True),
    "l40s-pcie-48gb": ("l40s-pcie-8", (0, 1, 2), False),
}
"""By device kind: the profile, its levels that are fitted, and whether its switches add up."""
GROUPS = (2, 4, 8)
"""Numbers of devices, each of which is left out where a single level is fitted."""
DIGITS = 3

Rows = Sequence[CollectiveTime]


class Task(NamedTuple):
    """One fit of a kind to some of its rows."""

    kind: str
    left_out: str
    rows: tuple[CollectiveTime, ...]


def made(paths: Mapping[str, Path], executor: Executor) -> Fitted:
    """Fit, and return errors and numbers."""
    measured = {name: rows for name, rows in times_of(paths[SET], tuple(KINDS)).items() if rows}
    tasks = [task for name, rows in measured.items() for task in tasks_of(name, rows)]
    clusters = list(executor.map(fitted, tasks))
    found = {(task.kind, task.left_out): item for task, item in zip(tasks, clusters, strict=True)}
    blocks = [
        block
        for name in measured
        for k in KINDS[name][1]
        for block in level_blocks(KINDS[name][0], found[name, ""].levels[k])
    ]
    return Fitted("collectives", table_of(measured, found), tuple(blocks))


def tasks_of(name: str, rows: Rows) -> list[Task]:
    """Return the fits of a kind: to all rows, to every other size, and without each number of devices."""
    sizes = sorted({row.bytes_count for row in rows})
    parts = {"": list(rows)}
    for half in (0, 1):
        parts[f"half {half}"] = [row for row in rows if sizes.index(row.bytes_count) % 2 != half]
    if len(KINDS[name][1]) == 1:  # of several levels each number of devices is another one
        parts |= {f"{n} devices": [row for row in rows if row.devices != n] for n in GROUPS}
    return [Task(name, left, tuple(part)) for left, part in parts.items()]


def fitted(task: Task) -> Cluster:
    """Run one fit."""
    return fit_collectives(prior_of(task.kind), task.rows).cluster


def prior_of(name: str) -> Cluster:
    """Return the profile that a fit of a kind begins with: what documents say."""
    profile, depths, in_switch = KINDS[name]
    return with_documented_protocols(load_cluster(profile), depths, in_switch=in_switch)


def described(name: str, others: Sequence[Cluster]) -> Cluster:
    """Return the profile of a kind by its data sheet: every other number is the others' geometric mean."""
    cluster = prior_of(name)
    levels = list(cluster.levels)
    for k in KINDS[name][1]:
        alike = [level for other in others for level in other.levels if level.protocols]
        alike = [level for level in alike if level.kind == levels[k].kind]
        if alike:
            levels[k] = _mean_level(levels[k], alike)
    return replace(cluster, levels=tuple(levels))


def _mean_level(level: Level, others: Sequence[Level]) -> Level:
    protocols = []
    for protocol in level.protocols:
        same = [item for other in others for item in other.protocols if item.name == protocol.name]
        protocols.append(_mean_protocol(protocol, same) if same else protocol)
    efficiency = tuple(
        (op, geometric_mean([other.efficiency_of(op) for other in others]))
        for op, _ in level.operation_efficiency
    )
    return replace(level, operation_efficiency=efficiency, protocols=tuple(protocols))


def _mean_protocol(protocol: Protocol, others: Sequence[Protocol]) -> Protocol:
    seconds = {
        field: geometric_mean([getattr(other, field) for other in others])
        for field in ("overhead_s", "step_s", "slice_s")
        if getattr(protocol, field)
    }
    tables = {
        field: tuple(
            (op, geometric_mean([dict(getattr(other, field))[op] for other in others]))
            for op, _ in getattr(protocol, field)
        )
        for field in ("shares", "own_copy")
    }
    return replace(protocol, **seconds, **tables)  # type: ignore[arg-type]


def table_of(measured: Mapping[str, Rows], found: Mapping[tuple[str, str], Cluster]) -> str:
    """Return median and mean errors of what fits had not seen."""
    head = ["device", "collectives", "all fitted", "every other size left out"]
    head += [f"{n} devices left out" for n in GROUPS] + [
        "this kind left out",
        "smaller than 1 MiB, sizes left out",
    ]
    lines = []
    for name, rows in measured.items():
        own = collective_errors(found[name, ""], rows)
        halved = _halved(rows, found[name, "half 0"], found[name, "half 1"])
        cells = [name, f"{len(rows):,}", said(rows, own), said(rows, halved)]
        for n in GROUPS:
            out = [row for row in rows if row.devices == n]
            fit = found.get((name, f"{n} devices"))
            cells.append(said(out, collective_errors(fit, out)) if fit else "")
        others = [found[other, ""] for other in measured if other != name]
        alike = sum(KINDS[other][0] != KINDS[name][0] and len(KINDS[other][1]) == 1 for other in measured)
        single = len(KINDS[name][1]) == 1 and alike
        cells.append(said(rows, collective_errors(described(name, others), rows)) if single else "")
        lines.append([*cells, said(rows, halved, large=False)])
    return markdown(head, lines)


def _halved(rows: Rows, even: Cluster, odd: Cluster) -> list[float]:
    """Return the errors of each row by the fit that had not seen its size."""
    sizes = sorted({row.bytes_count for row in rows})
    pairs = zip(rows, collective_errors(even, rows), collective_errors(odd, rows), strict=True)
    return [both[sizes.index(row.bytes_count) % 2] for row, *both in pairs]


def said(rows: Rows, errors: Sequence[float], *, large: bool = True) -> str:
    """Say the median and mean error of large or of small messages."""
    sizes = [
        100 * abs(e)
        for row, e in zip(rows, errors, strict=True)
        if (row.bytes_count >= COUNTED_BYTES) is large
    ]
    return f"{median(sizes):.1f} %, {fmean(sizes):.1f} %" if sizes else ""


def level_blocks(profile: str, level: Level) -> list[Block]:
    """Return the fitted numbers of a level as a profile says them."""
    efficiency = f"    operation_efficiency: {{{_pairs(level.operation_efficiency)}}}\n"
    lines = ["    protocols:"]
    for item in level.protocols:
        seconds = [(field, getattr(item, field)) for field in ("overhead_s", "step_s", "slice_s")]
        tables = [(field, getattr(item, field)) for field in ("shares", "own_copy")]
        fields = [
            f"name: {item.name}",
            *(f"{field}: {_short(value * 1e6):g} us" for field, value in seconds if value),
            *(f"{field}: {{{_pairs(table)}}}" for field, table in tables if table),
        ]
        lines.append(f"      - {{{', '.join([*fields, *(['in_switch: true'] if item.in_switch else [])])}}}")
    return [Block(profile, level.name, text) for text in (efficiency, "\n".join(lines) + "\n")]


def _pairs(table: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{op}: {_short(x):g}" for op, x in table)


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
