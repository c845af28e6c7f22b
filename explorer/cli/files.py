"""`explorer check`, `diff`, `share` and `trace`: the content of plan files."""

from __future__ import annotations

import argparse
from typing import Any

from explorer.base.errors import PlanError
from explorer.base.files import write_text
from explorer.base.formats import json_text
from explorer.base.units import format_bytes, format_seconds
from explorer.cli.inputs import add_json, add_trust, trust_of
from explorer.cli.output import emit_json, say
from explorer.plan import load_plan, own_files, save_plan, share_text
from explorer.plan_text import LINK
from explorer.search.baselines import predict
from explorer.simulation.check import check


def add_commands(commands: Any) -> None:
    """Add `check`, `diff`, `share` and `trace`."""
    parser = commands.add_parser("check", help="everything that is wrong with a plan, cluster or model file")
    parser.add_argument("file")
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run_check)

    parser = commands.add_parser("diff", help="two plans: what differs, in choices and in numbers")
    parser.add_argument("a")
    parser.add_argument("b")
    add_trust(parser)
    add_json(parser)
    parser.add_argument("--in", dest="target", default="", help="in the words of a trainer: megatron, ...")
    parser.set_defaults(run=run_diff)

    parser = commands.add_parser(
        "share", help="a plan as one short text, which every command takes in place of the file"
    )
    parser.add_argument("plan", help="a plan file, or such a text")
    parser.add_argument("-o", "--output", help="write the plan as a file instead (YAML, or JSON by its name)")
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run_share)

    parser = commands.add_parser("trace", help="timeline of a plan as a Chrome trace (opens in Perfetto)")
    parser.add_argument("plan")
    parser.add_argument("-o", "--output", required=True)
    add_trust(parser)
    parser.set_defaults(run=run_trace)


def run_check(options: argparse.Namespace) -> int:
    """List all problems; exit with 2 if there is one."""
    resolved = load_plan(options.file, trust=trust_of(options))
    graphs = dict(resolved.graphs) if len(resolved.graphs) > 1 else resolved.graph
    problems = check(graphs, resolved.cluster, resolved.plan.workload, resolved.plan.strategy)
    if problems:
        raise PlanError(problems, file=options.file)
    predict(resolved)  # deadlocks and missing versions show only in lowering
    if options.json:
        emit_json("check", {"file": options.file, "problems": [], "mismatches": list(resolved.mismatches)})
    else:
        print("\n".join(["no problems", *resolved.mismatches]))
    return 0


def run_diff(options: argparse.Namespace) -> int:
    """Print the differences of two plans."""
    from explorer.strategies.differences import compare_plans

    a, b = (load_plan(file, trust=trust_of(options)) for file in (options.a, options.b))
    first, second = predict(a), predict(b)
    words = compare_plans(a, b)
    if options.target:
        from explorer.export.words import changes

        words = [str(change) for change in changes(a, b, options.target)]
    if options.json:
        keys = ("step_time_s", "throughput_samples_per_s", "bubble_fraction", "mfu", "feasible")
        numbers = {key: [getattr(first, key), getattr(second, key)] for key in keys}
        emit_json("diff", {"differences": words, "numbers": numbers})
        return 0
    print("\n".join(words) if words else "the same choices")
    peak = (max(first.peak_memory_bytes), max(second.peak_memory_bytes))
    print(f"step time   {format_seconds(first.step_time_s)} -> {format_seconds(second.step_time_s)}")
    print(f"memory      {format_bytes(peak[0])} -> {format_bytes(peak[1])}")
    return 0


def run_share(options: argparse.Namespace) -> int:
    """Print a plan as a text, or write the plan of a text as a file."""
    resolved = load_plan(options.plan, trust=trust_of(options))
    for text in resolved.mismatches:
        say(f"explorer: {text}")
    if options.output:
        save_plan(resolved.plan, resolved.graphs, options.output)
        say(f"explorer: wrote {options.output}")
        return 0
    text = share_text(resolved.plan, resolved.graphs)
    carried = own_files(resolved.plan)
    if carried:
        say(f"explorer: the text names what it does not carry: {', '.join(carried)}")
    if len(text) > LINK:
        say(f"explorer: {len(text)} characters; some programs cut an address after {LINK}")
    if options.json:
        emit_json("share", {"text": text, "characters": len(text), "names": carried})
    else:
        print(text)
    return 0


def run_trace(options: argparse.Namespace) -> int:
    """Write a Chrome trace of a plan."""
    from explorer.views.trace import chrome_trace

    report = predict(load_plan(options.plan, trust=trust_of(options)))
    write_text(options.output, json_text(chrome_trace(report), indent=None))
    say(f"explorer: wrote {options.output}")
    return 0
