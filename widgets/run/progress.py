"""A run under way, from the reports of its ranks: a row for each, its progress, its share of a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explorer.run import RunSpec
    from explorer.run.status import Status

SAY_EVERY_S = 5.0
"""Least seconds between two announcements to a screen reader."""
_CALIBRATION = "calibration"
_EARLY = 0.1  # share of the rounds before which their pace says little


@dataclass(slots=True)
class Row:
    """One rank."""

    state: str = "starting"
    """starting, computing, waiting, done or failed."""
    doing: str = ""
    """Its action, or what it waits for."""
    round: int | None = None
    """Round it is in; below 0 while it warms up; None before the rounds."""
    step_s: float | None = None
    """Seconds between the ends of its last two steps."""
    last_step: tuple[str, int, float] | None = None
    """Case, number and time of the last step that ended."""
    share: float | None = None
    """Share of a core that it got in the last round."""
    name: str = ""
    """Name of the device it runs on."""


class Progress:
    """Progress of a run.

    Args:
        spec: the specification launched.
        expected_s: seconds it should take, for the time left until its rounds show their pace.
        clock: seconds, ever rising.
    """

    def __init__(self, spec: RunSpec, *, expected_s: float, clock: Callable[[], float]) -> None:
        self.spec, self._clock, self._expected_s = spec, clock, expected_s
        self.began = clock()
        self.rows = [Row() for _ in range(spec.ranks)]
        self.share = 0.0
        """Share of the rounds completed, 0 to 1."""
        self.first_round: float | None = None
        """When the first round began."""
        self._said, self._said_at = "", -SAY_EVERY_S

    def note(self, event: Mapping[str, Any]) -> None:
        """Take an event of a rank."""
        row, kind, now = self.rows[int(event["rank"])], event.get("event"), self._clock()
        if kind == "round":
            row.round = int(event["number"])
            self.first_round = now if self.first_round is None else self.first_round
        elif kind == "load":
            row.share = min(1.0, float(event["share"]))
        elif kind == "step":
            case, number = str(event.get("case")), int(event["step"])
            if row.last_step is not None and row.last_step[:2] == (case, number - 1):
                row.step_s = now - row.last_step[2]
            row.last_step = (case, number, now)
        elif kind == "ready":
            row.name = str(event.get("name", event.get("device", "")))
        elif kind in ("done", "fault"):
            row.state, row.doing = ("done" if kind == "done" else "failed"), ""
        share = progress_share(event, self.spec)
        if share is not None:
            self.share = max(share, self.share)

    def look(self, pages: Sequence[Status]) -> None:
        """Take what the ranks report right now."""
        from explorer.run.status import COMPUTING, STARTING

        for row, page in zip(self.rows, pages, strict=True):
            if row.state in ("done", "failed"):
                continue
            names = {STARTING: "starting", COMPUTING: "computing"}
            row.state, row.doing = names.get(page.state, "waiting"), page.text
            if page.text == _CALIBRATION:  # which the watchdog must not take for an action
                row.state, row.doing = "computing", "timing layers and messages"

    @property
    def elapsed_s(self) -> float:
        """Seconds since its start."""
        return self._clock() - self.began

    @property
    def left_s(self) -> float | None:
        """Seconds it should still take: by the pace of its rounds, or by the expectation before the first."""
        if self.first_round is not None and self.share > _EARLY:
            return (self._clock() - self.first_round) * (1 - self.share) / self.share
        left = self._expected_s - self.elapsed_s
        return left if left > 1 else None

    @property
    def round_s(self) -> float | None:
        """Seconds of one round, by those completed."""
        total = self.spec.warmup_rounds + self.spec.rounds
        if self.first_round is None or not self.share:
            return None
        return (self._clock() - self.first_round) / (self.share * total)

    @property
    def contention(self) -> float | None:
        """The smallest share of a core that a rank got in the last round; None until one is measured."""
        shares = [row.share for row in self.rows if row.share is not None]
        return min(shares, default=None)

    @property
    def phase(self) -> str:
        """What the slowest rank is doing."""
        rounds = [row.round for row in self.rows]
        if any(number is None for number in rounds):
            started = sum(row.state != "starting" for row in self.rows)
            return "Starting the ranks" if started < len(rounds) else "Checking the gradients"
        return round_words(min(number for number in rounds if number is not None), self.spec.rounds)

    def said(self) -> str:
        """Return the phase for a screen reader: a new one at most every few seconds."""
        now, phase = self._clock(), self.phase
        if phase != self._said and now - self._said_at >= SAY_EVERY_S:
            self._said, self._said_at = phase, now
        return self._said


def round_words(number: int | None, rounds: int) -> str:
    """Name a round of a rank.

    >>> round_words(0, 3), round_words(-1, 3), round_words(None, 3)
    ('Round 1 of 3', 'Warming up', '')
    """
    if number is None:
        return ""
    return "Warming up" if number < 0 else f"Round {number + 1} of {rounds}"


def progress_share(event: Mapping[str, Any], spec: RunSpec) -> float | None:
    """Return the share of a run completed, 0 to 1; None if an event does not tell.

    Args:
        event: event of a rank.
        spec: the specification launched; rounds that warm up have negative numbers.
    """
    cases = [case.name for case in spec.cases if not case.once]
    total = spec.warmup_rounds + spec.rounds
    if event.get("event") == "round":
        behind = float(event["number"])
    elif event.get("event") == "case" and event.get("name") in cases:
        behind = float(event["round"]) + (cases.index(event["name"]) + 1) / len(cases)
    else:
        return None
    return min(1.0, max(0.0, (spec.warmup_rounds + behind) / total))
