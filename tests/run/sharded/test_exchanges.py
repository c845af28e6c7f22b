"""Exchanges of flat weights on real ranks: their seconds by part, and memory that is used again."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.run.sharded.check_exchanges import SIZES
from tests.run.sharded.ranks import on_ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_part_of_an_exchange_is_timed(ranks: int) -> None:
    for rows in on_ranks(ranks, "tests.run.sharded.check_exchanges:timed"):
        assert [row["parts"] for row in rows] == [2] * 6 + [ranks] * 3 + [0] * 3
        for row in rows[:9]:
            assert row["copies"] == row["wanted"]
            for name in ("fill", "scatter", "take", "open", "gather"):
                assert row[f"{name}_s"] > 0
                assert row[f"{name}_core_s"] >= 0


@pytest.mark.parametrize("ranks", [2, 4])
def test_memory_of_an_exchange_is_used_again_unless_bytes_are_counted(ranks: int) -> None:
    found = on_ranks(ranks, "tests.run.sharded.check_exchanges:again")
    every = sum(SIZES.values())
    for number, frees in enumerate((True, False)):
        rows = [rank[number] for rank in found]
        assert [row["frees"] for row in rows] == [frees] * ranks
        assert all((row["kept"], row["same"]) == (0 if frees else 2, True) for row in rows)
        first, second = (list(chain(*(row[name] for row in rows))) for name in ("first", "second"))
        total = sum(range(1, ranks + 1))
        assert first == [float(total)] * every + [0.0] * (len(first) - every)
        # what was in the memory before counts nothing
        assert second[:every] == [0.0] * SIZES["a"] + [2.0 * ranks] * SIZES["b"]
        assert second[every:] == [0.0] * (len(second) - every)


def test_states_made_before_a_step_are_those_of_the_ranks_parts() -> None:
    for rows in on_ranks(2, "tests.run.sharded.check_exchanges:states"):
        assert [row["level"] for row in rows] == [0, 1, 2, 3]
        for row in rows:
            assert row["after"] == row["before"]
            assert all(name.startswith("part") == bool(row["level"]) for name in row["before"])
        whole, *parts = (sum(row["before"].values()) for row in rows)
        assert parts == [-(-whole // 2)] * 3
