"""Swaps in tiles: the order in which the ranks of a line meet, and groups that are connected when made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from explorer.run.sharded import communicators
from explorer.run.sharded.overlapped import partners


@pytest.mark.parametrize("count", range(1, 10))
@pytest.mark.parametrize("back", [False, True])
def test_no_rank_waits_in_a_circle(count: int, *, back: bool) -> None:
    """NCCL does the swaps of a group one after the other: one ends when both have come to it, there and, in
    the backward, in the reversed order.
    """
    left = [partners(place, count)[:: -1 if back else 1] for place in range(count)]
    assert all(sorted(order) == [p for p in range(count) if p != place] for place, order in enumerate(left))
    while any(left):
        met = [place for place, order in enumerate(left) if order and left[order[0]][:1] == [place]]
        assert met, left
        for place in met:
            left[place].pop(0)


def test_groups_of_nccl_are_connected_when_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else ranks would wait for each other at the first use, in the midst of an order."""
    used = list[tuple[object, int]]()
    monkeypatch.setattr(dist, "new_group", tuple)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_backend", lambda: "nccl")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(communicators, "connect_all", lambda group, size, _at: used.append((group, size)))
    assert communicators.ready_group([1]) is None
    assert communicators.ready_group([0, 1, 2]) == (0, 1, 2)
    assert communicators.ready_group([2, 3]) == (2, 3)  # made by all, used by its own
    assert used == [((0, 1, 2), 3)]
    monkeypatch.setattr(dist, "get_backend", lambda: "gloo")
    assert communicators.ready_group([0, 1]) == (0, 1)
    assert len(used) == 1


def test_collectives_and_pairs_are_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = SimpleNamespace(reduced=0, exchanged=0)

    def reduce(numbers: torch.Tensor, *, group: object) -> None:
        calls.reduced = numbers.numel()

    def exchange(found: torch.Tensor, numbers: torch.Tensor, *, group: object) -> None:
        assert found.shape == numbers.shape
        calls.exchanged = numbers.numel()

    monkeypatch.setattr(dist, "all_reduce", reduce)
    monkeypatch.setattr(dist, "all_to_all_single", exchange)
    communicators.connect_all("group", 3, torch.device("cpu"))
    assert calls == SimpleNamespace(reduced=3, exchanged=3)  # at least an element for every rank
