"""Files of runs and traces: JSON and nothing else, of bounded size, `.gz` allowed; told apart by content."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from explorer.base.errors import InputError
from explorer.calibrate.estimate import Evidence
from explorer.calibrate.kineto import trace_evidence
from explorer.calibrate.runs import SCHEMA, run_evidence
from explorer.cluster import Cluster

MAX_BYTES = 256 * 2**20
"""Longest file read, unpacked: a trace of a few steps is a tenth of it."""


def read_evidence(path: Path, cluster: Cluster) -> Evidence:
    """What a run or a trace says of a cluster.

    Raises:
        InputError: a file that is missing, too long, no JSON, neither run nor trace, or of other devices.
    """
    data = read_json(path)
    try:
        if isinstance(data, list) or (isinstance(data, Mapping) and "traceEvents" in data):
            return trace_evidence(data, cluster, name=path.name)
        if isinstance(data, Mapping) and data.get("schema") == SCHEMA:
            return run_evidence(data, cluster, name=path.name)
    except InputError as error:
        raise error.within(file=str(path)) from None
    found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
    raise InputError(
        "neither a run nor a trace", file=str(path), found=found,
        allowed="what `explorer validate --json` or torch.profiler's export_chrome_trace wrote",
    )  # fmt: skip


def read_json(path: Path, *, most: int = MAX_BYTES) -> Any:
    """The data of a JSON file, packed by gzip or not; numbers that are not finite are refused.

    Raises:
        InputError: a file that is missing, too long or no JSON.
    """
    file = str(path)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            raw = stream.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read the file: {reason}", file=file) from None
    if len(raw) > most:
        raise InputError("the file is too long", file=file, allowed=f"up to {most} bytes, unpacked")
    try:
        return json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {' '.join(str(error).split())}", file=file, allowed="JSON") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")
