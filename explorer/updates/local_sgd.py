"""Local SGD: workers update on their own and average their weights every so many updates.

Between two averages each worker applies the mean gradient of its own samples. With period 1 and an
optimizer that is linear in the gradient (sgd, momentum) that is data parallelism, as the mean of w - lr g_i
is w - lr mean(g).
A worker sends 2 (n - 1) / n S / H bytes an update; a step takes compute + update + averaging / H.
"""

from __future__ import annotations

from explorer.base.registry import Option
from explorer.updates import UPDATES, WEIGHTS, Update, UpdateRule, own

PERIOD = Option(
    name="period", default=4, help="updates H from one average of the weights to the next", minimum=1
)


@UPDATES.add(
    Update(
        name="local_sgd",
        title="Updates of each worker's own, weights averaged every so many",
        paper="Parallel restarted SGD (Yu, Yang and Zhu, 2019); Local SGD converges fast (Stich, 2019)",
        options=(PERIOD,),
        trivial=(("period", 1),),
    )
)
def local_sgd(*, period: int) -> UpdateRule:
    """Average weights after every `period`-th update; nothing hides it, and optimizer states stay local."""
    return UpdateRule(exchanges=WEIGHTS, period=period, most_zero=0, gradient=own)
