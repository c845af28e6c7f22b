"""Reports travel between processes: what comes out of a pickle is what went in, and nothing derived."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.simulation.report import Report

PLANS = sorted((Path(__file__).parents[1] / "plans").glob("*.yaml"))


def report_of(path: Path) -> Report:
    """The report of a plan."""
    found = explorer.load_plan(path)
    graph = found.graphs if len(found.plan.workload.jobs) > 1 else found.graph
    return explorer.simulate(graph, found.cluster, found.plan.workload, found.plan.strategy)


def alike(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays by content and dataclasses field by field."""
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if hasattr(one, "__dataclass_fields__"):
        names = [item.name for item in fields(one) if item.init]
        return all(alike(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_report_comes_back_from_its_pickle(path: Path) -> None:
    report = report_of(path)
    data = pickle.dumps(report)
    found: Report = pickle.loads(data)
    for item in fields(Report):
        if item.init and item.name not in ("timeline", "jobs"):
            assert getattr(found, item.name) == getattr(report, item.name), item.name
    ours, theirs = report.timeline, found.timeline
    assert alike(ours.timing, theirs.timing)
    assert alike(ours.program, theirs.program)
    assert alike(ours.placement, theirs.placement)
    assert alike(ours.prices.seconds, theirs.prices.seconds)
    for slot in ours.program.slots[1:]:
        assert theirs.prices.pricer.price(slot) == ours.prices.pricer.price(slot)
    assert found.traffic_bytes == report.traffic_bytes
    assert found.exposed_communication_s == report.exposed_communication_s
    assert len(pickle.dumps(report)) == len(data), "what was derived meanwhile stays behind"
