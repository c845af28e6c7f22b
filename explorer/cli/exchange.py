"""`explorer export` and `import`: strategies to and from trainers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from explorer.base.plain_data import to_plain
from explorer.cli.inputs import add_json, add_trust, trust_of
from explorer.cli.output import emit_json, say
from explorer.importing.spec import NO_EFFECT
from explorer.plan import load_plan, save_plan, to_document


def add_commands(commands: Any) -> None:
    """Add `export` and `import`."""
    parser = commands.add_parser("export", help="write a plan in a trainer's own format")
    parser.add_argument("plan")
    parser.add_argument("--to", required=True, help="a name from `explorer list exporters`")
    parser.add_argument("-o", "--output", required=True, metavar="DIR")
    parser.add_argument("--launcher", default="", help="what starts its run.sh: torchrun, slurm, kubernetes")
    parser.add_argument("--nearest", action="store_true", help="export the nearest plan the target can run")
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run_export)

    parser = commands.add_parser("import", help="read a trainer's config as a plan (a baseline)")
    parser.add_argument("config")
    parser.add_argument(
        "--from",
        dest="source",
        default="",
        help="a name from `explorer list importers`; else told by the text",
    )
    parser.add_argument("--model", help="model, if the config does not name it")
    parser.add_argument("--cluster", help="cluster to place it on")
    parser.add_argument("-o", "--output", help="write the plan here; else it is printed")
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run_import)


def run_export(options: argparse.Namespace) -> int:
    """Write the files of a target."""
    from explorer.export import export, notes

    resolved = load_plan(options.plan, trust=trust_of(options))
    if options.nearest:
        from explorer.export.nearest import nearest

        found = nearest(resolved, options.to)
        if found is not None and found.changes:
            say(f"explorer: nearest plan that {options.to} can run: {found.words}")
            resolved = found.resolved
    files = export(resolved, options.to, Path(options.output), launcher=options.launcher)
    differences = notes(resolved, options.to)
    for text in differences:
        say(f"explorer: not exact: {text}")
    if options.json:
        data = {"to": options.to, "files": [str(path) for path in files], "notes": differences}
        emit_json("export", data)
    else:
        print("\n".join(str(path) for path in files))
    return 0


def run_import(options: argparse.Namespace) -> int:
    """Read a trainer's config back, and list every key that a plan has no word for."""
    from explorer.export import import_config
    from explorer.importing import IMPORTERS, import_file

    given = {"model": options.model, "cluster": options.cluster, "trust": trust_of(options)}
    found = None
    if not options.source or options.source in IMPORTERS.names():
        found = import_file(Path(options.config), options.source, **given)
    resolved = found.resolved if found else import_config(Path(options.config), options.source, **given)
    unknown, assumed = (found.unknown, found.assumed) if found else ((), ())
    for text in assumed:
        say(f"explorer: assumed: {text}")
    quiet = [item.key for item in unknown if item.assumed == NO_EFFECT]
    for item in unknown:
        if item.assumed != NO_EFFECT:
            say(f"explorer: no word in a plan: {item}")
    if quiet:
        say(f"explorer: {NO_EFFECT}: {', '.join(quiet)}")
    if options.output:
        save_plan(resolved.plan, resolved.graphs, options.output)
        say(f"explorer: wrote {options.output}")
    if options.json or not options.output:
        data = {
            "plan": to_document(resolved.plan, resolved.graphs),
            "unknown": [to_plain(item) for item in unknown],
            "assumed": list(assumed),
        }
        emit_json("import", data)
    return 0
