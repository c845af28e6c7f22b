"""Sets of measured kernels: single operations repeated on an idle device, compared with what costs say.

Unlike the rows of `explorer.score.rows`, which are whole training steps, a row here is one operation on one
kind of device; nothing is simulated. A set is a file in `explorer/score/kernel_sets/`:

    @KERNEL_SETS.add("matrix_products", title=..., path="measured/kernels/matrix_products.csv",
                     source="aiconfigurator-kernels", counted="50 us and more", columns=("device", ...))
    def read(records: Sequence[Record]) -> Iterator[KernelRow]: ...

The function is given every line of the CSV file, checked for its columns. Rows of one device are best
predicted together, as arrays. A line that is wrong raises no error: it is yielded as a `Refused` with the
line and the reason. Names of devices are those of `nvidia-smi` without the maker ("H100-SXM5-80GB");
`explorer.score.kernel_devices.kind_called` finds the kind. `checked` does both for one line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple, TypeVar

from explorer.base.errors import ExplorerError, InputError
from explorer.base.registry import Registry, Spec
from explorer.score.reading import Record, read_table, reference_folder
from explorer.score.rows import RowProblem

T = TypeVar("T")


class KernelRow(NamedTuple):
    """One measured operation with its prediction."""

    line: int
    """Line in the file."""
    device: str
    """Kind of device, as our profiles name it."""
    operation: str
    """Precision of a product, kernel of an attention, collective and ranks: rows of one device and operation
    are one line of the table."""
    name: str
    """Sizes, for people."""
    predicted_s: float
    """Predicted seconds."""
    measured_s: float
    """Measured seconds."""
    counted: bool
    """Whether it is of the size that the figures ask for (`KernelSet.counted`)."""


class Refused(NamedTuple):
    """A line that cannot be read or predicted."""

    line: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSet(Spec):
    """Measured kernels; its function yields a `KernelRow` or a `Refused` for every record."""

    path: str
    """Path of its rows inside the reference folder."""
    source: str
    """Owner of the measurements."""
    counted: str
    """Which rows the first figures are of, in words."""
    columns: tuple[str, ...]
    """Columns that its file needs."""


KERNEL_SETS: Registry[KernelSet] = Registry("set of kernels", "explorer.score.kernel_sets", KernelSet)
"""Sets of kernels by name."""


class KernelErrors(NamedTuple):
    """Errors of some rows in per cent of the measurement; `bias` keeps the sign. NaN without rows."""

    rows: int
    median_pct: float
    mean_pct: float
    worst_pct: float
    bias_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredKernels:
    """A set of kernels with its outcome."""

    name: str
    """Name of the set."""
    file: str
    """File that was read."""
    rows: tuple[KernelRow, ...]
    """Rows in the order of the file."""
    problems: tuple[RowProblem, ...]
    """Lines that cannot be read or predicted; of many for one reason only the first, with their number."""
    skipped: int
    """Lines behind `problems`."""
    seconds: float
    """Seconds of work."""

    def by_group(self) -> dict[tuple[str, str], list[KernelRow]]:
        """Return rows by device and operation, sorted, and those of all under ("all", "")."""
        found: dict[tuple[str, str], list[KernelRow]] = {}
        for row in self.rows:
            found.setdefault((row.device, row.operation), []).append(row)
        groups = {key: found[key] for key in sorted(found)}
        return {**groups, ("all", ""): list(self.rows)} if len(groups) > 1 else groups


def errors_of(rows: Sequence[KernelRow]) -> KernelErrors:
    """Return the errors of some rows."""
    if not rows:
        return KernelErrors(0, *[float("nan")] * 4)
    signed = [(row.predicted_s / row.measured_s - 1) * 100 for row in rows]
    sizes = [abs(error) for error in signed]
    return KernelErrors(len(rows), median(sizes), fmean(sizes), max(sizes), fmean(signed))


def score_kernels(paths: Mapping[str, Path]) -> list[ScoredKernels]:
    """Predict every row of some sets of kernels.

    Args:
        paths: by name of a set, the file of its rows.

    Raises:
        InputError: a set is unknown.
    """
    return [_scored(KERNEL_SETS.get(name), path) for name, path in paths.items()]


def kernel_paths(names: Sequence[str], given: Mapping[str, Path]) -> dict[str, Path]:
    """Return the place of each set's rows: as given, else inside the reference folder.

    Raises:
        InputError: the reference folder is needed and missing.
    """
    return {name: given.get(name) or reference_folder() / KERNEL_SETS.get(name).path for name in names}


def checked(record: Record, make: Callable[[Record], T]) -> T | Refused:
    """Return what `make` reads of a line, or why it refuses."""
    try:
        return make(record)
    except ExplorerError as error:
        return Refused(record.line, str(error))


def _scored(kernels: KernelSet, path: Path) -> ScoredKernels:
    start = time.perf_counter()
    rows: list[KernelRow] = []
    refused: list[Refused] = []
    problems: list[RowProblem] = []
    try:
        records, problems = read_table(path, kernels.columns)
        outcomes: Iterator[KernelRow | Refused] = kernels.function(records)
        for outcome in outcomes:
            (refused if isinstance(outcome, Refused) else rows).append(outcome)  # type: ignore[arg-type]
    except InputError as error:
        problems = [RowProblem(path.name, 0, str(error))]
    return ScoredKernels(
        name=kernels.name, file=str(path), rows=tuple(sorted(rows)),
        problems=tuple(sorted([*problems, *_merged(refused, path.name)], key=lambda item: item.line)),
        skipped=len(problems) + len(refused), seconds=time.perf_counter() - start,
    )  # fmt: skip


def _merged(refused: Sequence[Refused], file: str) -> list[RowProblem]:
    """Return one problem for all lines of one reason, since one unknown device may have thousands."""
    lines: dict[str, list[int]] = {}
    for item in refused:
        lines.setdefault(item.message, []).append(item.line)
    found = []
    for message, at in lines.items():
        more = f" (and {len(at) - 1:,} more lines)" if len(at) > 1 else ""
        found.append(RowProblem(file, min(at), f"{message}{more}"))
    return found
