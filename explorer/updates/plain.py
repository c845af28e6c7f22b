"""Plain data parallelism: the mean gradient over all workers, applied by the optimizer itself."""

from __future__ import annotations

from explorer.updates import UPDATES, Update, UpdateRule


@UPDATES.add(Update(name="plain", title="Mean gradient of all workers, then the optimizer"))
def plain() -> UpdateRule:
    """Let every update wait for the reduction of its gradients: 2 (n - 1) / n S bytes a worker."""
    return UpdateRule()
