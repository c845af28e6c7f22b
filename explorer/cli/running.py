"""`explorer validate`: a short real run that shows how true a prediction is."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.base.units import format_bytes, format_seconds
from explorer.cli.calibrating import add_history, check_history, tell_broken
from explorer.cli.inputs import add_json, add_trust, trust_of
from explorer.cli.output import emit_json, say, table
from explorer.cli.slicing import run_slice_here
from explorer.plan import Resolved, load_plan

if TYPE_CHECKING:
    from explorer.cluster import Cluster
    from explorer.run.judging.compare import Comparison
    from explorer.run.judging.cost_check import CostCheck


def add_commands(commands: Any) -> None:
    """Add `validate`."""
    parser = commands.add_parser("validate", help="run a plan for real, briefly, and compare")
    parser.add_argument("plan")
    parser.add_argument(
        "--steps",
        type=int,
        help="measured rounds, interleaved with the baseline; default: as suits what runs",
    )
    parser.add_argument(
        "--engine", choices=("layers", "likeness", "torch", "dry", "slice", "interpreter"),
        help="what runs: the model's own layers, fewer where they take too long (layers, the default where"
        " the model has code), small stand-ins (likeness, formerly interpreter; torch: on torch's runtime as"
        " well), the order with sleeps in place of compute (dry), or one rank at full size (slice)",
    )  # fmt: skip
    parser.add_argument(
        "--precision", choices=("plan", "fp32"),
        help="precision of own layers: the plan's where it is bf16 and the device has it (default), or fp32",
    )  # fmt: skip
    parser.add_argument("--rank", type=int, help="rank that engine slice runs; default: the busiest")
    parser.add_argument("--baseline", default="", help="plan file; else chosen to suit the plan")
    parser.add_argument(
        "--profile", metavar="FILE", help="profile of this machine; default: what `explorer profile` kept"
    )
    parser.add_argument(
        "--from",
        dest="results",
        metavar="DIR",
        help="results of `export --to torchrun`, in place of a run here",
    )
    add_history(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run_validate)


def run_validate(options: argparse.Namespace) -> int:
    """Run and compare; exit with 5 if the machine is too noisy for a verdict."""
    from explorer.run import validate

    resolved = load_plan(options.plan, trust=trust_of(options))
    if options.engine == "slice":
        return run_slice_here(resolved, options)
    if options.rank is not None:
        raise InputError("only engine slice runs one rank", key="--rank", found=options.rank)
    if options.history:
        check_history(Path(options.history))
    if options.results:
        comparison = _of_results(resolved, options)
    else:
        comparison = validate(
            resolved,
            steps=options.steps,
            engine=options.engine,
            baseline=_baseline(options),
            profile=_profile(resolved, options),
            precision=options.precision or "plan",
            on_event=Teller(),
        )
    if options.history:
        _remember(comparison, resolved, options)
    if options.json:
        emit_json("validate", asdict(comparison))
    else:
        print(comparison_text(comparison))
    return 5 if comparison.verdict == "too noisy" else 0


def _of_results(resolved: Resolved, options: argparse.Namespace) -> Comparison:
    """Compare with what a cluster measured.

    Raises:
        InputError: an option of a run here is given as well.
    """
    from explorer.cluster_profiles import load_cluster
    from explorer.run.judging.results import validate_results

    for name in ("steps", "engine", "baseline", "precision"):
        if getattr(options, name) not in (None, ""):
            raise InputError(
                f"--{name} was chosen when the folder was exported",
                key=f"--{name}", found=getattr(options, name), allowed="only without --from",
            )  # fmt: skip
    profile = load_cluster(options.profile) if options.profile else None
    return validate_results(resolved, Path(options.results), profile=profile)


def _baseline(options: argparse.Namespace) -> str | Resolved | None:
    """Return the baseline as `validate` takes it; a plan file is opened here, where `--trust` is known."""
    from explorer.run.instruments import BASELINES

    name: str = options.baseline
    return load_plan(name, trust=trust_of(options)) if name and name not in BASELINES else name or None


def _profile(resolved: Resolved, options: argparse.Namespace) -> Cluster | None:
    """Return the profile of this machine with which its cost model is judged; None if there is none."""
    from explorer.cluster_profiles import load_cluster
    from explorer.profiling import device_here, kept_profile

    if options.profile:
        return load_cluster(options.profile)
    ranks = min(2, len(resolved.plan.strategy.job.devices))  # one GPU runs one rank, others need one each
    return None if options.engine == "dry" else kept_profile(device_here(least=ranks))


def _remember(comparison: Comparison, resolved: Resolved, options: argparse.Namespace) -> None:
    from explorer.calibrate.history import TOO_NOISY
    from explorer.calibrate.records import add, run_record

    entry = run_record(asdict(comparison), resolved, date=options.date, noisy=True)
    if entry is None:
        say(f"explorer: a run that is {comparison.verdict} teaches nothing; {options.history} stays as it is")
    else:
        if entry.verdict == TOO_NOISY:
            say(f"explorer: a run that is {TOO_NOISY} teaches nothing; {options.history} keeps it, marked so")
        add(Path(options.history), entry)
        tell_broken(Path(options.history))


class Teller:
    """Prints progress worth a line: what runs, and rounds as they begin on rank 0, with the seconds left by
    those before.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began_s, self._begun, self._rounds = clock, 0.0, 0, 0

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Take an event in."""
        if event.get("event") == "engine":
            self._rounds = int(event["rounds"])
            say(f"explorer: {_runs(str(event['engine']), str(event['stand_ins']))}")
        if event.get("event") == "round" and not event.get("rank"):
            number = int(event["number"])
            say(f"explorer: {'warming up' if number < 0 else f'round {number + 1}'}{self._left()}")

    def _left(self) -> str:
        """Return how long the rounds that have not ended should take, in words; nothing in the first one."""
        now, done = self._clock(), self._begun
        self._begun += 1
        if not done:
            self._began_s = now
            return ""
        left_s = (now - self._began_s) / done * max(0, self._rounds - done)
        return f", about {left_s:.0f} s left"


def comparison_text(comparison: Comparison) -> str:
    """Write a comparison as `explorer validate` shows it."""
    rows = [("", "predicted", "measured")]
    for key, show in (("step_time_s", _seconds), ("speedup", _ratio)):
        rows.append((key.removesuffix("_s"), show(comparison.predicted[key]), show(comparison.measured[key])))
    predicted, measured = comparison.parts["predicted"], comparison.parts["measured"]
    rows += [(name, _seconds(predicted.get(name)), _seconds(measured.get(name))) for name in measured]
    what = _runs(comparison.engine, comparison.stand_ins)
    computed = f", in {comparison.precision}" if comparison.engine != "dry" else ""
    lines = [
        f"runs           {what}{computed}",
        "",
        table(rows),
        "",
        f"verdict        {comparison.verdict} (contention {comparison.contention:.2f})",
    ]
    if comparison.baseline:
        lines.append(f"speedup over   {comparison.baseline}")
    if comparison.plan_speedup is not None:
        lines.append(f"the plan's own {_ratio(comparison.plan_speedup)} predicted on its devices")
    lines += _cost_lines(comparison)
    if comparison.numerics_ok is not None:
        equal = "equal" if comparison.numerics_ok else "DIFFERENT"
        lines.append(f"numerics       {equal}, compared in {comparison.numerics_precision}")
    elif comparison.numerics:
        lines.append("numerics       cannot be judged, see what was not validated")
    for item in comparison.sent:
        lines.append(
            f"bytes          {item.where}: {format_bytes(item.predicted_bytes)} predicted,"
            f" {format_bytes(item.sent_bytes)} sent{'' if item.equal else ', DIFFERENT'}"
        )
        lines += [
            f"bytes          {format_bytes(abs(count))} {'more' if count > 0 else 'less'}: {why}"
            for why, count in item.known
        ]
    lines += [
        f"engine         {run.engine}: {format_seconds(run.step_time_s)} a step from idle to idle,"
        f" gradients within {run.gradient:.0e} of one process"
        for run in comparison.engines
    ]
    lines += [
        f"shortened      {row.what}: {row.plan} in the plan, {row.here} here" for row in comparison.shortened
    ]
    lines += [f"validated      {text}" for text in comparison.validated]
    lines += [f"not validated  {text}" for text in comparison.not_validated]
    return "\n".join(lines)


def _runs(engine: str, stand_ins: str) -> str:
    """Say what runs."""
    if engine == "layers":
        return "the model's own layers"
    if engine == "dry":
        return "the order, with sleeps in place of compute"
    return f"small stand-ins for the model's layers ({stand_ins})" if stand_ins else "small stand-ins"


SHORTEST_S = 1e-6
"""Seconds below which waits are not worth a line."""


def _cost_lines(comparison: Comparison) -> list[str]:
    """Say what the machine's profile predicted, and what memory was counted."""
    found = comparison.costs
    lines = [f"cost model     {comparison.costs_missing}"] * bool(comparison.costs_missing)
    if found is not None:
        lines.append(
            f"cost model     {found.verdict}: compute {_seconds(found.predicted['compute_s'])} predicted,"
            f" {_seconds(found.measured['compute_s'])} measured ({found.error_pct:+.1f} %),"
            f" step {_seconds(found.predicted['step_time_s'])} ({found.step_error_pct:+.1f} %), speedup"
            f" {_ratio(found.predicted['speedup'])}, by {found.profile}"
        )
        if any(factor != 1.0 for factor in found.slowdowns):
            products, memory, operators = found.slowdowns
            lines.append(
                f"               since it was made products take {products:.2f} times as long, memory"
                f" {memory:.2f}, operators {operators:.2f}: predictions count that"
            )
        lines += _part_lines(found)
    for held in comparison.memory:
        error = 100 * (held.predicted_bytes / held.measured_bytes - 1)
        lines.append(
            f"memory         rank {held.rank}: {format_bytes(held.predicted_bytes)} of tensors predicted,"
            f" {format_bytes(held.measured_bytes)} counted ({error:+.1f} %)"
        )
    return lines


def _part_lines(found: CostCheck) -> list[str]:
    """Say what waits and every action took, beside what the profile predicted."""
    lines = []
    for key, what in (("collective_s", "collectives inside lanes"), ("communication_s", "messages")):
        pair = [side.get(key) or 0.0 for side in (found.predicted, found.measured)]
        if max(pair) > SHORTEST_S:
            predicted, measured = map(format_seconds, pair)
            lines.append(
                f"cost model     waits for {what}: {predicted} predicted in a step, {measured} measured"
            )
    for item in found.actions:
        (work_s, inside_s), (worked_s, waited_s) = item.predicted_s, item.measured_s
        text = f"{format_seconds(work_s)} predicted, {format_seconds(worked_s)} measured"
        if max(inside_s, waited_s) > SHORTEST_S:
            text += f"; collectives {format_seconds(inside_s)}, {format_seconds(waited_s)}"
        lines.append(f"cost model     {item.action} of stage {item.stage}: {text}")
    return lines


def _seconds(value: float | None) -> str:
    return "" if value is None else format_seconds(value)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} x"
