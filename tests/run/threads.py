"""Ranks as threads of one process: the real interpreter and backend over messages that never leave it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from explorer.run.cases.build import Prepared
from explorer.run.ranks.allocated import counted, prepare_counting
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.interpreter import Hooks, Interpreter
from explorer.run.ranks.lane import RankLanes, Wire
from explorer.run.referee.comparison import compare_with_emulation

CPU = torch.device("cpu")
PATIENCE_S = 60.0
"""Longest wait for a message: a mutant may well wait for one that never comes."""


class Post:
    """Where all ranks leave messages, and what they add to collectives."""

    def __init__(self, wires: list[Wire]) -> None:
        self.wires: dict[Wire, list[torch.Tensor]] = {wire: [] for wire in wires}
        self.given: dict[tuple[tuple[int, ...], int], list[torch.Tensor]] = defaultdict(list)
        self.changed = threading.Condition()
        self.failed: list[BaseException] = []

    def wait(self, came: Callable[[], bool], what: str) -> None:
        """Wait until something has come, as long as no rank has failed; the condition is held."""
        self.changed.wait_for(lambda: came() or bool(self.failed), PATIENCE_S)
        if not came():
            raise TimeoutError(f"{what} never came")


@dataclass
class Later:
    """A call under way."""

    wait: Callable[[], None]


@dataclass
class Threads:
    """What one rank sees of the others: the calls of `Transport` that the interpreter makes."""

    rank: int
    post: Post
    device: torch.device = CPU
    calls: dict[tuple[int, ...], int] = field(default_factory=lambda: defaultdict(int))
    received: dict[Wire, int] = field(default_factory=lambda: defaultdict(int))
    last: torch.Tensor | None = None

    def send(self, wire: Wire, message: torch.Tensor) -> None:
        """Leave a message, which stays here as well until the next one, as that of a real transport does."""
        with self.post.changed:
            self.post.wires[wire].append(_aside(message))
            self.post.changed.notify_all()
        self.last = message

    def receive(self, wire: Wire, buffer: torch.Tensor) -> Later:
        """Take the message that is next when this is called, whenever it is waited for."""
        number = self.received[wire]
        self.received[wire] += 1

        def wait() -> None:
            with self.post.changed:
                messages = self.post.wires[wire]
                self.post.wait(lambda: len(messages) > number, f"message {number} of {wire}")
                buffer.copy_(messages[number])

        return Later(wait)

    def reduce(self, members: tuple[int, ...], buffer: torch.Tensor, *, op: Any) -> Later | None:
        """Add to the group's next collective; the sum is there when all have added."""
        del op
        if len(members) == 1:
            return None
        key = (members, self.calls[members])
        self.calls[members] += 1
        with self.post.changed:
            self.post.given[key].append(_aside(buffer))
            self.post.changed.notify_all()

        def wait() -> None:
            with self.post.changed:
                given = self.post.given[key]
                self.post.wait(lambda: len(given) == len(members), f"a member of {members}")
                buffer.copy_(given[0])
                for more in given[1:]:
                    buffer.add_(more)

        return Later(wait)

    def finish_sends(self) -> None:
        """Let the last message go."""
        self.last = None


def _aside(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor to where no bytes of ranks are counted: outside of torch's allocator."""
    if tensor.device != CPU:
        return tensor.detach().clone()
    raw = tensor.detach().reshape(-1).view(torch.uint8)  # numpy has no bf16
    return torch.from_numpy(raw.numpy().copy()).view(tensor.dtype).reshape(tensor.shape)


def on_threads(
    prepared: Prepared,
    change: Callable[[Compute], None] = lambda _: None,
    *,
    device: torch.device = CPU,
    around: Callable[[int], AbstractContextManager[object]] = lambda _: nullcontext(),
) -> list[dict[str, Any]]:
    """Run a case on as many threads as it has lanes; return the ranks' records with their numerics.

    Args:
        prepared: the case.
        change: done to each rank's backend before it runs.
        device: where ranks compute.
        around: entered for as long as a rank runs, in its thread.
    """
    lanes = RankLanes(prepared.case.lowered())
    runs = [Compute(prepared.case, lanes, rank, device) for rank in range(len(lanes.program.programs))]
    for run in runs:
        change(run)
    _play(lanes, runs, around)
    return [{**run.record(), "numerics": compare_with_emulation(run)} for run in runs]


def peak_on_threads(prepared: Prepared, rank: int) -> float:
    """Return the peak bytes of a rank's tensors, by the count of a real run, while the others run beside it.

    Only one rank of a process can be counted at a time. The case is one that is not checked: ranks keep
    nothing for a comparison.
    """
    lanes = RankLanes(prepared.case.lowered())
    runs = [Compute(prepared.case, lanes, r, CPU) for r in range(len(lanes.program.programs))]
    prepare_counting()
    _play(lanes, runs)  # captures programs and makes modules
    peaks: list[float] = []

    @contextmanager
    def counting(number: int) -> Iterator[None]:
        if number != rank:
            yield
            return
        with counted(CPU, runs[number].held()) as found:
            yield
        peaks.append(found.peak)

    _play(lanes, runs, counting)
    return float(peaks[0])


def _play(
    lanes: RankLanes,
    runs: Sequence[Compute],
    around: Callable[[int], AbstractContextManager[object]] = lambda _: nullcontext(),
) -> None:
    """Run every rank from its beginning, each in a thread; `around` is entered for as long as one runs."""
    post = Post(lanes.wires)

    def play(rank: int) -> None:
        hooks = Hooks(status=lambda *_: None, before=lambda _: None, step=lambda _: None)
        transport: Any = Threads(rank, post, runs[rank].device)
        interpreter = Interpreter(lanes.plan(rank), runs[rank], transport, hooks)
        try:
            with around(rank):
                interpreter.run(time.perf_counter())
        except BaseException as error:  # noqa: BLE001 - raised again where the test is
            post.failed.append(error)
            with post.changed:
                post.changed.notify_all()

    for run in runs:
        run.reset()
    threads = [threading.Thread(target=play, args=(rank,), daemon=True) for rank in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    if post.failed:
        raise post.failed[0]


def worst(records: list[dict[str, Any]]) -> float:
    """Return the largest error of gradients and weights over all ranks."""
    return max(max(r["numerics"]["gradient"], r["numerics"]["weight"]) for r in records)
