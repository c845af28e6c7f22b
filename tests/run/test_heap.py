"""Pages are taken before anything is timed, and never more than a rank's share of what is free."""

from __future__ import annotations

from pathlib import Path
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
    monkeypatch.setattr(heap, "free_bytes", lambda: Free.available)
    return found


@pytest.mark.parametrize(
    ("wanted", "ranks", "taken"), [(256, 1, 256), (4096, 1, 512), (4096, 4, 128), (10, 1, 0), (0, 2, 0)]
)
def test_pages_are_taken_up_to_half_of_a_ranks_share(
    asked: list[int], wanted: int, ranks: int, taken: int
) -> None:
    heap.take_pages(wanted * MEBIBYTE, ranks)
    assert sum(asked) == taken * MEBIBYTE


@pytest.mark.parametrize(
    ("limit", "used", "left"),
    [
        ("2048", "1536", 512),
        ("max", "1536", 1024),
        ("1024", "2048", 0),
        ("4096", "1", 1024),
        (None, None, 1024),
    ],
)
def test_a_container_has_less_left_than_its_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str | None, used: str | None, left: int
) -> None:
    monkeypatch.setattr(heap.psutil, "virtual_memory", Free)
    for name, value in (("max", limit), ("current", used)):
        if value is not None:
            number = value if value == "max" else str(int(value) * MEBIBYTE)
            (tmp_path / f"memory.{name}").write_text(number + "\n")
    assert heap.free_bytes(tmp_path) == left * MEBIBYTE
