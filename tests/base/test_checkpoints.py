"""Checkpoints: who watches a thread hears of them, and of no other thread's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from threading import Thread

import pytest

from explorer.base.caching import IdentityCache, Owner, remembered, remembered_each
from explorer.base.checkpoints import Stopped, checkpoint, watched
from explorer.base.compiling import kernel


def stopping_at(number: int) -> Callable[[], None]:
    """What raises at a checkpoint of that number."""
    numbers = count()

    def asked() -> None:
        if next(numbers) == number:
            raise Stopped

    return asked


def test_they_are_of_one_thread() -> None:
    seen: list[str] = []
    with watched(lambda: seen.append("here")):
        other = Thread(target=checkpoint)
        other.start()
        other.join()
        assert not seen
        checkpoint()
    checkpoint()
    assert seen == ["here"]


def test_who_watched_before_watches_again() -> None:
    seen: list[str] = []
    with watched(lambda: seen.append("outer")):
        with watched(lambda: seen.append("inner")):
            checkpoint()
        checkpoint()
    assert seen == ["inner", "outer"]


def test_nobody_takes_a_stop_for_an_error() -> None:
    assert not issubclass(Stopped, Exception)


class _Owner(Owner):
    def __init__(self) -> None:
        self._memo = {}


def calls() -> Iterator[Callable[[], object]]:
    """Each kind of cache, asked for something it does not know."""
    cache, owner = IdentityCache(4), _Owner()
    yield lambda: cache.get((owner,), "key", lambda: 1)
    yield lambda: cache.get_each([owner], ["place"], lambda _: 1)
    yield lambda: owner.memo("key", lambda: 1)
    yield lambda: remembered(4)(lambda x: x)(2)
    yield lambda: remembered_each(4)(lambda _item, place: place)([owner], [2])
    yield lambda: kernel(results=1)(lambda _values, _sums: None)([], [])  # type: ignore[arg-type]


@pytest.mark.parametrize("call", list(calls()))
def test_whatever_is_made_for_a_cache_can_be_stopped_before(call: Callable[[], object]) -> None:
    with pytest.raises(Stopped), watched(stopping_at(0)):
        call()
    call()  # nothing half-made was kept
