"""Handing on what a section made: to sections on the same lane directly, to others through the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from explorer.run.ranks.mailbox import Mailbox
from explorer.run.ranks.sweeps import Interval
from explorer.tasks.placement import Piece, Skeleton


@dataclass(frozen=True, slots=True)
class Handing:
    """The pieces of one lane, among those of a plan."""

    skeleton: Skeleton
    """Sections and flows."""
    pieces: tuple[Piece, ...]
    """Pieces of this lane."""

    def hand_on(
        self,
        flow: int,
        copy: int,
        interval: Interval,
        rows: Mapping[int, torch.Tensor] | Mapping[str, torch.Tensor],
        forwards: Mailbox,
        outbox: Mailbox,
    ) -> None:
        """Put the tensors of a flow, by key, where their readers look for them.

        Args:
            flow: the flow.
            copy: copy of the pipeline that made them.
            interval: samples that they are of.
            rows: tensors, one row a sample.
            forwards: what readers on this lane take from.
            outbox: what messages take from; filled if some samples are read elsewhere.
        """
        targets = self.skeleton.flows[flow].targets
        here = self._parts_here(targets[0], copy, interval)
        for key, made in rows.items():
            for low, high in here:
                part = made[low - interval[0] : high - interval[0]]
                for target in targets:
                    forwards.put((flow, target, key), (low, high), part)
            if sum(high - low for low, high in here) < interval[1] - interval[0]:
                outbox.put((flow, key), interval, made)

    def _parts_here(self, section: int, copy: int, interval: Interval) -> list[Interval]:
        """List the parts of some samples that pieces of `section` on this lane work on."""
        shape = self.skeleton.sections[section]
        size = shape.microbatch_samples
        found = []
        for piece in self.pieces:
            if piece.section != section or piece.copy != copy:
                continue
            for n in range(interval[0] // size, (interval[1] - 1) // size + 1):
                if shape.round_robin and n % shape.replicas != piece.replica:
                    continue
                low, high = shape.interval(piece.replica, n)
                if max(low, interval[0]) < min(high, interval[1]):
                    found.append((max(low, interval[0]), min(high, interval[1])))
        return found
