"""Former words of plan and session files, put into today's, so that old files open and mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.base.errors import InputError

RULE = "periodic"
"""Name of the update rule for entries that were reduced every so many updates."""


def todays_job(raw: Any) -> Any:
    """Return the plain data of a job's strategy with former words replaced by today's.

    `sync: [{every: 25}]` is the update rule `periodic`; a sync entry's compressor was always refused.

    Raises:
        InputError: it names a compressor.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("sync"), list):
        return raw
    syncs = [dict(item) if isinstance(item, Mapping) else item for item in raw["sync"]]
    periods = []
    for item in syncs:
        if not isinstance(item, dict):
            return raw
        if name := item.pop("compressor", ""):
            raise InputError(
                f"no compressor {name!r}: there are none yet", key="sync.compressor", found=name,
                allowed="nothing: leave it out",
            )  # fmt: skip
        periods.append(item.pop("every", 1))
    job = {**raw, "sync": syncs}
    if any(period != 1 for period in periods):
        job["updates"] = [*raw.get("updates", ()), *map(_choice, syncs, periods)]
    return job


def _choice(sync: Mapping[str, Any], period: Any) -> dict[str, Any]:
    """Return the update rule for the parameters of a sync entry."""
    parameters = sync.get("parameters", [])
    if period == 1:
        return {"rule": "plain", "parameters": parameters}
    return {"rule": RULE, "parameters": parameters, "options": {"period": period}}
