"""History: a file of runs, one JSON object a line, and what it teaches about predictions.

A line says what was predicted and measured, for which model, cluster, workload and strategy (by fingerprint)
and on which kind of machine. Lines are only ever added, each in one write at the end of the file, so two runs
may add at once and a run that is killed leaves at most its own line broken. Broken lines are skipped and
reported. Nothing in a file is ever executed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from explorer.base.errors import InputError, cut
from explorer.base.files import append_line, read_bytes
from explorer.base.formats import json_text, parse_json
from explorer.calibrate.conformal import FEWEST
from explorer.calibrate.devices import same_device, used_kinds
from explorer.cluster import Cluster

SCHEMA = "explorer.history/1"
"""Schema that every line names."""
MAX_BYTES = 64 * 2**20
"""Longest file that is read: some hundred thousand runs."""
MAX_LINE = 65536
"""Longest line that is written."""
TOO_NOISY = "too noisy"
"""Verdict of a run on a machine that was too busy: it is kept, but teaches nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One run: its predicted and measured figures."""

    machine: str
    """Kind of device that it ran on: `cpu`, `NVIDIA H200`, a device kind of a profile."""
    predicted: Mapping[str, float]
    """Predicted figures and parts, by name with unit: `step_time_s`, `compute_s`."""
    measured: Mapping[str, float]
    """Measured figures and parts, by the same names."""
    model: str = ""
    """Fingerprint of the model."""
    cluster: str = ""
    """Fingerprint of the cluster."""
    workload: str = ""
    """Fingerprint of the workload."""
    strategy: str = ""
    """Fingerprint of the strategy."""
    source: str = ""
    """Origin: `validate interpreter`, `score vtrain_single`, a name given by hand."""
    predicted_from: str = "profile"
    """Basis: `profile`, or `calibration` if the run timed its own machine and predicted from that."""
    verdict: str = ""
    """Verdict: `confirmed`, `off` or `too noisy`; empty if nobody judged."""
    date: str = ""
    """Date as the caller gives it; a history is never dated by itself."""


class Broken(NamedTuple):
    """A line that is not a run."""

    line: int
    why: str


class History(NamedTuple):
    """Runs of a file, and its broken lines."""

    entries: tuple[Entry, ...]
    broken: tuple[Broken, ...]


class Learned(NamedTuple):
    """The errors of one figure in past runs."""

    log_ratios: tuple[float, ...]
    """Logarithms of measured over predicted, in order."""
    whole: bool
    """Whether they include the errors of the profile: predictions were made from it."""


def append(path: Path, entry: Entry) -> None:
    """Add a run to a file, which is made if it is missing.

    Raises:
        InputError: a run with a number that is not finite, or that is too long, or a file that cannot be
            written.
    """
    append_line(path, _line(entry, path), what="history")


def _line(entry: Entry, path: Path) -> bytes:
    try:
        text = json_text({"schema": SCHEMA, **asdict(entry)}, indent=None)
    except InputError:
        raise InputError("a run with a number that is not finite", file=str(path)) from None
    line = text.encode() + b"\n"
    if len(line) > MAX_LINE:
        raise InputError("a run too long for a line", file=str(path), found=len(line), allowed=str(MAX_LINE))
    return line


def read(path: Path) -> History:
    """Read the runs of a file and list its broken lines.

    Raises:
        InputError: a file that is missing, unreadable or too long.
    """
    found, broken = numbered(path)
    return History(tuple(entry for _, entry in found), broken)


def numbered(path: Path) -> tuple[tuple[tuple[int, Entry], ...], tuple[Broken, ...]]:
    """Read the runs of a file with their line numbers, and its broken lines.

    Raises:
        InputError: a file that is missing, unreadable or too long.
    """
    raw = read_bytes(path, most=MAX_BYTES, what="history")
    entries: list[tuple[int, Entry]] = []
    broken: list[Broken] = []
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            entries.append((number, _entry(parse_json(line, ours=False))))
        except (InputError, ValueError, TypeError, OverflowError) as error:
            broken.append(Broken(number, cut(" ".join(str(error).split()))))
    return tuple(entries), tuple(broken)


def _entry(data: Any) -> Entry:
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise ValueError(f"no line of schema {SCHEMA}")
    known = {item.name for item in fields(Entry)}
    values = {key: value for key, value in data.items() if key in known}
    for key in ("predicted", "measured"):
        values[key] = _figures(key, values.get(key))
    for key in known - {"predicted", "measured"}:
        if not isinstance(values.get(key, ""), str):
            raise ValueError(f"{key} is no text")
    if not values.get("machine"):
        raise ValueError("no machine")
    return Entry(**values)


def _figures(key: str, value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError(f"no {key}")
    for name, number in value.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
            raise ValueError(f"{key}.{name} is no number")
    return {name: float(number) for name, number in value.items()}


def learn(entries: Iterable[Entry], cluster: Cluster) -> dict[str, Learned]:
    """Learn the errors of runs on a cluster's kind of machine, by figure.

    Runs that were predicted from the profile are taken if there are enough, else those that were predicted
    from their own timing. Figures that are 0 on a side say nothing, nor do runs that were too noisy.
    """
    found: dict[str, dict[bool, list[float]]] = defaultdict(lambda: {True: [], False: []})
    for entry in entries:
        if entry.verdict == TOO_NOISY or not _is_machine(entry.machine, cluster):
            continue
        for name, value in entry.predicted.items():
            seen = entry.measured.get(name, 0.0)
            if value > 0 and seen > 0 and 0 < seen / value < math.inf:
                found[name][entry.predicted_from == "profile"].append(math.log(seen / value))
    learned = {}
    for name, ratios in found.items():
        whole = len(ratios[True]) >= FEWEST or not ratios[False]
        learned[name] = Learned(tuple(ratios[whole]), whole)
    return learned


def machine_of(cluster: Cluster) -> str:
    """Name a cluster's kind of machine as the history does: its device kinds in use, joined by `+`."""
    return "+".join(sorted(kind.name for kind in used_kinds(cluster)))


def _is_machine(machine: str, cluster: Cluster) -> bool:
    kinds = used_kinds(cluster)
    return machine == machine_of(cluster) or (len(kinds) == 1 and same_device(kinds[0].name, machine))
