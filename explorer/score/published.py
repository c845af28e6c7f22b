"""Tables from a Markdown file of published results: sections by heading, tables by their heads.

A section starts at a line `### ...`; a table is a run of lines that begin with `|`, the first naming its
columns. Every line keeps its number, so that a wrong row can be pointed at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from explorer.base.errors import ExplorerError, InputError
from explorer.score.reading import Record, no_surrogates, read_text
from explorer.score.rows import ReadRows, RowProblem, ScoredRow

PATH = "published.md"
"""Name of the file in the folder of references."""
_RULE = re.compile(r":?-+:?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a section."""

    head: tuple[str, ...]
    """Names of its columns."""
    records: tuple[Record, ...]
    """Its rows."""
    problems: tuple[RowProblem, ...] = ()
    """Lines that have a different number of cells than the head, or are not UTF-8."""

    def column(self, word: str) -> str:
        """Return the first column whose name contains a word.

        Raises:
            InputError: there is none.
        """
        found = next((name for name in self.head if word.lower() in name.lower()), None)
        if found is None:
            raise InputError(
                f"no column {word!r}", key=word, found=", ".join(self.head), allowed="such a column"
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Content below one heading."""

    heading: str
    """The heading without its signs."""
    line: int
    """Line of the heading."""
    text: tuple[tuple[int, str], ...]
    """Lines outside of tables, with their numbers."""
    tables: tuple[Table, ...]
    """Tables in their order."""

    @property
    def prose(self) -> str:
        """Heading and lines outside of tables as one text."""
        return " ".join([self.heading, *(line for _, line in self.text)])

    def table(self, *words: str) -> Table:
        """Return the first table whose head contains all these words.

        Raises:
            InputError: there is none.
        """
        for table in self.tables:
            head = " ".join(table.head).lower()
            if all(word.lower() in head for word in words):
                return table
        raise InputError(
            f"no table with {', '.join(words)} below {self.heading!r}",
            key=f"line {self.line}",
            allowed="such a table",
        )


def section_of(path: Path, *words: str) -> Section:
    """Return the first section whose heading contains all these words.

    Raises:
        InputError: the file cannot be read, or has no such section.
    """
    for section in sections(read_text(path), path.name):
        if all(word.lower() in section.heading.lower() for word in words):
            return section
    raise InputError(
        f"no heading with {', '.join(words)}",
        file=str(path),
        key="heading",
        allowed="a line '### ...' with these",
    )


def sections(text: str, file: str = "") -> list[Section]:
    r"""Return all sections of a text.

    >>> found = sections("### One\n| a | b |\n|---|---|\n| 1 | 2 |\nwords")
    >>> found[0].tables[0].records[0].cells, found[0].text
    ({'a': '1', 'b': '2'}, ((5, 'words'),))
    """
    lines = list(enumerate(text.split("\n"), start=1))
    starts = [i for i, (_, line) in enumerate(lines) if line.startswith("#")]
    return [_section(lines[start:stop], file) for start, stop in pairwise([*starts, len(lines)])]


def _section(lines: list[tuple[int, str]], file: str) -> Section:
    (number, heading), *rest = lines
    prose = [(n, line) for n, line in rest if line.strip() and not line.startswith("|")]
    tables: list[list[tuple[int, str]]] = []
    last = 0
    for n, line in rest:
        if line.startswith("|"):
            if n != last + 1:
                tables.append([])
            tables[-1].append((n, line))
            last = n
    return Section(
        heading=heading.lstrip("# ").strip(),
        line=number,
        text=tuple(prose),
        tables=tuple(_table(part, file) for part in tables),
    )


def _table(lines: Iterable[tuple[int, str]], file: str) -> Table:
    (_, first), *rest = lines
    head = _cells(first)
    records, problems = [], []
    for number, line in rest:
        cells = _cells(line)
        if all(_RULE.fullmatch(cell) for cell in cells):
            continue
        try:
            no_surrogates(line)
            if len(cells) != len(head):
                raise InputError(
                    f"{len(cells)} cells", found=len(cells), allowed=f"{len(head)} as in the head"
                )
        except InputError as error:
            problems.append(RowProblem(file, number, str(error)))
            continue
        records.append(Record(number, dict(zip(head, cells, strict=True))))
    return Table(head=head, records=tuple(records), problems=tuple(problems))


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().removesuffix("|").removeprefix("|").split("|"))


def read_each(table: Table, file: str, make: Callable[[Record], Iterable[ScoredRow]]) -> ReadRows:
    """Read every line of a table as rows (one or several); a line that `make` refuses is a problem."""
    rows: list[ScoredRow] = []
    problems = list(table.problems)
    for record in table.records:
        try:
            rows += make(record)
        except ExplorerError as error:
            problems.append(RowProblem(file, record.line, str(error)))
    return ReadRows(tuple(rows), tuple(problems))


def numbers(text: str) -> list[float]:
    """Return the numbers in a text; thousands are not separated.

    >>> numbers("8: 8/8/1, .25")
    [8.0, 8.0, 8.0, 1.0, 0.25]
    """
    return [float(part) for part in re.findall(r"\d+(?:\.\d+)?|\.\d+", text)]
