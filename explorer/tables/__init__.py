"""Cost tables: what any run of layers costs under any choice for a stage, the base of planners.

    stage_choice    what is chosen for a stage          stage_table   seconds and bytes of runs: `StageTable`
    prefix_sums     seconds from prefix sums            hidden_sums   collectives that work hides
    stage_lanes     devices that hold a replica         stage_crossings  transfers between stages
    run_memory      bytes by part                       count_grids   counts of memory of all runs of units
    pair_grids      sums and maxima of all runs         peak_grids    the worst point of their backward
    exchanges       updates, reductions, gathers        exchange_groups  who takes part in them
    borders         tensors that cross a cut            even_cuts     the cuts of uniform strategies
    positions       where runs start and stop           ideals        those of graphs with branches
    lane            devices of one replica              layer_choices shardings that a layer may have
    layers          plans of (layer, choice), looked up  layer_options cost of each (layer, choice)
    edges           cost of tensors between choices
    assembly        a graph whose layers have chosen, and what one change costs
    estimates       guesses and bounds of arrays of even plans: `Estimator`
    degrees_columns arrays of degrees                   plan_group    plans of one schedule and grid, together
    plan_shape      what these have in common           plan_cores    spans of their positions
    plan_swaps      their exchanges                     plan_memory   bytes of their fullest device
    stage_rows      costs of the stages of one cut      spreads       how devices share a position
    run_kinds       stages of equal content             kind_costs    costs of these under many choices
    exchange_pairs  exchanges beside work               distinct      distinct combinations of columns

A table is made once for a graph, a cluster and a job, and grows as it is asked. It says seconds and bytes,
never whether something fits. Its numbers are those of `explorer.pricing` for the same stage: what is no sum
over layers is put together from sums, or asked for that run and remembered.
"""

from __future__ import annotations

from explorer.tables.assembly import Assembled, assemble
from explorer.tables.borders import Borders
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.edges import EdgeTable
from explorer.tables.estimates import Estimates, Estimator
from explorer.tables.even_cuts import even_bounds
from explorer.tables.ideals import Ideals, ideals_of
from explorer.tables.lane import Lane, lane_of
from explorer.tables.layer_choices import LayerChoice, layer_choices, with_choices
from explorer.tables.layer_options import LayerOptions, OptionTable
from explorer.tables.layers import LayerTable
from explorer.tables.run_kinds import RunKinds
from explorer.tables.stage_choice import StageChoice
from explorer.tables.stage_table import StageRun, StageRuns, StageTable

__all__ = [
    "Assembled", "Borders", "DegreesColumns", "EdgeTable", "Estimates", "Estimator", "Ideals", "Lane",
    "LayerChoice", "LayerOptions", "LayerTable", "OptionTable", "RunKinds", "StageChoice", "StageRun",
    "StageRuns", "StageTable", "assemble", "even_bounds", "ideals_of", "lane_of", "layer_choices",
    "with_choices",
]  # fmt: skip
