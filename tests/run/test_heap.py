"""Pages are taken before anything is timed, and never more than a rank's share of what is free."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.run.ranks import heap

MEBIBYTE = 2**20


class Free:
    """So much memory is free."""

    available = 1024 * MEBIBYTE


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of every block that was asked for."""
    found: list[int] = []

    def zeros(count: int, **_: Any) -> int:
        found.append(count)
        return count

    monkeypatch.setattr(heap.torch, "zeros", zeros)
    monkeypatch.setattr(heap.psutil, "virtual_memory", Free)
    return found


@pytest.mark.parametrize(
    ("wanted", "ranks", "taken"), [(256, 1, 256), (4096, 1, 512), (4096, 4, 128), (10, 1, 0), (0, 2, 0)]
)
def test_pages_are_taken_up_to_half_of_a_ranks_share(
    asked: list[int], wanted: int, ranks: int, taken: int
) -> None:
    heap.take_pages(wanted * MEBIBYTE, ranks)
    assert sum(asked) == taken * MEBIBYTE
