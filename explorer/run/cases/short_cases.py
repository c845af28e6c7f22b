"""Cases of a short run: the plan as it runs here, its baseline and checks, and what is timed beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from explorer.base.errors import InputError, PlanError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.run.cases.build import Prepared, prepare
from explorer.run.cases.flat_groups import flat_groups
from explorer.run.cases.likeness import Scaled
from explorer.run.experiment import update_rules
from explorer.run.lane_layout import LaneLayout
from explorer.run.model import ModelSpec
from explorer.run.own.own_model import OwnModel
from explorer.run.own.sliced_model import SlicedModel
from explorer.run.sharded.layout_model import LayoutModel
from explorer.run.spec import Calibration, Cut, FlatGroup
from explorer.schedules import SCHEDULES
from explorer.strategy import JobStrategy
from explorer.tasks.program import I

LEARNING_RATE = 1e-4
"""Of own layers: random weights at full width would grow beyond all bounds at that of stand-ins."""


def likeness_case(scaled: Scaled, cluster: Cluster, ranks: int) -> Prepared:
    """Prepare the plan's likeness as a case.

    Raises:
        InputError: so few ranks leave a shape that its schedule cannot order.
    """
    try:
        return short_case("strategy", scaled, scaled.strategy, cluster)
    except PlanError as error:
        raise InputError(
            f"the plan's likeness on {ranks} ranks cannot be run: {'; '.join(error.problems)}",
            key="ranks",
            found=ranks,
            allowed="a machine with a core or GPU for each pipeline device of the plan, or engine dry",
        ) from None


def short_case(
    name: str,
    scaled: Scaled,
    strategy: JobStrategy,
    cluster: Cluster,
    *,
    graph: LayerGraph | None = None,
    fewest: int = 0,
    **fields: Any,
) -> Prepared:
    """Prepare a strategy as a case.

    `fewest`: steps of one that flushes, at least; 0 for two of own layers, whose steps are long, else three.
    """
    if isinstance(scaled.model, OwnModel):
        fewest = fewest or 2
        fields = {"learning_rate": LEARNING_RATE} | fields
    fewest = fewest or 3
    flush = SCHEDULES.get(strategy.schedule).flushes(dict(strategy.options))
    rules = update_rules(strategy)
    rounds = 2 * math.lcm(*(rule.period for rule in rules))
    steps = max(fewest if flush else 4, rounds) + max((rule.delay for rule in rules), default=0)
    return prepare(
        name, graph or scaled.graph, cluster, scaled.job, strategy, steps=steps,
        model=_model_of(scaled, strategy), **fields,
    )  # fmt: skip


def _model_of(scaled: Scaled, strategy: JobStrategy) -> ModelSpec | OwnModel | LayoutModel:
    """Return what ranks compute under a strategy: whole layers unless its lanes have several ranks."""
    wide = any(
        stage.shardings or any(len(row) > 1 for mesh in stage.meshes for row in mesh.rows)
        for stage in strategy.stages
    )
    return scaled.model if wide or not isinstance(scaled.model, LaneLayout) else scaled.model.whole


def by_lane(prepared: Prepared, rows: list[Any]) -> list[Any]:
    """Return what the first rank of every lane of a case recorded."""
    return rows[:: prepared.case.lane_ranks]


def calibration_of(scaled: Scaled, prepared: tuple[Prepared, ...]) -> Calibration:
    """Return the calibration that the predictions of some cases need."""
    samples, messages, reduces = set(), {4}, {4}
    flat: set[FlatGroup] = set()
    cuts: set[Cut] = set()
    for item in prepared:
        flat.update(flat_groups(item, scaled.graph).values())
        cuts.update(_cuts(item))
        for slot, size in zip(item.program.slots, item.prices.bytes.tolist(), strict=True):
            if 0 <= slot.kind < 4:
                samples.add(slot.samples)
            elif slot.kind == 5:
                messages.add(int(size))
            elif slot.kind == 6:
                reduces.add(int(size))
    whole = sum(p.elements for p in scaled.graph.parameters) * scaled.model.element_bytes
    return Calibration(
        model=scaled.model.whole if isinstance(scaled.model, LaneLayout) else scaled.model,
        samples=tuple(sorted(samples)),
        cuts=tuple(sorted(cuts)),
        message_bytes=tuple(sorted(messages)),
        reduce_bytes=tuple(sorted(reduces | {int(whole)})),
        optimizer=scaled.job.optimizer,
        flat_groups=tuple(sorted(flat)),
    )


def _cuts(prepared: Prepared) -> Iterator[Cut]:
    """Yield how a case cuts whole layers into sections, once for each size of its microbatches."""
    case = prepared.case
    if isinstance(case.model, OwnModel) and not isinstance(case.model, SlicedModel) and not case.over_ranks:
        compute = [slot for slot in prepared.program.slots if 0 <= slot.kind < 4]
        split = sorted({slot.where for slot in compute if slot.kind == I})
        yield from (Cut(case.sections, samples, tuple(split)) for samples in {s.samples for s in compute})
