"""Messages that were sent are kept until they have gone, and no longer."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.distributed as dist

from explorer.run.ranks.outbox import Outbox
from explorer.run.ranks.transport import Transport
from tests.run.sharded.ranks import on_ranks

MESSAGES = 12
PEER_S, PAUSE_S = 60.0, 0.005


class Work:
    """A send that ends when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.ended, self.error = threading.Event(), error

    def wait(self) -> None:
        assert self.ended.wait(PEER_S)
        if self.error:
            raise self.error

    def is_completed(self) -> bool:
        return self.ended.is_set()


def filled(asks: bool, *works: Work) -> Outbox:
    outbox = Outbox(asks=asks)
    for work in works:
        outbox.add(work, torch.zeros(10))
    return outbox


def until_held(outbox: Outbox, size: int) -> None:
    """Forget what has gone until no more than that is held; a thread may say so a moment later."""
    pause = threading.Event()
    for _ in range(int(PEER_S / PAUSE_S)):
        outbox.forget_gone()
        if outbox.held_bytes <= size:
            return
        pause.wait(PAUSE_S)
    pytest.fail(f"{outbox.held_bytes} bytes are kept")


@pytest.mark.parametrize("asks", [True, False])
def test_a_message_is_kept_until_it_has_gone(asks: bool) -> None:
    works = [Work(), Work(), Work()]
    outbox = filled(asks, *works)
    outbox.forget_gone()
    assert outbox.held_bytes == 120
    works[0].ended.set()
    until_held(outbox, 80)
    assert outbox.held_bytes == 80
    for work in works[1:]:
        work.ended.set()
    outbox.finish()
    assert outbox.held_bytes == 0


def test_what_could_not_be_sent_is_said_where_it_was_sent() -> None:
    for finish in (True, False):
        works = [Work(), Work(RuntimeError("Connection closed by peer"))]
        for work in works:
            work.ended.set()
        outbox = filled(False, *works)
        with pytest.raises(RuntimeError, match="Connection closed by peer"):
            outbox.finish() if finish else until_held(outbox, 0)


def test_any_error_of_a_send_ends_the_wait_for_it() -> None:
    work = Work(IndexError("no such rank"))
    work.ended.set()
    outbox = filled(False, work)
    with pytest.raises(IndexError, match="no such rank"):
        until_held(outbox, 0)


def messages_there_and_back() -> list[int]:
    """Send messages that are answered, and count the bytes that are kept when the answer is there."""
    transport = Transport(rank=dist.get_rank(), ranks=2, device=torch.device("cpu"), timeout_s=PEER_S)
    there, back = ("wire", 0, 1), ("answers", 1, 0)
    transport.open([there, back], [])
    kept = []
    for _ in range(MESSAGES):
        if transport.rank == 0:
            transport.send(there, torch.zeros(1000))
            transport.receive(back, torch.zeros(1)).wait()
            until_held(transport._outboxes[there], 0)
            kept.append(transport._outboxes[there].held_bytes)
        else:
            transport.receive(there, torch.zeros(1000)).wait()
            transport.send(back, torch.ones(1))
    transport.finish_sends()
    return kept


def test_messages_that_were_answered_are_not_kept() -> None:
    sender, _ = on_ranks(2, "tests.run.test_outbox:messages_there_and_back")
    assert sender == [0] * MESSAGES
