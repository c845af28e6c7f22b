"""Spans of positions, from their first forward to their last gradient, for distinct *cores* of plans.

A core is what they depend on: devices of stages, microbatch size and recomputation. A span has no exchanges
in it, except where `seconds` that already have them are given to `pipelines`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.schedules.pipelines import Pipelines, busy, with_path
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import Distinct
from explorer.tables.exchange_pairs import Seconds
from explorer.tables.plan_shape import CHUNK, PlanShape
from explorer.tables.spreads import Spread
from explorer.tasks.skeleton import FloatArray, IntArray

CROWDED = 0.1
"""Share of its time for which a port sends, from which on what goes forth and back slows each other down."""


class Cores(NamedTuple):
    """Spans of distinct cores."""

    lower: FloatArray
    """(P, U): spans that are never too long."""
    guess: FloatArray
    """(P, U): the likely ones; the same array where they are no others."""
    shortest: FloatArray
    """(U,): seconds of the shortest forward or backward of a microbatch."""
    least_work: FloatArray
    """(U,): seconds of work on one microbatch between exchanges, on the position that has least."""
    backward: FloatArray
    """(P, U): seconds of a backward of the first stage of each position."""
    channels: FloatArray
    """(U,): seconds for which a step keeps the busiest wire or port: it takes no less."""
    drain: FloatArray
    """(U,): seconds of the last backwards of a chunk, during which the next one is reduced."""


class PlanCores:
    """Cores of plans of one shape."""

    def __init__(self, shape: PlanShape) -> None:
        self.shape = shape
        self._quantities = 5 if shape.schedule.hides else 4

    def rows(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[FloatArray, tuple[IntArray, IntArray]]:
        """Return (U,) microbatches of cores, and their rows of seconds and of transfers."""
        samples = columns.microbatch_size[core.first]
        m = self.shape.job.global_batch / (samples * columns.replicas[core.first])
        return m, self.shape.rows.of_cores(columns, names, lanes, core)

    def of(self, m: FloatArray, rows: tuple[IntArray, IntArray]) -> Cores:
        """Return the spans of U cores.

        Args:
            m: (U,) microbatches.
            rows: (U,) rows of seconds and of transfers, as `rows` gives them.
        """
        positions, count = self.shape.grid.positions, len(m)
        lower, other, backward = np.zeros((3, len(self.shape.begins), count))
        begins = self.shape.begins
        first_stages = [self.shape.held[position][0][0] for position in begins]
        shortest, least, drain, channels = np.zeros((4, count))
        rounds = m / np.maximum(1, m // positions)
        differs = not self.shape.cut.chain
        for first in range(0, count, CHUNK):
            some = slice(first, first + CHUNK)
            seconds, (alone, crowded, kept) = self.stage_arrays(rows[0][some], rows[1][some])
            channels[some] = m[some] * kept.max(axis=0, initial=0.0)
            of = self.pipelines(m[some], seconds, alone)
            if not self.shape.job.training:
                lower[:, some] = spans = busy(of)[begins]
                other[:, some] = np.maximum(spans, m[some] * crowded.max(axis=0, initial=0.0))
                differs = True
                continue
            spans = self.shape.schedule.lower(of)
            lower[:, some] = other[:, some] = spans[begins]
            if not self.shape.cut.chain:
                lower[:, some] = self.sure_spans(of)[begins]
            if crowded.any() or self.shape.schedule.estimate is not None:
                differs = True
                if not np.array_equal(alone, crowded):
                    of = self.pipelines(m[some], seconds, crowded)
                    spans = self.shape.schedule.lower(of)
                guess = self.shape.schedule.guessed(of, spans)
                sent = _ports(self.shape.home, m[some], crowded, positions)
                full = np.minimum(1.0, sent / guess[0])
                full[full <= CROWDED] = 0.0
                if full.any():
                    of = self.pipelines(m[some], seconds, crowded * (1.0 + full))
                    guess = self.shape.schedule.guessed(of, self.shape.schedule.lower(of))
                np.maximum(guess[0], sent, out=guess[0])
                other[:, some] = guess[begins]
            shortest[some] = np.minimum(seconds.forward, seconds.backward).min(axis=0)
            least[some] = seconds.work(self.shape.schedule.apart, self.shape.held).min(axis=0)
            backward[:, some] = seconds.backward[first_stages]
            drain[some] = rounds[some] * seconds.backward.min(axis=0)
        return Cores(lower, other if differs else lower, shortest, least, backward, channels, drain)

    def sure_spans(self, of: Pipelines) -> FloatArray:
        """Return the (P, N) spans of positions that are never too long."""
        # where stages are side by side, formulas are guesses
        return self.shape.schedule.lower(of) if self.shape.cut.chain else self._beside(of)

    def _beside(self, of: Pipelines) -> FloatArray:
        """Return the (P, N) spans that are sure where some stages do not wait for the one before.

        Of stages that do, a microbatch passes one after the other, down and back; and with one stage a
        position, the work of each comes in between.
        """
        spans = busy(of)
        if of.comm_s is not None:
            comm = of.work_s(of.comm_s)
            spans = np.maximum(spans - comm, comm)
        if not self.shape.schedule.flush:
            return spans
        alone = of.grid.chunks * of.grid.copies == 1
        once = of.forward_s + np.minimum(of.input_grad_s, of.backward_s)
        start, way = 0, np.zeros(of.size)
        for stage in range(self.shape.stages):
            if stage and self.shape.cut.linked[stage - 1]:
                way = way + once[stage - 1] + 2 * of.transfer_s[stage - 1]
            else:
                start, way = stage, np.zeros(of.size)
            path = way + once[stage] * (of.microbatches if alone else 1.0)
            with_path(spans, path, int(self.shape.home[start]))
        return spans

    def stage_arrays(self, own: IntArray, sent: IntArray) -> tuple[Seconds, FloatArray]:
        """Return the (S, n) seconds of stages of some rows, and (3, S - 1, n) of their transfers.

        These are what a transfer takes alone, and where those of all replicas share links; and, beside the
        first edge, those of the busiest channel for one microbatch.
        """
        rows, edges = self.shape.rows, self.shape.stages - 1
        return Seconds(*rows.seconds.whole(own, self._quantities)), rows.transfer.whole(sent)[:, :edges]

    def pipelines(
        self, m: FloatArray, seconds: Seconds | None, transfer: FloatArray | None = None
    ) -> Pipelines:
        """Return the pipelines of which a schedule is asked; without seconds if these do not matter."""
        none = np.zeros((0, len(m)))
        parts = seconds or Seconds(none, none, none, none)
        return Pipelines(
            placement=self.shape.schedule.placement, grid=self.shape.grid, microbatches=m,
            forward_s=parts.forward, backward_s=parts.backward, input_grad_s=parts.input_grad,
            weight_grad_s=parts.weight_grad, transfer_s=none if transfer is None else transfer,
            options=self.shape.options, comm_s=parts.comm,
        )  # fmt: skip


def _ports(home: IntArray, m: FloatArray, transfer: FloatArray, positions: int) -> FloatArray:
    """Return the (N,) seconds in which the busiest position sends, onwards and back, through one port."""
    sent = np.zeros((positions, len(m)))
    for s in range(len(home) - 1):
        sent[home[s]] += transfer[s]
        sent[home[s + 1]] += transfer[s]
    return np.asarray(sent.max(axis=0)) * m
