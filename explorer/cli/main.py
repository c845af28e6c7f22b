"""Parsing, dispatch, and errors as one line and an exit status."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn

from explorer import __version__
from explorer.base import compiling
from explorer.base.errors import ExplorerError, InputError
from explorer.cli import (
    calibrating,
    catalogue,
    comparing,
    completion,
    exchange,
    files,
    predict,
    profiling,
    reporting,
    reproducing,
    running,
    scoring,
    searching,
)
from explorer.cli.output import emit_error

INTERRUPTED = 130
"""Exit status after Ctrl-C."""

Command = Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    """Parser that raises instead of printing usage, so bad flags are one line (or one JSON object) too."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, key="command line", allowed=f"see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    parser = _Parser(
        prog="explorer",
        description="Decide how to split a neural network over accelerators, and check that it is true.",
    )
    parser.add_argument("--version", action="version", version=f"explorer {__version__}")
    parser.add_argument(
        "-v", "--verbose", action="count", default=0,
        help="say on standard error what is going on; twice for every step of it",
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for module in (
        catalogue, predict, searching, comparing, running, calibrating, exchange, files, reporting, scoring,
        profiling, reproducing, completion,
    ):  # fmt: skip
        module.add_commands(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    warnings.showwarning = _show_warning
    try:
        parser = build_parser()
        if "_ARGCOMPLETE" in os.environ:
            completion.complete(parser)
        options = parser.parse_args(arguments)
        _say_what_goes_on(options.verbose)
        command: Command = options.run
        status = command(options)
        _flush()
    except ExplorerError as error:
        return _failed(error, as_json=as_json)
    except KeyboardInterrupt:
        print("explorer: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has seen enough
        _drop_output()
        return 0
    except OSError as error:  # from standard output: files report their own
        _drop_output()
        return _failed(_system_error(error), as_json=False)
    return status


def _failed(error: ExplorerError, *, as_json: bool) -> int:
    """Print the error; if even that cannot be written, the exit status alone reports it."""
    try:
        emit_error(error, as_json=as_json)
        _flush()
    except OSError:
        _drop_output()
    return error.exit_status


def _system_error(error: OSError) -> InputError:
    place = str(error.filename) if error.filename else "standard output"
    return InputError(f"cannot be read or written: {error.strerror or error}", file=place)


def _flush() -> None:
    """Flush what was printed now, while a failure can still be reported."""
    if sys.stdout is not None:  # it is None if it was closed before the start
        sys.stdout.flush()


def _drop_output() -> None:
    """Discard what is still to be printed: Python would try again when it ends, and fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_what_goes_on(verbose: int) -> None:
    """Send the package's log to standard error; without `-v` only its warnings, and to somebody who waits
    there what takes seconds once.
    """
    if verbose:
        logging.basicConfig(format="%(name)s: %(message)s", force=True)
        logging.getLogger("explorer").setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    elif sys.stderr is not None and sys.stderr.isatty():
        shown = logging.StreamHandler()
        shown.setFormatter(logging.Formatter("explorer: %(message)s"))
        compiling.logger.addHandler(shown)
        compiling.logger.setLevel(logging.INFO)


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    print(f"explorer: {message}", file=sys.stderr)
