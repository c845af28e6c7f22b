"""Words of the Library tab: a system's paper, its building blocks here, and its claims next to our
figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from explorer.library import Claim, Outcome, System, figure
from widgets.panels import block, percent, table

_SMALL = 0.0005
"""Differences below it would be shown as nought."""


def system_html(system: System, outcomes: Sequence[Outcome], problem: str = "") -> str:
    """Return the description of a system.

    Args:
        system: the system.
        outcomes: claims computed already, in order; the others are shown without our figure.
        problem: why the next claim could not be computed; empty if none was.
    """
    used = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in system.uses.as_dict().items())
    facts = [f"<b>{escape(system.title)}</b>", escape(system.paper)]
    facts += [f"Here: {escape(used)}."] if used else []
    facts += [f"Not here: {escape(system.missing)}."] if system.missing else []
    facts += [f"Example: {escape(example_words(system))}"]
    body = "".join(f"<p>{fact}</p>" for fact in facts)
    rows = [_row(claim, outcomes[i] if i < len(outcomes) else None) for i, claim in enumerate(system.claims)]
    said = table(("What the paper says", "Published", "Here", "Difference", "Claim"), rows, narrow=True)
    failed = f'<p class="bad">{escape(problem)}</p>' if problem else ""
    return block(body + said + failed)


def example_words(system: System) -> str:
    """Return the description of a system's example, in one sentence."""
    return " ".join((system.function.__doc__ or system.title).split())


def _row(claim: Claim, outcome: Outcome | None) -> tuple[str, ...]:
    text = f'<span class="wrap">{escape(claim.text)}</span>'
    if outcome is not None and claim.why:
        text += f'<br><span class="wrap sub">{escape(claim.why)}</span>'
    if outcome is None:
        return text, with_unit(claim.published, claim.unit), "…", "", ""
    away = "" if outcome.holds and abs(outcome.difference) < 1e-9 else _difference(outcome)
    mark = "holds" if outcome.holds else '<b class="warn">▲ differs</b>'
    return text, with_unit(claim.published, claim.unit), with_unit(outcome.ours, claim.unit), away, mark


def _difference(outcome: Outcome) -> str:
    if not outcome.claim.published:
        return escape(with_unit(outcome.difference, outcome.claim.unit))
    return percent(outcome.difference) if abs(outcome.difference) >= _SMALL else "under 0.1 %"


def with_unit(value: float, unit: str) -> str:
    """Return a figure with its unit, ready for a page."""
    return escape(f"{figure(value)} {unit}".strip())
