"""A run under way, from the reports of its ranks: a row for each, its progress, its share of a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .course import Course

if TYPE_CHECKING:
    from explorer.run import RunSpec
    from explorer.run.launching.status import Status

OURS = "interpreter"
"""Engine whose ranks say which action they are in."""

SAY_EVERY_S = 5.0
"""Least seconds between two announcements to a screen reader."""
_CALIBRATION, _SURVEY = "calibration", "measuring "
_EARLY = 0.1  # share of the rounds before which their pace says little
_STARTING = {"start": 0.35, "ready": 0.7}
"""Share of the seconds before the first round that has gone by when all ranks have told an event."""


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
    pid: int | None = None
    """Its process, once it has said so."""
    memory_bytes: int | None = None
    """Memory that its process holds now."""
    cases: int = 0
    """Cases of the present round (or, before the rounds, of those run once) that it has ended."""
    at_s: float | None = None
    """How far it is in its case, in predicted seconds; None outside of one."""
    of_s: float | None = None
    """Predicted seconds of that case."""


class Progress:
    """Progress of a run.

    Args:
        spec: the specification launched.
        expected_s: seconds it should take, for the time left until its rounds show their pace.
        starts_s: those of them before the first round.
        clock: seconds, ever rising.
    """

    def __init__(
        self, spec: RunSpec, *, expected_s: float, starts_s: float, clock: Callable[[], float]
    ) -> None:
        self.spec, self._clock, self._expected_s, self._starts_s = spec, clock, expected_s, starts_s
        self.began = clock()
        self.rows = [Row() for _ in range(spec.ranks)]
        self.share = 0.0
        """Share of the rounds completed, 0 to 1."""
        self.first_round: float | None = None
        """When the first round began."""
        self._marks: list[tuple[float, float]] = []
        """Shares of the rounds completed, and when each was."""
        self._said, self._said_at = "", -SAY_EVERY_S
        self._told: dict[str, tuple[set[int], float]] = {}
        """By event that tells how far the start is: ranks that have told it, and when the last one did."""
        self._courses = [
            [Course(case) for case in spec.cases if case.once is once and case.engine == OURS]
            for once in (False, True)
        ]

    def note(self, event: Mapping[str, Any]) -> None:
        """Take an event of a rank."""
        row, kind, now = self.rows[int(event["rank"])], event.get("event"), self._clock()
        if kind in _STARTING:
            ranks, _ = self._told.get(kind, (set(), now))
            self._told[kind] = ({*ranks, int(event["rank"])}, now)
        if kind == "start":
            row.pid = int(event["pid"])
        elif kind == "case":
            row.cases, row.last_step = row.cases + 1, None
        elif kind == "round":
            row.round, row.cases = int(event["number"]), 0
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
        if share is not None and share > self.share:
            self.share = share
            self._marks.append((share, now))

    def look(self, pages: Sequence[Status]) -> None:
        """Take what the ranks report right now, and what memory their processes hold."""
        from explorer.run.launching.status import COMPUTING, STARTING

        for row, page in zip(self.rows, pages, strict=True):
            if row.state in ("done", "failed"):
                continue
            names = {STARTING: "starting", COMPUTING: "computing"}
            row.state, row.doing = names.get(page.state, "waiting"), page.text
            # which the watchdog must not take for actions
            if page.text == _CALIBRATION:
                row.state, row.doing = "computing", "timing layers and messages"
            elif page.text.startswith(_SURVEY):
                row.state, row.doing = "computing", "timing this machine"
            row.memory_bytes = resident_bytes(row.pid)
        for rank, row in enumerate(self.rows):
            self._place(rank, row)

    def _place(self, rank: int, row: Row) -> None:
        """Tell how far a rank is in its case, by the action it does or waits for."""
        courses = self._courses[row.round is None]
        course = courses[row.cases] if row.cases < len(courses) else None
        step = row.last_step[1] + 1 if row.last_step is not None else 0
        at_s = course.at(rank, step, row.doing.partition(" ")[0]) if course is not None else None
        row.at_s, row.of_s = (at_s, course.end_s) if course is not None and at_s is not None else (None, None)

    @property
    def elapsed_s(self) -> float:
        """Seconds since its start."""
        return self._clock() - self.began

    @property
    def left_s(self) -> float:
        """Seconds it should still take: by the pace of its rounds; before, by the expectation and how much
        longer than expected this machine takes to start.
        """
        if self.first_round is not None and self.share > _EARLY:
            return self._left_in_rounds(self.first_round)
        return max(0.0, self._stretch * self._expected_s - self.elapsed_s)

    def _left_in_rounds(self, begun: float) -> float:
        """Return the seconds left by the pace up to the last share completed, less those since then; but at
        least what is left after the next share, which is as large as the last one.
        """
        share, when = self._marks[-1]
        before = self._marks[-2][0] if len(self._marks) > 1 else 0.0
        whole = (when - begun) / share
        after_next = max(0.0, 1 - share - (share - before)) * whole
        return max(whole * (1 - share) - (self._clock() - when), after_next)

    @property
    def _stretch(self) -> float:
        """Its seconds over those expected: by the last part of the start that is behind it, or by the next
        one if that is late.
        """
        reached, took_s = 0.0, 0.0
        for kind, share in _STARTING.items():
            ranks, when = self._told.get(kind, (set(), 0.0))
            if len(ranks) == self.spec.ranks:
                reached, took_s = share, when - self.began
        if self.first_round is not None:
            reached, took_s = 1.0, self.first_round - self.began
        behind = took_s / (reached * self._starts_s) if reached else 1.0
        due = next((share for share in _STARTING.values() if share > reached), 1.0) * self._starts_s
        return max(behind, self.elapsed_s / (due if reached < 1.0 else self._expected_s))

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


def resident_bytes(pid: int | None) -> int | None:
    """Return the memory that a process holds; None if it is not there."""
    import psutil

    if pid is None:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


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
