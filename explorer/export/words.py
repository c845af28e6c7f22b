"""The difference of two plans in a trainer's own words: the settings that change, and to what."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.base.errors import InputError, PlanError
from explorer.export import EXPORTERS, refusals
from explorer.export.spec import Setting
from explorer.plan import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting that differs."""

    key: str
    """Name in the trainer's own words."""
    before: Setting | None
    """Value of the first plan; None if it does not set it."""
    after: Setting | None
    """Value of the second plan; None if it does not set it."""

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.key} on" if self.after is True else f"{self.key} {self.after} (was not set)"
        if self.after is None:
            return f"{self.key} off" if self.before is True else f"{self.key} {self.before} -> not set"
        return f"{self.key} {self.before} -> {self.after}"


def speaking() -> list[str]:
    """Return the names of the targets in whose words plans can be compared."""
    return [entry.name for entry in EXPORTERS if entry.settings is not None]


def changes(a: Resolved, b: Resolved, name: str) -> list[Change]:
    """Return the settings of a target that differ between two plans, in the order of its files.

    Raises:
        InputError: the target is unknown, or has no settings of its own to compare.
        PlanError: what the target cannot express of either plan.
    """
    entry = EXPORTERS.get(name)
    if entry.settings is None:
        raise InputError(
            f"{name} has no settings of its own", key="--in", found=name, allowed=", ".join(speaking())
        )
    if problems := list(dict.fromkeys([*refusals(a, name), *refusals(b, name)])):
        raise PlanError(problems)
    before, after = dict(entry.settings(a)), dict(entry.settings(b))
    return [
        Change(key=key, before=before.get(key), after=after.get(key))
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]
