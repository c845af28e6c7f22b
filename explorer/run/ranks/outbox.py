"""Messages on their way over one wire, each kept until it has gone and no longer.

A send of NCCL tells whether it has ended. One of gloo tells only who waits for it: `Work.is_completed` stays
false however long ago it went. A thread of each wire therefore waits for its messages, in their sequence, and
says how many have gone. Their memory is given back by the thread that computes, which is the one whose
releases are counted (`explorer.run.ranks.allocated`).
"""

from __future__ import annotations

import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any

import torch


class Outbox:
    """What was sent over one wire and may not have gone yet."""

    def __init__(self, *, asks: bool) -> None:
        """Begin with nothing under way.

        Args:
            asks: whether a work of this transport tells that it has ended without being waited for.
        """
        self._asks = asks
        self._kept: deque[tuple[Any, torch.Tensor]] = deque()
        self._waited: SimpleQueue[Any] = SimpleQueue()
        self._gone: SimpleQueue[Exception | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of the messages that are kept."""
        return sum(message.numel() * message.element_size() for _, message in self._kept)

    def add(self, work: Any, message: torch.Tensor) -> None:
        """Keep a message that was just sent."""
        self._kept.append((work, message))
        if self._asks:
            return
        if self._thread is None:
            # a daemon: a rank that ends for another reason does not wait for a peer that never takes it
            self._thread = threading.Thread(
                target=_wait_for_each, args=(self._waited, self._gone), daemon=True
            )
            self._thread.start()
        self._waited.put(work)

    def forget_gone(self) -> None:
        """Give back the messages that have gone.

        Raises:
            RuntimeError: one could not be sent.
        """
        if self._asks:
            while self._kept and self._kept[0][0].is_completed():
                self._kept.popleft()
            return
        while self._kept:
            try:
                self._take(self._gone.get_nowait())
            except Empty:
                return

    def finish(self) -> None:
        """Wait until every message has gone.

        Raises:
            RuntimeError: one could not be sent.
        """
        while self._kept:
            if self._asks:
                self._kept.popleft()[0].wait()
            else:
                self._take(self._gone.get())

    def _take(self, error: Exception | None) -> None:
        self._kept.popleft()
        if error is not None:
            raise error


def _wait_for_each(waited: SimpleQueue[Any], gone: SimpleQueue[Exception | None]) -> None:
    """Wait for works one after another; say of each that it has ended, or why not."""
    while True:
        work, error = waited.get(), None
        try:
            work.wait()
        except Exception as caught:  # noqa: BLE001 - raised where it was sent; unsaid, that would wait forever
            error = caught
        del work  # before it is said: the last to let go of a message is the one that sent it
        gone.put(error)


__all__ = ["Outbox"]
