"""The watchdog on made-up ranks and a made-up clock: slow is not stuck, and stuck is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from explorer.run.status import COMPUTING, IDLE, STARTING, WAITING, Status
from explorer.run.watchdog import LIMITS_S, SPIN_LIMIT_S, Process, Stuck, Watchdog, look_at


@dataclass
class Ranks:
    """Ranks whose pages and processes say what a test wants."""

    states: list[int]
    predicted_s: float = 0.1
    share: list[float] = field(default_factory=list)
    """Share of a core that each rank's main thread gets."""
    stopped: set[int] = field(default_factory=set)
    now: float = 0.0
    changes: list[int] = field(default_factory=list)
    done: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.share = self.share or [0.0] * len(self.states)
        self.changes = [1] * len(self.states)
        self.dog = Watchdog(len(self.states), 5.0, look=self.look, clock=lambda: self.now)

    def look(self, pid: int) -> Process:
        return Process(round(self.now * self.share[pid], 2), pid in self.stopped)

    def page(self, rank: int) -> Status:
        state = self.states[rank]
        return Status(self.changes[rank], self.predicted_s if state == COMPUTING else 0.0, state, "0F1")

    def after(self, seconds: float, each: Callable[[], None] = lambda: None) -> Stuck | None:
        """Poll for so long, twenty times a second as the launcher does; the first verdict."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.05
            each()
            if found := self.dog.judge(self.page, {r: r for r in range(len(self.states))}, self.done):
                return found
        return None


def test_an_action_without_life_is_stuck_after_its_patience() -> None:
    found = Ranks([COMPUTING, WAITING]).after(60)
    assert found is not None
    assert (found.rank, found.what, found.stopped) == (0, "0F1", False)
    # five times its seconds and five; the first look, a second behind the page, is given as a sign of life
    assert 5.5 <= found.still_s < 5.6
    assert "rank 0 stands still: 0F1 for 5.5 s (predicted 0.1 s)" in str(found)


@pytest.mark.parametrize("share", [1.0, 0.02])
def test_an_action_that_gets_little_of_a_core_is_slow_and_not_stuck(share: float) -> None:
    """At a load of a hundred on two cores a rank gets a fiftieth: hundreds of times what was predicted."""
    assert Ranks([COMPUTING, WAITING], share=[share, 0.0]).after(300) is None


def test_what_computes_for_ever_ends_too() -> None:
    found = Ranks([COMPUTING, WAITING], share=[1.0, 0.0]).after(2 * SPIN_LIMIT_S)
    assert found is not None
    assert found.rank == 0
    assert found.still_s > SPIN_LIMIT_S


@pytest.mark.parametrize("state", [STARTING, COMPUTING, WAITING, IDLE])
def test_a_stopped_rank_is_found_in_any_state(state: int) -> None:
    found = Ranks([COMPUTING, state], share=[1.0, 0.0], stopped={1}).after(60)
    assert found is not None
    assert (found.rank, found.stopped) == (1, True)
    assert str(found).endswith("stopped by a signal")


def test_ranks_that_all_wait_are_stuck() -> None:
    found = Ranks([WAITING, WAITING]).after(60)
    assert found is not None
    assert found.still_s > LIMITS_S[WAITING]


def test_who_waits_for_a_living_rank_waits_as_long_as_it_takes() -> None:
    for state in (COMPUTING, STARTING, WAITING):
        assert Ranks([state, WAITING, IDLE], share=[0.05, 0.0, 0.0]).after(500) is None


def test_who_waits_for_one_that_never_starts_names_that_one() -> None:
    found = Ranks([WAITING, STARTING]).after(400)
    assert found is not None
    assert found.rank == 1
    assert found.still_s > LIMITS_S[STARTING]


def test_pages_that_change_are_life_enough() -> None:
    ranks = Ranks([COMPUTING, WAITING])

    def turn() -> None:
        ranks.changes[0] += 1

    assert ranks.after(100, turn) is None


def test_who_is_done_is_not_looked_at() -> None:
    assert Ranks([COMPUTING, IDLE], done={0, 1}).after(400) is None


def test_a_real_process_is_read() -> None:
    used = look_at(os.getpid())
    assert used is not None
    assert used.cpu_s > 0
    assert not used.stopped
    assert look_at(2**22 + 1) is None
