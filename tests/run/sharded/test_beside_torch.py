"""ZeRO 3 beside torch's `fully_shard`: the same gradients, and the same bytes but for one named line."""

from __future__ import annotations

from tests.run.sharded.ranks import on_ranks


def test_fully_shard_sends_what_zero_3_does_but_for_what_it_keeps() -> None:
    """Torch keeps weights outside of blocks gathered from forward to backward; ours gathers them again."""
    for row in on_ranks(2, "tests.run.sharded.check_beside_torch:beside_torch"):
        assert max(row["loss"], row["gradient"], row["ours_gradient"]) < 1e-12
        assert set(row["torch"]) == set(row["ours"]) == {"all_gather", "reduce_scatter"}
        assert row["torch"]["reduce_scatter"] == row["ours"]["reduce_scatter"] > 0
        assert row["kept"] > 0
        assert row["torch"]["all_gather"] + row["kept"] == row["ours"]["all_gather"]
