"""Runs of a stage on a lane, over which sharded weights may stay gathered: found by walking every lane.

`explorer.tasks.runs` says what they are for. Written apart from it: lanes are walked action by action,
forwards for what UNSHARD begins, backwards for what REDUCE_GRAD ends; numbers are given as runs are met.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from explorer.actions import NAMED, REDUCE_GRAD, RESHARD, UNSHARD
from explorer.strategy import RESHARD_RUN
from tests.support.plain_lowering.work import Lowering

Key = tuple[int, int]
"""(stage, copy)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Runs of all lanes, numbered uniquely over them. A task of several lanes counts in the first."""

    weights: dict[int, int]
    """Compute task -> the run over which its weights stay gathered."""
    gradients: dict[int, int]
    """Compute task -> the run over which its gradient is added up."""
    gathers: tuple[bool, ...]
    """Per section: whether its weights are gathered once a run, not for every action."""
    sums: tuple[bool, ...]
    """Per section: whether its gradients are reduced once a run, whatever its ZeRO level would do."""
    begins: dict[int, list[int]]
    """Run of weights that UNSHARD begins -> the task before it on its lane, if any."""
    ends: dict[int, list[int]]
    """Run of gradients that REDUCE_GRAD ends -> the task before that on its lane."""
    together: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """Per lane: sections gathered at the same time by UNSHARD; () if no order names it."""

    @property
    def whole(self) -> tuple[bool, ...]:
        """Per section: whether weights or gradients are whole over runs."""
        return tuple(a or b for a, b in zip(self.gathers, self.sums, strict=True))


def find_runs(work: Lowering) -> Runs:
    """Assign a number to every run of every lane, and find the sections with collectives once a run."""
    marks = [action for lane in work.marks for _, action in lane]
    nothing = (False,) * len(work.sections)
    if not marks and max(section.zero for section in work.sections) < 2:
        return Runs(weights={}, gradients={}, gathers=nothing, sums=nothing, begins={}, ends={})
    numbers = count()
    weights = _consecutive(work, numbers)
    gradients = dict(weights)
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for lane in range(len(work.programs)):
        _begun_by_name(work, lane, numbers, weights, begins)
        _ended_by_name(work, lane, numbers, gradients, ends)
    unsharded = {action.stage for action in marks if action.op == UNSHARD}
    reduced = {action.stage for action in marks if action.op == REDUCE_GRAD}
    gathers, sums = [], []
    breadth_first = _breadth_first(work)
    for section in work.sections:
        rule = section.reshard == RESHARD_RUN or (not section.reshard and breadth_first)
        once = rule and section.zero in (2, 3) and section.shards > 1
        sharded = section.zero == 3 and section.shards > 1
        gathers.append(once or (sharded and section.stage in unsharded))
        sums.append(once or section.stage in reduced)
    return Runs(
        weights=weights, gradients=gradients, gathers=tuple(gathers), sums=tuple(sums),
        begins=begins, ends=ends,
        together=tuple(tuple(_together(work, lane)) for lane in range(len(work.programs))) if marks else (),
    )  # fmt: skip


def _consecutive(work: Lowering, numbers: Iterator[int]) -> dict[int, int]:
    """Return the run of each task: as long as its lane stays at one stage and one kind of work."""
    runs: dict[int, int] = {}
    for program in work.programs:
        before = None
        for task in program:
            here = _key(work, task), _is_update(work, task)
            if here != before:
                number = next(numbers)
            before = here
            if task not in runs:
                runs[task] = number
    return runs


def _breadth_first(work: Lowering) -> bool:
    """Tell whether lanes have several stages each and never turn from one after a single action."""
    for lane in work.order.lanes:
        actions = [action for action in lane if action.op not in NAMED]
        if len({(action.stage, action.copy) for action in actions}) < 2:
            return False
        lengths: list[int] = []
        before = None
        for action in actions:
            here = action.stage, action.copy, action.op == "U"
            if here == before:
                lengths[-1] += 1
            elif action.op != "U":
                lengths.append(1)
            before = here
            if action.op == "U":
                before = None
        if min(lengths, default=1) < 2:
            return False
    return True


def _begun_by_name(
    work: Lowering, lane: int, numbers: Iterator[int], runs: dict[int, int], begins: dict[int, list[int]]
) -> None:
    """Give every UNSHARD of a lane a run, which lasts until the next of its stage."""
    program, now = work.programs[lane], {}
    for position in range(len(program) + 1):
        for at, action in work.marks[lane]:
            if at == position and action.op == UNSHARD:
                now[action.stage, action.copy] = number = next(numbers)
                begins[number] = [program[position - 1]] if position else []
        if position < len(program) and not _is_update(work, program[position]):
            key = _key(work, program[position])
            if key in now:
                runs[program[position]] = now[key]


def _ended_by_name(
    work: Lowering, lane: int, numbers: Iterator[int], runs: dict[int, int], ends: dict[int, list[int]]
) -> None:
    """Give every REDUCE_GRAD of a lane a run: all since the one before it of its stage."""
    program, now = work.programs[lane], {}
    for position in range(len(program), -1, -1):
        if position < len(program) and not _is_update(work, program[position]):
            key = _key(work, program[position])
            if key in now:
                runs[program[position]] = now[key]
        for at, action in reversed(work.marks[lane]):
            if at == position and action.op == REDUCE_GRAD:
                now[action.stage, action.copy] = number = next(numbers)
                ends[number] = [program[position - 1]] if position else []


def _together(work: Lowering, lane: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of sections of a lane whose weights are there at once, each when it first is."""
    told: list[tuple[int, ...]] = []
    marks = [action for _, action in work.marks[lane] if action.op in (UNSHARD, RESHARD)]
    for end in range(1, len(marks) + 1):
        last = {(action.stage, action.copy): action.op for action in marks[:end]}
        there = {key for key, op in last.items() if op == UNSHARD and _sections(work, lane, key)}
        found = tuple(sorted(section for key in there for section in _sections(work, lane, key)))
        named = marks[end - 1]
        if (
            named.op == UNSHARD
            and (named.stage, named.copy) in there
            and len(there) > 1
            and found not in told
        ):
            told.append(found)
            yield found


def _sections(work: Lowering, lane: int, key: Key) -> list[int]:
    """Return the sections of a stage's copy on a lane whose weights are sharded."""
    return [
        piece.section
        for piece in work.lanes.pieces[lane]
        if (work.sections[piece.section].stage, piece.copy) == key
        and work.sections[piece.section].zero == 3
        and work.sections[piece.section].shards > 1
    ]


def _key(work: Lowering, task: int) -> Key:
    action = work.action[task]
    return action.stage, action.copy


def _is_update(work: Lowering, task: int) -> bool:
    return work.action[task].op == "U"
