"""The watchdog on made-up ranks and a made-up clock: slow is not stuck, and stuck is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from explorer.run.launching.status import COMPUTING, IDLE, STARTING, WAITING, Status
from explorer.run.launching.watchdog import SPIN_LIMIT_S, Process, Stuck, Watchdog, culprit, look_at


@dataclass
class Ranks:
    """Ranks whose pages and processes say what a test wants."""

    states: list[int]
    predicted_s: float = 0.1
    share: list[float] = field(default_factory=list)
    """Share of a core that each rank's main thread gets."""
    stopped: set[int] = field(default_factory=set)
    load: float = 1.0
    texts: dict[int, str] = field(default_factory=dict)
    now: float = 0.0
    changes: list[int] = field(default_factory=list)
    done: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.share = self.share or [0.0] * len(self.states)
        self.changes = [1] * len(self.states)
        self.dog = Watchdog(
            len(self.states), 5.0, look=self.look, clock=lambda: self.now, load=lambda: self.load
        )

    def look(self, pid: int) -> Process:
        return Process(round(self.now * self.share[pid], 2), pid in self.stopped)

    def page(self, rank: int) -> Status:
        state = self.states[rank]
        predicted_s = self.predicted_s if state == COMPUTING else 0.0
        return Status(self.changes[rank], predicted_s, state, self.texts.get(rank, "0F1"))

    def after(self, seconds: float, each: Callable[[], None] = lambda: None) -> Stuck | None:
        """Poll for so long, twenty times a second as the launcher does; the first verdict."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.05
            each()
            if found := self.dog.judge(self.page, {r: r for r in range(len(self.states))}, self.done):
                return found
        return None


def test_a_run_without_life_stands_still_after_ten_seconds() -> None:
    """Twice the patience; the first look, a second behind the page, is given as a sign of life."""
    found = Ranks([COMPUTING, WAITING]).after(60)
    assert found is not None
    assert (found.rank, found.what, found.stopped) == (0, "0F1", False)
    assert 10.0 <= found.still_s < 10.2
    assert "rank 0 stands still: 0F1 for 10.0 s (predicted 0.1 s)" in str(found)


@pytest.mark.parametrize(
    ("predicted_s", "load", "limit_s"), [(4.0, 1.0, 20.0), (4.0, 8.0, 160.0), (0.1, 8.0, 10.0)]
)
def test_long_tasks_have_five_times_their_seconds_and_more_under_load(
    predicted_s: float, load: float, limit_s: float
) -> None:
    found = Ranks([COMPUTING, WAITING], predicted_s=predicted_s, load=load).after(300)
    assert found is not None
    assert limit_s <= found.still_s < limit_s + 0.2


def test_one_rank_that_lives_is_enough() -> None:
    """What hangs is told when the others have come to wait for it."""
    assert Ranks([COMPUTING, COMPUTING], share=[0.0, 0.1]).after(300) is None


def test_the_culprit_is_who_could_go_on() -> None:
    def page(state: int, text: str) -> Status:
        return Status(1, 0.0, state, text)

    waits = {
        0: page(WAITING, "0B0 waits for rank 1"),
        1: page(WAITING, "1F3 waits for rank 2"),
        2: page(WAITING, "2U0 waits for its reduction"),
        3: page(IDLE, ""),
    }
    assert culprit(waits) == 2
    assert culprit({**waits, 3: page(COMPUTING, "3F0")}) == 3
    assert culprit({**waits, 3: page(STARTING, "")}) == 3
    circle = {0: page(WAITING, "0B0 waits for rank 1"), 1: page(WAITING, "1F1 waits for rank 0")}
    assert culprit(circle) in circle


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
    assert found.still_s < 7.0


def test_ranks_that_all_wait_are_stuck() -> None:
    found = Ranks([WAITING, WAITING]).after(60)
    assert found is not None
    assert found.still_s > 10.0


def test_who_waits_for_a_living_rank_waits_as_long_as_it_takes() -> None:
    for state in (COMPUTING, STARTING, WAITING):
        assert Ranks([state, WAITING, IDLE], share=[0.05, 0.0, 0.0]).after(500) is None


def test_who_waits_for_one_that_never_starts_names_that_one() -> None:
    found = Ranks([WAITING, STARTING]).after(400)
    assert found is not None
    assert found.rank == 1
    assert found.still_s > 30.0


@pytest.mark.parametrize(
    ("share", "wants_core", "stands_still"),
    [(0.05, False, False), (0.01, True, False), (0.014, False, True), (0.0, False, True)],
)
def test_what_torchrun_works_is_life_of_ranks_that_it_has_not_started(
    share: float, wants_core: bool, stands_still: bool
) -> None:
    """It imports torch before them, for half a minute on a busy machine; once it only waits, it has not.

    Under `nice` it gets a hundredth of a core there, and wants more.
    """
    agent, now = 7, 0.0
    dog = Watchdog(
        2, 5.0, look=lambda pid: Process(now * share * (pid == agent), False, wants_core), clock=lambda: now
    )
    found = None
    while found is None and now < 100.0:
        now += 0.05
        found = dog.judge(lambda _: Status(0, 0.0, STARTING, ""), {}, (), agent=agent)
    assert (found is not None) == stands_still
    if found is not None:
        assert 30.0 <= found.still_s < 31.1


def test_what_torchrun_works_is_no_life_of_ranks_that_it_has_started() -> None:
    now = 0.0
    dog = Watchdog(1, 5.0, look=lambda pid: Process(now * (pid == 7), False), clock=lambda: now)
    found = None
    while found is None and now < 100.0:
        now += 0.05
        found = dog.judge(lambda _: Status(0, 0.0, STARTING, ""), {0: 3}, (), agent=7)
    assert found is not None


def test_seconds_in_which_nobody_looked_are_nobodys_fault() -> None:
    """A launcher that got no core for a minute counts anew, and finds who stands still then."""
    ranks = Ranks([COMPUTING, WAITING])
    assert ranks.after(5.0) is None
    ranks.now += 60.0
    assert ranks.after(4.0) is None
    found = ranks.after(10.0)
    assert found is not None
    assert 10.0 <= found.still_s < 10.2


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
