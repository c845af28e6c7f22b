"""The moves of all learners: small random changes of a plan, two plans crossed, and one budget for both.

A move shifts a boundary, splits or joins stages, gives devices to a neighbour, changes a tensor degree, how
one unit is divided, the kind of devices, what memory is saved by, or the microbatch. A `Meter` judges plans
by the one simulator and counts those that it has not seen: an evaluation is one simulation, whoever asks.
Only stages that a move changed are priced anew, since all others stay the same objects.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from explorer.planners._pieces.stage_plans import Part, Plan, PlanSpace
from explorer.search.evaluator import Candidate, Evaluator
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS

STEPS = (1, 2, 4)
"""Units, or groups of devices, that move at once."""
TRIES = 200
"""Draws until a legal move is given up."""
UNFIT = 100.0
"""Cost of a plan that does not fit, before its missing bytes count."""

Move = Callable[[PlanSpace, Plan, random.Random], Plan | None]


def moved(space: PlanSpace, plan: Plan, luck: random.Random) -> Plan:
    """Return a plan one random move away; the plan itself if none was found."""
    for _ in range(TRIES):
        found = luck.choice(MOVES)(space, plan, luck)
        legal = space.legal(found) if found is not None else None
        if legal is not None and legal != plan:
            return legal
    return plan


def _boundary(_: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    if len(plan.parts) < 2:
        return None
    i = luck.randrange(len(plan.parts) - 1)
    step = luck.choice(STEPS) * luck.choice((-1, 1))
    return _with(plan, i, plan.parts[i]._replace(stop=plan.parts[i].stop + step))


def _split(_: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    i = luck.randrange(len(plan.parts))
    part, start = plan.parts[i], _start(plan, i)
    if part.groups < 2 or part.stop - start < 2:
        return None
    share = luck.choice((part.groups // 2, luck.randint(1, part.groups - 1)))
    middle = start + max(1, min(part.stop - start - 1, round((part.stop - start) * share / part.groups)))
    two = (part._replace(stop=middle, groups=share), part._replace(groups=part.groups - share))
    return plan._replace(parts=(*plan.parts[:i], *two, *plan.parts[i + 1 :]))


def _join(_: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    if len(plan.parts) < 2:
        return None
    i = luck.randrange(len(plan.parts) - 1)
    first, second = plan.parts[i : i + 2]
    groups = first.groups + second.groups if first.kind == second.kind else first.groups
    one = first._replace(stop=second.stop, groups=groups, apart=first.apart + second.apart)
    return plan._replace(parts=(*plan.parts[:i], one, *plan.parts[i + 2 :]))


def _devices(_: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    """Give groups to another stage, or take free ones, or leave some free."""
    step, to = luck.choice(STEPS), luck.randrange(len(plan.parts))
    source = luck.randrange(-1, len(plan.parts))
    taker = plan.parts[to]
    if source < 0:
        return _with(plan, to, taker._replace(groups=taker.groups + step * luck.choice((-1, 1))))
    giver = plan.parts[source]
    if source == to or giver.kind != taker.kind:
        return None
    given = _with(plan, source, giver._replace(groups=giver.groups - step))
    return _with(given, to, taker._replace(groups=taker.groups + step))


def _kind(space: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    """Put a stage on free devices of another kind, or exchange the devices of two stages."""
    i, j = luck.randrange(len(plan.parts)), luck.randrange(len(plan.parts))
    one, two = plan.parts[i], plan.parts[j]
    if one.kind != two.kind:
        swapped = _with(plan, i, one._replace(kind=two.kind, groups=two.groups))
        return _with(swapped, j, two._replace(kind=one.kind, groups=one.groups))
    k = luck.randrange(len(space.counts))
    free = space.counts[k] - sum(part.groups for part in plan.parts if part.kind == k)
    if k == one.kind or free < 1:
        return None
    return _with(plan, i, one._replace(kind=k, groups=luck.choice((free, min(free, one.groups)))))


def _tensor(space: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    return _changed(plan, luck, tensor=luck.choice(space.tensors))


def _unit(_: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    """Divide one unit otherwise than its stage, or as its stage again."""
    i = luck.randrange(len(plan.parts))
    part, start = plan.parts[i], _start(plan, i)
    changed = {*part.apart} ^ {luck.randrange(start, part.stop)}
    return _with(plan, i, part._replace(apart=tuple(sorted(changed))))


def _recompute(_: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    return _changed(plan, luck, recompute=luck.choice(RECOMPUTE))


def _zero(_: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    return _changed(plan, luck, zero=luck.choice(ZERO_LEVELS))


def _microbatch(space: PlanSpace, plan: Plan, luck: random.Random) -> Plan | None:
    place = space.sizes.index(plan.microbatch) + luck.choice((-1, 1))
    return plan._replace(microbatch=space.sizes[place]) if 0 <= place < len(space.sizes) else None


MOVES: tuple[Move, ...] = (
    _boundary, _split, _join, _devices, _kind, _tensor, _unit, _recompute, _zero, _microbatch,
)  # fmt: skip


def crossed(space: PlanSpace, one: Plan, two: Plan, luck: random.Random) -> Plan | None:
    """Return the stages of one plan up to a unit and those of another after it; None if devices are too few.

    The stage in which a plan is cut keeps its devices; those that both halves want too many of are shared
    out in proportion.
    """
    if len(space.units) < 2:
        return None
    cut = luck.randrange(1, len(space.units))
    before = [part for i, part in enumerate(one.parts) if _start(one, i) < cut]
    after = [part for part in two.parts if part.stop > cut]
    before[-1] = before[-1]._replace(stop=cut)
    parts = [*before, *after]
    for k, most in enumerate(space.counts):
        mine = [i for i, part in enumerate(parts) if part.kind == k]
        total = sum(parts[i].groups for i in mine)
        if total > most:
            for i in mine:
                parts[i] = parts[i]._replace(groups=max(1, parts[i].groups * most // total))
    return space.legal(Plan(tuple(parts), luck.choice((one.microbatch, two.microbatch))))


def _start(plan: Plan, i: int) -> int:
    return plan.parts[i - 1].stop if i else 0


def _with(plan: Plan, i: int, part: Part) -> Plan:
    return plan._replace(parts=(*plan.parts[:i], part, *plan.parts[i + 1 :]))


def _changed(plan: Plan, luck: random.Random, **fields: object) -> Plan:
    """Set fields of one stage, or of all alike."""
    chosen = {luck.randrange(len(plan.parts))} if luck.random() < 0.5 else set(range(len(plan.parts)))
    return plan._replace(
        parts=tuple([part._replace(**fields) if i in chosen else part for i, part in enumerate(plan.parts)])  # type: ignore[arg-type]
    )


# ---- the budget ---------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Meter:
    """The one budget of learners: each new plan is an evaluation, a plan seen before is none."""

    space: PlanSpace
    evaluator: Evaluator
    known: dict[Plan, float] = field(default_factory=dict)
    """Cost of each plan."""
    step_s: dict[Plan, float] = field(default_factory=dict)
    """Seconds of a step of each plan, whether it fits or not; infinite if it cannot be run."""
    asked: int = 0
    """Plans asked for, known ones included."""

    def cost(self, plan: Plan, words: str = "") -> Generator[Candidate | None, None, float]:
        """Yield what was costed, and return the cost: the logarithm of the objective.

        A plan that does not fit costs `UNFIT` and the logarithm of its missing bytes, one that is too slow
        half of `UNFIT` and that of its missing samples per second; one that cannot be run infinitely much.

        Args:
            plan: a legal plan.
            words: what the label begins with.
        """
        self.asked += 1
        if plan in self.known:
            yield None
            return self.known[plan]
        found = self.evaluator.evaluate(self.space.strategy(plan), words + plan.label)
        self.known[plan] = cost_of(found)
        self.step_s[plan] = math.inf if found is None else found.outcome.step_time_s
        yield found
        return self.known[plan]


def cost_of(found: Candidate | None) -> float:
    """Return the cost of what was judged; infinite if it could not be."""
    if found is None:
        return math.inf
    if math.isfinite(found.value):
        return math.log(max(found.value, 1e-30))
    short = found.outcome.short_samples_per_s
    if short and not found.over_bytes:
        return UNFIT / 2 + math.log1p(short)
    return UNFIT + math.log1p(found.over_bytes)
