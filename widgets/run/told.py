"""Measurements of the last run for the other views: tiles and layer graph. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from explorer.views.graph import NO_RUN
from widgets.session import Point

from .ended import Done, SliceDone
from .task import SLEPT, STAND_INS

if TYPE_CHECKING:
    from explorer.run.judging.cost_check import LayerSeconds

_SAME_PCT = 1.0
"""Most per cent between a dry run's own prediction and the tile's for both to be shown together."""


def tiles_measured(done: Done | SliceDone | None, now: Point) -> Mapping[str, float] | None:
    """Return measured values by tile; None without a quiet run that applies to these numbers.

    Seconds of a likeness, of shortened layers or of one rank are not the plan's, so only a dry run gives any:
    order and messages are real, compute takes its predicted seconds.
    """
    from explorer.run.judging.compare import TOO_NOISY

    if not isinstance(done, Done) or done.known is not None or done.comparison.verdict == TOO_NOISY:
        return None
    if done.inputs.model != now.inputs.model or done.inputs.cluster != now.inputs.cluster:
        return None
    found = done.comparison
    step_s, guess_s = found.measured["step_time_s"], found.predicted["step_time_s"]
    if not step_s or not guess_s or any(" in the plan, " in text for text in found.not_validated):
        return None  # replicas were left out: these are another machine's numbers
    if done.is_of(now) and abs(guess_s / now.report.step_time_s - 1) * 100 > _SAME_PCT:
        return None
    job, parts = done.inputs.job, found.parts["measured"]
    return {
        "step_time": step_s,
        "throughput": job.global_batch * max(1, job.sequence_length) / step_s,
        "bubble": max(0.0, 1 - parts["compute"] / sum(parts.values())),
    }


def errors_by_layer(done: Done | SliceDone | None, now: Point) -> Mapping[str, float] | None:
    """Return by layer the error of its predicted seconds: its own if the layer ran, else that of the compute
    of its stage's likeness; None without a quiet run of this state.
    """
    from explorer.run.judging.compare import TOO_NOISY

    if done is None or not done.is_of(now):
        return None
    if isinstance(done, SliceDone):
        return _errors_of(done.check.layers, now)
    found = done.comparison
    if ran_own_layers(done) and found.costs is not None:
        return _errors_of(found.costs.layers, now)
    if not found.stages or found.verdict == TOO_NOISY:
        return None
    stages = done.strategy.job.stages
    return {
        layer: item.predicted_s / item.measured_s - 1
        for item in found.stages
        if item.measured_s
        for stage in item.stages
        if stage < len(stages)
        for layer in stages[stage].all_layers
    }


def _errors_of(layers: Sequence[LayerSeconds], now: Point) -> Mapping[str, float] | None:
    from explorer.run.one_rank.findings import layer_errors

    known = now.inputs.graph.layer
    told = {name: item.seconds_pct for name, item in layer_errors(layers).items() if name in known}
    return {name: error / 100 for name, error in told.items() if error is not None} or None


def why_no_errors(done: Done | SliceDone | None, now: Point) -> str:
    """Return in few words the reason why `errors_by_layer` gives none; they stand on a button."""
    from explorer.run.judging.compare import TOO_NOISY

    if done is None:
        return NO_RUN
    if not done.is_of(now):
        return "another plan ran"
    if isinstance(done, SliceDone):
        return "no profile of this machine"
    return "machine was too busy" if done.comparison.verdict == TOO_NOISY else "nothing was computed"


def ran_own_layers(done: Done) -> bool:
    """Tell whether the model's own layers ran."""
    return done.comparison.engine not in (*STAND_INS, *SLEPT)
