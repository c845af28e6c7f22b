"""References: the model, cluster, devices and length that an export names beside a trainer's own keys."""

from __future__ import annotations

from explorer.export._carried import carried
from explorer.export._pipeline_grid import grid_of
from explorer.plan import Resolved


def references(resolved: Resolved) -> tuple[dict[str, str], dict[str, str]]:
    """Return model, cluster and, where not the usual ones, settings, devices, length; and files."""
    plan, files = carried(resolved)
    model = plan.models[0][1]
    found = {"model": model.reference, "cluster": plan.cluster.reference}
    if model.settings:
        found["settings"] = ",".join(f"{key}={value}" for key, value in model.settings)
    devices = grid_of(plan.strategy.job).devices
    if devices != tuple(range(len(devices))):
        found["devices"] = ",".join(map(str, devices))
    if model.sequence_length:
        found["sequence_length"] = str(model.sequence_length)
    return found, files
