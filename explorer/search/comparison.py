"""A comparison of searchers as a value: who was asked, what each has found, and why one has nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from explorer.search import FAILED, FIRST_ERROR, REFUSED, Candidate, Progress
from explorer.search._outcomes import lacking_words

YOURS, RULE = "yours", "rule of thumb"
"""Names of the first contestant: your plan, or the one that a search costs first where you have none."""
AUTO = "auto"
"""Searcher whose bound all others are also compared with."""
WAITING, RUNNING, ENDED, TIMED, STOPPED = "waiting", "running", "ended", "timed", "stopped"
UNABLE = "unable"
"""States of a contestant. `timed`: its budget ended it; `unable`: it was asked what it cannot do."""


class Mark(NamedTuple):
    """A better strategy found on the way."""

    evaluations: int
    """Strategies costed until then."""
    seconds: float
    """Seconds until then."""
    value: float
    """Its objective value."""


Curve = tuple[Mark, ...]
"""Best so far, each better than the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A searcher, or your own plan, and what it has so far."""

    name: str
    """Name of the searcher, `YOURS` or `RULE`."""
    state: str = WAITING
    """One of the states above."""
    best: Candidate | None = None
    """Its best plan that fits; None if it has none."""
    curve: Curve = ()
    """Its best so far."""
    evaluations: int = 0
    """Strategies costed."""
    wall_s: float = 0.0
    """Seconds it was asked for."""
    lower_bound: float | None = None
    """Its proven lower bound of the objective in the space that `bound` names."""
    bound: str = ""
    """Meaning of that bound."""
    optimal: bool = False
    """Whether its best is proven optimal in its own space."""
    reason: str = ""
    """Why it has no plan, or what has to be known of the one it has; empty if there is nothing to say."""

    @property
    def value(self) -> float:
        """Objective value of its best; infinite if it has none."""
        return self.best.value if self.best is not None else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A state of a comparison."""

    objective: str
    """The objective, of a frontier its first axis."""
    unit: str
    """Unit of its values."""
    contestants: tuple[Contestant, ...]
    """Your plan first, then the searchers in the order in which they are asked."""
    least: float | None
    """Lower bound of the objective for all strategies there are."""
    least_name: str
    """Meaning of that bound."""

    @property
    def ranked(self) -> tuple[Contestant, ...]:
        """Contestants by value, those without a plan last."""
        return tuple(sorted(self.contestants, key=lambda item: item.value))

    @property
    def best(self) -> Contestant | None:
        """The contestant with the best plan; None if nobody has one."""
        first = self.ranked[0]
        return first if first.best is not None else None

    @property
    def auto_bound(self) -> tuple[float, str] | None:
        """Lower bound that `auto` proved and what it holds for; None if it was not asked or proved none."""
        for item in self.contestants:
            if item.name == AUTO and item.lower_bound and item.bound != self.least_name:
                return item.lower_bound, item.bound
        return None

    def changed(self, place: int, contestant: Contestant) -> Comparison:
        """Return the comparison with another state of the contestant at a place."""
        before = self.contestants
        return replace(self, contestants=(*before[:place], contestant, *before[place + 1 :]))

    def stopped(self) -> Comparison:
        """Return the comparison as it is when nobody asks any more: who had not ended is stopped."""
        return replace(self, contestants=tuple(map(stopped, self.contestants)))


def stopped(contestant: Contestant) -> Contestant:
    """Return a contestant that nobody asks any more."""
    if contestant.state == WAITING:
        return replace(contestant, state=STOPPED, reason="not asked: the comparison was stopped before")
    if contestant.state == RUNNING:
        reason = "" if contestant.best is not None else "stopped before it found a plan"
        return replace(contestant, state=STOPPED, reason=reason)
    return contestant


def taken(contestant: Contestant, progress: Progress) -> Contestant:
    """Return a contestant after a step of its search."""
    return replace(
        contestant, state=RUNNING, best=progress.best, curve=longer(contestant.curve, progress),
        evaluations=progress.evaluations, wall_s=progress.wall_s, lower_bound=progress.lower_bound,
        bound=progress.bound, optimal=progress.optimal,
    )  # fmt: skip


def longer(curve: Curve, progress: Progress) -> Curve:
    """Return a curve with the best of a step, if that is better than what was known."""
    best = progress.best
    if best is None or (curve and best.value >= curve[-1].value):
        return curve
    return (*curve, Mark(progress.evaluations, progress.wall_s, best.value))


def tried_words(progress: Progress) -> str:
    """Say what a search did that found nothing: `in 5 evaluations (2 candidates break pins or bans)`."""
    refused, failed = progress.details.get(REFUSED, 0), progress.details.get(FAILED, 0)
    tried = f"in {progress.evaluations} evaluations"
    if refused:
        tried += f" ({refused} candidates break pins or bans)"
    if failed:
        tried += f" ({failed} candidates cannot be simulated; the first: {progress.details[FIRST_ERROR]})"
    return tried


def why_nothing(progress: Progress) -> str:
    """Say in one line why a search has no plan."""
    if progress.foreign_value is not None:
        return "its value is of a cost model of its own, which is not compared"
    if progress.closest is not None:
        near = f"; closest is {progress.closest.label}, which {lacking_words(progress.closest.outcome)}"
    else:
        near = ""
    return " ".join(f"{nothing_words(progress)} {tried_words(progress)}{near}".split())


def nothing_words(progress: Progress) -> str:
    """Say what a search without a plan found none of: `nothing that fits`, or that is fast enough."""
    near = progress.closest
    if near is None:
        return "nothing that fits" + " and is fast enough" * bool(progress.min_samples_per_s)
    slow = near.outcome.short_samples_per_s and not near.over_bytes
    return f"nothing that {'is fast enough' if slow else 'fits'}"
