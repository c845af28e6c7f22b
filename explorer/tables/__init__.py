"""Cost tables: what any run of layers costs under any choice for a stage, the base of planners.

    stage_choice    what is chosen for a stage          stage_table   seconds and bytes of runs: `StageTable`
    prefix_sums     seconds from prefix sums            hidden_sums   collectives that work hides
    run_memory      bytes by part                       exchanges     updates, reductions and gathers
    borders         tensors that cross a cut            even_cuts     the cuts of uniform strategies

A table is made once for a graph, a cluster and a job, and grows as it is asked. It says seconds and bytes,
never whether something fits. Its numbers are those of `explorer.pricing` for the same stage: what is no sum
over layers is put together from sums, or asked for that run and remembered.
"""

from __future__ import annotations

from explorer.tables.borders import Borders
from explorer.tables.even_cuts import even_bounds
from explorer.tables.stage_choice import StageChoice
from explorer.tables.stage_table import StageRun, StageRuns, StageTable

__all__ = ["Borders", "StageChoice", "StageRun", "StageRuns", "StageTable", "even_bounds"]
