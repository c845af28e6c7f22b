"""Formats: YAML, JSON, TOML and CSV text to plain data and back. Nothing that a file contains is run.

The depth of a text is checked before a parser builds anything, since parsers written in C recurse: 50 KB of
`[` would end the process. The parsed data is checked once more: depth again (aliases of YAML), lists that
contain themselves, aliases that multiply, and numbers that are not finite or beyond all reason. Every
exception of every parser becomes one `InputError`.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import yaml

from explorer.base.errors import InputError

DEEPEST = 100
"""Levels of nested lists and mappings that a file may have; ours have 10."""
MOST_VALUES = 20_000_000
"""Values that a file may hold, each counted as often as aliases repeat it."""
MOST_WHOLE = 10**15
"""Largest whole number, positive or negative."""
MOST_NUMBER, LEAST_NUMBER = 1e30, 1e-100
"""Bounds of the size of a number that is not 0."""

_WRONG = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError)
"""Errors that parsers raise besides their own (`!!timestamp foo`, `!!bool foo`, `!!int ''`)."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loader of safe YAML (data only) that refuses a key given twice and a key that is not a plain value."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        """Return a mapping after checking its keys, since a later duplicate would silently win."""
        seen: set[str] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key.value, str):
                raise InputError(f"line {line}: a key that is a list or mapping", allowed="names as keys")
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise _twice(key.value, f"line {line}: ")
            seen.add(key.value)
        result: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return result


def _twice(key: str, place: str = "") -> InputError:
    return InputError(f"{place}the key {key!r} is given twice", key=key, found=key, allowed="each key once")


def parse_yaml(text: str) -> Any:
    """Return the plain data of YAML text.

    Raises:
        InputError: it has a syntax error, a key given twice, or data beyond the limits of this module.
    """
    try:
        _check_events(text)
        data = yaml.load(text, Loader=_Loader)  # data only: a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        problem = " ".join(str(error.problem or error.context).split())
        raise InputError(f"{line}not plain YAML: {problem}", allowed="plain YAML data") from None
    except (yaml.YAMLError, *_WRONG) as error:
        raise InputError(f"not plain YAML: {_words(error)}", allowed="plain YAML data") from None
    check_data(data)
    return data


def _check_events(text: str) -> None:
    """Refuse text that is too deep; libyaml's parser, unlike its composer, does not recurse."""
    depth = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _too_deep("plain YAML")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def parse_json(text: str | bytes, *, ours: bool = True, number: bool = True) -> Any:
    """Return the plain data of JSON text.

    Args:
        text: the text; bytes are UTF-8.
        ours: whether it is a format of this product: a key given twice and numbers out of range are refused.
        number: whether Python's `NaN` and `Infinity`, which are not JSON, are refused.

    Raises:
        InputError: it has a syntax error, or data beyond the limits of this module.
    """
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        check_brackets(text, "JSON")
        data = json.loads(
            text,
            object_pairs_hook=_unique if ours else None,
            parse_constant=_no_number if number else None,
        )
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno}: not JSON: {error.msg}", allowed="JSON") from None
    except _WRONG as error:  # UnicodeDecodeError is a ValueError
        raise InputError(f"not JSON: {_words(error)}", allowed="JSON") from None
    if ours and _SUSPECT.search(text):
        check_data(data)
    return data


_SUSPECT = re.compile(r"\d{16}|[eE](?:\+?\d\d|-(?:[1-9]\d|\d{3}))")
"""Number of digits below which no number of a JSON text can be out of range."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        raise _twice(next(name for i, name in enumerate(names) if name in names[:i]))
    return result


def _no_number(text: str) -> Any:
    raise InputError(f"not JSON: {text} is no number", found=text, allowed="finite numbers")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the plain data of TOML text.

    Raises:
        InputError: it has a syntax error, or data beyond the limits of this module.
    """
    try:
        check_brackets(text, "TOML")
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, *_WRONG) as error:
        raise InputError(f"not TOML: {_words(error)}", allowed="TOML") from None
    check_data(data)
    return data


def parse_csv(text: str) -> Iterator[list[str]]:
    """Yield the cells of each line of CSV text.

    Raises:
        InputError: a quote stays open to the end of the file, or the text has a NUL.
    """
    reader = csv.reader(io.StringIO(text))
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"line {reader.line_num}: not CSV: {error}", allowed="CSV") from None


def yaml_text(data: Any) -> str:
    """Return plain data as YAML text, keys in their order, short lists on one line."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(data, Dumper=dumper, sort_keys=False, default_flow_style=None, width=110)
    return text


class _BlockDumper(yaml.SafeDumper):
    """Dumper that writes texts of several lines as blocks, and never refers back."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write everything out."""
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_BlockDumper.add_representer(str, _block)


def yaml_blocks(data: Any) -> str:
    """Return plain data as YAML text of one key or item a line, keys in their order, as people write it."""
    text: str = yaml.dump(data, Dumper=_BlockDumper, sort_keys=False, width=110)
    return text


def yaml_key_lines(text: str) -> dict[str, int]:
    r"""Return dotted key -> line, counted from 1, of all keys of mappings in a YAML (or JSON) text.

    >>> yaml_key_lines("a:\n  b: 1\nc: 2")
    {'a': 1, 'a.b': 2, 'c': 3}

    Raises:
        InputError: the text is neither.
    """
    text = text.expandtabs()
    parse_yaml(text)  # refuses what is too deep or too large before a tree is built
    return dict(_key_lines(yaml.compose(text, Loader=yaml.SafeLoader), ""))


def _key_lines(node: object, above: str) -> Iterator[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        name = f"{above}{getattr(key, 'value', '')}"
        yield name, key.start_mark.line + 1
        yield from _key_lines(value, f"{name}.")


def json_text(data: Any, *, indent: int | None = 2) -> str:
    """Return plain data as JSON text.

    Raises:
        InputError: it has a number that is not finite.
    """
    try:
        return json.dumps(data, indent=indent, allow_nan=False)
    except ValueError as error:
        raise InputError(f"cannot be written as JSON: {_words(error)}", allowed="finite numbers") from None


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows of cells as CSV text, one line each."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PAIR = re.compile(r"\[\]|\{\}")
_NO_BRACKET = re.compile(r"[^\[\]{}]+")


def check_brackets(text: str, what: str) -> None:
    """Refuse text whose brackets are nested more than `DEEPEST` deep; strings in "" do not count.

    Empty pairs are removed until none is left: one level in each pass, all in C.

    Raises:
        InputError: it is too deep.
    """
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    rest = _NO_BRACKET.sub("", _STRING.sub("", text))
    for _ in range(DEEPEST):
        less = _PAIR.sub("", rest)
        if len(less) == len(rest):  # the rest has no partner: no parser will take it, unless it is too deep
            most = DEEPEST
            break
        rest = less
    else:
        most = 0
    if rest.count("[") + rest.count("{") > most:
        raise _too_deep(what)


def _too_deep(what: str) -> InputError:
    return InputError(f"not {what}: nested too deeply", allowed=f"up to {DEEPEST} levels")


def check_data(data: Any) -> None:
    """Refuse parsed data that cannot mean anything to us: see the limits of this module.

    Raises:
        InputError: it is too deep, a list contains itself, it has too many values, or a number is out of
            range.
    """
    _measure(data, "", 0, {}, set())


def _measure(
    value: Any, key: str, depth: int, known: dict[int, tuple[int, int]], above: set[int]
) -> tuple[int, int]:
    """Count the values in a value and the levels below it, walking once through what aliases repeat."""
    if not isinstance(value, (dict, list, tuple, set)):
        _check_number(value, key)
        return 1, 0
    own = id(value)
    if own in above:
        raise InputError("a list or mapping that contains itself", key=key, allowed="plain data")
    if own not in known:
        _check_depth(depth, key)
        above.add(own)
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        count, levels = 1, 0
        for name, item in items:
            at = f"{key}[{name}]" if isinstance(name, int) else f"{key}.{name}" if key else str(name)
            more, below = _measure(item, at, depth + 1, known, above)
            count, levels = count + more, max(levels, below)
            if count > MOST_VALUES:
                raise InputError("too many values", key=key, allowed=f"up to {MOST_VALUES:,}")
        above.discard(own)
        known[own] = count, levels + 1
    _check_depth(depth + known[own][1] - 1, key)
    return known[own]


def _check_depth(levels: int, key: str) -> None:
    if levels >= DEEPEST:
        raise InputError("nested too deeply", key=key, allowed=f"up to {DEEPEST} levels")


def _check_number(value: Any, key: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if isinstance(value, int):
        if not -MOST_WHOLE <= value <= MOST_WHOLE:
            shown = f"{value:.3g}" if abs(value) < 10**300 else f"a number of {value.bit_length()} bits"
            raise InputError(
                f"{shown} is out of range",
                key=key,
                found=shown,
                allowed=f"whole numbers up to {MOST_WHOLE:.0e}",
            )
    elif value and not LEAST_NUMBER <= abs(value) <= MOST_NUMBER:
        raise InputError(
            f"{value!r} is out of range",
            key=key,
            found=value,
            allowed=f"0, or a finite number of a size from {LEAST_NUMBER:g} to {MOST_NUMBER:g}",
        )


def _words(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = " ".join(str(error).split())
    return (
        text if isinstance(error, (ValueError, yaml.YAMLError)) and text else f"{type(error).__name__} {text}"
    )


__all__ = [
    "DEEPEST", "LEAST_NUMBER", "MOST_NUMBER", "MOST_VALUES", "MOST_WHOLE", "check_brackets", "check_data",
    "csv_text", "json_text", "parse_csv", "parse_json", "parse_toml", "parse_yaml", "yaml_blocks",
    "yaml_key_lines", "yaml_text",
]  # fmt: skip
