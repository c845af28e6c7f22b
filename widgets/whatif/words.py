"""Words of the What-if tab: its sliders with their stops, and the sentence about a variation. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from explorer.base.errors import ExplorerError
from explorer.base.units import format_bytes, format_seconds
from explorer.cluster.memory_room import MAY_FIT
from explorer.simulation.report import Report
from explorer.sweep.devices import scalable, scaled
from explorer.views.sweep_view import what_if_rows
from widgets.holds import released
from widgets.search.words import held_words
from widgets.session import Point

PREFIX = "whatif_"
"""Prefix of the sliders' keys, before those of `explorer.sweep`, so that they differ from the bar's."""
APPLICABLE = ("global_batch", "sequence_length", "devices")
"""Numbers that a plan can take over; the rest belongs to the cluster."""

_WORDS = {
    "bandwidth": ("Bandwidth", "×", "Every link this many times as fast; latencies stay"),
    "global_batch": ("Global batch", "samples", "Samples of one optimizer step"),
    "sequence_length": ("Sequence", "tokens", "Tokens of one sample"),
    "devices": (
        "Devices",
        "in use",
        "Replicas follow, each with its own microbatch; nodes are added if needed",
    ),
}
_BATCH = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 6, 8, 16)
_BANDWIDTH = (1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8)
_REPLICAS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


def present(point: Point) -> dict[str, float]:
    """Return the values of the plan shown, without a sequence length if samples are not sequences."""
    job = point.inputs.job
    found = {"bandwidth": 1.0, "global_batch": float(job.global_batch)}
    if job.sequence_length:
        found["sequence_length"] = float(job.sequence_length)
    return found | {"devices": float(len(point.strategy.job.devices))}


def stops(point: Point, key: str) -> list[float]:
    """Return the positions of a slider, ascending, the present value among them."""
    now = present(point)[key]
    if key == "bandwidth":
        return [round(step / scale, 4) for scale in (10, 1) for step in _BANDWIDTH] + [10.0]
    if key == "global_batch":
        unit = math.lcm(*(stage.microbatch_samples for stage in point.strategy.job.stages))
        found = {now * factor for factor in _BATCH if now * factor % unit == 0}
    elif key == "sequence_length":
        found = {now * 2.0**k for k in range(-4, 5) if (now * 2.0**k).is_integer()}
    else:
        found = _device_counts(point, int(now))
    return sorted({*found, now})


def _device_counts(point: Point, used: int) -> set[float]:
    """Return the whole numbers of replicas, up to eight times the present ones or all devices of the
    cluster.
    """
    kept = point.outcome.kept
    if "device counts" not in kept:
        own = point.inputs
        most = max(8 * used, own.cluster.device_count)
        counts = scalable(point.strategy.job, _REPLICAS, own.job.global_batch)
        kept["device counts"] = {float(count) for count in counts if count <= most}
    found: set[float] = kept["device counts"]
    return found


def slider_fields(
    point: Point, changes: Mapping[str, float], typed: Mapping[str, Any], errors: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return `WhatIf.view["sliders"]`."""
    fields = []
    for key, now in present(point).items():
        label, unit, title = _WORDS[key]
        fields.append(
            {
                "key": PREFIX + key,
                "label": label,
                "unit": unit,
                "title": title,
                "now": now,
                "value": changes.get(key, now),
                "stops": stops(point, key),
                "changed": key in changes,
                "error": errors.get(key),
                "typed": None if key not in typed else str(typed[key]),
            }
        )
    return fields


def what_if_view(
    point: Point,
    changes: Mapping[str, float],
    found: Report | str,
    typed: Mapping[str, Any],
    errors: Mapping[str, str],
) -> dict[str, Any]:
    """Return `WhatIf.view`; `found` is the report of the variation, or why there is none."""
    report = found if isinstance(found, Report) else None
    length = point.inputs.job.sequence_length
    tokens = (length, round(changes.get("sequence_length", length)))
    there = point.inputs.cluster.device_count
    applies = [key for key in changes if key in APPLICABLE and (key != "devices" or changes[key] <= there)]
    return {
        "sliders": slider_fields(point, changes, typed, errors),
        "rows": what_if_rows(point.report, report, tokens=tokens),
        "verdict": _verdict(point, changes, found),
        "note": _left_out(point, changes, there),
        "actions": [
            {"action": "whatif_reset", "label": "Reset", "enabled": bool(changes or errors)},
            {"action": "whatif_apply", "label": "Apply", "suggested": True,
             "enabled": bool(applies) and report is not None,
             "title": "Make batch, sequence and devices those of the plan; Undo takes it back"},
        ],
    }  # fmt: skip


def _verdict(point: Point, changes: Mapping[str, float], found: Report | str) -> dict[str, str]:
    if not changes:
        return {"level": "none", "text": "As the plan is now. Move a slider, or type a number."}
    said = ", ".join(_change(key, changes[key]) for key in _WORDS if key in changes)
    what = said[:1].upper() + said[1:]
    if not isinstance(found, Report):
        return {"level": "bad", "text": f"**{what}: impossible.** {found}"}
    step = (
        f"{format_seconds(found.step_time_s)} a step ({_more(found.step_time_s, point.report.step_time_s)})"
    )
    if found.feasible:
        if found.memory_verdict == MAY_FIT:
            return {"level": "warn", "text": f"**{what}: may fit**, {step}."}
        return {"level": "ok", "text": f"**{what}: fits**, {step}."}
    worst = max(found.overflows, key=lambda item: item.over_bytes)
    over = f"device {worst.device} {format_bytes(worst.over_bytes)} over capacity"
    return {"level": "bad", "text": f"**{what}: would not fit**, {over}; {step}."}


def _change(key: str, value: float) -> str:
    label = _WORDS[key][0]
    return f"{label.lower()} {value:g}{' ×' if key == 'bandwidth' else ''}"


def _more(then: float, now: float) -> str:
    share = then / now - 1
    if abs(share) < 0.0005:
        return "as now"
    return f"{share:+.1%}".replace("-", "−")


def _left_out(point: Point, changes: Mapping[str, float], there: int) -> str:
    """Say what Apply leaves out, and why; and what it releases."""
    said = []
    if "bandwidth" in changes:
        said.append("Bandwidth belongs to the cluster and is not applied.")
    if changes.get("devices", 0) > there:
        said.append(f"The cluster has {there} devices: more cannot be applied.")
    elif "devices" in changes and (broken := _released(point, changes["devices"])):
        said.append(f"Apply releases {broken}.")
    return " ".join(said)


def _released(point: Point, devices: float) -> str:
    """Say which pins and locks do not go with another number of devices."""
    job = point.strategy.job
    try:
        return held_words(released(point.holds, job, scaled(job, int(devices))))
    except ExplorerError:
        return ""  # it cannot be applied at all, which is reported already
