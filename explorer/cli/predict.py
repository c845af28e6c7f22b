"""`explorer simulate`, `explain` and `sweep`: predictions of one strategy."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from explorer import __version__
from explorer.base.errors import InfeasibleError, InputError
from explorer.base.units import GIB, format_bytes, format_devices, format_seconds
from explorer.calibrate.between_sources import time_band
from explorer.cli.inputs import (
    add_json,
    add_margin,
    add_model,
    add_shape,
    add_trust,
    resolved_of,
    trust_of,
    under_margin,
)
from explorer.cli.output import emit_json, say, table
from explorer.cluster.memory_room import FITS, MAY_FIT
from explorer.explain import explain, require_feasible
from explorer.explain.memory import tightest
from explorer.plan import Plan, Resolved, save_plan
from explorer.search.baselines import baseline_of, predict
from explorer.simulation.report import NO_FLOPS, Report
from explorer.sweep import SweepRow, sweep
from explorer.sweep.bands import Band, report_bands


def add_commands(commands: Any) -> None:
    """Add `simulate`, `explain` and `sweep`."""
    parser = commands.add_parser("simulate", help="predict time, memory and traffic of a strategy")
    parser.add_argument("--plan", help="plan file; else the strategy is made of the flags below")
    add_model(parser, required=False)
    add_shape(parser)
    add_trust(parser)
    add_margin(parser)
    parser.add_argument("--baseline", default="single", help="single, dp, even, or a plan file")
    parser.add_argument("--require-feasible", action="store_true", help="exit status 3 if it does not fit")
    parser.add_argument(
        "--bands", action="store_true", help="80 %% band of every figure, by published runs and the profile"
    )
    parser.add_argument("-o", "--output", help="write the plan here (.yaml or .json)")
    add_json(parser)
    parser.set_defaults(run=run_simulate)

    parser = commands.add_parser("explain", help="why a plan is as fast as it is, and what would help")
    parser.add_argument("plan", help="plan file, or - for standard input")
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run_explain)

    parser = commands.add_parser("sweep", help="one plan over several values of one number")
    parser.add_argument("plan", help="plan file, or - for standard input")
    add_trust(parser)
    parser.add_argument(
        "--over", required=True, metavar="K=a,b,c",
        help="global_batch, microbatch_samples, sequence_length, bandwidth (a factor), devices (replicas"
        " follow) or stages (cut anew); nodes are added if there are too few devices",
    )  # fmt: skip
    parser.add_argument(
        "--weak", action="store_true", help="over devices or stages: the global batch grows with the devices"
    )
    add_json(parser)
    parser.set_defaults(run=run_sweep)


def run_simulate(options: argparse.Namespace) -> int:
    """Predict one strategy."""
    resolved = resolved_of(options)
    for text in resolved.mismatches:
        say(f"explorer: {text}")
    resolved = replace(resolved, cluster=under_margin(resolved.cluster, options))
    report = predict(resolved)
    if len(resolved.plan.workload.jobs) == 1 and options.baseline:
        name, base = baseline_of(resolved, options.baseline, trust=trust_of(options))
        report = report.against(name, base.step_time_s)
    problem = _infeasible(resolved, report) if options.require_feasible else None
    if options.output:
        save_plan(_made_by_hand(resolved.plan, report), resolved.graphs, options.output)
        say(f"explorer: wrote {options.output}")
    bands = bands_of(resolved) if options.bands else None
    if options.json:
        found = report_json(report) | ({"bands": bands_json(bands)} if bands is not None else {})
        emit_json("simulate", found | ({"error": problem.as_dict()} if problem else {}))
        return problem.exit_status if problem else 0
    print(report_text(report, bands, until_calibrated(resolved)))
    if problem is not None:
        raise problem
    return 0


def bands_of(resolved: Resolved) -> dict[str, Band]:
    """Return the 80 % band of every figure of a plan's report, by key; {} if its profile states no bands."""
    graphs = resolved.graphs if len(resolved.graphs) > 1 else resolved.graph
    return report_bands(graphs, resolved.cluster, resolved.plan.workload, resolved.plan.strategy)


def until_calibrated(resolved: Resolved) -> str:
    """Say how far the step time may be off as long as no run on this machine has calibrated it, or by what
    it has been.
    """
    if runs := len(resolved.cluster.calibration.steps):
        return f"calibrated by {runs} measured step{'s' * (runs > 1)}: --bands says how far it may be off"
    known = time_band(resolved.cluster, resolved.plan.workload.jobs[0].framework)
    return f"\N{PLUS-MINUS SIGN}{known.relative:.0%} until calibrated ({known.words})"


def bands_json(bands: Mapping[str, Band]) -> dict[str, Any]:
    """Return bands as plain data: ends, basis, and the numbers of the profile that widen each most."""
    return {
        key: {
            "low": band.low, "high": band.high, "basis": band.basis, "about": band.about,
            "causes": [number.key for number in band.causes],
        }
        for key, band in bands.items()
    }  # fmt: skip


def _made_by_hand(plan: Plan, report: Report) -> Plan:
    """Return the plan with its provenance filled in, unless another maker is named."""
    known = plan.provenance
    made = replace(
        known,
        searcher=known.searcher or "hand",
        version=known.version or __version__,
        step_time_s=known.step_time_s or report.step_time_s,
    )
    return replace(plan, provenance=made)


def _infeasible(resolved: Resolved, report: Report) -> InfeasibleError | None:
    """Return the error for what does not fit, with the cheapest change that does; None if everything fits."""
    try:
        require_feasible(
            resolved.graph, resolved.cluster, resolved.plan.workload, resolved.plan.strategy, report
        )
    except InfeasibleError as error:
        return error
    return None


def report_json(report: Report) -> dict[str, Any]:
    """Return the keys of a report that others rely on (see docs/design.md)."""
    return {
        "step_time_s": report.step_time_s,
        "makespan_s": report.makespan_s,
        "device_span_s": report.per_device(report.device_span_s),
        "throughput_samples_per_s": report.throughput_samples_per_s,
        "speedup": report.speedup,
        "baseline": report.baseline or None,
        "bubble_fraction": report.bubble_fraction,
        "mfu": report.mfu,
        "feasible": report.feasible,
        "memory_verdict": report.memory_verdict,
        "memory_verdicts": report.per_device(report.memory_verdicts),
        "fits_up_to_bytes": report.per_device(tuple(room.fits_bytes for room in report.rooms)),
        "may_fit_up_to_bytes": report.per_device(tuple(room.may_fit_bytes for room in report.rooms)),
        "peak_memory_bytes": report.per_device(report.peak_memory_bytes),
        "capacity_bytes": report.per_device(report.capacity_bytes),
        "devices": list(report.devices),
        "device_busy_s": report.per_device(report.busy_s),
        "traffic_bytes": [[a, b, size] for (a, b), size in sorted(report.traffic_bytes.items())],
        "exposed_communication_s": report.exposed_communication_s,
        "versions": list(report.versions),
        "delay": list(report.delay),
        "pass": report.pass_name,
        "settled": report.settled,
        "order_gap": report.order_gap,
        "overflows": [{"device": o.device, "over_bytes": o.over_bytes} for o in report.overflows],
    }


def report_text(report: Report, bands: Mapping[str, Band] | None = None, until: str = "") -> str:
    """Return the numbers that matter, each with its band if known, and a table of lanes.

    Args:
        report: the prediction.
        bands: bands by figure; None if they were not asked for.
        until: how far the step time may be off, in words.
    """

    def within(key: str, show: Callable[[float], str]) -> str:
        band = (bands or {}).get(key)
        return f"  ({show(band.low)} to {show(band.high)})" if band else ""

    def rate(value: float) -> str:
        return f"{value:.4g} samples/s"

    def share(value: float) -> str:
        return f"{value:.1%}"

    head = [
        ("step time", format_seconds(report.step_time_s) + within("step_time_s", format_seconds)),
        (
            "throughput",
            rate(report.throughput_samples_per_s) + within("throughput_samples_per_s", rate),
        ),
        ("bubble", share(report.bubble_fraction) + within("bubble_fraction", share)),
        (
            "MFU",
            f"- ({NO_FLOPS})" if report.mfu is None else share(report.mfu) + within("mfu", share),
        ),
        ("fits", _fits(report)),
    ]
    if report.order_gap is not None:
        above = (
            f"at most {report.order_gap:.1%} above the shortest"
            if report.order_gap > 1e-6
            else "the shortest"
        )
        head.append(("order", f"{above} in this memory"))
    if bands is not None:
        peak = max(report.peak_memory_bytes)
        head.append(("most memory", format_bytes(peak) + within("peak_memory_bytes", format_bytes)))
        head.append(("bands", "80 %, by published runs and the profile"))
    if until:
        head.append(("accuracy", until))
    if report.speedup is not None:
        head.insert(1, ("speedup", f"{report.speedup:.2f} x over {report.baseline}"))
    rows = [("devices", "busy", "memory", "of")]
    for lane, devices in enumerate(report.lane_devices):
        rows.append(
            (
                format_devices(devices),
                format_seconds(report.busy_s[lane]),
                format_bytes(report.peak_memory_bytes[lane]),
                f"{report.capacity_bytes[lane] / GIB:.0f} GiB",
            )
        )
    return "\n".join(f"{name:<12}{value}" for name, value in head) + "\n\n" + table(rows)


def _fits(report: Report) -> str:
    """Return yes, NO, or what leaves it open: the device nearest to not fitting and its borders."""
    if report.memory_verdict != MAY_FIT:
        return "yes" if report.memory_verdict == FITS else "NO"
    tight = tightest(report)
    if tight is None:
        return "maybe"
    return f"maybe: {tight.words}" + ("" if report.feasible else "; NO by --memory-margin surely")


def run_explain(options: argparse.Namespace) -> int:
    """Print sentences with re-simulated numbers."""
    resolved = resolved_of(options)
    report = predict(resolved)
    said = explain(resolved.graph, resolved.cluster, resolved.plan.workload, resolved.plan.strategy, report)
    if options.json:
        rows = [
            {
                "topic": s.topic, "text": s.text, "change": s.change or None, "step_time_s": s.step_time_s,
                "saves_s": s.saves_s,
            }
            for s in said
        ]  # fmt: skip
        emit_json("explain", {"step_time_s": report.step_time_s, "sentences": rows})
    else:
        print("\n".join(s.text.replace("**", "") for s in said))
    return 0


def run_sweep(options: argparse.Namespace) -> int:
    """Simulate anew for each of a list of values."""
    key, equals, text = options.over.partition("=")
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not equals or not values:
        raise InputError(
            f"{options.over!r} is no sweep", key="--over", found=options.over, allowed="KEY=a,b,c"
        )
    rows = sweep(resolved_of(options), key, values, weak=options.weak)
    if options.json:
        emit_json(
            "sweep", {"over": key, "weak": options.weak, "rows": [_sweep_json(key, row) for row in rows]}
        )
        return 0
    lines = [(key, "step time", "samples/s", "a device", "memory", "fits")]
    for row in rows:
        if row.report is None:
            lines.append((f"{row.value:g}", "", "", "", "", row.problem))
            continue
        rate, used = row.report.throughput_samples_per_s, len(row.report.devices)
        full = max(
            u / c for u, c in zip(row.report.peak_memory_bytes, row.report.capacity_bytes, strict=True)
        )
        fits = {FITS: "yes", MAY_FIT: "maybe"}.get(row.report.memory_verdict, "no")
        step = format_seconds(row.report.step_time_s)
        lines.append((f"{row.value:g}", step, f"{rate:.4g}", f"{rate / used:.4g}", f"{full:.0%}", fits))
    print(table(lines))
    return 0


def _sweep_json(key: str, row: SweepRow) -> dict[str, Any]:
    """Return one value of a sweep; figures that are not predicted are null."""
    report = row.report
    return {
        key: row.value,
        "step_time_s": report.step_time_s if report else None,
        "throughput_samples_per_s": report.throughput_samples_per_s if report else None,
        "devices": len(report.devices) if report else None,
        "global_batch": report.global_batch if report else None,
        "feasible": report.feasible if report else False,
        "memory_verdict": report.memory_verdict if report else None,
        "problem": row.problem or None,
    }
