"""Words around the curves of the What-if tab: fields, how a plan is scaled, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from explorer.base.units import format_seconds
from explorer.sweep import KEYS, SweepRow
from explorer.views.sweep_view import NAMES, SCALING
from widgets.edits import degrees_of
from widgets.panels import block, percent
from widgets.session import Point

from .words import present, stops

_HOW = {
    "devices": "Replicas follow: each new one is a copy of the present pipeline with its own microbatch."
    " Nodes are added to the network where the cluster has too few.",
    "stages": "A new even cut into so many stages, each on as many devices as now."
    " Nodes are added to the network where the cluster has too few.",
    "global_batch": "More or fewer microbatches of the present size.",
    "sequence_length": "The model built anew for samples of so many tokens; the strategy stays.",
    "bandwidth": "Every link this many times as fast; latencies stay.",
    "microbatch_samples": "Samples of one microbatch, over all replicas together; the batch stays.",
}
"""How the plan changes with the varied number."""
_SCALING = {
    False: "Strong scaling: the global batch stays.",
    True: "Weak scaling: the global batch grows with the devices.",
}


def now_value(point: Point, key: str) -> float:
    """Return the value of the plan itself."""
    if key == "stages":
        return float(degrees_of(point).stages)
    if key == "microbatch_samples":
        return float(point.strategy.job.stages[0].microbatch_samples)
    return present(point).get(key, 0.0)


def default_values(point: Point, key: str) -> list[float]:
    """Return the proposed values, ascending, the present one among them."""
    now = now_value(point, key)
    if key == "bandwidth":
        return [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    if key in present(point):
        return [value for value in stops(point, key) if key == "sequence_length" or _doubled(value, now)]
    if key == "microbatch_samples":
        batch = point.inputs.job.global_batch
        return [n for k in range(-3, 4) if (n := now * 2.0**k).is_integer() and batch % n == 0]
    return sorted({value for k in range(-3, 4) if (value := now * 2.0**k).is_integer()})


def _doubled(value: float, now: float) -> bool:
    """Tell whether a value is the present one times or over a power of two."""
    ratio = max(value / now, now / value)
    return ratio.is_integer() and ratio.hex().split("p")[0] in ("0x1.0000000000000", "0x1.0")


def fields(
    point: Point | None, key: str, *, weak: bool, typed: str | None, error: str, running: bool
) -> dict[str, Any]:
    """Return `Controls.view` of the curves."""
    if point is None:
        return {"fields": [], "buttons": []}
    known = [name for name in KEYS if name != "sequence_length" or point.inputs.job.sequence_length]
    values = ", ".join(f"{value:g}" for value in default_values(point, key)) if typed is None else typed
    rows: list[dict[str, Any]] = [
        {"key": "sweep_over", "label": "Curve over", "kind": "select", "value": key, "width_px": 220,
         "options": [{"value": name, "label": NAMES[name]} for name in NAMES if name in known]},
        {"key": "sweep_values", "label": "Values", "kind": "text", "value": values, "width_px": 300,
         "title": "Numbers, separated by commas", "error": error or None},
    ]  # fmt: skip
    if key in SCALING:
        options = [("strong", "strong: same batch"), ("weak", "weak: batch grows")]
        rows.insert(1, {"key": "sweep_scaling", "label": "Scaling", "kind": "select", "width_px": 180,
                        "value": "weak" if weak else "strong",
                        "options": [{"value": v, "label": label} for v, label in options]})  # fmt: skip
    return {
        "name": "Curve",
        "fields": rows,
        "buttons": [
            *([{"action": "sweep_stop", "label": "Stop", "title": "What is drawn stays"}] if running else []),
            {"action": "sweep_draw", "label": "Draw curve", "suggested": True,
             "enabled": not running and not error,
             "title": "The curve is being drawn; Stop ends it" if running else error or None},
        ],
    }  # fmt: skip


def status_html(
    key: str, rows: Sequence[SweepRow], wanted: int, *, weak: bool, running: bool, old: bool
) -> str:
    """Say how the plan is scaled, and how far the curve is."""
    how = f"{_HOW[key]} {_SCALING[weak]}" if key in SCALING else _HOW[key]
    said = f'<div class="sub">{escape(how)}</div>'
    if not wanted:
        return block(said)
    count = f"{len(rows)} of {wanted} values simulated"
    stopped = "" if running or len(rows) == wanted else ", stopped"
    former = " <b>Of a former plan: draw it anew.</b>" if old else ""
    bar = (
        f'<progress value="{len(rows)}" max="{wanted}" aria-label="values simulated"></progress> '
        if running
        else ""
    )
    return block(f'{said}<div class="sub" role="status">{bar}{count}{stopped}.{former}</div>')


def curve_html(key: str, points: Sequence[dict[str, Any]], *, tokens: bool) -> str:
    """Write the table behind the chart."""
    if not points:
        return ""
    batch, share = (["batch"], ["efficiency"]) if key in SCALING else ([], [])
    rate = "tokens/s" if tokens else "samples/s"
    head = [NAMES[key].partition(",")[0], *batch, "step time", rate, *share, "memory", "fits"]
    top = "".join(
        f"<th scope=col{' class=n' if i else ''}>{escape(name)}</th>" for i, name in enumerate(head)
    )
    lines = "".join(_line(point, len(head), scaling=bool(batch)) for point in points)
    return block(
        f'<div class="scroll"><table aria-label="Points of the curve"><thead><tr>{top}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _line(point: dict[str, Any], columns: int, *, scaling: bool) -> str:
    own = " class=own" if point["now"] else ""
    name = f"{point['value']:g}" + (" (now)" if point["now"] else "")
    if point["step_time_s"] is None:
        problem = f"<b>▲ impossible:</b> {escape(point['problem'] or '')}"
        cells = f'<td class="warn" colspan={columns - 1} style="white-space:normal">{problem}</td>'
    else:
        cells = "".join(f'<td class="n">{cell}</td>' for cell in _cells(point, scaling=scaling))
    return f"<tr{own}><td>{name}</td>{cells}</tr>"


def _cells(point: dict[str, Any], *, scaling: bool) -> list[str]:
    value = point["throughput"]
    rate = f"{value:,.0f}".replace(",", "\u202f") if value >= 100 else f"{value:.3g}"
    batch, share = ([], []) if not scaling else ([point["global_batch"]], [point["efficiency"]])
    return [
        *map(str, batch), format_seconds(point["step_time_s"]), rate,
        *(percent(item, sign=False) for item in share), percent(point["memory"], sign=False),
        "yes" if point["feasible"] else '<b class="bad">▲ no</b>',
    ]  # fmt: skip
