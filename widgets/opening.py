"""Initial states: from a first choice, a plan, or a trait set from Python. Pure; errors raise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.trust import Trust
from explorer.plan import Resolved, load_plan, resolve

from .edits import set_field
from .inputs import Inputs, inputs_of, load_inputs
from .phases import PLACING, READING, phase
from .session import Point, make_point
from .start import start_strategy


def first_point(model: str, cluster: str = "", workload: Mapping[str, Any] | None = None) -> Point:
    """Make the state that the workbench starts with.

    Args:
        model: model reference.
        cluster: cluster reference; empty for the devices that the file brings, else the default.
        workload: fields over the model's own workload.

    Raises:
        ExplorerError: any of them is unknown or wrong.
    """
    changes = dict(workload or {})
    length = changes.pop("sequence_length", None)
    phase(READING)
    inputs = load_inputs(model, cluster or None, sequence_length=length, changes=changes)
    phase(PLACING)
    return make_point(inputs, start_strategy(inputs), note="start", maker="start")


def plan_point(resolved: Resolved) -> Point:
    """Make the state that a plan describes.

    Raises:
        ExplorerError: the plan cannot be lowered.
    """
    made = resolved.plan.provenance
    return make_point(
        inputs_of(resolved),
        resolved.plan.strategy,
        note=made.note or "opened plan",
        maker=made.searcher or "hand",
    )


def file_point(path: str | Path, *, trust: Trust = False) -> Point:
    """Make the state that a plan file describes.

    Args:
        path: the file.
        trust: what code it may name as its model: see `explorer.load_plan`.

    Raises:
        InputError: the file cannot be read.
    """
    return plan_point(load_plan(path, trust=trust))


def wished_point(now: Point, name: str, value: Any) -> Point:
    """Make the state after a trait of the workbench was set from Python.

    Raises:
        ExplorerError: an impossible value.
    """
    if value is None or value == "":
        raise InputError(
            f"the {name} cannot be taken away",
            key=name, found=value, allowed=f"another {name}; undo() goes back",
        )  # fmt: skip
    if name == "plan":
        return plan_point(resolve(value, trust=True))  # a value that a cell made or opened
    if name in ("model", "cluster"):
        return set_field(now, name, value)
    if name == "strategy":
        return make_point(now.inputs, value, note="set from Python")
    if len(value.jobs) != 1:
        raise InputError(
            f"{len(value.jobs)} jobs; the workbench shows one",
            key="workload", found=len(value.jobs), allowed="a workload of one job",
        )  # fmt: skip
    own = now.inputs
    inputs = Inputs(
        model=own.model, graph=own.graph, cluster_name=own.cluster_name, cluster=own.cluster, workload=value
    )
    return make_point(inputs, now.strategy, now.groups, note="workload")
