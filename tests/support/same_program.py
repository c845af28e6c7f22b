"""Equality of two programs, task by task."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from explorer.tasks.program import JOIN, Program

EXACT = (
    "kind", "slot", "lane", "peer", "step", "action", "microbatch", "channel", "slots", "actions",
    "other_lanes", "lane_devices", "versions", "delay", "copies", "whole_over_runs", "gathered_together",
    "kept_replicas", "replica_classes", "skeleton", "shape", "order",
)  # fmt: skip


def waits(program: Program) -> list[frozenset[int]]:
    """Per task that is no join: what it waits for, joins replaced by what they wait for."""
    found: list[frozenset[int]] = []
    pairs = zip(program.first.tolist(), program.second.tolist(), strict=True)
    for pair in pairs:
        own: set[int] = set()
        for item in pair:
            if item:
                own |= found[item - 1] if program.kind[item - 1] == JOIN else {item - 1}
        found.append(frozenset(own))
    return [before for before, kind in zip(found, program.kind.tolist(), strict=True) if kind != JOIN]


def differences(one: Program, other: Program) -> list[str]:
    """Name the fields in which two programs differ."""
    found = []
    for name in EXACT:
        a, b = getattr(one, name), getattr(other, name)
        if isinstance(a, np.ndarray):
            same = a.dtype == b.dtype and np.array_equal(a, b)
        else:
            same = tuple(a) == tuple(b) if name == "actions" else a == b
        if not same:
            found.append(name)
    if waits(one) != waits(other):
        found.append("first, second")
    if len(one.programs) != len(other.programs) or not all(map(np.array_equal, one.programs, other.programs)):
        found.append("programs")
    found += [
        f"memory.{name}"
        for name, a, b in zip(one.memory._fields, one.memory, other.memory, strict=True)
        if a.dtype != b.dtype or not np.array_equal(a, b)
    ]
    unknown = {item.name for item in fields(Program)} - {
        *EXACT,
        "first",
        "second",
        "programs",
        "memory",
        "_memo",
    }
    return [*found, *sorted(unknown)]
