"""What a real run says, in words: its progress, its verdict, its comparison as a table."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from explorer.units import format_seconds

from .panels import block, percent, table

_NUMERICS = {
    True: "gradients equal those of one process",
    False: "gradients differ from those of one process",
    None: "not checked, as nothing was computed",
}
_TOLD = {"start": "started", "ready": "connected", "done": "done"}


def progress_words(event: Mapping[str, Any], rounds: int) -> str:
    """An event of a rank.

    >>> progress_words({"event": "round", "rank": 0, "number": 1}, 5)
    'rank 0: round 2 of 5'
    >>> progress_words({"event": "step", "rank": 1, "case": "baseline", "step": 0}, 5)
    'rank 1: baseline, step 1'
    """
    kind, number = str(event.get("event", "")), int(event.get("number", event.get("step", 0)))
    if kind == "round":
        said = f"round {number + 1} of {rounds}" if number >= 0 else "warming up"
    elif kind == "step":
        said = f"{event.get('case', '')}, step {number + 1}"
    elif kind == "case":
        said = f"{event.get('name', '')} done"
    else:
        said = _TOLD.get(kind, kind)
    return f"rank {event.get('rank')}: {said}"


def progress_share(event: Mapping[str, Any], spec: Any) -> float | None:
    """How much of a run is behind it, 0 to 1; None where an event does not tell.

    Args:
        event: of a rank.
        spec: `explorer.run.RunSpec`; rounds that warm up have negative numbers.
    """
    cases = [case.name for case in spec.cases if not case.once]
    total = spec.warmup_rounds + spec.rounds
    if event.get("event") == "round":
        behind = float(event["number"])
    elif event.get("event") == "case" and event.get("name") in cases:
        behind = event["round"] + (cases.index(event["name"]) + 1) / len(cases)
    else:
        return None
    return min(1.0, max(0.0, (spec.warmup_rounds + behind) / total))


def _got(found: Any) -> str:
    """Processor time of the ranks over what they needed; clocks make it a little more than all at times."""
    return f"{min(1.0, found.contention):.0%}"


def verdict_words(found: Any) -> str:
    """A comparison's verdict as a sentence that may stand before figures."""
    from explorer.run.compare import CONFIRMED, OFF, QUIET, TOO_NOISY

    if found.verdict == TOO_NOISY:
        return (
            f"Too noisy for a verdict: the ranks got {_got(found)} of the processor time they needed, and"
            f" {QUIET:.0%} is the least. Run again when less else runs here."
        )
    words = {CONFIRMED: "The run confirms the prediction.", OFF: "The prediction is off."}
    return words.get(
        found.verdict, "The run computed wrong numbers: gradients differ from those of one process."
    )


def figure_words(found: Any) -> str:
    """What was measured, beside what was predicted."""
    what = "The plan's order, with compute slept," if found.engine == "dry" else "Its small likeness"
    took, guess = found.measured["step_time_s"], found.predicted["step_time_s"]
    text = f"{what} took {format_seconds(took)} a step, predicted {format_seconds(guess)}"
    text += f" ({percent(guess / took - 1)})." if took else "."
    seen, expected = found.measured.get("speedup"), found.predicted.get("speedup")
    if seen and expected:
        text += (
            f" Speedup over {found.baseline.replace('_', ' ')} {seen:.2f}, predicted {expected:.2f}"
            f" ({percent(expected / seen - 1)})."
        )
    return text


def run_html(state: Mapping[str, Any]) -> str:
    """A run: idle, under way, failed or compared. Keys: status, error, log, comparison."""
    comparison, error = state.get("comparison"), state.get("error")
    parts = [f'<h3>Run <span class="sub">{escape(str(state.get("status", "")))}</span></h3>']
    if error:
        parts.append(f'<div class="bad" role="alert"><b>{escape(str(error))}</b></div>')
        if state.get("log"):
            parts.append(f"<details><summary>log</summary><pre>{escape(str(state['log']))}</pre></details>")
    if comparison is not None:
        parts.append(_comparison(comparison))
    return block("".join(parts))


def _comparison(found: Any) -> str:
    said = (
        f"<b>{escape(verdict_words(found))}</b>",
        f"Numerics: {_NUMERICS[found.numerics_ok]}.",
        f"Contention: the ranks got {_got(found)} of the processor time they needed.",
    )
    lists = "".join(
        f"<h3>{title}</h3><ul>{''.join(f'<li>{escape(text)}</li>' for text in items)}</ul>"
        for title, items in (("Validated", found.validated), ("Not validated", found.not_validated))
        if items
    )
    lines = "".join(f"<div>{text}</div>" for text in said)
    return lines + table(("part of a step", "predicted", "measured", "error"), _rows(found)) + lists


def _rows(found: Any) -> list[tuple[str, ...]]:
    """By part, then the whole step, then the speedup."""
    guessed, seen = found.parts["predicted"], found.parts["measured"]
    rows = [_row(part, guessed.get(part), seen.get(part)) for part in dict.fromkeys([*guessed, *seen])]
    step = _row("step time", found.predicted["step_time_s"], found.measured["step_time_s"])
    rows.append(tuple(f"<b>{cell}</b>" for cell in step))
    expected, speedup = found.predicted.get("speedup"), found.measured.get("speedup")
    if expected and speedup:
        over = escape(found.baseline.replace("_", " "))
        error = percent(expected / speedup - 1)
        rows.append((f"speedup over {over}", f"{expected:.2f} ×", f"{speedup:.2f} ×", error))
    return rows


def _row(name: str, predicted: float | None, measured: float | None) -> tuple[str, ...]:
    shown = [format_seconds(value) if value is not None else "–" for value in (predicted, measured)]
    error = percent(predicted / measured - 1) if predicted and measured else ""  # none is none per cent of
    return escape(name), shown[0], shown[1], error
