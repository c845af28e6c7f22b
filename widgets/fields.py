"""The control bar: pickers as fields of the `Controls` widget, and which buttons are on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from explorer.models import SOURCES
from explorer.profiles import cluster_names
from explorer.registry import Registry
from explorer.schedules import SCHEDULES
from explorer.search import SEARCHERS
from explorer.units import DTYPE_BYTES

from .edits import Shape, shape_of
from .session import Point

OTHER = "other…"
"""Choice that turns a picker into a text field, for files and `hf:PATH`."""

_PRECISIONS = tuple(name for name in DTYPE_BYTES if name.startswith(("bf", "fp", "tf")))


def bar_view(
    point: Point | None,
    *,
    typed: Mapping[str, Any],
    errors: Mapping[str, str],
    searcher: str,
    busy: str,
    can_undo: bool,
    can_redo: bool,
    comparing: bool = False,
) -> dict[str, Any]:
    """`Controls.view`.

    Args:
        point: the state shown.
        typed: values of fields whose input was refused: they stay as typed.
        errors: what is wrong with them.
        searcher: chosen searcher.
        busy: `search`, `run` or empty.
        can_undo: whether Undo is on.
        can_redo: whether Redo is on.
        comparing: whether there is a plan B.
    """
    shape = shape_of(point.strategy, point.groups) if point else None
    fields = [_place("model", "Model", SOURCES.names(), point.inputs.model.reference if point else "", typed)]
    fields.append(
        _place("cluster", "Cluster", cluster_names(), point.inputs.cluster_name if point else "", typed)
    )
    if point is not None and shape is not None:
        fields += _numbers(point, shape) + _choices(point, shape, searcher)
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


def _options(values: Iterable[Any]) -> list[dict[str, str]]:
    return [{"value": str(value), "label": str(value)} for value in values]


def _numbers(point: Point, shape: Shape) -> list[dict[str, Any]]:
    job = point.inputs.job
    rows: list[tuple[str, str, int, str]] = [
        ("global_batch", "Batch", job.global_batch, "Samples of one optimizer step"),
        ("microbatch_size", "Microbatch", shape.microbatch_size, "Samples of one microbatch per replica"),
    ]
    if job.sequence_length:
        rows.append(("sequence_length", "Sequence", job.sequence_length, "Tokens of one sample"))
    rows += [
        ("stages", "Stages", shape.stages, "Pipeline stages; a new even cut, replicas follow"),
        ("replicas", "Replicas", shape.replicas, "Data-parallel replicas; a new even cut"),
        ("tensor", "Tensor", shape.tensor, "Devices that share each layer; a new even cut, replicas follow"),
    ]
    return [
        {"key": key, "label": label, "kind": "number", "value": value, "minimum": 1, "step": 1,
         "width_px": 56 if value < 10_000 else 68, "title": title}
        for key, label, value, title in rows
    ]  # fmt: skip


def _choices(point: Point, shape: Shape, searcher: str) -> list[dict[str, Any]]:
    rows: list[tuple[str, str, Any, Iterable[Any]]] = [
        ("schedule", "Schedule", shape.schedule, _chosen(SCHEDULES, shape.schedule)),
        ("recompute", "Recompute", shape.recompute, ("none", "selective", "full")),
        ("zero", "ZeRO", str(shape.zero), range(4)),
        ("precision", "Precision", point.inputs.job.precision, _PRECISIONS),
        ("searcher", "Searcher", searcher, _with(SEARCHERS.names(), searcher)),
    ]
    return [
        {"key": key, "label": label, "kind": "select", "value": value, "options": _options(options)}
        for key, label, value, options in rows
    ]


def _with(names: list[str], present: str) -> list[str]:
    return names if present in names else [*names, present]


def _chosen(registry: Registry[Any], present: str) -> list[str]:
    """Names to choose from; those that need a shape of their own are left to plans and searchers."""
    return _with([name for name in registry.names() if name not in _SPECIAL], present)


_SPECIAL = ("chimera", "custom", "cyclic", "layer_parallel")


def _buttons(
    *, ready: bool, busy: str, can_undo: bool, can_redo: bool, comparing: bool
) -> list[dict[str, Any]]:
    return [
        {"action": "search", "label": "Search", "primary": True, "enabled": ready and not busy},
        {"action": "undo", "label": "Undo", "enabled": can_undo},
        {"action": "redo", "label": "Redo", "enabled": can_redo},
        {"action": "compare", "label": "A/B", "enabled": ready, "pressed": comparing,
         "title": "Keep the plan shown as B and compare with it in every view; again to end"},
        {"action": "run", "label": "Run", "enabled": ready and not busy,
         "title": "A short real run on this machine that says how far the prediction was off"},
        {"action": "stop", "label": "Stop", "enabled": bool(busy)},
        {"action": "export", "label": "Export", "enabled": ready},
    ]  # fmt: skip
