"""Activations that leave for the host: the order says who is where, memory is given back, numbers stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from explorer.actions import BACKWARD, FORWARD, FREE, INPUT_GRAD, NAMED, OFFLOAD, RELOAD
from explorer.base.errors import RunError
from explorer.run.cases.build import Prepared
from explorer.run.model import model_graph, transformer
from explorer.run.ranks import sleeper
from explorer.run.ranks.allocated import counted
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.kept import HostLine, Kept
from explorer.run.ranks.lane import Gather, RankLanes
from explorer.run.ranks.sleeper import Sleeper
from tests.run.programs import IN_HALVES, MODEL, dry_moved_away, moved_away, real, stages_of
from tests.run.threads import on_threads, worst

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")


def in_halves(recompute: str = "none") -> Prepared:
    names = [layer.name for layer in model_graph(MODEL).layers]
    stages = tuple(replace(stage, recompute=recompute) for stage in stages_of(names, 2, 1, size=2))
    options = (("lanes", IN_HALVES),)
    return real("custom", 2, 1, stages=stages, options=options, name=f"halves, {recompute}")


TIED = transformer(6, d_model=8, heads=2, ffn=16, seq=4, vocab=16, tied=True, dtype="fp64")
CASES = {
    "2": lambda: moved_away(2),
    "4": lambda: moved_away(4, steps=2),
    "tied": lambda: moved_away(2, model=TIED, optimizer="momentum"),
    "halves": in_halves,
    "recomputed": lambda: in_halves("full"),
    "without FREE": lambda: real("custom", 2, 1, name="plain", options=(("lanes", WITHOUT_FREE),)),
}
WITHOUT_FREE = (
    "0F0 0OFFLOAD0 0F1 0F2 0RELOAD0 0B0 0F3 0B1 0B2 0B3;1F0 1B0 1F1 1OFFLOAD1 1F2 1RELOAD1 1B1 1B2 1F3 1B3"
)


def here_after_each(prepared: Prepared, lane: int) -> list[set[int]]:
    """Microbatches on the device after each task of a lane, by its actions alone."""
    found: list[set[int]] = []
    here: set[int] = set()
    for action in prepared.program.order.lanes[lane]:
        span = set(range(action.first_microbatch, action.first_microbatch + action.count))
        here |= span if action.op in (FORWARD, RELOAD) else set()
        here -= span if action.op in (FREE, BACKWARD, INPUT_GRAD) else set()
        if action.op not in NAMED:
            found.append(set(here))
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_order_says_who_is_on_the_device(name: str) -> None:
    """And gradients are those of one process."""
    prepared = CASES[name]()
    seen: dict[int, list[set[int]]] = {}

    def watch(run: Compute) -> None:
        compute = run.compute

        def watched(task: Any) -> None:
            compute(task)
            here = {n for (_, n), kept in run.kept.items() if kept.is_here}
            seen.setdefault(run.lane, []).append(here)

        run.compute = watched  # type: ignore[method-assign]

    records = on_threads(prepared, watch)
    assert worst(records) < 1e-10
    assert all(record["left"] == 0 and record["numerics"]["compared"] for record in records)
    moved = 0
    for lane, actions in enumerate(prepared.program.order.lanes):
        if any(action.op == OFFLOAD for action in actions):
            moved += 1
            if name != "without FREE":
                assert seen[lane] == here_after_each(prepared, lane)
    assert moved


def graph_of(kept: Kept, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.linspace(-1, 1, 2**16, dtype=torch.float64).view(256, 256).requires_grad_()
    with kept.saving():
        y = x
        for _ in range(4):
            y = torch.tanh(y @ weight)
    kept.add([x, y])
    return x, y


def test_memory_is_given_back_and_comes_back_equal() -> None:
    weight = torch.eye(256, dtype=torch.float64).mul_(1.01).requires_grad_()
    one = weight.untyped_storage().nbytes()
    x, y = graph_of(Kept([weight], HostLine(CPU)), weight)
    expected = torch.autograd.grad(y.sum(), [x, weight])
    del x, y
    kept = Kept([weight], HostLine(CPU))
    with counted(CPU, []) as found:
        x, y = graph_of(kept, weight)
        before = kept.bytes_here
        assert before == 5 * one  # x and four results: weights stay
        kept.send()
        kept.leave()
        assert kept.bytes_here == 0
        with pytest.raises(RunError, match="not on the device"):
            torch.autograd.grad(y.sum(), [x], retain_graph=True)
        room = [torch.zeros(256, 256, dtype=torch.float64) for _ in range(6)]
        del room
        kept.fetch()
    assert found.peak < 8 * one  # not those and the six beside them
    assert kept.bytes_here == before
    for mine, theirs in zip(torch.autograd.grad(y.sum(), [x, weight]), expected, strict=True):
        assert torch.equal(mine, theirs)


def test_what_never_left_cannot_be_fetched() -> None:
    with pytest.raises(RunError, match="never left"):
        Kept([], HostLine(CPU)).fetch()


@pytest.mark.parametrize("wrong", ["never fetched", "another microbatch"])
def test_a_backward_without_its_activations_ends_the_run(wrong: str) -> None:
    """A rank that loses count stops; it never computes with what is not there."""

    def change(run: Compute) -> None:
        gather = run.gather

        def otherwise(item: Gather) -> None:
            if wrong == "another microbatch":
                gather(replace(item, moved=tuple(n + item.back for n in item.moved)))
            elif not item.back:
                gather(item)

        run.gather = otherwise  # type: ignore[method-assign]

    with pytest.raises((RunError, KeyError)):
        on_threads(moved_away(2), change)


def test_a_dry_run_sleeps_moves_each_way_on_a_channel_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(sleeper.time, "perf_counter", lambda: now)
    mine = Sleeper((0.0, 3.0, 5.0), CPU)
    piece = RankLanes(dry_moved_away(2).program).plan(0).tasks[0].piece

    def begin(task: int, slot: int, channel: int, after: tuple[int, ...] = ()) -> float:
        mine.gather(Gather(task=task, slot=slot, channel=channel, piece=piece, after=after))
        return mine.gather_due[task]

    assert [begin(1, 1, 7), begin(2, 1, 7)] == [13.0, 16.0]  # one behind the other
    assert begin(3, 2, 8) == 15.0  # the other way beside them
    assert begin(4, 1, 9, after=(2, 3)) == 19.0  # back only once it is there


def test_every_move_of_an_order_is_issued_once_with_its_microbatches() -> None:
    for prepared in (moved_away(4), dry_moved_away(4), in_halves()):
        lanes = RankLanes(prepared.program)
        for lane, actions in enumerate(prepared.program.order.lanes):
            plan = lanes.plan(lane)
            issued = [item for items in plan.gathers for item in items]
            for op in (OFFLOAD, RELOAD):
                named = [
                    n
                    for a in actions
                    if a.op == op
                    for n in range(a.first_microbatch, a.first_microbatch + a.count)
                ]
                assert [n for i in issued if i.back == (op == RELOAD) for n in i.moved] == named
            waited = {task for item in plan.tasks for task in item.gathers}
            assert waited <= {item.task for item in issued}
