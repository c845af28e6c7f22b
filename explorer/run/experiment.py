"""An experiment: a launch that has not started yet, with the functions that read its result.

The command line blocks on it, a notebook polls it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.run.judging.calibrate import Calibrated
from explorer.run.judging.compare import Comparison
from explorer.run.judging.timelines import RunTimeline
from explorer.run.launching.launch import RunResult
from explorer.run.spec import RunSpec
from explorer.strategy import JobStrategy
from explorer.updates import UpdateRule, chosen, rule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A launch, and the function that reads its result."""

    spec: RunSpec
    """Specification for `explorer.run.start`."""
    finish: Callable[[RunResult], Comparison]
    """Function that turns the result into a comparison."""
    learn: Callable[[RunResult], Calibrated] | None = None
    """Function that returns what the launch measured of its own machine and model; None if compute was
    slept.
    """
    timeline: Callable[[RunResult], RunTimeline] | None = None
    """Function that returns when its ranks did what, beside the prediction; None if they were not timed."""
    engine: str = "dry"
    """What runs (`explorer.run.instruments.ENGINES`)."""
    stand_ins: str = ""
    """Reason why stand-ins run in place of the model's own layers; empty if they do not."""


def update_rules(strategy: JobStrategy) -> list[UpdateRule]:
    """Return the update rules that a strategy chooses, with their options."""
    return [rule_of(chosen(choice.rule, choice.options)) for choice in strategy.updates]
