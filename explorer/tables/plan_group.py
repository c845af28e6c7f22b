"""Plans of one schedule on equally many positions and chunks, estimated together.

What is asked of a plan depends on few of its columns each: spans of positions on devices, microbatch size and
recomputation (a *core*), exchanges on devices, ZeRO and buckets (a *swap*), bytes on all but buckets. So each
is worked out once per distinct combination, and put together for every plan:

    step = max over positions of [ span of its core + exchanges of its swap ]

Where exchanges of every microbatch, or buckets, may outlast the work beside them, core and swap cannot be
told apart, and the pair is worked out as a whole (`exchange_pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from explorer.framework_files import load_framework
from explorer.schedules import Schedule
from explorer.schedules.pipelines import InFlight, Pipelines, busy
from explorer.schedules.placements import Grid
from explorer.schedules.spec import ROUNDING
from explorer.strategies.degrees import RECOMPUTE
from explorer.tables.coded_rows import CodedRows, Codes
from explorer.tables.degrees_columns import EXCHANGE_NAMES, DegreesColumns
from explorer.tables.distinct import Distinct, distinct
from explorer.tables.exchange_pairs import Pairs, Seconds, Swaps
from explorer.tables.kind_costs import Exchange, KindCosts, Memory, Rows
from explorer.tables.run_kinds import Cut
from explorer.tables.stage_choice import StageChoice
from explorer.tasks.skeleton import FloatArray, IntArray

CROWDED = 0.1
"""Share of its time for which a port sends, from which on what goes forth and back slows each other down."""
CHUNK = 2048
"""Columns of arrays that are worked on at once, so that these stay in cache."""

Spread = tuple[int, ...]
"""(tensor, context, expert, sequence parallel, context exchange, replicas)."""


class _Cores(NamedTuple):
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
    drain: FloatArray
    """(U,): seconds of the last backwards of a chunk, during which the next one is reduced."""


class PlanGroup:
    """Plans of one schedule on equally many positions and chunks; keeps what it was asked."""

    def __init__(
        self, costs: KindCosts, schedule: Schedule, options: Mapping[str, Any], grid: Grid, cut: Cut
    ) -> None:
        """Start with nothing known.

        Args:
            costs: of all kinds of runs that the stages are of.
            schedule: their schedule.
            options: its options, with their defaults.
            grid: positions, chunks and copies.
            cut: the stages.
        """
        self.costs, self.schedule, self.options = costs, schedule, options
        self.grid, self.cut, self.job = grid, cut, costs.table.job
        self.held = schedule.placement.held(grid)
        self.stages = schedule.placement.stages(grid)
        self.home = np.array([schedule.placement.position(stage, 0, grid) for stage in range(self.stages)])
        self._begins = _begins(self.held, cut)
        self._memory_parts = len(Memory._fields)
        self._fullest = self._fullest_positions()
        framework = load_framework(self.job.framework)
        always = framework.buckets == "always" or self.stages == 1
        self._bucket_bytes = framework.bucket_bytes if always else 0.0
        self._period = costs.table.period
        self._seconds = Rows(4, self.stages)
        self._transfer = Rows(2, max(1, self.stages - 1))
        self._exchange = Rows(len(Exchange._fields), self.stages)
        self._shared = Rows(1, max(1, len(cut.shared)))
        self._spreads, self._sizes, self._buckets = Codes(), Codes(), Codes()
        self._own_rows, self._sent_rows = CodedRows(3), CodedRows(2)
        self._swap_rows, self._memory_rows, self._shared_rows = CodedRows(3), CodedRows(4), CodedRows(2)

    def of(self, columns: DegreesColumns) -> tuple[FloatArray, ...]:
        """Return the fields of `Estimates` of some plans, rows of which are all of this group."""
        lanes = distinct(
            columns.tensor, columns.context, columns.expert, columns.sequence_parallel,
            columns.context_exchange, columns.replicas,
        )  # fmt: skip
        core = distinct(lanes.place, columns.microbatch_size, columns.recompute)
        names = self._names(columns.take(lanes.first))
        memory = self._memory(columns, names, lanes, core)
        step = self._steps(columns, names, lanes, core)
        return (*step, *memory)

    @staticmethod
    def _names(columns: DegreesColumns) -> list[Spread]:
        return list(
            zip(
                columns.tensor.tolist(), columns.context.tolist(), columns.expert.tolist(),
                columns.sequence_parallel.tolist(), columns.context_exchange.tolist(),
                columns.replicas.tolist(), strict=True,
            )
        )  # fmt: skip

    # ---- seconds ---------------------------------------------------------------------------------------

    def _steps(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[FloatArray, FloatArray]:
        """Return (N,) seconds of a step: the guess and the bound."""
        m, rows = self._core_rows(columns, names, lanes, core)
        cores = self._cores(m, rows)
        guess, lower = np.zeros((2, len(columns)))
        if self.job.training:
            bucket = np.where(columns.bucket_bytes > 0, columns.bucket_bytes, self._bucket_bytes)
            sizes, code = np.unique(bucket, return_inverse=True)
            swap = distinct(lanes.place, columns.zero, code.reshape(-1))
            swaps = self._swaps(columns, names, lanes, swap, sizes[code.reshape(-1)])
            times = np.broadcast_to(self.schedule.updates(self._pipelines(m, None)), m.shape)
            self._put_together(guess, lower, cores, swaps, core.place, swap.place, times)
            self._pairs(guess, lower, cores, swaps, core.place, swap.place, m, rows)
        else:
            guess[:], lower[:] = (part.max(axis=0)[core.place] for part in (cores.guess, cores.lower))
        lower *= ROUNDING
        np.maximum(guess, lower, out=guess)
        all_s = self.job.input_seconds_per_sample * self.job.global_batch
        inputs = all_s / (columns.replicas * self.grid.copies)
        return np.maximum(guess, inputs), np.maximum(lower, inputs * ROUNDING)

    def _put_together(
        self,
        guess: FloatArray,
        lower: FloatArray,
        cores: _Cores,
        swaps: Swaps,
        core: IntArray,
        swap: IntArray,
        times: FloatArray,
    ) -> None:
        """Fill the seconds of all plans from their cores and swaps."""
        same = cores.guess is cores.lower and swaps.guess is swaps.lower
        same = same and (swaps.earlier is None or self.grid.chunks * self.grid.copies == 1)
        plain = bool(np.all(times == 1.0))
        for first in range(0, len(core), CHUNK):
            some = slice(first, first + CHUNK)
            a, b = core[some], swap[some]
            exposed: FloatArray | None = None
            if swaps.earlier is not None:
                exposed = np.maximum(0.0, swaps.earlier[:, b] - cores.backward[:, a])

            def longest(
                spans: FloatArray,
                after: FloatArray,
                more: FloatArray | None,
                a: IntArray = a,
                b: IntArray = b,
            ) -> FloatArray:
                behind = after[:, b]
                if more is not None:
                    behind += more
                if not plain:
                    behind *= times[a]
                behind += spans[:, a]
                return np.asarray(behind.max(axis=0))

            sure = exposed if self.grid.chunks * self.grid.copies == 1 else None
            lower[some] = longest(cores.lower, swaps.lower, sure)
            guess[some] = lower[some] if same else longest(cores.guess, swaps.guess, exposed)

    def _pairs(
        self,
        guess: FloatArray,
        lower: FloatArray,
        cores: _Cores,
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
            seconds, transfers = self._stage_arrays(rows[0][one], rows[1][one])
            made = Pairs(
                self.schedule, self.held, self.home, seconds, swaps.exchange(other, range(self.stages)),
                swaps.zero[other], m[one],
            )  # fmt: skip
            of = self._pipelines(m[one], made.with_exchanges(), transfers[1])
            spans = self.schedule.guessed(of, self.schedule.lower(of))
            after = np.maximum(made.after()[self._begins], swaps.guess[:, other])
            likely = (spans[self._begins] + self.schedule.updates(of) * after).max(axis=0)
            sure = np.maximum(lower[some], made.channels())
            mine = (pairs.place >= start) & (pairs.place < start + CHUNK)
            place = pairs.place[mine] - start
            guess[found[mine]], lower[found[mine]] = likely[place], sure[place]

    def _cores(self, m: FloatArray, rows: tuple[IntArray, IntArray]) -> _Cores:
        positions, count = self.grid.positions, len(m)
        lower, other, backward = np.zeros((3, len(self._begins), count))
        begins = self._begins
        first_stages = [self.held[position][0][0] for position in begins]
        shortest, least, drain = np.zeros((3, count))
        rounds = m / np.maximum(1, m // positions)
        differs = not self.cut.chain
        for first in range(0, count, CHUNK):
            some = slice(first, first + CHUNK)
            seconds, (alone, crowded) = self._stage_arrays(rows[0][some], rows[1][some])
            of = self._pipelines(m[some], seconds, alone)
            if not self.job.training:
                lower[:, some] = spans = busy(of)[begins]
                other[:, some] = np.maximum(spans, m[some] * crowded.max(axis=0, initial=0.0))
                differs = True
                continue
            spans = self.schedule.lower(of)
            lower[:, some] = other[:, some] = spans[begins]
            if not self.cut.chain:  # stages side by side: formulas are guesses, work alone is sure
                lower[:, some] = busy(of)[begins]
            if crowded.any() or self.schedule.estimate is not None:
                differs = True
                if not np.array_equal(alone, crowded):
                    of = self._pipelines(m[some], seconds, crowded)
                    spans = self.schedule.lower(of)
                guess = self.schedule.guessed(of, spans)
                sent = _ports(self.home, m[some], crowded, positions)
                full = np.minimum(1.0, sent / guess[0])
                if full.max(initial=0.0) > CROWDED:
                    of = self._pipelines(m[some], seconds, crowded * (1.0 + full))
                    guess = self.schedule.guessed(of, self.schedule.lower(of))
                np.maximum(guess[0], sent, out=guess[0])
                other[:, some] = guess[begins]
            shortest[some] = np.minimum(seconds.forward, seconds.backward).min(axis=0)
            least[some] = seconds.work(self.schedule.apart, self.held).min(axis=0)
            backward[:, some] = seconds.backward[first_stages]
            drain[some] = rounds[some] * seconds.backward.min(axis=0)
        return _Cores(lower, other if differs else lower, shortest, least, backward, drain)

    def _stage_arrays(self, own: IntArray, sent: IntArray) -> tuple[Seconds, FloatArray]:
        stage = np.arange(self.stages)[:, None]
        return Seconds(*self._seconds.of(own, stage)), self._transfer.of(sent, stage[:-1])

    def _pipelines(
        self, m: FloatArray, seconds: Seconds | None, transfer: FloatArray | None = None
    ) -> Pipelines:
        none = np.zeros((0, len(m)))
        parts = seconds or Seconds(none, none, none, none)
        return Pipelines(
            placement=self.schedule.placement, grid=self.grid, microbatches=m, forward_s=parts.forward,
            backward_s=parts.backward, input_grad_s=parts.input_grad, weight_grad_s=parts.weight_grad,
            transfer_s=none if transfer is None else transfer, options=self.options,
        )  # fmt: skip

    # ---- rows of costs ---------------------------------------------------------------------------------

    def _core_rows(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[FloatArray, tuple[IntArray, IntArray]]:
        """Return (U,) microbatches of cores, and their rows of seconds and of transfers."""
        lane, size, recompute = self._coded(columns, names, lanes, core)
        samples, again = columns.microbatch_size[core.first], columns.recompute[core.first]
        m = self.job.global_batch / (samples * columns.replicas[core.first])
        place = lanes.place[core.first]

        def own(n: int) -> int:
            return self._seconds.row((names[place[n]], int(samples[n]), int(again[n])), self._stage_seconds)

        def sent(n: int) -> int:
            return self._transfer.row((names[place[n]], int(samples[n])), self._transfers)

        return m, (
            self._own_rows.rows((lane, size, recompute), own), self._sent_rows.rows((lane, size), sent)
        )  # fmt: skip

    def _coded(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return the (U,) codes of cores: of devices, of microbatch sizes and of recomputation."""
        lane = self._spreads.of(names)[lanes.place[core.first]]
        size = self._sizes.of_array(columns.microbatch_size[core.first])
        return lane, size, columns.recompute[core.first]

    def _stage_seconds(self, lane: Spread, samples: int, recompute: int) -> FloatArray:
        choice = choice_of(lane, samples=samples, recompute=recompute, replicas=lane[5] if lane[2] > 1 else 1)
        rows = self._by_position(_devices(lane), lambda first: self.costs.seconds_row(choice.at(first)))
        return self.costs.seconds.of(rows, self.cut.runs)

    def _exchanges(self, lane: Spread, zero: int, bucket_bytes: float) -> FloatArray:
        # copies hold the same weights at several positions: as if all of them were at the first
        copies = self.grid.copies
        choice = choice_of(lane, zero=zero, bucket_bytes=bucket_bytes, replicas=lane[5] * copies)
        size = _devices(lane) if copies == 1 else 0
        rows = self._by_position(size, lambda first: self.costs.exchange_row(choice.at(first)))
        return self.costs.exchange.of(rows, self.cut.runs)

    def _by_position(self, size: int, row: Callable[[int], int]) -> IntArray:
        """Return the (S,) rows of stages, given that of the first rank of a position of so many devices."""
        firsts = [position * size for position in range(self.grid.positions)]
        firsts = [first % self._period if self._period else first for first in firsts]
        rows = {first: row(first) for first in dict.fromkeys(firsts)}
        return np.array([rows[first] for first in firsts], dtype=np.int64).take(self.home)

    def _transfers(self, lane: Spread, samples: int) -> FloatArray:
        """Return (2, S - 1) seconds of transfers: alone, and where those of all replicas share links."""
        choice = choice_of(lane, samples=samples, replicas=lane[5] if lane[2] > 1 else 1)
        size = _devices(lane)
        rows: dict[tuple[int, int], tuple[int, float]] = {}
        found = [(0, 0.0)] * max(1, self.stages - 1)
        for s in range(self.stages - 1):
            a, b = int(self.home[s]) * size, int(self.home[s + 1]) * size
            if a != b:
                back = min(a, b) // self._period * self._period if self._period else 0
                ends = a - back, b - back
                if ends not in rows:
                    crowd = self.costs.crowd(choice.row_devices, *ends, lane[5])
                    rows[ends] = self.costs.transfer_row(choice, *ends), crowd
                found[s] = rows[ends]
        numbers, crowds = np.array(found).T
        pairs = self.cut.pairs if len(self.cut.pairs) else np.zeros(1, dtype=np.int64)
        both = self.costs.transfer.of(numbers.astype(np.int64), pairs) * (crowds > 0)
        return np.array([both.min(axis=0), both.max(axis=0) * crowds])

    def _swaps(
        self,
        columns: DegreesColumns,
        names: list[Spread],
        lanes: Distinct,
        swap: Distinct,
        bucket_bytes: FloatArray,
    ) -> Swaps:
        """Return the exchanges of distinct swaps."""
        place, zero = lanes.place[swap.first], columns.zero[swap.first]
        sizes = bucket_bytes[swap.first]

        def make(n: int) -> int:
            return self._exchange.row((names[place[n]], int(zero[n]), float(sizes[n])), self._exchanges)

        codes = self._spreads.of(names)[place], zero, self._buckets.of_array(sizes)
        rows = self._swap_rows.rows(codes, make)

        def make_shared(n: int) -> int:
            return self._shared.row((names[place[n]], int(zero[n])), self._shared_seconds)

        shared = self._shared_rows.rows(codes[:2], make_shared)
        begins = self._begins.tolist()
        shared_at = [(begins.index(self.home[stages[0]]), stages) for stages in self.cut.shared]
        return Swaps.of(
            self.schedule, self.grid, tuple(self.held[position] for position in self._begins),
            self._exchange, rows, zero, [(place, stages[0]) for place, stages in shared_at],
            self._shared.of(shared, np.arange(max(1, len(self.cut.shared)))[:, None])[0],
            (sizes == 0) & (len(self.cut.shared) == 1),
        )  # fmt: skip

    def _shared_seconds(self, lane: Spread, zero: int) -> FloatArray:
        """Return the seconds in which stages reduce the parameters they share, pair by pair."""
        found = np.zeros((1, max(1, len(self.cut.shared))))
        choice, size = choice_of(lane, replicas=lane[5]), _devices(lane)
        for k, stages in enumerate(self.cut.shared):
            ranks = tuple(int(self.home[stage]) * size for stage in stages)
            cuts = tuple(self.cut.bounds[stage] for stage in stages[1:])
            if self.grid.copies == 1:
                found[0, k] = self.costs.shared_s(choice, cuts, ranks, zero)
        return found

    # ---- bytes -----------------------------------------------------------------------------------------

    def _memory(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[FloatArray, ...]:
        """Return (N,) bytes of the fullest device, guess and bound, and those that some device lacks."""
        kept = distinct(core.place, columns.zero)
        place, zero = core.place[kept.first], columns.zero[kept.first]

        def make(n: int) -> int:
            row = kept.first[n]
            spread = names[lanes.place[row]]
            choice = choice_of(
                spread, samples=int(columns.microbatch_size[row]), recompute=int(columns.recompute[row]),
                zero=int(zero[n]), replicas=spread[5] * self.grid.copies,
            )  # fmt: skip
            return self.costs.memory_row(choice)

        codes = (*(part[place] for part in self._coded(columns, names, lanes, core)), zero)
        rows = self._memory_rows.rows(codes, make)
        m = self.job.global_batch / (columns.microbatch_size * columns.replicas)[kept.first]
        capacity, reserved = self._room(names, lanes.place[kept.first])
        found = np.zeros((4, kept.size))
        for first in range(0, kept.size, CHUNK):
            some = slice(first, first + CHUNK)
            room = (capacity[:, some], reserved[:, some]) if capacity.ndim == 2 else (capacity, reserved)
            found[:, some] = self._peaks(rows[some], m[some], *room)
        return tuple(part[kept.place] for part in found)

    def _fullest_positions(self) -> IntArray:
        """Return the positions of which one is fullest: where those after the first of a run hold no more.

        Tried for some numbers of microbatches; of a mixed cluster all positions are looked at.
        """
        every = np.arange(self.grid.positions)
        if len(self.costs.table.cluster.device_kinds) > 1 or not self.job.training:
            return every
        m = np.array([1.0, 2.0, 3.0, 8.0, 64.0]) * self.grid.positions * self.grid.copies
        falls = np.ones(len(every), dtype=bool)
        moments = self.schedule.in_flight(self.schedule.placement, self.grid, m, every)
        if all(moment.waiting is None and moment.versions is None for moment in moments):
            self._memory_parts = Memory._fields.index("waiting")
        for moment in moments:
            for part in (moment.saved, moment.waiting, moment.versions):
                if part is not None:
                    falls[1:] &= (np.diff(part, axis=0) <= 0).all(axis=tuple(range(1, part.ndim)))
        falls[self._begins] = False
        return every[~falls]

    def _peaks(
        self, rows: IntArray, m: FloatArray, capacity: FloatArray, reserved: FloatArray
    ) -> tuple[FloatArray, ...]:
        at = self._fullest
        stages = np.array([[stage for stage, _ in self.held[position]] for position in at])
        # what waits for weight gradients, and versions, are the last: few schedules need them
        found = self.costs.memory.of(rows, self.cut.runs[stages][:, :, None], self._memory_parts)
        memory = Memory(*found, *[found[0]] * (len(Memory._fields) - len(found)))
        base = memory.held.sum(axis=1) + memory.buffers.max(axis=1)
        moments: tuple[InFlight, ...] = ()
        if self.job.training:
            moments = self.schedule.in_flight(self.schedule.placement, self.grid, m, at)
        guess, lower = base.copy(), base.copy()
        for moment in moments:
            level = base + _level(moment, memory)
            np.maximum(guess, level, out=guess)
            if moment.sure:
                np.maximum(lower, level, out=lower)
            if moment.versions is not None:
                np.maximum(guess, level + moment.versions * memory.version.sum(axis=1), out=guess)
        guess, lower = guess + reserved, (lower + reserved) * ROUNDING
        over = (guess - capacity).max(axis=0), (lower - capacity).max(axis=0)
        return guess.max(axis=0), lower.max(axis=0), *over

    def _room(self, names: list[Spread], lane: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (P, ...) bytes of the first replica's smallest device at a position, and those reserved."""
        cluster, order = self.costs.table.cluster, self.costs.table.devices
        if len(cluster.device_kinds) == 1:
            kind = cluster.device_kinds[0]
            return np.array(kind.memory_bytes), np.array(kind.reserved_bytes)
        found = np.zeros((2, self.grid.positions, len(names)))
        for n, name in enumerate(names):
            for r in range(self.grid.positions):
                first = r * _devices(name)
                kinds = [cluster.kind_of(device) for device in order[first : first + name[0] * name[1]]]
                found[:, r, n] = min(k.memory_bytes for k in kinds), max(k.reserved_bytes for k in kinds)
        return found[0][:, lane], found[1][:, lane]


def _begins(held: tuple[tuple[tuple[int, int], ...], ...], cut: Cut) -> IntArray:
    """Return the first of every run of positions whose stages are of the same kinds, and the last position.

    Spans get shorter along a run, and exchanges are the same: a step is no longer for the others.
    """
    kinds = [tuple(int(cut.runs[stage]) for stage, _ in pairs) for pairs in held]
    changes = [r for r in range(len(kinds)) if r == 0 or kinds[r] != kinds[r - 1]]
    return np.array(sorted({*changes, len(kinds) - 1}), dtype=np.int64)


def _level(moment: InFlight, memory: Memory) -> FloatArray:
    """Return the (P, N) bytes in flight at a moment."""
    level = (moment.saved * memory.saved).sum(axis=1)
    if moment.waiting is not None:
        level += (moment.waiting * memory.waiting).sum(axis=1)
    if moment.again is not None:
        level += memory.again[:, moment.again]
    return np.asarray(level)


def _ports(home: IntArray, m: FloatArray, transfer: FloatArray, positions: int) -> FloatArray:
    """Return the (N,) seconds in which the busiest position sends, onwards and back, through one port."""
    sent = np.zeros((positions, len(m)))
    for s in range(len(home) - 1):
        sent[home[s]] += transfer[s]
        sent[home[s + 1]] += transfer[s]
    return np.asarray(sent.max(axis=0)) * m


def _devices(lane: Spread) -> int:
    """Return the devices of a position."""
    return lane[0] * lane[1] * lane[5]


def choice_of(
    lane: Spread,
    *,
    replicas: int,
    samples: int = 1,
    recompute: int = 0,
    zero: int = 0,
    bucket_bytes: float = 0.0,
) -> StageChoice:
    """Return what is chosen for stages on the first devices."""
    return StageChoice(
        tensor=lane[0], context=lane[1], expert=lane[2], sequence_parallel=bool(lane[3]),
        context_exchange=EXCHANGE_NAMES[lane[4]], replicas=replicas, microbatch_size=samples,
        recompute=RECOMPUTE[recompute], zero=zero, bucket_bytes=bucket_bytes,
    )  # fmt: skip
