"""Bounds of plans by the ports that they crowd, and by the exchanges of each of their stages.

These take longer than what `PlanGroup.of` says of every plan, and are asked of the few that seem worth it.
"""

from __future__ import annotations

import numpy as np

from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import distinct
from explorer.tables.exchange_pairs import Seconds
from explorer.tables.kind_costs import Exchange
from explorer.tables.plan_cores import PlanCores
from explorer.tables.plan_shape import PlanShape
from explorer.tables.port_loads import PortLoads
from explorer.tables.spreads import Spread
from explorer.tasks.skeleton import FloatArray


class PortBounds:
    """Bounds of plans of one shape whose steps end with all gradients.

    Args:
        shape: the shape.
        cores: spans of its positions.
    """

    def __init__(self, shape: PlanShape, cores: PlanCores) -> None:
        self.shape, self.cores = shape, cores

    def of(self, columns: DegreesColumns, name: Spread, bucket_bytes: FloatArray) -> FloatArray:
        """Return the (N,) seconds that plans of one spread take at least; 0 if these have too many devices.

        Args:
            columns: the plans.
            name: their spread.
            bucket_bytes: (N,) bytes of gradients that are reduced at once; 0 for all.
        """
        shape, loads = self.shape, self.shape.rows.ports.of(name)
        if loads is None:
            return np.zeros(len(columns))
        m = shape.job.global_batch / (columns.microbatch_size * columns.replicas)
        none = np.zeros(len(columns), dtype=np.int64)
        own, _ = shape.rows.of_swaps([name], none, columns.zero, bucket_bytes)
        exchange = Exchange(*shape.rows.exchange.of(own, np.arange(shape.stages)[:, None]))
        core = distinct(columns.microbatch_size, columns.recompute)
        rows = shape.rows.of_cores(columns, [name], distinct(none), core)
        seconds, transfers = self.cores.stage_arrays(*(part[core.place] for part in rows))
        stays = shape.schedule.stays(shape.grid, m)
        reductions = np.where((columns.zero >= 2) & ~stays, m, 1.0)
        if loads.copies is not None:
            last, every = loads.copies.seconds(columns.zero, bucket_bytes)
            exchange = exchange._replace(last=last, earlier=every - last)
            return self._of_copies(m, seconds, transfers[0], exchange, reductions, loads)
        times = np.where(stays, 2.0, 2.0 * m)
        return self._of_stages(m, seconds, transfers[0], exchange, reductions, times, loads)

    def _of_copies(
        self,
        m: FloatArray,
        seconds: Seconds,
        transfer_s: FloatArray,
        exchange: Exchange,
        reductions: FloatArray,
        loads: PortLoads,
    ) -> FloatArray:
        """Return the (N,) seconds of plans of which several positions have copies of a stage.

        Which of its stages a position is done with last is not known, nor with which a step begins: after its
        span it exchanges one of them.
        """
        # updates and gathers are those of copies at the first positions: of no others where devices differ
        alike = self.shape.period > 0
        update, every = exchange.update * alike, exchange.last + exchange.earlier
        found = loads.seconds(every * reductions, exchange.gather * alike)
        spans = self.cores.sure_spans(self.cores.pipelines(m, seconds, transfer_s))
        np.maximum(found, (spans + loads.least_held(exchange.last + update)).max(axis=0), out=found)
        each = self._each_stage(m, seconds, None, exchange)
        return np.asarray(np.maximum(found, (each + update).max(axis=0)))

    def _of_stages(
        self,
        m: FloatArray,
        seconds: Seconds,
        transfer_s: FloatArray,
        exchange: Exchange,
        reductions: FloatArray,
        gathers: FloatArray,
        loads: PortLoads,
    ) -> FloatArray:
        """Return the (N,) seconds of plans of which every stage is at one position."""
        reduced, update = reductions * (exchange.last + exchange.earlier), exchange.update
        found = loads.seconds(reduced, exchange.gather, (exchange.fetch, gathers))
        each = self._each_stage(m, seconds, transfer_s, exchange)
        np.maximum(found, (each + update).max(axis=0), out=found)
        if self.shape.schedule.hides or self.shape.stages == 1 or not loads.ends.any():
            return found
        ways = self.shape.rows.ports.ways(seconds, transfer_s)
        late = update[0] + exchange.gather[0]
        after = np.stack([exchange.last[0] + late, late])
        return np.maximum(found, loads.spans(int(self.shape.home[0]), ways, reduced, after))

    def _each_stage(
        self, m: FloatArray, seconds: Seconds, transfer_s: FloatArray | None, exchange: Exchange
    ) -> FloatArray:
        """Return the (S, N) seconds from the begin of a step at a position to the last reduction of each of
        its stages: the way to the stage, all its microbatches, and what its last backward does not hide.

        Args:
            m: (N,) microbatches.
            seconds: of the stages.
            transfer_s: (S - 1, N) seconds from stage to stage; None if it is not known which comes first.
            exchange: of the stages.
        """
        shape, work = self.shape, seconds.forward + seconds.backward
        if seconds.comm is not None:
            work = np.maximum(work - seconds.comm, work / 2)
        behind = exchange.last + np.maximum(0.0, exchange.earlier - seconds.backward)
        found: FloatArray = work * (m / shape.grid.copies) + behind
        if transfer_s is not None and shape.cut.chain and not shape.schedule.hides:
            steps = np.cumsum(seconds.forward[:-1] + transfer_s, axis=0)
            arrives = np.concatenate([np.zeros((1, len(m))), steps])
            for pairs in shape.held:
                stages = [stage for stage, _ in pairs]
                found[stages] += arrives[stages] - arrives[stages[0]]
        return found
