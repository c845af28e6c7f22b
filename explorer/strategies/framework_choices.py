"""What a framework decides where a strategy leaves it open: blocking sends, buckets of gradients, transfers.

Whatever a strategy says itself stands: an option that is given, a `Sync`, a kind of transfer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.framework import Framework
from explorer.schedules import SCHEDULES
from explorer.strategy import JobStrategy, Sync


def strategy_under(strategy: JobStrategy, framework: Framework) -> JobStrategy:
    """Return the strategy as a framework runs it; the same object where it decides nothing."""
    return replace(strategy, **changes) if (changes := _changes(strategy, framework)) else strategy


def _changes(strategy: JobStrategy, framework: Framework) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if framework.transfers and not strategy.transfers:
        found["transfers"] = framework.transfers
    bucketed = framework.bucket_bytes and (framework.buckets == "always" or len(strategy.stages) == 1)
    if bucketed and not strategy.sync:
        found["sync"] = (Sync(parameters=("*",), bucket_bytes=framework.bucket_bytes),)
    if framework.blocking and "blocking" not in dict(strategy.options):
        known = [item for item in SCHEDULES if item.name == strategy.schedule]
        if any(option.name == "blocking" for item in known for option in item.options):
            found["options"] = (*strategy.options, ("blocking", True))
    return found
