"""What is done for a field of the bar, phase by phase: told to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

READING = "reading the model"
PLACING = "placing the model on the devices"
SIMULATING = "simulating a step"
PHASES: dict[str, tuple[str, ...]] = {
    "model": (READING, PLACING, SIMULATING),
    "cluster": (PLACING, SIMULATING),
    "sequence_length": (READING, SIMULATING),
    "framework": (READING, SIMULATING),
}
"""What is done for a field, in order; for any other field only a step is simulated."""

_TOLD: ContextVar[Callable[[str], None] | None] = ContextVar("told", default=None)


def phase(name: str) -> None:
    """Tell whoever waits for the work under way what is done now."""
    told = _TOLD.get()
    if told is not None:
        told(name)


@contextmanager
def followed(told: Callable[[str], None]) -> Iterator[None]:
    """Have `phase` call a function meanwhile."""
    token = _TOLD.set(told)
    try:
        yield
    finally:
        _TOLD.reset(token)


def progress(key: str, name: str) -> dict[str, Any]:
    """Return what the page is told of a phase of a field.

    >>> progress("cluster", "simulating a step")
    {'key': 'cluster', 'text': 'simulating a step', 'at': 2, 'of': 2}
    """
    phases = PHASES.get(key, (SIMULATING,))
    return {
        "key": key,
        "text": name,
        "at": phases.index(name) + 1 if name in phases else 1,
        "of": len(phases),
    }
