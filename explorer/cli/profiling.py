"""`explorer profile`: measure this machine and write a cluster profile."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.plain_data import SUFFIXES, to_plain
from explorer.base.units import format_bytes, format_seconds
from explorer.cli.inputs import add_json
from explorer.cli.output import emit_json, say, table
from explorer.cluster import Cluster, Source
from explorer.cluster_profiles import load_cluster, save_cluster


def add_commands(commands: Any) -> None:
    """Add `profile`."""
    parser = commands.add_parser("profile", help="measure this machine and write a cluster profile")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="profile to write (.yaml or .json); default: kept in the cache folder, for `explorer validate`",
    )
    parser.add_argument("--devices", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--ranks", type=int, help="processes; default: one for each GPU or core")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds, wider bands")
    add_json(parser)
    parser.set_defaults(run=run_profile)


def run_profile(options: argparse.Namespace) -> int:
    """Measure, write, and read back the profile written."""
    from explorer.profiling import keep_profile, profile_machine
    from explorer.profiling.kept import NAME
    from explorer.profiling.machine import chosen

    path = Path(options.output) if options.output else None
    if path is not None:
        _check_writable(path)
    cluster = profile_machine(
        path.stem if path else NAME,
        devices=options.devices, ranks=options.ranks, quick=options.quick, on_event=_tell,
    )  # fmt: skip
    if path is None:
        path = keep_profile(cluster, chosen(options.devices, options.ranks)[0])
    else:
        save_cluster(cluster, path)
    cluster = load_cluster(path)
    if options.json:
        emit_json("profile", {"file": str(path), "cluster": to_plain(cluster)})
    else:
        print(_text(cluster))
        print(f"\nwritten to {path}")
    return 0


def _check_writable(path: Path) -> None:
    """Check that the profile can be written, before minutes of measuring.

    Raises:
        InputError: the file's name or folder is wrong.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"unknown kind of file {path.suffix!r}",
            file=str(path),
            found=path.suffix,
            allowed=", ".join(SUFFIXES),
        )
    if path.is_dir():
        raise InputError(
            "cannot write the file: it is a folder", file=str(path), key="output", allowed="a file's name"
        )
    if not path.parent.is_dir():
        raise InputError(
            "cannot write the file: there is no such folder",
            file=str(path),
            key="output",
            found=str(path.parent),
            allowed="a folder that exists",
        )


def _tell(event: Mapping[str, Any]) -> None:
    """Print progress of rank 0."""
    if event.get("rank"):
        return
    if event["event"] == "ready":
        say(f"explorer: measuring on {event['name']}")
    if event["event"] == "survey":
        number = int(event["round"])
        say("explorer: warmed up" if number < 0 else f"explorer: round {number + 1} measured")


def _text(cluster: Cluster) -> str:
    kind = cluster.device_kinds[0]
    rows = [("", "measured", "band")]
    rows += [
        (f"{precision} peak", f"{peak / 1e9:.4g} GFLOP/s", _band(kind.sources, "peak_flops_per_s"))
        for precision, peak in kind.peak_flops_per_s
    ]
    rows += [
        (text, show(getattr(kind, key)), _band(kind.sources, key))
        for text, key, show in (
            ("memory", "memory_bandwidth_bytes_per_s", _rate),
            ("launch", "launch_overhead_s", format_seconds),
            ("memory held", "reserved_bytes", format_bytes),
        )
    ]
    call, band = kind.software.action_overhead_s, _band(kind.software.sources, "action_overhead_s")
    rows.insert(-1, ("backward call", format_seconds(call), band))
    rows += [
        (f"{level.name} {text}".strip(), show(getattr(level, key)), _band(level.sources, key))
        for level in cluster.levels
        for text, key, show in (
            ("", "bandwidth_bytes_per_s", _rate),
            ("latency", "latency_s", format_seconds),
            ("collectives, start", "collective_overhead_s", format_seconds),
            ("collectives, share", "collective_efficiency", "{:.2f}".format),
        )
    ]
    return f"{cluster.title}\n\n{table(rows)}"


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.4g} GB/s"


def _band(sources: Sequence[Source], key: str) -> str:
    """Return the band of a number, from its own source or from that of all."""
    bands = {source.key: source.band for source in sources}
    band = bands.get(key, bands.get("*", 0.0))
    return f"+-{band:.0%}" if band else ""
