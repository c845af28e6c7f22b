"""Fields of the bar for the options of a plug-in, with types from the options themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from explorer.base.registry import Option, Spec


def option_fields(spec: Spec, given: Mapping[str, Any], prefix: str) -> Iterator[dict[str, Any]]:
    """Yield a field for every option of a plug-in.

    Args:
        spec: the plug-in.
        given: options that differ from their defaults.
        prefix: prefix of the fields' keys.
    """
    values = spec.read_options(given)
    for option in spec.options:
        yield {
            "key": prefix + option.name,
            "label": option.name.replace("_", " ").capitalize(),
            "title": option.help,
            **_typed(option, values[option.name]),
        }


def _typed(option: Option, value: Any) -> dict[str, Any]:
    """Return kind, value and limits of an option's field, by the type of its default."""
    if isinstance(option.default, bool):
        rows = [{"value": "false", "label": "no"}, {"value": "true", "label": "yes"}]
        return {"kind": "select", "value": str(value).lower(), "options": rows}
    if option.choices:
        rows = [{"value": str(item), "label": str(item)} for item in option.choices]
        return {"kind": "select", "value": str(value), "options": rows}
    if isinstance(option.default, int | float):
        step = 1 if isinstance(option.default, int) else None
        return {"kind": "number", "value": value, "minimum": option.minimum, "step": step, "width_px": 56}
    width = max(72, min(260, 24 + 8 * len(str(value))))
    return {"kind": "text", "value": str(value), "width_px": width}


def changed_options(
    spec: Spec, given: Mapping[str, Any], name: str, value: Any
) -> tuple[tuple[str, Any], ...]:
    """Return the options with one set; defaults are left out.

    Raises:
        InputError: no such option, or an impossible value.
    """
    read = spec.read_options({**given, name: value})
    usual = {option.name: option.default for option in spec.options}
    return tuple((own, read[own]) for own in usual if read[own] != usual[own])
