"""Periodic reduction: every so many updates the mean gradient is applied, in between each worker's own.

Workers diverge, and are not synchronised again: for tables of which each update touches only a small
part, so that copies need not be equal (2D sparse parallelism). A worker sends 2 (n - 1) / n S / H bytes an
update.
"""

from __future__ import annotations

from explorer.base.registry import Option
from explorer.updates import UPDATES, Update, UpdateRule

PERIOD = Option(name="period", default=4, help="updates H of which one applies the mean gradient", minimum=1)


@UPDATES.add(
    Update(
        name="periodic",
        title="Mean gradient at every so many updates, each worker's own in between",
        paper="2D sparse parallelism (Zhang et al., 2025)",
        options=(PERIOD,),
        trivial=(("period", 1),),
    )
)
def periodic(*, period: int) -> UpdateRule:
    """Reduce the gradients of every `period`-th update before it."""
    return UpdateRule(period=period)
