"""Plans of one schedule on equally many positions and chunks, estimated together.

What is asked of a plan depends on few of its columns each: spans of positions on devices, microbatch size and
recomputation (a *core*), exchanges on devices, ZeRO and buckets (a *swap*), bytes on all but buckets. So each
is worked out once per distinct combination, and put together for every plan:

    step = max over positions of [ span of its core + exchanges of its swap ]

Where exchanges of every microbatch, or buckets, may outlast the work beside them, core and swap cannot be
told apart, and the pair is worked out as a whole (`exchange_pairs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.framework_files import load_framework
from explorer.pricing.input_pipeline import with_inputs_s
from explorer.schedules import Schedule
from explorer.schedules.spec import ROUNDING
from explorer.strategies.framework_choices import bucket_bytes_of
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import Distinct, distinct, distinct_values
from explorer.tables.exchange_pairs import Pairs, Shared, Swaps
from explorer.tables.longest_steps import longest_steps
from explorer.tables.plan_cores import Cores, PlanCores
from explorer.tables.plan_memory import PlanMemory
from explorer.tables.plan_shape import CHUNK, PlanShape
from explorer.tables.plan_swaps import PlanSwaps
from explorer.tables.port_bounds import PortBounds
from explorer.tables.spreads import Spread
from explorer.tables.stage_rows import StageRows
from explorer.tasks.skeleton import FloatArray, IntArray


class PlanGroup:
    """Plans of one schedule on equally many positions and chunks."""

    def __init__(self, rows: StageRows, schedule: Schedule, options: Mapping[str, Any]) -> None:
        """Prepare; the arguments are those of `PlanShape`."""
        self.shape = PlanShape(rows, schedule, options)
        self._cores, self._swaps = PlanCores(self.shape), PlanSwaps(self.shape)
        self._memory, self._ports = PlanMemory(self.shape), PortBounds(self.shape, self._cores)
        framework = load_framework(self.shape.job.framework)
        always = framework.buckets == "always" or self.shape.stages == 1
        size = bucket_bytes_of(framework, self.shape.costs.table.graph, self.shape.job)
        self._bucket_bytes = size if always else 0.0

    def of(self, columns: DegreesColumns) -> tuple[FloatArray, ...]:
        """Return the fields of `Estimates` of some plans, rows of which are all of this group."""
        lanes = self._lanes(columns)
        core = distinct(lanes.place, columns.microbatch_size, columns.recompute)
        names = self._names(columns.take(lanes.first))
        memory = self._memory.of(columns, names, lanes, core)
        step = self._steps(columns, names, lanes, core)
        return (*step, *memory)

    def on_ports(self, columns: DegreesColumns) -> FloatArray:
        """Return the (N,) seconds of some plans that `PortBounds` says; 0 where it says nothing."""
        found = np.zeros(len(columns))
        if not (self.shape.schedule.flush and self.shape.job.training):
            return found
        lanes = self._lanes(columns)
        bucket = self._bucket(columns)
        for place, name in enumerate(self._names(columns.take(lanes.first))):
            some = np.flatnonzero(lanes.place == place)
            found[some] = self._ports.of(columns.take(some), name, bucket[some])
        return np.asarray(found * ROUNDING)

    @staticmethod
    def _lanes(columns: DegreesColumns) -> Distinct:
        return distinct(
            columns.tensor, columns.context, columns.expert, columns.sequence_parallel,
            columns.context_exchange, columns.replicas,
        )  # fmt: skip

    def _bucket(self, columns: DegreesColumns) -> FloatArray:
        return np.where(columns.bucket_bytes > 0, columns.bucket_bytes, self._bucket_bytes)

    @staticmethod
    def _names(columns: DegreesColumns) -> list[Spread]:
        return list(
            zip(
                columns.tensor.tolist(), columns.context.tolist(), columns.expert.tolist(),
                columns.sequence_parallel.tolist(), columns.context_exchange.tolist(),
                columns.replicas.tolist(), strict=True,
            )
        )  # fmt: skip

    def _steps(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[FloatArray, FloatArray]:
        """Return (N,) seconds of a step: the guess and the bound."""
        m, rows = self._cores.rows(columns, names, lanes, core)
        cores = self._cores.of(m, rows)
        guess, lower = np.zeros((2, len(columns)))
        if self.shape.job.training:
            bucket = self._bucket(columns)
            swap = distinct(lanes.place, columns.zero, distinct_values(bucket)[1])
            swaps = self._swaps.of(columns, names, lanes, swap, bucket)
            times = np.broadcast_to(self.shape.schedule.updates(self._cores.pipelines(m, None)), m.shape)
            alone = self.shape.grid.chunks * self.shape.grid.copies == 1
            guess, lower = longest_steps(cores, swaps, core.place, swap.place, times, alone=alone)
            self._pairs(guess, lower, cores, swaps, core.place, swap.place, m, rows)
        else:
            guess[:], lower[:] = (part.max(axis=0)[core.place] for part in (cores.guess, cores.lower))
        np.maximum(lower, cores.channels[core.place], out=lower)
        lower *= ROUNDING
        np.maximum(guess, lower, out=guess)
        all_s = self.shape.job.input_seconds_per_sample * self.shape.job.global_batch
        inputs = all_s / (columns.replicas * self.shape.grid.copies)
        job = self.shape.job
        return with_inputs_s(job, guess, inputs), with_inputs_s(job, lower, inputs * ROUNDING)

    def _pairs(
        self,
        guess: FloatArray,
        lower: FloatArray,
        cores: Cores,
        swaps: Swaps,
        core: IntArray,
        swap: IntArray,
        m: FloatArray,
        rows: tuple[IntArray, IntArray],
    ) -> None:
        """Replace the seconds of plans whose exchanges may outlast the work beside them."""
        found = np.flatnonzero(
            (swaps.beside[swap] > cores.shortest[core])
            | (swaps.each[swap] > cores.least_work[core])
            | (swaps.chunk[swap] > cores.drain[core])
        )
        pairs = distinct(core[found], swap[found])
        for start in range(0, pairs.size, CHUNK):
            some = found[pairs.first[start : start + CHUNK]]
            one, other = core[some], swap[some]
            seconds, transfers = self._cores.stage_arrays(rows[0][one], rows[1][one])
            made = Pairs(
                self.shape.schedule, self.shape.held, self.shape.home, seconds,
                swaps.exchange(other, range(self.shape.stages)), swaps.zero[other], m[one],
                self._shared(swaps, other, transfers[1]),
            )  # fmt: skip
            of = self._cores.pipelines(m[one], made.with_exchanges(), transfers[1])
            spans = self.shape.schedule.guessed(of, self.shape.schedule.lower(of))
            after = np.maximum(made.after()[self.shape.begins], swaps.guess[:, other])
            likely = (spans[self.shape.begins] + self.shape.schedule.updates(of) * after).max(axis=0)
            alike = self.shape.period > 0
            sure = np.maximum(lower[some], made.channels(alike=alike))
            if alike or self.shape.grid.copies == 1:
                np.maximum(sure, self._slowed(made, transfers[0], swaps.lower[:, other]), out=sure)
            mine = (pairs.place >= start) & (pairs.place < start + CHUNK)
            place = pairs.place[mine] - start
            guess[found[mine]], lower[found[mine]] = likely[place], sure[place]

    def _slowed(self, made: Pairs, transfers: FloatArray, after: FloatArray) -> FloatArray:
        """Return the (N,) seconds of a step that are sure of plans whose gathers slow work; 0 of others.

        Args:
            made: the plans.
            transfers: (S - 1, N) seconds of transfers alone.
            after: (P, N) seconds after the last gradient that are sure.
        """
        found, (seconds, rows) = np.zeros(len(made.m)), made.surely_slowed()
        if len(rows):
            of = self._cores.pipelines(made.m[rows], seconds.take(rows), transfers[:, rows])
            spans = self._cores.sure_spans(of)[self.shape.begins]
            found[rows] = (spans + self.shape.schedule.updates(of) * after[:, rows]).max(axis=0)
        return found

    @staticmethod
    def _shared(swaps: Swaps, some: IntArray, transfer_s: FloatArray) -> Shared:
        """Return what stages reduce of parameters that they share: far from each other, and so over links
        that carry what goes from stage to stage as well.
        """
        longest = transfer_s.max(axis=0, initial=0.0)
        parts = [(stage, seconds[some]) for stage, seconds in swaps.shared]
        return tuple((stage, seconds + longest * (seconds > 0)) for stage, seconds in parts)
