"""Files of runs and traces: only JSON, of bounded size, `.gz` allowed; told apart by content."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.files import read_packed
from explorer.base.formats import parse_json
from explorer.calibrate.estimate import Evidence
from explorer.calibrate.kineto import trace_evidence
from explorer.calibrate.runs import SCHEMA, run_evidence
from explorer.cluster import Cluster

MAX_BYTES = 256 * 2**20
"""Longest file that is read, unpacked: a trace of a few steps is a tenth of it."""


def read_evidence(path: Path, cluster: Cluster) -> Evidence:
    """Read what a run or a trace says of a cluster.

    Raises:
        InputError: a file that is missing, too long, not JSON, neither run nor trace, or of other devices.
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
    """Read a JSON file, packed by gzip or not; numbers that are not finite are refused.

    Raises:
        InputError: a file that is missing, too long or not JSON.
    """
    raw = read_packed(path, most=most)
    try:
        return parse_json(raw, ours=False)
    except InputError as error:
        raise error.within(file=str(path)) from None
