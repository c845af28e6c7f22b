"""Runs: consecutive actions of one stage on a lane, over which sharded weights may stay gathered.

ZeRO 2 and 3 can gather weights and scatter gradients for every action (`action`: the blocks come and go, two
at a time), or once for all consecutive actions of a stage on its lane (`run`: gathered at the first, given
back when the lane goes on to another stage or updates, with one reduction of all that the run added up). The
second is what makes breadth-first orders cheap (Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys
2023): with v chunks a step has 2 v - 1 gathers of a chunk and v reductions, however many microbatches; it
holds a chunk's weights and gradients whole. Torch's pipelines do the same (UNSHARD, RESHARD, REDUCE_GRAD).

An order that names UNSHARD, RESHARD and REDUCE_GRAD of a stage decides this itself: weights are gathered when
the lane comes to UNSHARD, and all gradients since the last REDUCE_GRAD are reduced when it comes to the next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from explorer.actions import REDUCE_GRAD, RESHARD, UNSHARD
from explorer.strategy import RESHARD_ACTION, RESHARD_RUN
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
    """Assign a number to every run of every lane, and find the sections with collectives once a run.

    A stage that leaves it open has them once a run in a breadth-first order: one whose lanes have several
    stages each, and always several actions of one at a time. In other orders little would be gained.
    """
    named = any(work.marks)
    if not named and all(section.zero < 2 for section in work.sections):
        none = (False,) * len(work.sections)
        return Runs(weights={}, gradients={}, gathers=none, sums=none, begins={}, ends={})
    numbers, shortest = _consecutive(work)
    breadth_first = shortest > 1 and all(len(set(places)) > 1 for places in work.lanes.places)
    default = RESHARD_RUN if breadth_first else RESHARD_ACTION
    by_rule = [
        section.zero >= 2 and section.shards > 1 and (section.reshard or default) == RESHARD_RUN
        for section in work.sections
    ]
    weights, gradients = numbers, dict(numbers)
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    gathered: set[Key] = set()
    summed: set[Key] = set()
    count = 1 + max(numbers.values(), default=0)
    for lane in range(len(work.programs)) if named else ():
        count = _by_name(work, lane, UNSHARD, count, weights, begins, gathered)
        count = _by_name(work, lane, REDUCE_GRAD, count, gradients, ends, summed)
    shards = [section.zero == 3 and section.shards > 1 for section in work.sections]
    says = [{stage for stage, _ in keys} for keys in (gathered, summed)]
    return Runs(
        weights=weights,
        gradients=gradients,
        gathers=tuple(
            rule or (sharded and section.stage in says[0])
            for rule, sharded, section in zip(by_rule, shards, work.sections, strict=True)
        ),
        sums=tuple(
            rule or section.stage in says[1] for rule, section in zip(by_rule, work.sections, strict=True)
        ),
        begins=begins,
        ends=ends,
        together=tuple(tuple(_together(work, lane)) for lane in range(len(work.programs))) if named else (),
    )


def _consecutive(work: Lowering) -> tuple[dict[int, int], int]:
    """Return the run of each task, by consecutive actions of one stage, and the fewest actions of a run
    except updates.
    """
    numbers: dict[int, int] = {}
    shortest, count = len(work.action), 0
    for program in work.programs:
        for (*_, op), tasks in groupby(program, key=lambda task: (*_key(work, task), _is_update(work, task))):
            run = list(tasks)
            for task in run:
                numbers.setdefault(task, count)
            count += 1
            if not op:
                shortest = min(shortest, len({work.action[task] for task in run}))
    return numbers, shortest


def _by_name(
    work: Lowering,
    lane: int,
    op: str,
    count: int,
    runs: dict[int, int],
    points: dict[int, list[int]],
    keys: set[Key],
) -> int:
    """Assign numbers to the runs that marks of one op begin (UNSHARD) or end (REDUCE_GRAD) on a lane.

    Returns:
        The next number.
    """
    program = work.programs[lane]
    places: dict[Key, list[int]] = {}
    for position, action in work.marks[lane]:
        if action.op == op:
            places.setdefault((action.stage, action.copy), []).append(position)
    keys.update(places)
    begins = op == UNSHARD
    first: dict[Key, int] = {}
    for key, found in places.items():
        first[key] = count
        for position in found:
            points[count] = program[position - 1 : position]
            count += 1
    for position, task in enumerate(program):
        key = _key(work, task)
        if key in places and not _is_update(work, task):
            at = (bisect_right if begins else bisect_left)(places[key], position if begins else position + 1)
            runs[task] = first[key] + at - (1 if begins else 0)
    return count


def _together(work: Lowering, lane: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of sections of a lane whose weights are present at the same time, one each time another
    is added.
    """
    held: dict[Key, list[int]] = {}
    for piece in work.lanes.pieces[lane]:
        section = work.sections[piece.section]
        if section.zero == 3 and section.shards > 1:
            held.setdefault((section.stage, piece.copy), []).append(piece.section)
    there: set[Key] = set()
    seen: set[tuple[int, ...]] = set()
    for _, action in work.marks[lane]:
        key = (action.stage, action.copy)
        if action.op == RESHARD:
            there.discard(key)
        elif action.op == UNSHARD and key in held:
            there.add(key)
            found = tuple(sorted(section for item in there for section in held[item]))
            if len(there) > 1 and found not in seen:
                seen.add(found)
                yield found


def _key(work: Lowering, task: int) -> Key:
    action = work.action[task]
    return action.stage, action.copy


def _is_update(work: Lowering, task: int) -> bool:
    return work.action[task].op == "U"
