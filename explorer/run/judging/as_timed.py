"""A case as a run's calibration times it: what ranks, sections, exchanges and first sums take."""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import LayerGraph
from explorer.passes.static import run_each
from explorer.run.cases.build import Prepared
from explorer.run.cases.flat_groups import flat_groups
from explorer.run.judging.calibrate import Calibrated
from explorer.run.judging.exchange_times import with_exchanges
from explorer.run.judging.first_sums import first_sums
from explorer.run.judging.rank_speeds import lane_speeds
from explorer.run.judging.section_times import section_extras


def as_timed(prepared: Prepared, known: Calibrated, graph: LayerGraph) -> Prepared:
    """Return a case with the seconds of all its tasks; one whose layers are cut over ranks as it is.

    Args:
        prepared: the case, priced by the calibration's cluster and graph.
        known: the calibration.
        graph: the model that it runs.
    """
    if prepared.case.over_ranks:
        return prepared
    speeds = lane_speeds(prepared, known.speeds)
    seconds = prepared.prices.seconds[prepared.program.slot]
    seconds = seconds + section_extras(prepared, known.graph, known.sections)
    seconds = speeds * (seconds - first_sums(prepared, graph, known.sums))
    timed = replace(prepared, timing=run_each(prepared.program, seconds))
    return with_exchanges(timed, seconds, flat_groups(prepared, graph), known.exchanges)


__all__ = ["as_timed"]
