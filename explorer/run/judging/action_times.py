"""Action times: what every action of every stage took, beside the prediction of the same run, and how long
its stage waited for what was on the wire.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from explorer.actions import RECOMPUTE
from explorer.run.cases.build import begins, waits_of
from explorer.tasks.program import KINDS, F, Program

TRANSFERS = "transfers"
"""Name of the row of waits."""

Key = tuple[int, int, bool]
"""Stage, kind (an index in `KINDS`), and whether it is a forward that is done again."""
Stamps = Mapping[int, tuple[float, float, float]]
"""Per compute task: when its rank was free for it, its start and its end, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTime:
    """Wall seconds of one kind of action of one stage of a run, predicted and measured."""

    stage: int
    """Stage of the run."""
    action: str
    """F, B, I, W, U or RECOMPUTE; or `transfers`, a lane's waits in a step for messages and exchanges that
    are under way.
    """
    count: int
    """How often it was timed, over lanes, steps and rounds; of `transfers`, steps of all lanes and rounds."""
    predicted_s: float
    """Median over its tasks, what they wait for inside a lane included; of `transfers`, mean over lanes and
    steps.
    """
    measured_s: float
    """The same, of all rounds; of `transfers`, median over rounds."""


def action_times(
    program: Program, predicted: Stamps, rounds: Sequence[Stamps], *, scale: float = 1.0
) -> list[ActionTime]:
    """Return the seconds of every action of every stage, by stage.

    Args:
        program: the tasks that ran.
        predicted: their predicted times.
        rounds: their measured times, by round.
        scale: seconds to be told over measured seconds (dry runs are stretched).
    """
    guessed = _seconds(program, predicted)
    seen: dict[Key, list[float]] = defaultdict(list)
    for stamps in rounds:
        for key, seconds in _seconds(program, stamps).items():
            seen[key] += seconds
    lanes = _lanes(program)
    waits, waited = _waits(program, predicted), [_waits(program, stamps) for stamps in rounds]
    found = []
    for stage in sorted(lanes):
        found += [
            ActionTime(
                stage=stage, action=RECOMPUTE if key[2] else KINDS[key[1]], count=len(seen[key]),
                predicted_s=median(seconds), measured_s=scale * median(seen[key]),
            )
            for key, seconds in sorted(guessed.items())
            if key[0] == stage
        ]  # fmt: skip
        steps = lanes[stage] * program.order.steps
        took_s = scale * median(item[stage] for item in waited) / steps
        if waits[stage] or took_s:
            found.append(
                ActionTime(
                    stage=stage, action=TRANSFERS, count=steps * len(rounds),
                    predicted_s=waits[stage] / steps, measured_s=took_s,
                )
            )  # fmt: skip
    return found


def _key(program: Program, task: int) -> Key:
    slot = program.slots[int(program.slot[task])]
    stage = program.skeleton.sections[slot.where].stage
    return stage, slot.kind, slot.kind == F and slot.backward


def _seconds(program: Program, stamps: Stamps) -> dict[Key, list[float]]:
    """Return the seconds of every task, by stage and kind."""
    found: dict[Key, list[float]] = defaultdict(list)
    for tasks in program.programs:
        for task in tasks.tolist():
            _, start, end = stamps[task]
            found[_key(program, task)].append(end - start)
    return found


def _waits(program: Program, stamps: Stamps) -> dict[int, float]:
    """Return the seconds that lanes waited for what was on the wire, by the stage of what waited."""
    ends = {task: end for task, (_, _, end) in stamps.items()}
    found: dict[int, float] = defaultdict(float)
    for task, _, communication in waits_of(program, stamps, begins(program, ends)):
        found[_key(program, task)[0]] += communication
    return found


def _lanes(program: Program) -> dict[int, int]:
    """Return how many lanes hold each stage."""
    found: dict[int, int] = defaultdict(int)
    for tasks in program.programs:
        for stage in {_key(program, task)[0] for task in tasks.tolist()}:
            found[stage] += 1
    return found
