"""Shortened: a row of the table that says what of a plan's model ran."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """Something of which a run has less than its plan."""

    what: str
    """Blocks, tokens, samples of a microbatch, ..."""
    plan: str
    """How much the plan has."""
    here: str
    """How much runs."""
