"""Overlaps of samples between pieces of different sections: the rule behind all flows.

Microbatch sizes, split and alternating replicas differ between sections; the pattern of overlaps repeats
after the least common multiple of both sides' samples, so each is found once and moved along.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from explorer.tasks.placement import SectionShape


class Overlap(NamedTuple):
    """A piece of another section that has some of the samples requested."""

    replica: int
    microbatch: int
    low: int
    """First sample shared."""
    samples: int


class Overlaps:
    """The samples that one replica of a section shares with the pieces of another, by microbatch."""

    def __init__(self, want: SectionShape, replica: int, have: SectionShape, kept: tuple[int, ...]) -> None:
        self.want, self.replica, self.have, self.kept = want, replica, have, kept
        in_turn = have.replicas if have.round_robin else 1
        self.samples = math.lcm(want.microbatch_samples, have.microbatch_samples * in_turn)
        self.period = self.samples // want.microbatch_samples
        self.numbers = self.samples // have.microbatch_samples
        self.first: dict[int, tuple[Overlap, ...]] = {}

    def of(self, microbatch: int) -> list[Overlap]:
        """Return the pieces that share samples with a microbatch, and the samples each shares."""
        rounds, phase = divmod(microbatch, self.period)
        first = self.first.get(phase)
        if first is None:
            first = self.first[phase] = tuple(self._find(phase))
        numbers, samples = rounds * self.numbers, rounds * self.samples
        return [Overlap(r, n + numbers, low + samples, count) for r, n, low, count in first]

    def _find(self, microbatch: int) -> list[Overlap]:
        want, have = self.want, self.have
        low, high = want.interval(self.replica, microbatch)
        size = have.microbatch_samples
        alike = want.microbatch_samples == size and want.offsets == have.offsets
        if alike and not want.round_robin and not have.round_robin:
            return [Overlap(self.replica, microbatch, low, high - low)]
        found = []
        for n in range(low // size, (high - 1) // size + 1):
            for r in (n % have.replicas,) if have.round_robin else self.kept:
                start, stop = have.interval(r, n)
                begin, end = max(low, start), min(high, stop)
                if begin < end:
                    found.append(Overlap(r, n, begin, end - begin))
        return found
