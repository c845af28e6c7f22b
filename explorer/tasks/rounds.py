"""Rounds: after how many updates, and steps, the exchanges of a strategy's update rules repeat."""

from __future__ import annotations

import math

from explorer.actions import UPDATE
from explorer.tasks.program import Program
from explorer.tasks.skeleton import Holders, Skeleton
from explorer.updates import rule_of


def period_of_updates(skeleton: Skeleton) -> int:
    """Return the number of updates after which exchanges repeat: the least common multiple of the rules'
    periods.
    """
    return math.lcm(*(_period(group) for group in skeleton.holders))


def _period(group: Holders) -> int:
    """Return the number of updates after which the exchanges of a group repeat."""
    return rule_of(group.update).period * group.turn[1]


def latest_update(skeleton: Skeleton) -> int:
    """Return the most updates by which a rule applies gradients late."""
    return max((rule_of(group.update).delay for group in skeleton.holders), default=0)


def round_steps(program: Program) -> int:
    """Return the number of steps after which exchanges repeat; a stage may update several times in a step."""
    periods: dict[int, int] = {}
    for group in program.skeleton.holders:
        stage = program.skeleton.sections[group.pieces[0].section].stage
        periods[stage] = math.lcm(periods.get(stage, 1), _period(group))
    rounds = 1
    for stage, period in periods.items():
        if period > 1:
            updates = {a[2:4] for a in program.actions if a.op == UPDATE and a.stage == stage}
            each = max(1, len(updates) // program.order.steps)
            rounds = math.lcm(rounds, period // math.gcd(period, each))
    return rounds
