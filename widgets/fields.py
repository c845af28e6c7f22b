"""The control bar: pickers as fields of the `Controls` widget, and which buttons are on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from explorer.base.registry import Registry
from explorer.base.units import DTYPE_BYTES
from explorer.cluster_profiles import cluster_names
from explorer.models import SOURCES
from explorer.schedules import SCHEDULES
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS, Degrees

from .edits import degrees_of
from .session import Point

OTHER = "other…"
"""Choice that turns a picker into a text field, for files and `hf:PATH`."""

_PRECISIONS = tuple(name for name in DTYPE_BYTES if name.startswith(("bf", "fp", "tf")))


def bar_view(
    point: Point | None,
    *,
    asked: Mapping[str, str],
    typed: Mapping[str, Any],
    errors: Mapping[str, str],
    busy: str,
    can_undo: bool,
    can_redo: bool,
    comparing: bool = False,
) -> dict[str, Any]:
    """`Controls.view`.

    Args:
        point: the state shown.
        asked: model and cluster chosen so far, while there is none.
        typed: values of fields whose input was refused: they stay as typed.
        errors: what is wrong with them.
        busy: `search`, `run` or empty.
        can_undo: whether Undo is on.
        can_redo: whether Redo is on.
        comparing: whether there is a plan B.
    """
    degrees = degrees_of(point) if point else None
    model = point.inputs.model.reference if point else asked["model"]
    cluster = point.inputs.cluster_name if point else asked["cluster"]
    fields = [
        _place("model", "Model", SOURCES.names(), model, typed),
        _place("cluster", "Cluster", cluster_names(), cluster, typed),
    ]
    if point is not None and degrees is not None:
        fields += _numbers(point, degrees) + _choices(point, degrees)
    for field in fields:
        key = field["key"]
        if key in errors:
            field |= {"value": typed.get(key, field["value"]), "error": errors[key]}
    return {
        "fields": fields,
        "buttons": _buttons(
            ready=point is not None, busy=busy, can_undo=can_undo, can_redo=can_redo, comparing=comparing
        ),
    }


def _place(
    key: str, label: str, names: Iterable[str], value: str, typed: Mapping[str, Any]
) -> dict[str, Any]:
    """A model or cluster: chosen by name, or typed."""
    if key in typed:
        shown = "" if typed[key] == OTHER else typed[key]
        what = (
            "file, hf:PATH or module.path:factory (which runs code)"
            if key == "model"
            else "YAML or JSON profile"
        )
        brief = what.split(" or ", maxsplit=1)[0]
        return {"key": key, "label": f"{label}: {brief}", "kind": "text", "value": shown,
                "width_px": 190, "title": f"A bundled name, or a {what}. Press Enter."}  # fmt: skip
    known = list(names)
    options = [*known, *([value] if value and value not in known else []), OTHER]
    return {"key": key, "label": label, "kind": "select", "value": value, "options": _options(options)}


SHAPE = "Stages × replicas × tensor"
"""Name of the group of fields that make the shape of the cut."""
_SHAPE_KEYS = ("stages", "replicas", "tensor")


def _options(values: Iterable[Any]) -> list[dict[str, str]]:
    return [{"value": str(value), "label": str(value)} for value in values]


def _numbers(point: Point, degrees: Degrees) -> list[dict[str, Any]]:
    job = point.inputs.job
    rows: list[tuple[str, str, int, str]] = [
        ("global_batch", "Batch", job.global_batch, "Samples of one optimizer step"),
        ("microbatch_size", "Microbatch", degrees.microbatch_size, "Samples of one microbatch per replica"),
    ]
    if job.sequence_length:
        rows.append(("sequence_length", "Sequence", job.sequence_length, "Tokens of one sample"))
    rows += [
        ("stages", "Stages", degrees.stages, "Pipeline stages; a new even cut, replicas follow"),
        ("replicas", "Replicas", degrees.replicas, "Data-parallel replicas; a new even cut"),
        (
            "tensor",
            "Tensor",
            degrees.tensor,
            "Devices that share each layer; a new even cut, replicas follow",
        ),
    ]
    for key, label, title in (
        (
            "context",
            "Context",
            "Devices that share a sequence; a new even cut, replicas follow",
        ),
        ("expert", "Experts", "Devices that share the experts of a mixture; a new even cut"),
    ):
        if getattr(degrees, key) > 1:
            rows.append((key, label, getattr(degrees, key), title))
    return [
        {"key": key, "label": label, "kind": "number", "value": value, "minimum": 1, "step": 1,
         "width_px": _digits_px(value), "title": title, "group": SHAPE if key in _SHAPE_KEYS else None}
        for key, label, value, title in rows
    ]  # fmt: skip


def _digits_px(value: int) -> int:
    """Width of a field that shows a whole number, and leaves room for one digit more."""
    return max(40, 24 + 8 * len(str(value)))


def _choices(point: Point, degrees: Degrees) -> list[dict[str, Any]]:
    rows: list[tuple[str, str, Any, Iterable[Any]]] = [
        ("schedule", "Schedule", degrees.schedule, _chosen(SCHEDULES, degrees.schedule)),
        ("recompute", "Recompute", degrees.recompute, RECOMPUTE),
        ("zero", "ZeRO", str(degrees.zero), ZERO_LEVELS),
        ("precision", "Precision", point.inputs.job.precision, _PRECISIONS),
    ]
    return [
        {"key": key, "label": label, "kind": "select", "value": value, "options": _options(options)}
        for key, label, value, options in rows
    ]


def _with(names: list[str], present: str) -> list[str]:
    return names if present in names else [*names, present]


def _chosen(registry: Registry[Any], present: str) -> list[str]:
    """Names to choose from: all but those whose order must be spelt out, which plans bring."""
    return _with([item.name for item in registry if not item.literal], present)


def _buttons(
    *, ready: bool, busy: str, can_undo: bool, can_redo: bool, comparing: bool
) -> list[dict[str, Any]]:
    """A button that is off says why. Stop stands in the sentence and in the tab of what is at work."""
    wait = "" if ready else "Choose a model and a cluster first"
    if busy:
        wait = f"A {busy} is at work; Stop ends it"
    idle = ready and not busy
    search = "Look for a better strategy; the board stays yours meanwhile"
    run = "A short real run on this machine that says how far the prediction was off"
    return [
        {"action": "search", "label": "Search", "primary": True, "enabled": idle, "title": wait or search},
        {"action": "undo", "label": "Undo", "enabled": can_undo,
         "title": None if can_undo else "Nothing to undo"},
        {"action": "redo", "label": "Redo", "enabled": can_redo,
         "title": None if can_redo else "Nothing to redo"},
        {"action": "compare", "label": "A/B", "enabled": ready, "pressed": comparing,
         "title": "Keep the plan shown as B and compare with it in every view; again to end"},
        {"action": "run", "label": "Run", "enabled": idle, "title": wait or run},
        {"action": "export", "label": "Export", "enabled": ready,
         "title": "The files of this plan for a trainer"},
    ]  # fmt: skip
