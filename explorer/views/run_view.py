"""Comparison of a real run with its prediction: by part and by stage, what was checked and what not.

Errors are errors of the prediction: predicted over measured, minus 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from explorer.base.units import format_bytes, format_seconds
from explorer.views.run_actions import action_rows

if TYPE_CHECKING:
    from explorer.run import Comparison
    from explorer.run.judging.profile_correction import Correction

LARGE = 0.25
"""Error above which a part is marked."""
MEMORY_TOLERANCE = 0.05
"""Error of the predicted peak of tensors up to which it counts as confirmed."""
_MATTERS = 0.03
"""Share of a step above which a part's error is marked."""
_ORDER = ("compute", "communication", "bubble", "overhead")
_ENGINES = {"interpreter": "this interpreter", "torch": "torch's own pipelining"}
_NUMERICS: dict[bool | None, str] = {
    True: "Gradients and weights equal those of one process",
    False: "Gradients or weights differ from those of one process",
    None: "Gradients were not checked, as nothing was computed",
}


def comparison_view(found: Comparison) -> dict[str, Any]:
    """Return a run's `verdict`, `rows` by part, `stages`, `checks`, and what was validated and what not."""
    return result_view(
        about=about_words(found),
        level=_level(found),
        text=f"**{verdict_words(found)}** {figure_words(found)}",
        rows=_rows(found),
        stages=[
            {
                "name": ", ".join(map(str, item.stages)),
                "predicted_s": item.predicted_s,
                "measured_s": item.measured_s,
                "error": error_of(item.predicted_s, item.measured_s),
            }
            for item in found.stages
        ],
        actions=action_rows(found),
        engines=[
            {
                "name": _ENGINES.get(item.engine, item.engine),
                "step_s": item.step_time_s,
                "gradient": item.gradient if math.isfinite(item.gradient) else None,
            }
            for item in found.engines
        ],
        checks=_checks(found),
        shortened=[{"what": item.what, "plan": item.plan, "here": item.here} for item in found.shortened],
        validated=list(found.validated),
        not_validated=list(found.not_validated),
        more=more_words(found),
    )


def result_view(
    *,
    about: str,
    level: str,
    text: str,
    rows: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    validated: list[str],
    not_validated: list[str],
    part: str = "part of a step",
    stages: list[dict[str, Any]] | None = None,
    actions: list[dict[str, Any]] | None = None,
    engines: list[dict[str, Any]] | None = None,
    shortened: list[dict[str, str]] | None = None,
    layers: list[dict[str, Any]] | None = None,
    more: str = "",
) -> dict[str, Any]:
    """Return the shape that the result of every kind of run has.

    Args:
        about: what ran.
        level: ok, warn or bad.
        text: the verdict with its figures.
        rows: predicted and measured, by `part`.
        checks: what was checked, and whether it holds.
        validated: what the run is evidence for.
        not_validated: what it is no evidence for.
        part: head of the column that names the rows.
        stages: compute by stage.
        actions: actions by stage (`run_actions.action_rows`).
        engines: our engine, then torch's.
        shortened: what ran less of than the plan has.
        layers: layers whose seconds are predicted worst.
        more: what a longer run would bring.
    """
    return {
        "about": about, "verdict": {"level": level, "text": text}, "part": part, "rows": rows,
        "stages": stages or [], "actions": actions or [], "engines": engines or [], "checks": checks,
        "shortened": shortened or [], "layers": layers or [], "validated": validated,
        "not_validated": not_validated, "more": more,
    }  # fmt: skip


def calibration_view(
    found: Correction, *, step_s: float | None, now_s: float, name: str = ""
) -> dict[str, Any]:
    """Return what calibrating would change, before it is done.

    Args:
        found: the correction or its refusal.
        step_s: step time of the plan on the corrected cluster; None if unknown.
        now_s: step time on the cluster as it is.
        name: file that the corrected cluster would be written to.
    """
    possible = found.cluster is not None and any(item.before != item.after for item in found.changes)
    if possible:
        text = (
            f"Calibrating writes {name} and puts {found.cluster.name if found.cluster else ''} on the board."
        )
    else:
        text = found.refusal or "Calibrating would change nothing."
    return {
        "possible": possible,
        "text": text,
        "changes": [
            {
                "what": item.what,
                "before": item.before,
                "after": item.after,
                "quantity": item.quantity,
                "band": item.band or None,
            }
            for item in found.changes
        ],
        "kept": list(found.kept),
        "step_s": step_s,
        "now_s": now_s if possible else None,
    }


def error_of(predicted: float | None, measured: float | None) -> float | None:
    """Return the relative error of a prediction; None if either is 0 or missing, which has no percentage.

    >>> error_of(1.2, 1.0)
    0.2
    """
    return round(predicted / measured - 1, 12) if predicted and measured else None


def verdict_words(found: Comparison) -> str:
    """Write the verdict as a sentence that may precede figures."""
    from explorer.run.judging.compare import CONFIRMED, OFF, QUIET, TOO_NOISY

    if found.verdict == TOO_NOISY:
        return (
            f"No verdict, machine too busy: the ranks got {_got(found)} of the processor time they needed,"
            f" and a verdict takes at least {share_words(QUIET)}."
        )
    words = {CONFIRMED: "The run confirms the prediction.", OFF: "The prediction is off."}
    return words.get(
        found.verdict, "The run computed wrong numbers: gradients differ from those of one process."
    )


_RAN = {
    "dry": "The plan's order, with sleeps in place of compute,",
    "layers": "What ran of the model's own layers",
}
"""Beginning of a sentence on what ran, by engine."""


def figure_words(found: Comparison) -> str:
    """Write what was measured, together with what was predicted."""
    what = _RAN.get(found.engine, "Its small likeness")
    took, guess = found.measured["step_time_s"], found.predicted["step_time_s"]
    if not took or guess is None:
        return ""
    text = f"{what} took {format_seconds(took)} a step, predicted {format_seconds(guess)}"
    text += f" ({signed(guess / took - 1)})."
    seen, expected = found.measured.get("speedup"), found.predicted.get("speedup")
    if seen and expected:
        text += (
            f" Speedup over {found.baseline.replace('_', ' ')} {seen:.2f}, predicted {expected:.2f}"
            f" ({signed(expected / seen - 1)})."
        )
    if found.plan_speedup is not None:
        text += f" Of the plan itself, on its own devices, {found.plan_speedup:.2f} is predicted."
    return text


def about_words(found: Comparison) -> str:
    """Describe what ran."""
    if found.engine == "dry":
        return (
            "What ran: this plan's own order on real ranks with real messages; every computation was replaced"
            " by a sleep of its predicted seconds, and times are told in the plan's seconds."
        )
    if found.engine == "layers":
        return (
            "What ran: the model's own layers, shortened as the table of the run says, on this machine. Its"
            " seconds are not the plan's; the run says how true the prediction of them was."
        )
    return (
        "What ran: a likeness of this plan, small layers in the ratio of its stages' times, on this machine."
        " Its seconds are not the plan's; the run says how true the prediction of them was."
    )


def more_words(found: Comparison) -> str:
    """Say what more rounds would bring."""
    if found.engine == "dry":
        return ""
    if found.rounds < 2:
        return "One round says nothing about the spread; two or more do."
    spread = abs(found.error_spread_pct) / 100
    double = 2 * found.rounds
    return (
        f"Over {found.rounds} rounds the middle half of the errors lies within {spread * 100:.1f} %. "
        f"{double} rounds would take about twice as long and narrow the uncertainty of their median by about"
        " 30 %."
    )


def signed(fraction: float) -> str:
    r"""Write a fraction with its sign, for display; with a true minus.

    >>> [signed(x).replace("\xa0", "_") for x in (-0.0341, 0.25, 0.0)]
    ['−3.4_%', '+25.0_%', '0.0_%']
    """
    text = f"{abs(fraction) * 100:.1f}\N{NO-BREAK SPACE}%"
    return text if text.startswith("0.0") else ("−" if fraction < 0 else "+") + text


def share_words(share: float) -> str:
    r"""Write a rounded share with its no-break space.

    >>> share_words(0.573).replace("\xa0", "_")
    '57_%'
    """
    return f"{share * 100:.0f}\N{NO-BREAK SPACE}%"


def power_words(number: float) -> str:
    """Write a small number as a power of ten.

    >>> power_words(3.2e-7)
    '3·10⁻⁷'
    """
    digits, _, power = f"{number:.0e}".partition("e")
    return f"{digits}·10{str(int(power)).translate(_SUPERSCRIPT)}"


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _level(found: Comparison) -> str:
    from explorer.run.judging.compare import CONFIRMED, WRONG

    return {CONFIRMED: "ok", WRONG: "bad"}.get(found.verdict, "warn")


def _got(found: Comparison) -> str:
    """Write the ranks' processor time over what they needed; clocks may make it a little more than all."""
    return share_words(min(1.0, found.contention))


def _rows(found: Comparison) -> list[dict[str, Any]]:
    """Return rows by part, then the whole step, then the speedup."""
    guessed, seen = found.parts["predicted"], found.parts["measured"]
    total = sum(seen.values()) or 1.0
    names = [name for name in _ORDER if name in guessed or name in seen]
    rows = []
    for name in (*names, *(name for name in {**guessed, **seen} if name not in names)):
        row = _row(name, guessed.get(name), seen.get(name))
        large = row["error"] is None or abs(row["error"]) > LARGE
        if large and max(guessed.get(name, 0.0), seen.get(name, 0.0)) > _MATTERS * total:
            row["level"] = "warn"
        rows.append(row)
    step = _row("step time", found.predicted["step_time_s"], found.measured["step_time_s"])
    rows.append(step | {"strong": True})
    if found.measured.get("speedup"):
        name = f"speedup over {found.baseline.replace('_', ' ')}"
        speedup = _row(name, found.predicted["speedup"], found.measured["speedup"])
        rows.append(speedup | {"quantity": "ratio", "strong": True})
    return rows


def _row(name: str, predicted: float | None, measured: float | None) -> dict[str, Any]:
    return {
        "name": name, "predicted": predicted, "measured": measured, "error": error_of(predicted, measured),
        "quantity": "seconds", "strong": False, "level": None,
    }  # fmt: skip


def _checks(found: Comparison) -> list[dict[str, Any]]:
    from explorer.run.judging.compare import (
        DRY_TOLERANCE_PCT,
        QUIET,
        SPEEDUP_TOLERANCE_PCT,
        TOO_NOISY,
        unjudged_words,
    )

    numerics: Mapping[str, float] = found.numerics
    text = _NUMERICS[found.numerics_ok]
    if found.numerics_ok is None and "rounding" in numerics:
        text = f"Gradients cannot be judged: {unjudged_words(numerics)}"
    elif numerics:
        largest = max(value for name, value in numerics.items() if name != "rounding")
        text += f" in {found.numerics_precision}"
        text += f", the run in {found.precision}" if found.precision != "fp32" else ""
        text += f" (largest relative error {power_words(largest)})" if largest else ", bit for bit"
    rows: list[dict[str, Any]] = [{"ok": found.numerics_ok, "text": text + "."}]
    quiet = found.contention >= QUIET
    least = f"; a verdict takes at least {share_words(QUIET)}" if not quiet else ""
    if found.engine != "dry":
        said = f"Contention {'low' if quiet else 'high'}: the ranks got {_got(found)} of the processor time"
        rows.append({"ok": quiet, "text": f"{said} they needed{least}."})
    error, what, most = found.speedup_error_pct, "the speedup", SPEEDUP_TOLERANCE_PCT
    if error is None:
        error, what, most = found.error_pct, "the makespan", DRY_TOLERANCE_PCT
    inside = abs(error) <= most
    words = (
        f"The error of {what}, {signed(error / 100)}, is {'within' if inside else 'outside'} ±{most:.0f} %"
    )
    rows.append({"ok": None if found.verdict == TOO_NOISY else inside, "text": words + "."})
    return [*rows, *_cost_checks(found)]


def _cost_checks(found: Comparison) -> list[dict[str, Any]]:
    """Return whether the cost model is true of this machine: compute by its profile, bytes of tensors."""
    from explorer.run.judging.compare import CONFIRMED, OFF

    rows: list[dict[str, Any]] = []
    if found.costs is not None:
        told = found.costs
        predicted, measured = told.predicted["compute_s"], told.measured["compute_s"]
        if predicted is not None and measured is not None:
            text = (
                f"Compute of a step by the profile {told.profile}: {format_seconds(predicted)} predicted,"
                f" {format_seconds(measured)} measured ({signed(told.error_pct / 100)})."
            )
            if any(factor != 1.0 for factor in told.slowdowns):
                products, memory, operators = told.slowdowns
                text += (
                    f" Since it was made products take {products:.2f} times as long, memory {memory:.2f},"
                    f" operators {operators:.2f}; predictions count that."
                )
            rows.append({"ok": {CONFIRMED: True, OFF: False}.get(told.verdict), "text": text})
    elif found.costs_missing:
        rows.append({"ok": None, "text": f"Costs of this machine: {found.costs_missing}"})
    if found.memory:
        worst = max(found.memory, key=lambda item: abs(item.predicted_bytes / item.measured_bytes - 1))
        error = worst.predicted_bytes / worst.measured_bytes - 1
        text = (
            f"Peak bytes of tensors, of rank {worst.rank}: {format_bytes(worst.predicted_bytes)} predicted,"
            f" {format_bytes(worst.measured_bytes)} counted ({signed(error)}, the worst rank)."
        )
        rows.append({"ok": abs(error) <= MEMORY_TOLERANCE, "text": text})
    return rows
