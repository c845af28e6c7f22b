"""Calibration: what a few measured steps have taught of a cluster, as far as single numbers cannot say it.

A step time is one equation for several numbers: afterwards their errors go together, so that the step is
known well although none of them is. A profile therefore keeps, beside corrected values, how well each
number was known before and how much every measured step depends on it:

    covariance = (S' s^-2 S + sd^-2)^-1        (`explorer.calibrate.posterior`)
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.base.errors import InputError

MODEL = "model "
"""Start of the key of a number that belongs to one model: `model llama3-8b`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """One measured step that corrected a profile."""

    name: str
    """What was run."""
    step_time_s: float
    """Measured step time."""
    sd: float
    """Standard deviation of the logarithm of measured over predicted, were all numbers right."""
    slopes: tuple[tuple[str, float], ...] = ()
    """(key of a number, relative change of the step over that of the number's seconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Joint errors of the numbers that measured steps corrected.

    Raises:
        InputError: a step depends on a number whose prior is missing, or a deviation is not above 0.
    """

    priors: tuple[tuple[str, float], ...] = ()
    """(key of a number, standard deviation of the logarithm of its factor before any step)."""
    steps: tuple[MeasuredStep, ...] = ()
    """The measured steps; () if there were none."""

    def __post_init__(self) -> None:
        known = dict(self.priors)
        for i, step in enumerate(self.steps):
            missing = [key for key, _ in step.slopes if key not in known]
            if missing or not step.sd > 0:
                raise InputError(
                    f"the step {step.name!r} " + (f"depends on {missing[0]!r}" if missing else "is exact"),
                    key=f"calibration.steps[{i}]", found=missing[0] if missing else step.sd,
                    allowed=", ".join(known) if missing else "sd above 0",
                )  # fmt: skip
        if wrong := [key for key, sd in self.priors if not sd > 0]:
            raise InputError(
                f"nothing is left to know of {wrong[0]!r}",
                key="calibration.priors",
                found=0,
                allowed="above 0",
            )

    def knows(self, model: str) -> bool:
        """Tell whether a step of a model, as `explorer.costs.model_key` names it, was measured."""
        return MODEL + model in dict(self.priors)


UNCALIBRATED = Calibration()
"""What is known before any step was measured."""
