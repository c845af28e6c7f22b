"""Findings of a slice run, and how true a prediction was for every layer by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from explorer.run.judging.cost_check import LayerSeconds
from explorer.run.judging.held_bytes import RankBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSeconds:
    """Seconds of one kind of action of the rank."""

    action: str
    """F, B or U and the stage, as in `F2`."""
    predicted_s: float | None
    """By the machine's profile; None without one."""
    measured_s: float
    """Median over its microbatches."""
    count: int
    """How often it was timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBytes:
    """Bytes that the forward of one layer keeps for its backward."""

    layer: str
    """Its name in the plan's graph."""
    predicted_bytes: float
    """By the cost model, which needs no profile for it."""
    measured_bytes: float
    """As torch saved them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceCheck:
    """What a slice run found."""

    rank: int
    """The lane of the plan that ran."""
    stages: tuple[int, ...]
    """Its stages."""
    device: str
    """Where it ran."""
    clock: str
    """Clock of the seconds: `processor` or `wall`."""
    profile: str
    """Name and title of the machine's profile; empty without one."""
    costs_missing: str
    """Reason why no profile predicts; empty if one does."""
    shortened: tuple[tuple[str, str, str], ...]
    """What was changed to run here: what, in the plan, here."""
    actions: list[ActionSeconds]
    """By kind of action and stage."""
    layers: list[LayerSeconds]
    """Every layer by itself."""
    saved: list[LayerBytes]
    """What every layer by itself keeps for its backward."""
    memory: RankBytes
    """Peak bytes of its tensors."""
    predicted_s: float | None
    """Seconds of all its actions, predicted."""
    measured_s: float
    """The same, measured."""
    error_pct: float | None
    """Error of the prediction, in per cent; None without a profile."""
    verdict: str
    """confirmed or off, by seconds; empty without a profile."""


class LayerError(NamedTuple):
    """What was predicted and measured of one layer; the seconds of forward and backward together."""

    predicted_s: float
    measured_s: float
    predicted_bytes: float
    measured_bytes: float

    @property
    def seconds_pct(self) -> float | None:
        """Error of the predicted seconds, in per cent; None if nothing predicted or measured them."""
        return _error_pct(self.predicted_s, self.measured_s)

    @property
    def bytes_pct(self) -> float | None:
        """Error of the predicted bytes, in per cent; None if nothing predicted or measured them."""
        return _error_pct(self.predicted_bytes, self.measured_bytes)


def layer_errors(seconds: Sequence[LayerSeconds], saved: Sequence[LayerBytes] = ()) -> dict[str, LayerError]:
    """Return what was predicted and measured of every layer, by its name in the plan's graph.

    Args:
        seconds: `SliceCheck.layers`, or `CostCheck.layers` of a run of own layers; of several calls the one
            with most samples counts.
        saved: `SliceCheck.saved`; without it bytes are 0.
    """
    held = {item.layer: item for item in saved}
    found: dict[str, LayerError] = {}
    for item in sorted(seconds, key=lambda item: item.samples):
        kept = held.get(item.layer)
        found[item.layer] = LayerError(
            sum(item.predicted_s), sum(item.measured_s),
            kept.predicted_bytes if kept else 0.0, kept.measured_bytes if kept else 0.0,
        )  # fmt: skip
    return found


def _error_pct(predicted: float, measured: float) -> float | None:
    return 100 * (predicted / measured - 1) if predicted > 0 and measured > 0 else None
