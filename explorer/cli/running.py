"""`explorer validate`: a short real run that says how true a prediction is."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from explorer.cli.inputs import add_json
from explorer.cli.output import emit_json, say
from explorer.plan import load_plan
from explorer.units import format_seconds


def add_commands(commands: Any) -> None:
    """Add `validate`."""
    parser = commands.add_parser("validate", help="run a plan for real, briefly, and compare")
    parser.add_argument("plan")
    parser.add_argument("--steps", type=int, default=7, help="measured rounds, interleaved with the baseline")
    parser.add_argument("--engine", default="interpreter", choices=("interpreter", "torch", "dry", "slice"))
    parser.add_argument("--baseline", default="", help="plan file; else chosen to suit the plan")
    add_json(parser)
    parser.set_defaults(run=run_validate)


def run_validate(options: argparse.Namespace) -> int:
    """Run and compare; exit 5 where the machine is too noisy for a verdict."""
    from explorer.run import validate

    comparison = validate(
        load_plan(options.plan),
        steps=options.steps,
        engine=options.engine,
        baseline=options.baseline or None,
        on_event=lambda event: say(f"explorer: {event}"),
    )
    if options.json:
        emit_json("validate", asdict(comparison))
    else:
        print(f"predicted   {format_seconds(comparison.predicted['step_time_s'])}")
        print(f"measured    {format_seconds(comparison.measured['step_time_s'])}")
        print(f"verdict     {comparison.verdict}")
    return 5 if comparison.verdict == "too noisy" else 0
