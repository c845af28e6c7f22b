"""Ranks never wait in a circle: the interpreter over messages that move only when both ends have begun them.

Whether a wait can end never becomes false again, and each rank does one thing after another; so if one
interleaving of the ranks ends, all do, and one is tried.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch

from explorer.run.ranks import interpreter
from explorer.run.ranks.interpreter import Hooks, Interpreter
from explorer.run.ranks.lane import LanePlan, LaneTask, RankLanes, Reduction, Transfer, Wire
from tests.run.programs import EVERY, IN_HALVES, moved_away, placed, real

CPU = torch.device("cpu")
HOOKS = Hooks(status=lambda *_: None, before=lambda _: None, step=lambda _: None)
WINDOWS = (0, 1, 2, 8)
PATIENCE_S = 60.0


class CircleError(Exception):
    """Every rank waits."""


class Network:
    """Messages in order, each over when sent and a receive is posted for it; sums when all have added."""

    def __init__(self, ranks: int) -> None:
        self.sent: Counter[Wire] = Counter()
        self.posted: Counter[Wire] = Counter()
        self.numbers: dict[Wire, list[float]] = defaultdict(list)
        self.begun: Counter[tuple[tuple[int, ...], int]] = Counter()
        self.changed = threading.Condition()
        self.alive, self.blocked = ranks, list[Callable[[], bool]]()
        self.circle = False

    def block(self, ended: Callable[[], bool]) -> None:
        """Block this rank; raise if no rank can ever go on."""
        with self.changed:
            self.blocked.append(ended)
            while not ended() and not self.circle:
                self.circle = len(self.blocked) == self.alive and not any(other() for other in self.blocked)
                if self.circle:
                    self.changed.notify_all()
                elif not self.changed.wait(PATIENCE_S):
                    raise TimeoutError("a rank works for ever")
            self.blocked.remove(ended)
            if self.circle:
                raise CircleError

    def leave(self) -> None:
        """Count a rank that has ended."""
        with self.changed:
            self.alive -= 1
            self.changed.notify_all()


@dataclass
class Later:
    """A call under way."""

    wait: Callable[[], None]


@dataclass
class Ends:
    """One rank's end of the network."""

    rank: int
    network: Network
    device: torch.device = CPU
    calls: Counter[tuple[int, ...]] = field(default_factory=Counter)

    def send(self, wire: Wire, message: torch.Tensor) -> None:
        """Begin to send."""
        with self.network.changed:
            self.network.sent[wire] += 1
            self.network.numbers[wire].append(float(message.item()))
            self.network.changed.notify_all()

    def receive(self, wire: Wire, buffer: torch.Tensor) -> Later:
        """Post a receive."""
        network = self.network
        with network.changed:
            number = network.posted[wire]
            network.posted[wire] += 1
            network.changed.notify_all()

        def wait() -> None:
            network.block(lambda: network.sent[wire] > number)
            buffer.fill_(network.numbers[wire][number])

        return Later(wait)

    def reduce(self, members: tuple[int, ...], buffer: torch.Tensor, *, op: Any) -> Later:
        """Begin to reduce."""
        del buffer, op
        key = (members, self.calls[members])
        self.calls[members] += 1
        with self.network.changed:
            self.network.begun[key] += 1
            self.network.changed.notify_all()
        return Later(lambda: self.network.block(lambda: self.network.begun[key] == len(members)))

    def finish_sends(self) -> None:
        """Wait until the receiver has posted a receive for all that was sent."""
        mine = [wire for wire in self.network.sent if wire[1] == self.rank]
        for wire in mine:
            self.network.block(partial(self._is_over, wire))

    def _is_over(self, wire: Wire) -> bool:
        return self.network.posted[wire] >= self.network.sent[wire]


class Nothing:
    """A backend that computes nothing, sends the number of each message, and notes what has been taken."""

    reduce_op: Any = None

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def compute(self, task: LaneTask) -> None:
        """Note a task."""
        self.events.append(("task", task.task))

    def message(self, item: Transfer) -> torch.Tensor:
        """Send its number."""
        return torch.tensor([float(item.task)], dtype=torch.float64)

    def buffer(self, item: Transfer) -> torch.Tensor:
        """Make room for a number."""
        del item
        return torch.zeros(1, dtype=torch.float64)

    def deliver(self, item: Transfer, message: torch.Tensor) -> None:
        """Note a message, which must be the one that was meant."""
        assert float(message.item()) == item.task
        self.events.append(("message", item.task))

    def contribution(self, item: Reduction) -> torch.Tensor:
        """Add nothing."""
        del item
        return torch.zeros(1)

    def reduced(self, item: Reduction, total: torch.Tensor) -> None:
        """Note a collective."""
        del total
        self.events.append(("message", item.task))

    def gather(self, item: Any) -> None:
        """Begin nothing."""

    def gathered(self, task: int) -> None:
        """Wait for nothing."""


def play(plans: list[LanePlan]) -> list[list[tuple[str, int]]]:
    """Run all ranks; return what each noted, in its order.

    Raises:
        CircleError: they wait for each other.
    """
    network, failed = Network(len(plans)), list[BaseException]()
    backends = [Nothing() for _ in plans]

    def rank(number: int) -> None:
        ends: Any = Ends(number, network)
        try:
            Interpreter(plans[number], backends[number], ends, HOOKS).run(time.perf_counter())
        except BaseException as error:  # noqa: BLE001 - raised again where the test is
            failed.append(error)
        network.leave()

    threads = [threading.Thread(target=rank, args=(i,), daemon=True) for i in range(len(plans))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    if failed:
        raise failed[0]
    return [backend.events for backend in backends]


def plans_of(lanes: RankLanes) -> list[LanePlan]:
    return [lanes.plan(lane) for lane in range(len(lanes.program.programs))]


def cases(p: int) -> dict[str, Any]:
    """Every registered schedule; those whose transfers block, whose updates wait for other ranks, or that
    move activations; replicas.
    """
    fields: dict[str, Any] = {"microbatches": 8, "batch": 8, "steps": 2}
    found = {
        name: placed(name, p, optimizer="momentum", **fields) for name in EVERY
    }  # spectrain reads the momentum
    options: dict[str, tuple[str, tuple[tuple[str, Any], ...]]] = {
        "unvalidated": ("zb_auto", (("post_validation", False),)),
        "vee": ("zb_auto", (("vee", True),)),
        "1f1b-blocking": ("1f1b", (("blocking", True),)),
        "interleaved-blocking": ("interleaved_1f1b", (("blocking", True),)),
        "split-chimera": ("split_backward", (("of", "chimera"), ("fill", True))),
        "bapipe-no-overlap": ("bapipe", (("variant", "1F1B-SNO"),)),
    }
    for name, (schedule, chosen) in options.items():
        found[name] = placed(schedule, p, options=chosen, **fields)
    found["replicas"] = real("1f1b", p // 2, 2, microbatches=8, batch=16, steps=2)
    found["turns"] = real("1f1b", p // 2, 2, microbatches=8, batch=16, turns=True, steps=2)
    found["moved"] = moved_away(p)
    if p == 2:
        found["custom"] = real("custom", 2, 1, options=(("lanes", IN_HALVES),), steps=1)
    return found


@pytest.fixture(scope="module", params=[2, 4])
def lanes_of(request: pytest.FixtureRequest) -> dict[str, RankLanes]:
    return {name: RankLanes(case.case.lowered()) for name, case in cases(request.param).items()}


def test_no_order_waits_in_a_circle(lanes_of: dict[str, RankLanes], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, lanes in lanes_of.items():
        plans = plans_of(lanes)
        for window in WINDOWS:
            monkeypatch.setattr(interpreter, "WINDOW", window)
            for plan, events in zip(plans, play(plans), strict=True):
                assert [i for what, i in events if what == "task"] == [t.task for t in plan.tasks], name


def test_a_task_has_all_that_it_needs(lanes_of: dict[str, RankLanes]) -> None:
    for name, lanes in lanes_of.items():
        plans = plans_of(lanes)
        for plan, events in zip(plans, play(plans), strict=True):
            at = {event: i for i, event in enumerate(events)}
            assert len(at) == len(events), f"{name}: something came twice"
            for task in plan.tasks:
                needs = [*(item.task for item in task.receives), *task.reductions]
                assert all(at["message", item] < at["task", task.task] for item in needs), name


def test_what_the_proof_takes_for_granted(lanes_of: dict[str, RankLanes]) -> None:
    """Numbers grow along lanes, wires and groups; every message is needed; nothing above a message that is
    answered stands before it.
    """
    for name, lanes in lanes_of.items():
        for plan in plans_of(lanes):
            numbers = [task.task for task in plan.tasks]
            assert numbers == sorted(numbers), name
            needed = [item.task for task in plan.tasks for item in task.receives]
            arriving = [item.task for items in plan.incoming.values() for item in items]
            assert set(needed) == set(arriving), name
            assert len(set(arriving)) == len(arriving), name
            _check_numbers(name, lanes, plan)


def _check_numbers(name: str, lanes: RankLanes, plan: LanePlan) -> None:
    taken = set[int]()
    for before, task in zip((None, *plan.tasks), plan.tasks, strict=False):
        transfers = [item for item in task.receives if item.flow >= 0]
        assert [item.task for item in transfers] == sorted(item.task for item in transfers), name
        assert task.receives[: len(transfers)] == tuple(transfers), name
        for item in (item for item in transfers if item.answered and item.task not in taken):
            assert before is None or before.task < item.task, name
        taken |= {item.task for item in transfers}
        others = [*(item.task for item in (*transfers, *task.sent)), *task.reductions]
        assert all(number < task.task for number in others), name
        assert all(item.interval[0] < task.task for item in task.receives if item.flow < 0), name
    for position, items in enumerate(plan.sends):
        ready = plan.tasks[position - 1].task if position else -1
        assert all(ready < (item.task if item.flow >= 0 else item.interval[1]) for item in items), name
    for position, collectives in enumerate(plan.collectives):
        ready = plan.tasks[position - 1].task if position else -1
        assert all(ready < item.task for item in collectives), name


def test_a_circle_is_noticed() -> None:
    """The network can fail: two ranks that each wait for the other's second task."""
    from dataclasses import replace

    plans = plans_of(RankLanes(real("1f1b", 2, 1).program))
    first = plans[0]
    late = (*((),) * (len(first.sends) - 1), tuple(item for items in first.sends for item in items))
    with pytest.raises(CircleError):
        play([replace(first, sends=late), plans[1]])
