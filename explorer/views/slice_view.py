"""View of a slice run: seconds by action, peak bytes and layers, predicted against measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from explorer.base.units import format_bytes, format_seconds
from explorer.views.run_view import LARGE, MEMORY_TOLERANCE, error_of, result_view, signed

if TYPE_CHECKING:
    from explorer.run.judging.cost_check import LayerSeconds
    from explorer.run.one_rank.findings import SliceCheck

WORST = 5
"""Most layers that are named."""
_NOT_VALIDATED = (
    "messages between ranks: nothing was sent, and nothing waited",
    "gradients: a rank alone has none to compare with",
)
_PLACE = {True: "within", False: "outside"}


def slice_view(found: SliceCheck) -> dict[str, Any]:
    """Return a slice run in the form of `comparison_view`."""
    rows = [
        _row(f"{item.action} × {item.count}", item.predicted_s, item.measured_s) for item in found.actions
    ]
    for row in rows:
        if row["error"] is not None and abs(row["error"]) > LARGE:
            row["level"] = "warn"
    peak = found.memory
    rows += [
        _row("all its actions", found.predicted_s, found.measured_s) | {"strong": True},
        _row("peak of tensors", peak.predicted_bytes, peak.measured_bytes)
        | {"strong": True, "quantity": "bytes"},
    ]
    return result_view(
        part="action",
        about=(
            f"What ran: rank {found.rank} of this plan, {_stages(found)}, alone on this machine"
            f" ({_where(found)}) with the model's own layers at their full size; what its neighbours would"
            " send was made up."
        ),
        level={"confirmed": "ok"}.get(found.verdict, "warn"),
        text=f"**{slice_verdict(found)}** {slice_words(found)}",
        rows=rows,
        checks=_checks(found),
        shortened=[{"what": what, "plan": plan, "here": here} for what, plan, here in found.shortened],
        layers=worst_layers(found.layers),
        validated=[
            f"seconds and bytes of rank {found.rank}, {_stages(found)}, in the plan's own order",
        ],
        not_validated=list(_NOT_VALIDATED),
    )


def slice_verdict(found: SliceCheck) -> str:
    """Write the verdict as a sentence that may precede figures."""
    from explorer.run.judging.compare import CONFIRMED

    if found.error_pct is None:
        return "Seconds have no verdict."
    return "The costs are confirmed." if found.verdict == CONFIRMED else "The costs are off."


def slice_words(found: SliceCheck) -> str:
    """Write what was measured, together with what was predicted."""
    peak = found.memory
    bytes_error = error_of(peak.predicted_bytes, peak.measured_bytes)
    held = (
        f" Peak of its tensors {format_bytes(peak.measured_bytes)},"
        f" predicted {format_bytes(peak.predicted_bytes)}"
    )
    held += f" ({signed(bytes_error)})." if bytes_error is not None else "."
    took = f"Rank {found.rank} took {format_seconds(found.measured_s)}"
    if found.predicted_s is None or found.error_pct is None:
        reason = found.costs_missing[:1].upper() + found.costs_missing[1:]
        return f"{took}.{held} {reason}."
    return f"{took}, predicted {format_seconds(found.predicted_s)} ({signed(found.error_pct / 100)}).{held}"


def worst_layers(layers: Sequence[LayerSeconds]) -> list[dict[str, Any]]:
    """Return the layers whose predictions are off by most seconds, the worst first."""
    from explorer.run.one_rank.findings import layer_errors

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "predicted_s": item.predicted_s,
            "measured_s": item.measured_s,
            "error": error_of(item.predicted_s, item.measured_s),
        }
        for name, item in layer_errors(layers).items()
    ]
    told = [row for row in rows if row["error"] is not None]
    return sorted(told, key=lambda row: -abs(row["predicted_s"] - row["measured_s"]))[:WORST]


def _row(name: str, predicted: float | None, measured: float) -> dict[str, Any]:
    return {
        "name": name, "predicted": predicted, "measured": measured, "error": error_of(predicted, measured),
        "quantity": "seconds", "strong": False, "level": None,
    }  # fmt: skip


def _stages(found: SliceCheck) -> str:
    return f"stage{'s' if len(found.stages) > 1 else ''} {', '.join(map(str, found.stages))}"


def _where(found: SliceCheck) -> str:
    return "processors" if found.device == "cpu" else found.device


def _checks(found: SliceCheck) -> list[dict[str, Any]]:
    from explorer.run.judging.compare import CONFIRMED
    from explorer.run.judging.cost_check import COST_TOLERANCE_PCT

    rows: list[dict[str, Any]] = []
    if found.error_pct is None:
        rows.append({"ok": None, "text": f"Costs of this machine: {found.costs_missing}."})
    else:
        inside = found.verdict == CONFIRMED
        text = f"The error of its seconds, {signed(found.error_pct / 100)}, is {_PLACE[inside]}"
        text += f" ±{COST_TOLERANCE_PCT:.0f} %, by the profile {found.profile}."
        rows.append({"ok": inside, "text": text})
    error = error_of(found.memory.predicted_bytes, found.memory.measured_bytes)
    if error is not None:
        inside = abs(error) <= MEMORY_TOLERANCE
        text = f"The error of its peak, {signed(error)}, is {_PLACE[inside]}"
        rows.append({"ok": inside, "text": f"{text} ±{MEMORY_TOLERANCE * 100:.0f} %."})
    return rows
