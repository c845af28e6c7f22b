"""Fit the levels of bundled profiles to measured collectives (NVIDIA aiconfigurator), and judge the fit.

    python scripts/fit_collectives.py                 # numbers as profiles have them, and what they miss
    python scripts/fit_collectives.py --rows mine.csv

Errors are judged on what was left out: every other size (then the others), each number of devices, and each
kind of device. A kind left out has the links of its own data sheet, and of every other number the geometric
mean of the other kinds on links of its kind: this is how a machine is described that nobody has measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, geometric_mean, median

from explorer.calibrate.collective_fit import (
    CollectiveTime,
    collective_errors,
    fit_collectives,
    with_documented_protocols,
)
from explorer.cluster import Cluster, Level, Protocol
from explorer.cluster_profiles import load_cluster
from explorer.score.kernel_sets.collectives import times_of
from explorer.score.reading import reference_folder

PATH = "measured/kernels/collectives.csv"
KINDS = {
    "a100-sxm-80gb": ("dgx-a100", (0,), False),
    "h100-sxm-80gb": ("hgx-h100", (0,), True),
    "b200-sxm-180gb": ("b200", (0,), True),
    "l40s-pcie-48gb": ("l40s-pcie-8", (0, 1, 2), False),
}
"""By device kind: the profile, its levels that are fitted, and whether its switches add up."""
DIGITS = 3
LARGE = 2**20


def prior_of(name: str) -> Cluster:
    """Return the profile that a fit of a kind begins with: what documents say."""
    profile, depths, in_switch = KINDS[name]
    return with_documented_protocols(load_cluster(profile), depths, in_switch=in_switch)


def fitted(rows: dict[str, list[CollectiveTime]]) -> dict[str, Cluster]:
    """Return the fitted profile of every kind."""
    return {name: fit_collectives(prior_of(name), rows[name]).cluster for name in KINDS}


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


def said(rows: Sequence[CollectiveTime], errors: Sequence[float]) -> str:
    """Say the median and mean error of large and of small messages, in per cent."""
    found = []
    for what, large in (("1 MiB and more", True), ("smaller", False)):
        sizes = [
            100 * abs(e) for row, e in zip(rows, errors, strict=True) if (row.bytes_count >= LARGE) is large
        ]
        if sizes:
            found.append(f"{what} median {median(sizes):4.1f} mean {fmean(sizes):4.1f} ({len(sizes)})")
    return "; ".join(found)


def judged(rows: dict[str, list[CollectiveTime]]) -> None:
    """Print the errors on what fits had not seen."""
    best = fitted(rows)
    for name, all_rows in rows.items():
        errors: dict[int, float] = {}
        sizes = sorted({row.bytes_count for row in all_rows})
        for half in (0, 1):
            seen = [row for row in all_rows if sizes.index(row.bytes_count) % 2 == half]
            fit = fit_collectives(prior_of(name), seen)
            found = collective_errors(fit.cluster, all_rows)
            errors |= {
                i: found[i] for i, row in enumerate(all_rows) if sizes.index(row.bytes_count) % 2 != half
            }
        print(f"{name}: all rows      {said(all_rows, collective_errors(best[name], all_rows))}")
        print(f"{name}: other sizes   {said(all_rows, [errors[i] for i in range(len(all_rows))])}")
        for n in sorted({row.devices for row in all_rows}):
            fit = fit_collectives(prior_of(name), [row for row in all_rows if row.devices != n])
            out = [row for row in all_rows if row.devices == n]
            print(f"{name}: not {n} devices {said(out, collective_errors(fit.cluster, out))}")
        others = [cluster for other, cluster in best.items() if other != name]
        found = collective_errors(described(name, others), all_rows)
        print(f"{name}: data sheet    {said(all_rows, found)}")


def level_lines(level: Level) -> str:
    """Return the fitted numbers of a level, as YAML of a profile."""
    short = {op: _short(share) for op, share in level.operation_efficiency}
    lines = [
        f"operation_efficiency: {{{', '.join(f'{op}: {x:g}' for op, x in short.items())}}}",
        "protocols:",
    ]
    for item in level.protocols:
        seconds = [(field, getattr(item, field)) for field in ("overhead_s", "step_s", "slice_s")]
        tables = [(field, getattr(item, field)) for field in ("shares", "own_copy")]
        fields = [
            f"name: {item.name}",
            *(f"{field}: {_short(value * 1e6):g} us" for field, value in seconds if value),
            *(f"{field}: {{{_pairs(table)}}}" for field, table in tables if table),
        ]
        lines.append(f"  - {{{', '.join([*fields, *(['in_switch: true'] if item.in_switch else [])])}}}")
    return "\n".join(f"    {line}" for line in lines)


def _pairs(table: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{op}: {_short(x):g}" for op, x in table)


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def main() -> None:
    """Fit, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=Path, help="other rows in the same format")
    path = parser.parse_args().rows or reference_folder() / PATH
    start = time.perf_counter()
    rows = times_of(path, tuple(KINDS))
    judged(rows)
    for name, cluster in fitted(rows).items():
        for k in KINDS[name][1]:
            print(f"\n{KINDS[name][0]}, level {cluster.levels[k].name}:\n{level_lines(cluster.levels[k])}")
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
