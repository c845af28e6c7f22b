"""Sources: where a number of a cluster came from, and how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a number came from."""

    key: str
    """The field it is about (`memory_bytes`), or `*` for all that have no source of their own."""
    how: str
    """datasheet, measured, fitted, derived or assumed."""
    reference: str
    """Document, run or formula, with its date."""
    band: float = 0.0
    """Relative half-width of the 80 % error band; 0 if unknown."""
    prior: float | None = None
    """Value from documents before any fit, in the field's unit; of many numbers (tiles, a curve) the one that
    stands for them (`explorer.score.knobs`). None if nothing was fitted."""
    fitted_on: str = ""
    """Measurements it was fitted on, the `source` of a set of `explorer.score`; empty if not fitted."""
