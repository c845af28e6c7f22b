"""Mixed-integer program of the order of one step on a chain of stages, and its solution in another process.

Equal microbatches pass every stage in the order of their numbers: whatever order is shortest, exchanging
microbatches leaves its seconds and bytes. So an order is, for every stage, which of two ops on different
microbatches comes first: binaries y(W_i < F_j), y(I_i < F_j) and y(W_i < I_j) for i < j, all others are
settled. Variables t are starts, T is the seconds from step to step:

    minimise T
    t(b) >= t(a) + d(a) - (T0 + d(a)) (1 - y(a < b))     pairs of a stage, both ways; T0 of a known order
    t(b) >= t(F_0) + d of all that comes before b         a stage does one thing at a time
    T >= t(b) - t(F_0) + d of b and all that comes after
    T >= t(last, s) + d - t(F_0, r)                       where r waits for the updates of s
    t(F_j, s + 1) >= t(c_j) + x, and back; t(c_j) >= t(c_(j-1)) + x on the wire
    held (j + 1) - sum over i < j of [(held - waiting) y(I_i < F_j) + waiting y(W_i < F_j)] <= room

The second and third line make its relaxation as tight as the work of a stage. Moves of activations to the
host are in `_milp_moves`. HiGHS solves it from a known order on; a limit in nodes gives the same answer on
every machine, one in seconds does not.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from explorer.actions import BACKWARD, FORWARD, INPUT_GRAD, WEIGHT_GRAD
from explorer.base.formats import parse_json
from explorer.schedules._milp_moves import Starts
from explorer.schedules._milp_program import Program
from explorer.schedules._step_bounds import least_s
from explorer.schedules._step_clock import ROUNDING, Chain, LaneWork, Work

GRACE_S = 5.0
"""Seconds beyond its own limit after which the other process is ended."""


class Solved(NamedTuple):
    """What the solver came to."""

    lanes: LaneWork | None
    """The best order that it found; None for none."""
    bound_s: float
    """Seconds from step to step that no order takes less."""


def size_of(chain: Chain, *, split: bool) -> int:
    """Return the number of binaries."""
    m = chain.microbatches
    moves = (5 if split else 4) * sum(not math.isinf(seconds) for seconds in chain.host_s)
    return (chain.stages * (3 if split else 1) + moves) * m * (m - 1) // 2


def solve(
    chain: Chain, known: LaneWork, period_s: float, *, split: bool, nodes: int, seconds: float
) -> Solved:
    """Return the shortest order that the solver finds in another process.

    Args:
        chain: the stages.
        known: an order that fits, of ops that are split or not as asked.
        period_s: its seconds from step to step.
        split: whether input and weight gradients are actions of their own.
        nodes: most nodes of the branch and bound.
        seconds: most seconds; 0 is any.
    """
    # in units of an action's seconds, whichever they are: the solver's tolerances are absolute
    unit_s = period_s / (len(known[0]) or 1)
    chain = scaled(chain, 1 / unit_s)
    model, least = Model(chain, period_s / unit_s, split=split), least_s(chain, split=split)
    program = model.program
    asked = {
        "lower": program.lower, "upper": program.upper, "whole": program.whole,
        "least": [least for least, _ in program.rows],
        "columns": [list(terms) for _, terms in program.rows],
        "factors": [list(terms.values()) for _, terms in program.rows],
        "start": model.choices(known), "target": least, "nodes": nodes, "seconds": seconds,
    }  # fmt: skip
    answer = _answer(asked, seconds)
    if not answer:
        return Solved(None, least * unit_s)
    values = answer["values"]
    bound = max(least, min(answer["bound"], model.period_s))
    return Solved(model.order(values) if values else None, bound * unit_s)


def _read(text: str) -> Any:
    return parse_json(text, ours=False, number=False)


def scaled(chain: Chain, factor: float) -> Chain:
    """Return a chain all of whose seconds are so many times as long."""

    def times(seconds: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(factor * value for value in seconds)

    return replace(
        chain,
        forward_s=times(chain.forward_s),
        input_grad_s=times(chain.input_grad_s),
        weight_grad_s=times(chain.weight_grad_s),
        transfer_s=times(chain.transfer_s),
        host_s=times(chain.host_s),
    )


def _answer(asked: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Ask the other process, which is ended with this one or when its time is up; {} for no answer."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "explorer.base.solver_process"],
            input=json.dumps(asked), capture_output=True, check=False, text=True,
            timeout=seconds + GRACE_S if seconds else None,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {}
    found: dict[str, Any] = _read(done.stdout) if not done.returncode and done.stdout else {}
    return found


class Model:
    """The program of a chain: its columns by what they stand for."""

    def __init__(self, chain: Chain, period_s: float, *, split: bool) -> None:
        self.chain, self.period_s, self.program = chain, period_s, Program()
        self.ops = (FORWARD, INPUT_GRAD, WEIGHT_GRAD) if split else (FORWARD, BACKWARD)
        m, far = chain.microbatches, 3.0 * period_s + 2.0 * sum(chain.transfer_s)
        least = least_s(chain, split=split) * (1 - 1e-9)
        self.period = self.program.column(least, period_s)  # column 0 is minimised
        far *= chain.stages
        self.start = {
            (s, op, j): self.program.column(0.0, far)
            for s in range(chain.stages)
            for op in self.ops
            for j in range(m)
        }
        self.first = {
            (s, late, early, i, j): self.program.column(0.0, 1.0, binary=True)
            for s in range(chain.stages)
            for early, late in combinations(self.ops, 2)
            for i, j in combinations(range(m), 2)
        }
        self.moves = Starts(self.program, chain, self.ops, self.start, period_s).moving()
        for s in range(chain.stages):
            self._sequence(s)
            self._work(s)
            self._memory(s)
        for begins, ended in chain.coupled:
            last = self.start[ended, self.ops[-1], m - 1]
            length = chain.seconds(self.ops[-1], ended)
            first = self.start[begins, FORWARD, 0]
            self.program.at_least(length, (self.period, 1), (first, 1), (last, -1))
        for s in range(chain.stages - 1):
            self._wire(s, s + 1, FORWARD)
            self._wire(s + 1, s, self.ops[1])

    def _sequence(self, s: int) -> None:
        """Run one op at a time, those of one kind and of one microbatch in their sequence."""
        program, chain, start, m = self.program, self.chain, self.start, self.chain.microbatches
        for at, op in enumerate(self.ops):
            length = chain.seconds(op, s)
            for j in range(m):
                if j:
                    program.at_least(length, (start[s, op, j], 1), (start[s, op, j - 1], -1))
                if at + 1 < len(self.ops):
                    program.at_least(length, (start[s, self.ops[at + 1], j], 1), (start[s, op, j], -1))
        for (stage, late, early, i, j), y in self.first.items():
            if stage != s:
                continue
            a, b = start[s, late, i], start[s, early, j]
            first, second = chain.seconds(late, s), chain.seconds(early, s)
            program.at_least(-self.period_s, (b, 1), (a, -1), (y, -self.period_s - first))
            program.at_least(second, (a, 1), (b, -1), (y, self.period_s + second))
            if i:  # what comes before i, and after j, is settled with them
                program.at_least(0.0, (self.first[s, late, early, i - 1, j], 1), (y, -1))
            if j + 1 < m:
                program.at_least(0.0, (self.first[s, late, early, i, j + 1], 1), (y, -1))
            if (late, early) == (WEIGHT_GRAD, FORWARD):
                program.at_least(0.0, (self.first[s, INPUT_GRAD, FORWARD, i, j], 1), (y, -1))

    def _before(self, s: int, op: str, j: int) -> tuple[float, list[tuple[int, float]]]:
        """Return the seconds of all that comes before an op: what is settled, and by choice."""
        settled, chosen, m = 0.0, [], self.chain.microbatches
        for at, other in enumerate(self.ops):
            length, mine = self.chain.seconds(other, s), self.ops.index(op)
            if at > mine:  # those of earlier microbatches, where they come first
                chosen += [(self.first[s, other, op, i, j], length) for i in range(j)]
            else:
                settled += length * (j + (at < mine))
            if at < mine:  # those of later ones, unless this one comes first
                settled += length * (m - 1 - j)
                chosen += [(self.first[s, op, other, j, k], -length) for k in range(j + 1, m)]
        return settled, chosen

    def _work(self, s: int) -> None:
        begin, total = self.start[s, FORWARD, 0], self.chain.work_s(s)
        for op in self.ops:
            for j in range(self.chain.microbatches):
                settled, chosen = self._before(s, op, j)
                own = self.start[s, op, j]
                back = [(column, -factor) for column, factor in chosen]
                self.program.at_least(settled, (own, 1), (begin, -1), *back)
                self.program.at_least(total - settled, (self.period, 1), (begin, 1), (own, -1), *chosen)

    def _memory(self, s: int) -> None:
        chain = self.chain
        if math.isinf(chain.room[s]) or not chain.held[s]:
            return
        held, waiting = chain.held[s], chain.waiting[s] if len(self.ops) > 2 else 0.0
        for j in range(chain.microbatches):
            freed = [(self.first[s, self.ops[1], FORWARD, i, j], held - waiting) for i in range(j)]
            if waiting:
                freed += [(self.first[s, WEIGHT_GRAD, FORWARD, i, j], waiting) for i in range(j)]
            row = [(column, size / held) for column, size in freed]
            row += self.moves[s].away_at(j) if s in self.moves else []
            self.program.at_least(j + 1 - chain.room[s] / held * (1 + ROUNDING), *row)

    def _wire(self, source: int, target: int, op: str) -> None:
        """Send what an op made to the neighbour, one after the other."""
        program, length = self.program, self.chain.transfer_s[min(source, target)]
        made = self.chain.seconds(op, source)
        last: int | None = None
        for j in range(self.chain.microbatches):
            own, reader = self.start[source, op, j], self.start[target, op, j]
            program.at_least(made + length, (reader, 1), (own, -1))
            if length <= made:
                continue  # they cannot meet
            sent = program.column(0.0, program.upper[own])
            program.at_least(made, (sent, 1), (own, -1))
            program.at_least(length, (reader, 1), (sent, -1))
            if last is not None:
                program.at_least(length, (sent, 1), (last, -1))
            last = sent

    def choices(self, lanes: LaneWork) -> list[tuple[int, float]]:
        """Return the binaries of an order: column and value."""
        place = {(s, *work): at for s, lane in enumerate(lanes) for at, work in enumerate(lane)}
        return [
            *(
                (y, float(place[s, late, i] < place[s, early, j]))
                for (s, late, early, i, j), y in self.first.items()
            ),
            *(choice for s, moves in self.moves.items() for choice in moves.choices(lanes[s])),
        ]

    def order(self, values: list[float]) -> LaneWork:
        """Return the order that the binaries stand for."""
        lanes = [tuple(self._lane(s, values)) for s in range(self.chain.stages)]
        return tuple(
            tuple(self.moves[s].placed(lane, values)) if s in self.moves else lane
            for s, lane in enumerate(lanes)
        )

    def _lane(self, s: int, values: list[float]) -> Iterator[Work]:
        def before(op: str, j: int) -> int:
            """Count what comes before an op."""
            m, mine = self.chain.microbatches, self.ops.index(op)
            count = j
            for at, other in enumerate(self.ops):
                if at > mine:
                    count += sum(values[self.first[s, other, op, i, j]] > 0.5 for i in range(j))
                elif at < mine:
                    later = range(j + 1, m)
                    count += j + 1 + sum(values[self.first[s, op, other, j, k]] < 0.5 for k in later)
            return count

        works = [(op, j) for op in self.ops for j in range(self.chain.microbatches)]
        yield from sorted(works, key=lambda work: before(*work))
