"""YAML and JSON at the border: files as plain data, and plain data as the fields of our dataclasses.

Files may write a quantity as a number or as text with its unit (``80 GiB``), and pairs of name and value
as a mapping (``{bf16: 312 TFLOP/s}``); inside there are only numbers and tuples. Nothing here runs code
that a file contains. Every complaint is one `InputError` with the path of the key.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import cache, reduce
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any, TypeVar

from explorer.base.errors import InputError
from explorer.base.files import MOST_BYTES, read_text, write_text
from explorer.base.formats import LEAST_NUMBER, json_text, parse_json, parse_yaml, yaml_text
from explorer.base.units import MOST, parse_quantity

T = TypeVar("T")

SUFFIXES = (".yaml", ".yml", ".json")
"""File name endings that can be read."""

_POINTS = tuple[tuple[float, float], ...]

_DIMENSIONS = (  # the longer suffix first: `_bytes_per_s` also ends in `_s`
    ("_flops_per_s", "flops_per_s"),
    ("_bytes_per_s", "bytes_per_s"),
    ("_bytes", "bytes"),
    ("_watts", "watts"),
    ("_s", "s"),
)


def read_document(path: Path) -> Any:
    """Return the plain data of a YAML or JSON file.

    Raises:
        InputError: it is missing, unreadable or too long, has a syntax error, or a key given twice.
    """
    file = str(path)
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"unknown kind of file {path.suffix!r}", file=file, found=path.suffix, allowed=", ".join(SUFFIXES)
        )
    text = read_text(path)
    try:
        return parse_document(text, json_text=path.suffix == ".json")
    except InputError as error:
        raise error.within(file=file) from None


def read_json(path: str | Path, *, most: int = MOST_BYTES) -> Any:
    """Return the plain data of a JSON file of any name; `-` is standard input.

    Raises:
        InputError: as `read_document`.
    """
    text = read_text(path, most=most)
    try:
        return parse_json(text)
    except InputError as error:
        raise error.within(file=str(path)) from None


def parse_document(text: str, *, json_text: bool = False) -> Any:
    r"""Return the plain data of YAML or JSON text.

    >>> parse_document("name: small\nlevels: [a, b]")
    {'name': 'small', 'levels': ['a', 'b']}

    Raises:
        InputError: it has a syntax error, a key given twice, or data beyond the limits of
            `explorer.base.formats`.
    """
    return parse_json(text) if json_text else parse_yaml(text)


def write_document(data: Any, path: Path) -> None:
    """Write plain data as YAML or, if the name ends in `.json`, as JSON; the old file stays until then.

    Raises:
        InputError: the folder is missing or may not be written, or the name has another ending.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(f"unknown kind of file {path.suffix!r}", file=str(path), allowed=", ".join(SUFFIXES))
    write_text(path, json_text(data) + "\n" if path.suffix == ".json" else yaml_text(data))


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {item.name: hints[item.name] for item in fields(cls) if item.init}


_UNITS: dict[str | None, str] = {
    "flops_per_s": " FLOP/s", "bytes_per_s": " B/s", "bytes": " B", "watts": " W", "s": " s",
}  # fmt: skip


def _dimension(name: str) -> str | None:
    return next((dimension for suffix, dimension in _DIMENSIONS if name.endswith(suffix)), None)


def _show(key: str, name: str | int) -> str:
    if isinstance(name, int):
        return f"{key}[{name}]"
    return f"{key}.{name}" if key else name


def to_fields(raw: Any, cls: type, key: str = "") -> dict[str, Any]:
    """Convert plain data of a file for `cls`: quantities into their units, mappings of pairs into lists.

    Raises:
        InputError: a key is unknown or missing, or a quantity is not one. Other types are left to pydantic.
    """
    if not isinstance(raw, Mapping):
        raise InputError(
            f"{short_repr(raw)} where fields are needed",
            key=key,
            found=raw,
            allowed=f"a mapping with {', '.join(_hints(cls))}",
        )
    hints = _hints(cls)
    for name in raw:
        if name not in hints:
            near = get_close_matches(str(name), hints, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"unknown key {short_repr(name)}{hint}",
                key=_show(key, str(name)),
                found=name,
                allowed=", ".join(hints),
            )
    for item in fields(cls):
        if item.init and item.default is MISSING and item.default_factory is MISSING and item.name not in raw:
            raise InputError("missing", key=_show(key, item.name), allowed="a value: it has no default")
    return {
        name: _value(value, hints[name], _dimension(name), _show(key, name)) for name, value in raw.items()
    }


def _value(raw: Any, hint: Any, dimension: str | None, key: str) -> Any:
    if hint is float:
        return _number(raw, dimension, key)
    if hint == _POINTS:
        return _points(raw, key)
    if is_dataclass(hint):
        return to_fields(raw, typing.cast("type", hint), key)
    if typing.get_origin(hint) is tuple and isinstance(raw, (list, Mapping)):
        return _items(raw, typing.get_args(hint)[0], dimension, key)
    return raw


def _items(raw: list[Any] | Mapping[Any, Any], hint: Any, dimension: str | None, key: str) -> list[Any]:
    """Convert a list of values of the type `hint`; pairs come as a mapping, or as pairs if names repeat."""
    pair = _pair(hint)
    if pair is not None and raw and isinstance(raw, list) and all(map(_names_a_value, raw)):
        return [[name, _value(item, pair, dimension, _show(key, name))] for name, item in raw]
    if isinstance(raw, Mapping) is (pair is None):
        allowed = "a list" if pair is None else "a mapping of names to values"
        raise InputError(f"{short_repr(raw)} is not valid", key=key, found=raw, allowed=allowed)
    if isinstance(raw, Mapping):
        return [[name, _value(item, pair, dimension, _show(key, str(name)))] for name, item in raw.items()]
    return [_value(item, hint, dimension, _show(key, i)) for i, item in enumerate(raw)]


def _pair(hint: Any) -> Any:
    """Return the value type of a pair (name, value); None for other types."""
    inner = typing.get_args(hint)
    is_pair = typing.get_origin(hint) is tuple and len(inner) == 2 and inner[0] is str
    return inner[1] if is_pair and inner[1] is not Ellipsis else None


def _names_a_value(raw: Any) -> bool:
    return isinstance(raw, list) and len(raw) == 2 and isinstance(raw[0], str)


def _points(raw: Any, key: str) -> Any:
    if not isinstance(raw, list) or any(not isinstance(row, list) or len(row) != 2 for row in raw):
        raise InputError(
            f"{short_repr(raw)} is not a list of points",
            key=key,
            found=raw,
            allowed="[[size, fraction], ...]",
        )
    return [
        [_number(item, None, _show(_show(key, i), j)) for j, item in enumerate(row)]
        for i, row in enumerate(raw)
    ]


def _number(raw: Any, dimension: str | None, key: str) -> float:
    """Return a finite number of 0 or more: nothing that a profile holds can be negative."""
    try:
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise ValueError
        value = parse_quantity(raw, dimension) if dimension else float(raw)
    except InputError as error:
        raise error.within(key=key) from None
    except (ValueError, OverflowError):
        raise InputError(f"{short_repr(raw)} is no number", key=key, found=raw, allowed="a number") from None
    most = MOST[dimension]
    if not (value == 0 or LEAST_NUMBER <= value <= most):
        raise InputError(
            f"{raw!r} is out of range",
            key=key,
            found=raw,
            allowed=f"0, or a finite number from {LEAST_NUMBER:g} to {most:g}{_UNITS.get(dimension, '')}",
        )
    return value


def to_plain(value: Any) -> Any:
    """Return a dataclass as plain data for a file, without defaults; `to_fields` takes it back exactly."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        shown = {}
        for item in fields(value):
            found = getattr(value, item.name) if item.init else item.default
            if item.init and found != item.default:
                shown[item.name] = _plain_field(found, hints[item.name])
        return shown
    return [to_plain(item) for item in value] if isinstance(value, tuple) else value


def plain_field(value: Any, name: str) -> Any:
    """Return one field of a dataclass as plain data, its default included."""
    cls: type = type(value)
    return _plain_field(getattr(value, name), _hints(cls)[name])


def _plain_field(value: Any, hint: Any) -> Any:
    if typing.get_origin(hint) is tuple and _pair(typing.get_args(hint)[0]) is not None:
        pairs = [[name, to_plain(item)] for name, item in value]
        found = dict(pairs)
        return found if len(found) == len(pairs) else pairs  # a dimension may be over two axes of a layout
    return to_plain(value)


@cache
def adapter(cls: type) -> Any:
    """Return the pydantic validator of a dataclass, made once; pydantic, slow to import, waits until here."""
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def validate(data: Mapping[str, Any], cls: type[T]) -> T:
    """Make a `cls` from the result of `to_fields`, checking every type strictly.

    Raises:
        InputError: a value has the wrong type, or the dataclass itself refuses it.
    """
    from pydantic import ValidationError

    try:
        made: T = adapter(typing.cast("type", cls)).validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        raise _wrong_type(error) from None
    except InputError as error:
        raise _located(error, data, cls) from None
    return made


def _wrong_type(error: Any, above: str = "") -> InputError:
    """Turn pydantic's first complaint into ours; `above` is the path of the validated value."""
    first = error.errors(include_url=False)[0]
    found = first.get("input")
    return InputError(
        f"{short_repr(found)} is not valid",
        key=reduce(_show, first["loc"], above),
        found=found,
        allowed=_allowed(first["msg"]),
    )


def _allowed(message: str) -> str:
    text = message.removeprefix("Input should be ").removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _located(error: InputError, data: Any, cls: type, key: str = "") -> InputError:
    """Return the error with the path of the part that refused itself: the parts are tried again in turn."""
    from pydantic import ValidationError

    for child_key, child, child_cls in _children(data, cls, key):
        try:
            adapter(child_cls).validate_json(json.dumps(child, default=str), strict=True)
        except ValidationError as inner:  # from a part that pydantic had not reached
            return _wrong_type(inner, child_key)
        except InputError as inner:
            return _located(inner, child, child_cls, child_key)
    path = _show(key, error.key) if error.key else key
    return InputError(error.message, key=path, found=error.found, allowed=error.allowed)


def _children(data: Any, cls: type, key: str) -> Iterator[tuple[str, Any, type]]:
    hints = _hints(cls)
    for name, value in data.items():
        hint = hints[name]
        if is_dataclass(hint):
            yield _show(key, name), value, typing.cast("type", hint)
        if typing.get_origin(hint) is not tuple or not isinstance(value, list):
            continue
        inner = typing.get_args(hint)[0]
        pair = _pair(inner)
        for i, item in enumerate(value):
            if is_dataclass(inner):
                yield _show(_show(key, name), i), item, typing.cast("type", inner)
            elif is_dataclass(pair):
                yield _show(_show(key, name), item[0]), item[1], typing.cast("type", pair)
