"""`explorer reproduce`: the claims of published systems next to our figures."""

from __future__ import annotations

import argparse
from typing import Any

from explorer.base.errors import InputError
from explorer.cli.inputs import add_json
from explorer.cli.output import emit_json, say, table
from explorer.library import SYSTEMS, Outcome, System, figure, reproduce


def add_commands(commands: Any) -> None:
    """Add `reproduce`."""
    parser = commands.add_parser("reproduce", help="what papers claim, beside the same computed here")
    parser.add_argument("name", nargs="?", help="a name from `explorer list systems`")
    parser.add_argument("--all", action="store_true", help="every system")
    parser.add_argument("-o", "--output", help="write the plan of the system's example here (.yaml or .json)")
    add_json(parser)
    parser.set_defaults(run=run_reproduce)


def run_reproduce(options: argparse.Namespace) -> int:
    """Compute claims; exit with 0 even if one does not hold, which is a finding, not a fault."""
    systems = _chosen(options)
    found = [(system, tuple(reproduce(system))) for system in systems]
    if options.output:
        _write_example(systems[0], options.output)
    if options.json:
        emit_json("reproduce", {"systems": [system.as_dict(outcomes) for system, outcomes in found]})
    else:
        print("\n\n".join(text(system, outcomes) for system, outcomes in found))
        outcomes = [outcome for _, part in found for outcome in part]
        held = sum(outcome.holds for outcome in outcomes)
        systems_held = "1 system" if len(found) == 1 else f"{len(found)} systems"
        print(f"\n{held} of {len(outcomes)} claims of {systems_held} hold")
    return 0


def _chosen(options: argparse.Namespace) -> list[System]:
    if options.all == bool(options.name) or (options.all and options.output):
        raise InputError(
            "one system, or all of them",
            key="reproduce",
            found=options.name,
            allowed="a name from `explorer list systems` (with -o for its example), or --all",
        )
    return list(SYSTEMS) if options.all else [SYSTEMS.get(options.name)]


def _write_example(system: System, path: str) -> None:
    from explorer.plan import save_plan

    example = system.function().resolved(title=system.title)
    save_plan(example.plan, example.graphs, path)
    say(f"explorer: wrote {path}")


def text(system: System, outcomes: tuple[Outcome, ...]) -> str:
    """Return a system with its claims as a table for people."""
    rows = [("claim", "published", "ours", "unit", "")]
    reasons = tuple(dict.fromkeys(outcome.claim.why for outcome in outcomes if outcome.claim.why))
    rows += [
        (
            outcome.claim.text,
            figure(outcome.claim.published),
            figure(outcome.ours),
            outcome.claim.unit,
            f"{outcome.verdict} [{reasons.index(why) + 1}]"
            if (why := outcome.claim.why)
            else outcome.verdict,
        )
        for outcome in outcomes
    ]
    head = f"{system.name}: {system.title}\n{system.paper}"
    missing = f"\nnot here: {system.missing}" if system.missing else ""
    notes = "".join(f"\n[{number}] {why}" for number, why in enumerate(reasons, start=1))
    return f"{head}{missing}\n\n{table(rows)}{notes}"
