"""`explorer calibrate`: correct a cluster profile by steps, runs and traces, with a band for each number."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.base.plain_data import SUFFIXES
from explorer.base.units import format_seconds
from explorer.cli.calibrating_steps import add_steps, asks_for_steps, run_steps
from explorer.cli.inputs import add_json, add_trust
from explorer.cli.output import emit_json, say, table
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.framework import cluster_under
from explorer.framework_files import framework_called, load_framework

if TYPE_CHECKING:
    from explorer.calibrate.estimate import EstimatedCluster, EstimatedNumber


_SHOWN = 5  # lines left out that are told one by one


def add_commands(commands: Any) -> None:
    """Add `calibrate`."""
    parser = commands.add_parser("calibrate", help="correct a cluster profile by steps, runs and traces")
    parser.add_argument("cluster", help="bundled profile name or file")
    parser.add_argument(
        "--with", dest="files", action="append", default=[], metavar="FILE",
        help="what `explorer validate --json` wrote, or a trace of torch.profiler (JSON, .gz allowed);"
        " several may be given",
    )  # fmt: skip
    parser.add_argument(
        "--framework",
        type=framework_called,
        default="",
        help="whose costs are corrected; default: those of the profile",
    )
    parser.add_argument(
        "--products", metavar="FILE.csv",
        help="measured matrix products, columns gemm_dtype,m,n,k,microseconds and device, where a profile has"
        " several kinds: they correct predictions of such shapes and those nearby",
    )  # fmt: skip
    add_steps(parser)
    add_trust(parser)
    parser.add_argument("-o", "--output", required=True, help="file of the corrected profile")
    add_history(parser)
    add_json(parser)
    parser.set_defaults(run=run_calibrate)


def add_history(parser: argparse.ArgumentParser) -> None:
    """Add `--history` and `--date`."""
    parser.add_argument("--history", metavar="FILE", help="file of runs to add this one to, a line each")
    parser.add_argument("--date", default="", help="when it was, in your words, for the history")


def run_calibrate(options: argparse.Namespace) -> int:
    """Correct a profile and write it."""
    from explorer.calibrate.estimate import estimate
    from explorer.calibrate.files import read_evidence

    output = Path(options.output)
    if output.suffix not in SUFFIXES:
        raise InputError(
            f"unknown kind of file {output.suffix!r}", file=str(output), allowed=", ".join(SUFFIXES)
        )
    if options.products:
        return _run_products(options, output)
    if asks_for_steps(options) == bool(options.files):
        both = bool(options.files)
        raise InputError(
            "measured steps and files" if both else "nothing was measured", key="--with",
            found=", ".join(options.files),
            allowed="--step-time, --run or --log, or else --with FILE or --products FILE",
        )  # fmt: skip
    if asks_for_steps(options):
        return run_steps(options, output)
    if options.history:
        check_history(Path(options.history))
    cluster = cluster_under(load_cluster(options.cluster), load_framework(options.framework))
    evidence = [read_evidence(Path(file), cluster) for file in options.files]
    found = estimate(cluster, evidence)
    save_cluster(found.cluster, output)
    if options.history:
        _remember(options, cluster, evidence)
    if options.json:
        emit_json("calibrate", _body(found, output))
    else:
        print(_text(found))
        say(f"explorer: wrote {output}")
    return 0


def _run_products(options: argparse.Namespace, output: Path) -> int:
    """Write a profile with measured products."""
    from explorer.score.product_file import with_products

    if asks_for_steps(options) or options.files or options.history or options.framework:
        raise InputError(
            "products beside other measurements", key="--products", found=options.products,
            allowed="--products FILE.csv and -o FILE alone; calibrate what it writes by the others",
        )  # fmt: skip
    found = with_products(load_cluster(options.cluster), Path(options.products))
    save_cluster(found.cluster, output)
    if options.json:
        body = {
            "file": str(output), "cluster": found.cluster.name,
            "products": [item._asdict() for item in found.imported],
            "problems": [item._asdict() for item in found.problems],
        }  # fmt: skip
        emit_json("calibrate", body)
        return 0
    rows = [("device", "precision", "shapes", "law off: median", "mean")]
    rows += [
        (item.kind, item.precision, f"{item.shapes:,}", f"{item.median_pct:.1f} %", f"{item.mean_pct:.1f} %")
        for item in found.imported
    ]
    print(table(rows))
    for problem in found.problems[:_SHOWN]:
        say(f"explorer: {problem.file}: line {problem.line} is left out: {problem.message}")
    if len(found.problems) > _SHOWN:
        say(f"explorer: {len(found.problems) - _SHOWN} more lines are left out")
    say(f"explorer: wrote {output}")
    return 0


def _remember(options: argparse.Namespace, cluster: Any, evidence: list[Any]) -> None:
    from explorer.calibrate.files import read_json
    from explorer.calibrate.records import add, evidence_record, run_record
    from explorer.calibrate.runs import SCHEMA

    path = Path(options.history)
    for file, part in zip(options.files, evidence, strict=True):
        data = read_json(Path(file))
        is_run = isinstance(data, dict) and data.get("schema") == SCHEMA
        entry = run_record(data, date=options.date) if is_run else None
        entry = entry or evidence_record(part, cluster, date=options.date)
        if not add(path, entry):
            say(f"explorer: {path} holds {part.name} already")
    tell_broken(path)


def check_history(path: Path) -> None:
    """Check that a history can be written, before minutes of running.

    Raises:
        InputError: it cannot be read, or its folder does not exist.
    """
    from explorer.calibrate.history import read

    if not path.parent.is_dir():
        raise InputError(
            "cannot write the history: there is no such folder",
            file=str(path), key="--history", found=str(path.parent), allowed="a folder that exists",
        )  # fmt: skip
    if path.exists():
        read(path)


def tell_broken(path: Path) -> None:
    """Print which lines of a history are not runs."""
    from explorer.calibrate.history import read

    for line, why in read(path).broken:
        say(f"explorer: {path}: line {line} is left out: {why}")


def _body(found: EstimatedCluster, output: Path) -> dict[str, Any]:
    return {
        "file": str(output),
        "cluster": found.cluster.name,
        "changes": [
            {
                "key": item.number.key, "quantity": item.number.quantity, "before": item.number.value,
                "after": item.after, "band_before": item.number.band or None, "band": item.band,
                "prior_share": item.prior_share,
            }
            for item in found.changes
        ],
        "kept": list(found.kept),
        "observations": found.observations,
        "error_before_pct": found.error_before_pct,
        "error_after_pct": found.error_after_pct,
    }  # fmt: skip


def _text(found: EstimatedCluster) -> str:
    rows = [("number", "before", "after", "80 % band", "left of the profile")]
    rows += [
        (
            item.number.key, _shown(item, item.number.value, item.number.band),
            _shown(item, item.after, item.band), f"± {item.band:.1%}", f"{item.prior_share:.0%}",
        )
        for item in found.changes
    ]  # fmt: skip
    lines = [table(rows), ""]
    lines.append(
        f"{found.observations} durations: median error {found.error_before_pct:.1f} % before,"
        f" {found.error_after_pct:.1f} % after"
    )
    return "\n".join([*lines, *(f"stays  {text}" for text in found.kept)])


def _shown(item: EstimatedNumber, value: float, band: float) -> str:
    if not value:
        return "none"
    units = {
        "seconds": format_seconds(value),
        "fraction": f"{value:.3f}",
        "bytes_per_s": f"{value / 1e9:.4g} GB/s",
    }
    text = units.get(item.number.quantity, f"{value:.4g}")
    return text if band else f"{text} (no band)"
