"""The control bar: pickers as fields of the `Controls` widget, and which buttons are enabled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from explorer.base.units import DTYPE_BYTES
from explorer.cluster.device_kinds import LIKELY, SURELY
from explorer.cluster.memory_room import MARGIN, margin_settings
from explorer.cluster_profiles import cluster_names
from explorer.framework_files import framework_names
from explorer.models import SOURCES
from explorer.schedules.placements import ANY
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS, Degrees
from explorer.strategies.model_axes import splittable

from .edits import MARGIN_WORDS, degrees_of
from .picker_words import PickerWords
from .schedule_choice import Choice, choices_at_hand, schedule_options
from .session import Point
from .update_choice import update_fields

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
    former: Point | None = None,
    words: PickerWords | None = None,
) -> dict[str, Any]:
    """Make `Controls.view`.

    Args:
        point: the state shown.
        asked: model and cluster chosen so far, while there is none.
        typed: values of fields whose input was refused; they stay as typed.
        errors: what is wrong with these values.
        busy: `search`, `run` or empty.
        can_undo: whether Undo is enabled.
        can_redo: whether Redo is enabled.
        comparing: whether there is a plan B.
        words: what is known of the models and clusters that can be picked.
        former: state whose schedules may stand in for those of `point` until it is drawn again.
    """
    degrees = degrees_of(point) if point else None
    model = point.inputs.model.reference if point else asked["model"]
    cluster = point.inputs.cluster_name if point else asked["cluster"]
    fields = [
        _place("model", "Model", SOURCES.names(), model, typed, words),
        _place("cluster", "Cluster", cluster_names(), cluster, typed, words),
    ]
    if point is not None and degrees is not None:
        for part in (_work, _degrees, partial(_schedule, choices_at_hand(point, former)), _choices):
            fields += part(point, degrees)
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
    key: str,
    label: str,
    names: Iterable[str],
    value: str,
    typed: Mapping[str, Any],
    words: PickerWords | None,
) -> dict[str, Any]:
    """Make the field of a model or cluster: chosen by name, or typed, with the names that match below."""
    known = list(names)
    about = words.of(key) if words is not None else {}
    described = [
        {"value": name, "label": f"{name}: {about[name]}" if about.get(name) else name} for name in known
    ]
    if key in typed:
        shown = "" if typed[key] == OTHER else typed[key]
        what = (
            "file, hf:PATH or module.path:factory (which runs code)"
            if key == "model"
            else "YAML or JSON profile"
        )
        brief = what.split(" or ", maxsplit=1)[0]
        return {
            "key": key, "label": f"{label}: {brief}", "kind": "text", "value": shown, "options": described,
            "width_px": 190, "title": f"A bundled name, or a {what}. Press Enter.",
        }  # fmt: skip
    # the one chosen by its name alone, as it stands in the bar; the others with what they are
    options = [{**row, "label": row["value"]} if row["value"] == value else row for row in described]
    options += _options([value] if value and value not in known else [])
    options.append({"value": OTHER, "label": "find or type…"})
    if not value:  # the devices that the model's file brings, or the usual ones
        options.insert(0, {"value": "", "label": "as usual" if key == "cluster" else "choose…"})
    return {
        "key": key, "label": label, "kind": "select", "value": value, "options": options,
        "width_px": max(84, 36 + 8 * len(value)), "title": about.get(value),
    }  # fmt: skip


_DEGREES = {
    "stages": "Pipeline stages; a new even cut, replicas follow",
    "replicas": "Data-parallel replicas; a new even cut",
    "tensor": "Devices that share each layer; a new even cut, replicas follow",
    "context": "Devices that share the sequence of every sample; a new even cut, replicas follow",
    "expert": "Devices that share the experts of every mixture; a new even cut",
}
"""What each degree is; the fields stand together under the names of those that are present."""
_ALWAYS = ("stages", "replicas", "tensor")


def _options(values: Iterable[Any]) -> list[dict[str, Any]]:
    return [{"value": str(value), "label": str(value)} for value in values]


def _number(key: str, label: str, value: int, title: str, group: str | None = None) -> dict[str, Any]:
    return {
        "key": key, "label": label, "kind": "number", "value": value, "minimum": 1, "step": 1,
        "width_px": _digits_px(value), "title": title, "group": group,
    }  # fmt: skip


def _digits_px(value: int) -> int:
    """Return the width of a field that shows a whole number, with room for one more digit."""
    return max(40, 24 + 8 * len(str(value)))


def _work(point: Point, degrees: Degrees) -> Iterator[dict[str, Any]]:
    """Yield the fields of the workload."""
    job = point.inputs.job
    yield _number("global_batch", "Batch", job.global_batch, "Samples of one optimizer step")
    size = degrees.microbatch_size
    yield _number("microbatch_size", "Microbatch", size, "Samples of one microbatch per replica")
    if job.sequence_length:
        yield _number("sequence_length", "Sequence", job.sequence_length, "Tokens of one sample")


def _degrees(point: Point, degrees: Degrees) -> Iterator[dict[str, Any]]:
    """Yield the fields of how many devices work together in which way, without those that the model cannot be
    split along.
    """
    axes = splittable(point.inputs.graph)
    there = [key for key in _DEGREES if key in _ALWAYS or key in axes or getattr(degrees, key) > 1]
    name = " × ".join(there).capitalize()
    for key in there:
        yield _number(key, key.capitalize(), getattr(degrees, key), _DEGREES[key], name)
    if degrees.tensor > 1:
        yield {
            "key": "sequence_parallel", "label": "Sequence parallel", "kind": "select",
            "value": "yes" if degrees.sequence_parallel else "no", "options": _options(("no", "yes")),
            "title": "Devices that share each layer also split norms and additions along the sequence",
        }  # fmt: skip


def _schedule(found: tuple[Choice, ...], point: Point, degrees: Degrees) -> Iterator[dict[str, Any]]:
    """Yield the field of the schedule: every registered one, those that are impossible with what they
    need.
    """
    rows = [
        {
            "value": choice.name,
            "label": f"{choice.name}: {choice.problem}" if choice.problem else choice.name,
            "disabled": bool(choice.problem),
            "title": choice.title,
            "group": choice.group,
        }
        for choice in found
    ]
    shown = next(choice.title for choice in found if choice.name == degrees.schedule)
    yield {
        "key": "schedule", "label": "Schedule", "kind": "select", "value": degrees.schedule, "options": rows,
        "width_px": 128, "title": shown,
    }  # fmt: skip
    placement = degrees.placement
    if (placement.several and placement is not ANY) or degrees.chunks > 1:
        what = "Stages of each pipeline position; a new even cut"
        yield _number("chunks", "Chunks", degrees.chunks, what)
    yield from schedule_options(point)


def _choices(point: Point, degrees: Degrees) -> Iterator[dict[str, Any]]:
    job = point.inputs.job
    rows: list[tuple[str, str, Any, Iterable[Any]]] = [
        ("recompute", "Recompute", degrees.recompute, RECOMPUTE),
        ("zero", "ZeRO", str(degrees.zero), ZERO_LEVELS),
        ("precision", "Precision", job.precision, _PRECISIONS),
    ]
    for key, label, value, names in rows:
        yield {"key": key, "label": label, "kind": "select", "value": value, "options": _options(names)}
    yield from update_fields(point)
    software = [{"value": "", "label": "as usual"}, *_options(_with(framework_names(), job.framework))]
    yield {
        "key": "framework", "label": "Framework", "kind": "select", "value": job.framework,
        "options": software, "width_px": 116,
        "title": "Software that runs it: overheads, fused kernels, how gradients are reduced",
    }  # fmt: skip
    sure = bool(margin_settings(point.inputs.cluster))
    yield {
        "key": MARGIN, "label": "Memory", "kind": "select", "value": SURELY if sure else LIKELY,
        "options": [{"value": value, "label": label} for value, label in MARGIN_WORDS.items()],
        "title": "Plans whose predicted memory may fit, by its band, are taken; or only those that fit at its"
                 " upper end (--memory-margin)",
    }  # fmt: skip


def _with(names: list[str], present: str) -> list[str]:
    return names if not present or present in names else [*names, present]


def _buttons(
    *, ready: bool, busy: str, can_undo: bool, can_redo: bool, comparing: bool
) -> list[dict[str, Any]]:
    """Make the buttons; a disabled one says why. Stop stands in the sentence and in the tab that is at
    work.
    """
    wait = "" if ready else "Choose a model and a cluster first"
    if busy:
        wait = f"A {busy} is under way; Stop ends it"
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
