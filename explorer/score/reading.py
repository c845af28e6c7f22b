"""Reading rows that other people wrote: numbers checked one by one, a wrong row named by its line.

A file that is not a text of rows at all is an `InputError`; a wrong row is a `RowProblem`, and reading
continues. Byte order marks, Windows line ends and blank lines are not faults.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from explorer.base import files
from explorer.base.errors import ExplorerError, InputError
from explorer.base.formats import parse_csv
from explorer.score.rows import ReadRows, RowProblem, ScoredRow

ENVIRONMENT = "EXPLORER_REFERENCE"
"""Environment variable that names the folder of published measurements."""
MOST = 10_000_000
"""Largest size that a row may state (layers, widths, batches, devices): a slip must not hang us."""
LEAST_QUANTITY, MOST_QUANTITY = 1e-18, 1e24
"""Bounds of every measured quantity (seconds, bytes, operations per second); ratios of two stay finite."""
MOST_BYTES = 64 * 2**20
"""Largest file of rows in bytes."""
_SPAN = 20  # lines that a quoted cell may span: an unclosed quote does not swallow the file


class Record(NamedTuple):
    """One line of a table: its cells by column."""

    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return the cell of a column, without blanks around it.

        Raises:
            InputError: the row has no such cell, or it is empty.
        """
        found = self.cells.get(column, "").strip()
        if not found:
            raise InputError(f"no value for {column!r}", key=column, allowed="a value in every column")
        return found

    def count(self, column: str) -> int:
        """Return the cell as a whole number from 1 to `MOST`."""
        return count(self.text(column), column)

    def positive(self, column: str) -> float:
        """Return the cell as a finite number above 0."""
        return positive(self.text(column), column)


def count(value: object, key: str) -> int:
    """Return a value as a whole number from 1 to `MOST`.

    >>> count(" 8 ", "GPUs")
    8

    Raises:
        InputError: it is anything else.
    """
    number = _number(value)
    if not (math.isfinite(number) and 1 <= number <= MOST and number == int(number)):
        raise InputError(f"{value!r}", key=key, found=value, allowed=f"a whole number from 1 to {MOST:,}")
    return int(number)


def positive(value: object, key: str) -> float:
    """Return a value as a finite number above 0, from `LEAST_QUANTITY` to `MOST_QUANTITY`.

    Raises:
        InputError: it is anything else.
    """
    number = _number(value)
    if not LEAST_QUANTITY <= number <= MOST_QUANTITY:
        raise InputError(
            f"{value!r}", key=key, found=value,
            allowed=f"a finite number above 0, from {LEAST_QUANTITY:g} to {MOST_QUANTITY:g}",
        )  # fmt: skip
    return number


def _number(value: object) -> float:
    """Return a value as a number; NaN for anything else, such as `1_000` and booleans."""
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        return math.nan
    try:
        return float(value) if isinstance(value, (int, float, str)) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        InputError: it does not exist or cannot be read.
    """
    return files.read_bytes(path, most=MOST_BYTES)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without byte order mark and Windows line ends.

    Bytes that are not UTF-8 become lone surrogates, so that only the rows with such bytes are refused
    (`no_surrogates`).

    Raises:
        InputError: the file cannot be read, or is binary.
    """
    data = read_bytes(path)
    if b"\0" in data:
        raise InputError("it holds NUL bytes", file=str(path), allowed="text in UTF-8")
    text = data.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def no_surrogates(text: str) -> None:
    """Refuse text with bytes that were not UTF-8.

    Raises:
        InputError: there are some.
    """
    if any("\udc80" <= letter <= "\udcff" for letter in text):
        raise InputError("bytes that are not UTF-8", allowed="text in UTF-8")


def read_table(path: Path, columns: Sequence[str]) -> tuple[list[Record], list[RowProblem]]:
    """Return the rows of a CSV file whose first line names the columns; other columns are ignored.

    Args:
        path: the file.
        columns: columns that must be there, in any order; letter case and blanks around names do not count.

    Raises:
        InputError: the file is not text or has no head, or a column is missing or named twice.
    """
    lines = read_text(path).split("\n")
    head = _heads(next(parse_csv(lines[0]), []), columns, path)
    records, problems = [], []
    for number, cells in _rows_of(lines, len(head)):
        try:
            if isinstance(cells, csv.Error):
                raise InputError(f"no CSV: {cells}", allowed="lines of cells")
            if not any(cell.strip() for cell in cells):
                continue
            no_surrogates("".join(cells))
            if len(cells) != len(head):
                raise InputError(
                    f"{len(cells)} cells", found=len(cells), allowed=f"{len(head)} as in the head"
                )
        except InputError as error:
            problems.append(RowProblem(path.name, number, str(error)))
            continue
        records.append(Record(number, dict(zip(head, cells, strict=True))))
    return records, problems


def _rows_of(lines: Sequence[str], width: int) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yield the first line and the cells of every row below the head.

    A row may span several lines if that gives it its `width`; otherwise a quote was left open, and only the
    line that opened it is wrong.
    """
    at = 1
    while at < len(lines):
        reader = csv.reader(f"{line}\n" for line in lines[at : at + _SPAN])
        try:
            cells: list[str] | csv.Error = next(reader)
        except csv.Error as error:
            cells = error
        yield at + 1, cells
        whole = not isinstance(cells, csv.Error) and len(cells) == width
        at += reader.line_num if whole else 1


def _heads(cells: Sequence[str], columns: Sequence[str], path: Path) -> list[str]:
    """Return the column names, spelt as in `columns` if they are listed there."""
    asked = {_plain(name): name for name in columns}
    found = [asked.get(_plain(cell), cell) for cell in cells]
    missing = [name for name in columns if found.count(name) != 1]
    if missing:
        raise InputError(
            f"the head needs each of these once: {', '.join(missing)}",
            file=str(path),
            key="line 1",
            found=", ".join(cells)[:200],
            allowed=", ".join(columns),
        )
    return found


def _plain(name: str) -> str:
    return " ".join(name.lower().split())


def read_rows(records: Iterable[Record], file: str, make: Callable[[Record], ScoredRow]) -> ReadRows:
    """Read every record as a row; one that `make` refuses becomes a problem with its line."""
    rows, problems = [], []
    for record in records:
        try:
            rows.append(make(record))
        except ExplorerError as error:
            problems.append(RowProblem(file, record.line, str(error)))
    return ReadRows(tuple(rows), tuple(problems))


_given: ContextVar[Path | None] = ContextVar("folder of published measurements", default=None)


def use_reference(folder: Path | None) -> None:
    """Take published measurements from `folder` from now on; None for the usual places."""
    _given.set(folder)


@contextmanager
def reference_in(folder: Path | None) -> Iterator[None]:
    """Use `folder` as `use_reference` does, as long as the context lasts."""
    before = _given.set(folder)
    try:
        yield
    finally:
        _given.reset(before)


def reference_if_any() -> Path | None:
    """Return the folder of published measurements; None if there is none."""
    try:
        return reference_folder()
    except InputError:
        return None


def reference_folder() -> Path:
    """Return the folder of published measurements: given, of the environment, or next to the project.

    Raises:
        InputError: it does not exist.
    """
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "reference"
    named = os.environ.get(ENVIRONMENT)
    folder = _given.get() or (Path(named) if named else beside)
    if not folder.is_dir():
        raise InputError(
            f"no folder of published measurements at {folder}",
            key="--reference",
            found=str(folder),
            allowed=f"--reference DIR, the environment variable {ENVIRONMENT}, or only --rows SET=PATH",
        )
    return folder
