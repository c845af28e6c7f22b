"""Part of the program of `_milp` that sends activations to the host and fetches them back.

Of a microbatch j of a stage, o_j says whether it leaves; E_j is when it has, R_j when it begins to come back.
It leaves right behind its forward, and all come back in the sequence of their numbers, each way one after the
other:

    E_j >= t(F_j) + d + x o_j        E_j >= E_(j-1) + x o_j
    R_j >= E_j                       R_j >= R_(j-1) + x o_(j-1)        t(I_j) >= R_j + x o_j

Who is away where room is taken (at a forward F_k, at a return R_j) are binaries as well, and what comes
before a return, which begins between two actions:

    a(j, k) <= o_j: away at F_k      t(F_k) >= E_j, R_j >= t(F_k) + d, for j < k
    v(i, j) <= o_i: away at R_j      R_j >= E_i, for i > j
    r(j, k) <= o_j: back before F_k  t(F_k) >= R_j; if not, and o_j, R_j >= t(F_k) + d
    e(op, i, j) <= o_j: op_i first   R_j >= t(op_i) + d, for i < j; if not, and o_j, t(op_i) >= R_j

Room at F_k is that of `_milp` less the sum of a(j, k). At R_j, if it leaves, so many are there:

    j + 1 + sum over k > j of [1 - r(j, k)] - sum over i > j of v(i, j)
          - sum over i < j of [(1 - waiting / held) e(I, i, j) + waiting / held e(W, i, j)]  <=  room / held
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from explorer.actions import FORWARD, FREE, OFFLOAD, RELOAD, WEIGHT_GRAD
from explorer.schedules._milp_program import Program
from explorer.schedules._step_clock import ROUNDING, Chain, Work


class Starts(NamedTuple):
    """A program that has the starts of all work, to which moves are added."""

    program: Program
    chain: Chain
    ops: tuple[str, ...]
    start: Mapping[tuple[int, str, int], int]
    """Per stage, op and microbatch: the column of its start."""
    period_s: float
    """Seconds from step to step that are never exceeded."""

    def moving(self) -> dict[int, StageMoves]:
        """Add the moves of the stages that cannot hold all their microbatches, and have a host."""
        chain = self.chain
        return {
            s: StageMoves(self, s)
            for s, (held, room, host) in enumerate(zip(chain.held, chain.room, chain.host_s, strict=True))
            if held and chain.microbatches * held > room * (1 + ROUNDING) and not math.isinf(host)
        }


class StageMoves:
    """Columns and rows of one stage."""

    def __init__(self, model: Starts, stage: int) -> None:
        self.model, self.stage, self.program = model, stage, model.program
        self.ops = model.ops
        chain, self.m = model.chain, model.chain.microbatches
        self.move_s, self.room = chain.host_s[stage], chain.room[stage] / chain.held[stage]
        self.waiting = min(1.0, chain.waiting[stage] / chain.held[stage])
        far = self.program.upper[model.start[stage, FORWARD, 0]]
        numbers, pairs = range(self.m), list(combinations(range(self.m), 2))
        self.leaves = [self._binary() for _ in numbers]
        self.gone = [self.program.column(0.0, far) for _ in numbers]
        self.begun = [self.program.column(0.0, far) for _ in numbers]
        self.away = {pair: self._binary() for pair in pairs}
        self.returned = {pair: self._binary() for pair in pairs}
        self.away_then = {(i, j): self._binary() for j, i in pairs}
        self.ended = {(op, *pair): self._binary() for op in self.ops[1:] for pair in pairs}
        self._channels()
        self._at_forwards()
        self._at_returns()

    def _binary(self) -> int:
        return self.program.column(0.0, 1.0, binary=True)

    def _after(self, late: int, early: int, seconds: float, *, where: int, unless: int | None = None) -> None:
        """Let one moment follow another by so many seconds where a binary is 1, and another is 0."""
        far = self.model.period_s + self.move_s + seconds
        freed = [] if unless is None else [(unless, far)]
        self.program.at_least(seconds - far, (late, 1), (early, -1), (where, -far), *freed)

    def _only_leaving(self, j: int, column: int) -> None:
        self.program.at_least(0.0, (self.leaves[j], 1), (column, -1))

    def _seconds(self, op: str) -> float:
        return self.model.chain.seconds(op, self.stage)

    def _start(self, op: str, j: int) -> int:
        return self.model.start[self.stage, op, j]

    def _channels(self) -> None:
        program, x = self.program, self.move_s
        for j, (leaves, gone, begun) in enumerate(zip(self.leaves, self.gone, self.begun, strict=True)):
            program.at_least(self._seconds(FORWARD), (gone, 1), (self._start(FORWARD, j), -1), (leaves, -x))
            program.at_least(0.0, (begun, 1), (gone, -1))
            program.at_least(0.0, (self._start(self.ops[1], j), 1), (begun, -1), (leaves, -x))
            if j:
                program.at_least(0.0, (gone, 1), (self.gone[j - 1], -1), (leaves, -x))
                program.at_least(0.0, (begun, 1), (self.begun[j - 1], -1), (self.leaves[j - 1], -x))

    def _at_forwards(self) -> None:
        forward_s = self._seconds(FORWARD)
        for (j, k), away in self.away.items():
            leaves, begun, there = self.leaves[j], self.begun[j], self._start(FORWARD, k)
            self._only_leaving(j, away)
            self._after(there, self.gone[j], 0.0, where=away)
            self._after(begun, there, forward_s, where=away)
            back = self.returned[j, k]
            self._only_leaving(j, back)
            self._after(there, begun, 0.0, where=back)
            self._after(begun, there, forward_s, where=leaves, unless=back)

    def _at_returns(self) -> None:
        for (i, j), away in self.away_then.items():
            self._only_leaving(i, away)
            self._after(self.begun[j], self.gone[i], 0.0, where=away)
        for (op, i, j), ended in self.ended.items():
            begun, there = self.begun[j], self._start(op, i)
            self._only_leaving(j, ended)
            self._after(begun, there, self._seconds(op), where=ended)
            self._after(there, begun, 0.0, where=self.leaves[j], unless=ended)
        for j in range(self.m):
            split = len(self.ops) > 2
            terms = [(self.returned[j, k], 1.0) for k in range(j + 1, self.m)]
            terms += [(self.away_then[i, j], 1.0) for i in range(j + 1, self.m)]
            first = 1 - self.waiting if split else 1.0
            terms += [(self.ended[self.ops[1], i, j], first) for i in range(j)]
            if split:
                terms += [(self.ended[WEIGHT_GRAD, i, j], self.waiting) for i in range(j)]
            least = self.m - self.room * (1 + ROUNDING)
            if least > 0:  # none of it is asked of who stays
                self.program.at_least(0.0, (self.leaves[j], -least), *terms)

    def away_at(self, k: int) -> list[tuple[int, float]]:
        """Return who is away at the forward of a microbatch."""
        return [(self.away[j, k], 1.0) for j in range(k)]

    def choices(self, lane: Sequence[Work]) -> Iterator[tuple[int, float]]:
        """Yield the binaries of an order: column and value."""
        at = {work: place for place, work in enumerate(lane)}

        def before(one: Work, other: Work) -> bool:
            return one in at and other in at and at[one] < at[other]

        yield from ((column, float((OFFLOAD, j) in at)) for j, column in enumerate(self.leaves))
        for (j, k), column in self.away.items():
            yield column, float(before((FREE, j), (FORWARD, k)) and before((FORWARD, k), (RELOAD, j)))
        for (j, k), column in self.returned.items():
            yield column, float(before((RELOAD, j), (FORWARD, k)))
        for (i, j), column in self.away_then.items():
            yield column, float(before((FREE, i), (RELOAD, j)))
        for (op, i, j), column in self.ended.items():
            yield column, float(before((op, i), (RELOAD, j)))

    def placed(self, lane: Sequence[Work], values: Sequence[float]) -> Iterator[Work]:
        """Yield a stage's work with the moves that the binaries stand for."""
        chosen = [j for j, column in enumerate(self.leaves) if values[column] > 0.5]
        at = {work: place for place, work in enumerate(lane)}
        returns = {j: self._return(j, at, values) for j in chosen}
        frees = {j: self._free(j, at, returns, values) for j in chosen}
        for place, work in enumerate(lane):
            yield from ((FREE, j) for j in chosen if frees[j] == place)
            yield from ((RELOAD, j) for j in chosen if returns[j] == place)
            yield work
            if work[0] == FORWARD and work[1] in returns:
                yield OFFLOAD, work[1]

    def _return(self, j: int, at: Mapping[Work, int], values: Sequence[float]) -> int:
        """Return the place of the first action that may come after the return of a microbatch."""
        behind = [at[FORWARD, k] for k in range(self.m) if k <= j or values[self.returned[j, k]] < 0.5]
        behind += [at[op, i] for (op, i, there), y in self.ended.items() if there == j and values[y] > 0.5]
        return max(behind) + 1

    def _free(
        self, j: int, at: Mapping[Work, int], returns: Mapping[int, int], values: Sequence[float]
    ) -> int:
        """Return the place of the first action that counts on the room of a microbatch."""
        counting = [at[FORWARD, k] for k in range(j + 1, self.m) if values[self.away[j, k]] > 0.5]
        counting += [returns[n] for n in range(j) if n in returns and values[self.away_then[j, n]] > 0.5]
        return min([*counting, returns[j]])
