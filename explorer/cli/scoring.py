"""`explorer score`: predictions compared with what other people measured."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.files import write_bytes
from explorer.cli.inputs import add_json, pairs
from explorer.cli.output import emit_error, emit_json, say, table
from explorer.cli.scoring_calibrated import run_calibrated
from explorer.score.heldout import HeldOut, held_out
from explorer.score.kernel_tables import HEADS as KERNEL_HEADS
from explorer.score.kernel_tables import kernel_cells, kernel_each, kernel_json, kernel_markdown, kernel_notes
from explorer.score.kernels import KERNEL_SETS, ScoredKernels, kernel_paths, score_kernels
from explorer.score.reading import reference_folder, reference_in
from explorer.score.rows import SETS, published
from explorer.score.running import Scored, paths_of, score
from explorer.score.runs import score_runs
from explorer.score.statistics import Statistics
from explorer.score.tables import HEADS, cells, each_csv, markdown

ROW_SETS = ("vtrain_single", "vtrain_multi", "sailor", "simumax", "simumax_pcie", "mosaicml", "general")
"""Sets whose rows have a format of their own, so that other rows may be given in it."""
BUNDLED, LEFT_OUT = "Profiles as bundled", "Leave one source out"
"""Names of the two tables under `--leave-one-source-out`."""


def add_commands(commands: Any) -> None:
    """Add `score`."""
    parser = commands.add_parser("score", help="how far predictions are from published measurements")
    parser.add_argument(
        "sets", nargs="*", metavar="SET",
        help=f"names of sets; default all of training runs; of kernels: {', '.join(KERNEL_SETS.files())}",
    )  # fmt: skip
    parser.add_argument(
        "--rows", action="append", default=[], metavar="SET=PATH",
        help=f"other rows for a set ({', '.join((*ROW_SETS, *KERNEL_SETS.files()))}); only these sets run "
        "unless more are named",
    )  # fmt: skip
    parser.add_argument(
        "--history", metavar="FILE",
        help="runs that `explorer validate --history` kept, as set `runs`; only it unless sets are named",
    )  # fmt: skip
    parser.add_argument("--reference", metavar="DIR", help="folder of the published measurements")
    parser.add_argument("--markdown", metavar="FILE", help="write the table")
    parser.add_argument("--each", metavar="FILE.csv", help="write every row: predicted, measured, error")
    parser.add_argument("--plot", metavar="FILE", help="write a scatter plot (.html or .svg)")
    parser.add_argument(
        "--leave-one-source-out", action="store_true",
        help="use no row of a set's source for the numbers that predict it",
    )  # fmt: skip
    parser.add_argument(
        "--calibrated", action="store_true",
        help="errors of the other rows once one or three rows of their model were one's own runs",
    )  # fmt: skip
    parser.add_argument("--processes", type=int, metavar="N", help="at most so many; default one per core")
    add_json(parser)
    parser.set_defaults(run=run_score)


def run_score(options: argparse.Namespace) -> int:
    """Score the sets that were named."""
    given = _given(options.rows)
    names = list(dict.fromkeys([*options.sets, *given])) or ([] if options.history else published())
    if options.processes is not None and options.processes < 1:
        raise InputError(
            f"{options.processes} processes", key="--processes", found=options.processes, allowed=">= 1"
        )
    with reference_in(Path(options.reference) if options.reference else None):
        return _score(options, names, given)


def _score(options: argparse.Namespace, names: list[str], given: dict[str, Path]) -> int:
    of_kernels = KERNEL_SETS.names()
    for name in names:
        if name not in (*of_kernels, *SETS.names()):
            raise InputError(
                f"unknown set of measurements {name!r}", key="SET", found=name,
                allowed=", ".join((*SETS.names(), *of_kernels)),
            )  # fmt: skip
    kernels = score_kernels(kernel_paths([name for name in names if name in of_kernels], given))
    names = [name for name in names if name not in of_kernels]
    if options.plot and not (names or options.history):
        raise InputError(
            "a plot is of training runs", key="--plot", found=", ".join(found.name for found in kernels),
            allowed="a set of training runs, or --each for rows of kernels",
        )  # fmt: skip
    paths = paths_of(names, given)
    without = _held_out(options, paths)
    values = {name: item.values for name, item in without.items()}
    if options.calibrated:
        return run_calibrated(options, names, given, values if options.leave_one_source_out else None)
    bundled = _bundled(options, paths)
    scores = score(paths, processes=options.processes, values=values)
    scores += [score_runs(Path(options.history))] if options.history else []
    _write(options, scores, bundled, kernels)
    failed = [scored for scored in scores if not scored.outcomes] + [
        item for item in kernels if not item.rows
    ]
    error = no_valid_row(failed[0]) if failed else None
    if options.json:
        body: dict[str, Any] = {"sets": {scored.name: as_json(scored) for scored in scores}}
        body["sets"] |= {scored.name: kernel_json(scored) for scored in kernels}
        if options.leave_one_source_out:
            body = {"leave_one_source_out": True, **body}
            for name, item in without.items():
                body["sets"][name]["fitted_on"] = list(item.fitted_on)
        emit_json("score", {**body, "error": error.as_dict()} if error else body)
    else:
        _print(scores, bundled)
        _print_kernels(kernels)
        for name, item in without.items():
            say(f"explorer: {name}: numbers fitted on {', '.join(item.fitted_on) or 'no measured rows'}")
        if error:
            emit_error(error, as_json=False)
    return error.exit_status if error else 0


def as_json(scored: Scored) -> dict[str, Any]:
    """Return the object of `--json` for a set; numbers are null if it has no valid row."""
    found = scored.statistics
    numbers = (
        asdict(found) if found else {**dict.fromkeys(field.name for field in fields(Statistics)), "rows": 0}
    )
    return {
        **numbers,
        "problems": [problem._asdict() for problem in scored.problems],
        "skipped": len(scored.problems),
        "seconds": round(scored.seconds, 3),
        **({} if scored.too_noisy is None else {"too_noisy": len(scored.too_noisy)}),
    }


def no_valid_row(scored: Scored | ScoredKernels) -> InputError:
    """Return the error for a set without a valid row, with the reasons of the first ones."""
    some = "; ".join(f"{found.file}:{found.line}: {found.message}" for found in scored.problems[:3])
    if isinstance(scored, Scored) and scored.too_noisy:
        some = f"{len(scored.too_noisy)} were too noisy for a verdict{'; ' if some else ''}{some}"
    return InputError(
        f"no valid row for {scored.name}: {some or 'it holds no rows'}",
        file=scored.file, key="rows", found=len(scored.problems), allowed="one valid row or more",
    )  # fmt: skip


def _given(texts: list[str]) -> dict[str, Path]:
    given = {name: Path(path) for name, path in pairs(texts, "--rows").items()}
    if len(given) < len(texts):
        raise InputError(
            "rows for a set are given twice", key="--rows", found=", ".join(texts), allowed="each set once"
        )
    for name in given:
        if name not in (*ROW_SETS, *KERNEL_SETS.names()):
            raise InputError(
                f"no rows can be given for {name!r}", key="--rows", found=name,
                allowed=", ".join((*ROW_SETS, *KERNEL_SETS.names())),
            )  # fmt: skip
    return given


def _held_out(options: argparse.Namespace, paths: Mapping[str, Path]) -> dict[str, HeldOut]:
    """Fit the numbers without each set's source; return {} if that is not asked for."""
    if not options.leave_one_source_out:
        return {}
    try:
        reference = reference_folder()
    except InputError as error:
        say(f"explorer: nothing is fitted again: {error}")
        reference = None
    return held_out(paths, reference, processes=options.processes or os.cpu_count() or 1)


def _bundled(options: argparse.Namespace, paths: Mapping[str, Path]) -> list[Scored] | None:
    """Return scores with the numbers that profiles state; None if no table of them is to be shown."""
    if not options.leave_one_source_out or (options.json and not options.markdown):
        return None
    return score(paths, processes=options.processes)


def _write(
    options: argparse.Namespace,
    scores: Sequence[Scored],
    bundled: Sequence[Scored] | None,
    kernels: Sequence[ScoredKernels],
) -> None:
    if options.markdown:
        tables = [_tables(scores, bundled)] if scores else []
        tables += [kernel_markdown(kernels)] if kernels else []
        _save(options.markdown, "\n".join(tables).encode())
    if options.each:
        _save(options.each, each_csv(scores, kernel_each(kernels)).encode())
    if options.plot:
        from explorer.score.plot import scatter

        _save(options.plot, scatter(scores, Path(options.plot).suffix))


def _save(path: str, data: bytes) -> None:
    write_bytes(path, data)
    say(f"explorer: wrote {path}")


def _tables(scores: Sequence[Scored], bundled: Sequence[Scored] | None) -> str:
    if bundled is None:
        return markdown(scores)
    return f"{LEFT_OUT}:\n\n{markdown(scores)}\n{BUNDLED}:\n\n{markdown(bundled)}"


def _print_kernels(kernels: Sequence[ScoredKernels]) -> None:
    for scored in kernels:
        for problem in scored.problems:
            say(f"explorer: {scored.name}: {problem.file}:{problem.line}: skipped: {problem.message}")
    if kernels:
        print(table([KERNEL_HEADS, *(cells for scored in kernels for cells in kernel_cells(scored))]))
        print("\n".join(kernel_notes(kernels)))


def _print(scores: Sequence[Scored], bundled: Sequence[Scored] | None) -> None:
    if not scores:
        return
    for scored in scores:
        for problem in scored.problems:
            say(f"explorer: {scored.name}: {problem.file}:{problem.line}: skipped: {problem.message}")
    if bundled is not None:
        print(f"{LEFT_OUT}:")
    print(table([HEADS, *map(cells, scores)]))
    if bundled is not None:
        print(f"\n{BUNDLED}:\n{table([HEADS, *map(cells, bundled)])}")
