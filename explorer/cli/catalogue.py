"""`explorer list` and `explorer schema`."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from typing import Any

from explorer.base.errors import InputError
from explorer.base.registry import Registry, Spec
from explorer.cli.inputs import add_json
from explorer.cli.output import emit_json, table

_REGISTRIES = {
    "schedules": ("explorer.schedules", "SCHEDULES"),
    "searchers": ("explorer.search", "SEARCHERS"),
    "updates": ("explorer.updates", "UPDATES"),
    "exporters": ("explorer.export", "EXPORTERS"),
    "importers": ("explorer.importing", "IMPORTERS"),
    "models": ("explorer.models", "SOURCES"),
    "systems": ("explorer.library", "SYSTEMS"),
}


_COLUMNS = ("group", "name", "title", "placement", "torch_name", "needs", "space", "loses")
"""Columns that a table of plug-ins shows, if the plug-ins state them."""


def add_commands(commands: Any) -> None:
    """Add `list` and `schema`."""
    parser = commands.add_parser("list", help="what is registered")
    parser.add_argument("what", choices=("clusters", "frameworks", *_REGISTRIES))
    add_json(parser)
    parser.set_defaults(run=run_list)
    parser = commands.add_parser("schema", help="JSON schema of a file format")
    parser.add_argument("name", choices=("plan", "cluster", "framework", "layer_graph"))
    add_json(parser)
    parser.set_defaults(run=run_schema)


def run_list(options: argparse.Namespace) -> int:
    """Print names with title and paper."""
    files = {"clusters": _clusters, "frameworks": _frameworks}
    rows = files[options.what]() if options.what in files else _entries(options.what)
    if options.json:
        emit_json("list", {options.what: rows})
    else:
        shown = [key for key in _COLUMNS if key in rows[0]]
        lines = [tuple(str(row[key]) for key in shown) for row in rows]
        if options.what == "updates":
            shown.append("options")
            lines = [(*line, _options(row)) for line, row in zip(lines, rows, strict=True)]
        print(table([shown, *lines]))
    return 0


def _options(row: dict[str, Any]) -> str:
    """Return the options of a plug-in with their defaults in words."""
    return ", ".join(f"{item['name']}={item['default']}" for item in row["options"])


def _entries(what: str) -> list[dict[str, Any]]:
    module, name = _REGISTRIES[what]
    registry: Registry[Spec] = getattr(importlib.import_module(module), name)
    entries: Iterable[Spec] = registry
    if what == "schedules":
        from explorer.schedules.groups import grouped

        entries = [entry for _, found in grouped() for entry in found]
    return [
        {
            "name": entry.name,
            "title": entry.title,
            "paper": entry.paper,
            "options": [
                {"name": o.name, "default": o.default, "help": o.help, "choices": list(o.choices)}
                for o in entry.options
            ],
            **_own(entry),
        }
        for entry in entries
    ]


def _own(entry: Spec) -> dict[str, Any]:
    """Return the fields that only the specs of this registry have."""
    from explorer.schedules import Schedule
    from explorer.schedules.groups import group_of
    from explorer.search import Searcher

    if isinstance(entry, Searcher):
        return {
            "space": entry.space.words,
            "optimal": entry.optimal,
            "stochastic": entry.stochastic,
            "starts": entry.starts,
            "objectives": list(entry.objectives),
            "loses": entry.loses,
        }
    if not isinstance(entry, Schedule):
        return {}
    return {
        "group": group_of(entry).name,
        "placement": entry.placement.name,
        "needs": entry.needs.words(),
        "reads": list(entry.reads),
        "flush": entry.flush,
        "torch_name": entry.torch_name,
    }


def _clusters() -> list[dict[str, Any]]:
    from explorer.cluster_profiles import cluster_names, load_cluster

    found = []
    for name in cluster_names():
        cluster = load_cluster(name)
        found.append({"name": name, "title": cluster.title, "devices": cluster.device_count})
    return found


def _frameworks() -> list[dict[str, Any]]:
    from explorer.framework_files import framework_names, load_framework

    found = map(load_framework, framework_names())
    return [
        {"name": item.name, "title": item.title, "software": item.software, "year": item.year}
        for item in found
    ]


def run_schema(options: argparse.Namespace) -> int:
    """Print the JSON schema that pydantic derives from the dataclasses."""
    from pydantic import TypeAdapter

    from explorer.cluster import Cluster
    from explorer.framework import Framework
    from explorer.graph import LayerGraph
    from explorer.plan import Plan

    kinds: dict[str, Any] = {
        "plan": Plan, "cluster": Cluster, "framework": Framework, "layer_graph": LayerGraph,
    }  # fmt: skip
    try:
        schema = TypeAdapter(kinds[options.name]).json_schema()
    except KeyError:
        raise InputError(
            f"no schema {options.name!r}", found=options.name, allowed=", ".join(kinds)
        ) from None
    emit_json("json_schema", {"json_schema": schema})
    return 0
