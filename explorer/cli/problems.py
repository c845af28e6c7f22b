"""Flags of what is sought and for how long, which `search` and `compare` share, and what they stand for."""

from __future__ import annotations

import argparse

from explorer.base.errors import InputError
from explorer.base.units import GIB, format_bytes, format_seconds, parse_quantity
from explorer.cli.inputs import Inputs, add_margin, device_list, pairs, trust_of, under_margin
from explorer.explain.names import counted
from explorer.plan import Plan, Provenance, load_plan, make_plan
from explorer.search import FRONTIER, OBJECTIVES, WEIGHTS, Candidate, Problem
from explorer.search.objectives import epochs_words


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Add the flags of objective, devices, pins, bans, limits and schedule."""
    parser.add_argument(
        "--objective", default="time", metavar="NAME",
        help=f"{', '.join(OBJECTIVES)}, or {FRONTIER}[:NAME,NAME[,NAME]] for all that is not dominated",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--pin", action="append", default=[], metavar="LAYER=DEVICE", help="keep a layer on a device"
    )
    parser.add_argument(
        "--ban", action="append", default=[], metavar="LAYER=DEVICE", help="keep a layer off a device"
    )
    parser.add_argument("--devices", metavar="LIST", help="devices to choose from, rank by rank: 8-15,0,2")
    parser.add_argument("--max-devices", type=int, default=0, metavar="N", help="devices to use at most")
    parser.add_argument(
        "--memory-limit", metavar="SIZE", default="", help="per device: a number of GiB, or with a unit"
    )
    add_margin(parser)
    parser.add_argument(
        "--min-throughput", type=float, default=0.0, metavar="X", help="samples a second that must be reached"
    )
    parser.add_argument("--schedule", default="", help="schedule of every candidate; default: the searcher's")
    parser.add_argument(
        "--schedule-option", action="append", default=[], metavar="K=V", help="option of that schedule"
    )
    parser.add_argument(
        "--weights", default=WEIGHTS[0], metavar="WHICH",
        help="synchronous: every gradient is of the weights it changes; any: older weights as well",
    )  # fmt: skip


def add_limits(parser: argparse.ArgumentParser, *, each: str = "") -> None:
    """Add the flags of seconds, evaluations and processes; `each` says of whom, where there are several."""
    parser.add_argument("--budget", type=float, metavar="S", help=f"stop{each} after so many seconds")
    parser.add_argument(
        "--max-evaluations", type=int, default=0, metavar="N", help=f"stop{each} after so many; deterministic"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N",
        help="processes that search; finds the same if evaluations end the search",
    )  # fmt: skip


def problem_of(options: argparse.Namespace, inputs: Inputs) -> Problem:
    """Return the problem of the flags, which starts from the plan that `--start` names.

    Raises:
        InputError: a flag is wrong, or the plan cannot be read.
    """
    return Problem(
        graph=inputs.graph,
        cluster=inputs.cluster and under_margin(inputs.cluster, options),
        workload=inputs.workload,
        objective=options.objective,
        devices=device_list(options.devices or ""),
        max_devices=options.max_devices,
        memory_limit_bytes=_memory_limit(options.memory_limit),
        min_samples_per_s=_floor(options.min_throughput),
        pins=_places(options.pin, "--pin"),
        bans=_places(options.ban, "--ban"),
        schedule=options.schedule,
        schedule_options=tuple(pairs(options.schedule_option, "--schedule-option").items()),
        weights=options.weights,
        start=load_plan(options.start, trust=trust_of(options)).plan.strategy if options.start else None,
        seed=options.seed,
    )


def found_plan(inputs: Inputs, found: Candidate, searcher: str, *, seed: int) -> Plan:
    """Return what a searcher found as a plan."""
    from explorer import __version__

    return make_plan(
        inputs.model,
        inputs.graph,
        inputs.cluster_name,
        inputs.devices,
        inputs.workload,
        found.strategy,
        Provenance(
            searcher=searcher,
            seed=seed,
            version=__version__,
            step_time_s=found.report.step_time_s,
            note=found.label,
        ),
    )


def epochs_lines(problem: Problem) -> list[str]:
    """Return the line that says how many epochs are counted and where they were read, if they matter."""
    timed = any(axis.name == "time_to_accuracy" for axis in problem.axes)
    return [f"{'epochs':<12}{epochs_words(problem.job)}"] if timed else []


def value_words(value: float, unit: str) -> str:
    """Return an objective value with its unit."""
    if unit == "bytes":
        return format_bytes(value)
    if unit == "devices":
        return counted(round(value), "device")
    return format_seconds(value) if unit == "s" else f"{value:.6g} {unit}"


def _places(texts: list[str], flag: str) -> tuple[tuple[str, int], ...]:
    """Return (layer, device) pairs; a layer may be named several times."""
    found = []
    for text in texts:
        layer, device = next(iter(pairs([text], flag).items()))
        if not (device.isascii() and device.isdigit() and len(device) < 10):
            raise InputError(
                f"{flag} {text}", key=flag, found=device, allowed="LAYER=DEVICE, a device number"
            )
        found.append((layer, int(device)))
    return tuple(found)


def _floor(samples_per_s: float) -> float:
    """Return the samples per second of `--min-throughput`; 0 if there is none.

    Raises:
        InputError: below 0, or no finite number.
    """
    if not 0 <= samples_per_s < float("inf"):
        raise InputError(
            f"--min-throughput {samples_per_s:g}", key="--min-throughput", found=samples_per_s,
            allowed="samples a second, above 0",
        )  # fmt: skip
    return samples_per_s


def _memory_limit(text: str) -> float:
    """Return the bytes of `--memory-limit`; a number without a unit is GiB."""
    if not text:
        return 0.0
    try:
        limit = float(text) * GIB
    except ValueError:
        limit = parse_quantity(text, "bytes")
    if not 0 < limit < float("inf"):
        raise InputError(
            f"--memory-limit {text}", key="--memory-limit", found=text, allowed="above 0, as 16 or 16GiB"
        )
    return limit
