"""The cycle collector: off while many small objects are made that all stay, which it would search in vain.

It is one for all threads. A thread that is held meanwhile (`explorer.base.checkpoints`) hands it back for as
long, so that whoever holds it does not pile up garbage.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

_OFF: set[int] = set()
"""Threads that switched it off."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the collector off meanwhile."""
    enabled, thread = gc.isenabled(), get_ident()
    gc.disable()
    if enabled:
        _OFF.add(thread)
    try:
        yield
    finally:
        if enabled:
            _OFF.discard(thread)
            gc.enable()


@contextmanager
def collected() -> Iterator[None]:
    """Switch the collector on again while this thread waits, if the thread switched it off."""
    mine = get_ident() in _OFF
    if mine:
        gc.enable()
    try:
        yield
    finally:
        if mine:
            gc.disable()
