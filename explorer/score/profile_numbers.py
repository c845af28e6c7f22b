"""Fitted numbers in the text of profiles: where a knob's number stands, and the text with another number.

Profiles are written by hand, with comments and an order of their own. A fit changes the digits of a number
and the `fitted_on` of its source, nothing else: both are found by parsing the text with positions
(`yaml.compose`). Only plain numbers are written so: tiles and curves are fitted to kernels, not to steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from explorer.base.errors import InputError
from explorer.base.sample_files import sample_folder, sample_names
from explorer.base.units import parse_quantity
from explorer.score.reading import read_text

_QUANTITY = re.compile(r"(?P<number>[-+.\deE]+)(?P<rest>.*)", re.DOTALL)
_FITTED_ON = re.compile(r"fitted_on: (?:[\w. -]+|\"[^\"]*\")")
_DIGITS = 4


class Place(NamedTuple):
    """A number in a file."""

    path: Path
    """The file."""
    start: int
    """First character of the number."""
    end: int
    """Character behind it."""
    source_start: int
    """First character of its source."""
    source_end: int
    """Character behind that."""


def places_of(key: str, kinds: Mapping[str, Iterable[str]]) -> tuple[Place, ...]:
    """Return every place that states the number of a knob: levels of equal devices may be in several files.

    Args:
        key: the knob's key, `KIND.NAME`, `KIND/LEVEL.NAME` or `KIND/FRAMEWORK.NAME`.
        kinds: by cluster profile, the names of its device kinds in use.

    Raises:
        InputError: no bundled file states the number with a source that says what it was fitted on.
    """
    owner, _, name = key.partition(".")
    kind, _, part = owner.partition("/")
    found = []
    for path, node in _nodes(kind, part, kinds):
        number, source = _child(node, name), _source(node, name)
        if isinstance(number, yaml.ScalarNode) and source is not None:
            place = Place(
                path, number.start_mark.index, number.end_mark.index, source.start_mark.index,
                source.end_mark.index,
            )  # fmt: skip
            found.append(place)
            if part in sample_names("frameworks"):
                break  # what a kind says goes before what is said in general
    if found:
        return tuple(found)
    raise InputError(
        "no bundled profile states this number with what it was fitted on", key=key, found=key,
        allowed="a plain number of a device kind, a level or a framework",
    )  # fmt: skip


def _nodes(kind: str, part: str, kinds: Mapping[str, Iterable[str]]) -> Iterator[tuple[Path, Any]]:
    """Yield the blocks of bundled files that may state a number of an owner."""
    if part in sample_names("frameworks"):
        path = sample_folder("frameworks") / f"{part}.yaml"
        root = _compose(path)
        for pattern, node in _items(_child(root, "by_kind")):
            if fnmatchcase(kind, pattern):
                yield path, node
        if (node := _child(root, "costs")) is not None:
            yield path, node
        return
    for name in sample_names("clusters"):
        path = sample_folder("clusters") / f"{name}.yaml"
        blocks = _child(_compose(path), "levels" if part else "device_kinds")
        if part and kind not in kinds.get(name, ()):
            continue
        for node in blocks.value if blocks is not None else ():
            if _child(node, "name").value == (part or kind):
                yield path, node


def _compose(path: Path) -> Any:
    return _composed(read_text(path))


@lru_cache(maxsize=256)
def _composed(text: str) -> Any:
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _items(node: Any) -> list[tuple[str, Any]]:
    return [(key.value, value) for key, value in node.value] if isinstance(node, yaml.MappingNode) else []


def _child(node: Any, key: str) -> Any:
    return dict(_items(node)).get(key)


def _source(node: Any, name: str) -> Any:
    """Return the source of a number that says what it was fitted on; None without one."""
    sources = _child(node, "sources")
    for item in sources.value if sources is not None else ():
        if _child(item, "key").value == name and _child(item, "fitted_on") is not None:
            return item
    return None


def with_numbers(changes: Mapping[Place, tuple[str, float, str]]) -> dict[Path, str]:
    """Return the texts of files with other numbers.

    Args:
        changes: by place, the name of its number, the value that it gets, and the sources of the fit.
    """
    edits: dict[Path, dict[tuple[int, int], str]] = {}
    for place, (name, after, fitted_on) in changes.items():
        text = read_text(place.path)
        own = text[place.start : place.end]
        before = _value(own, name)
        number = scaled(own, after / before if before else 0.0, after)
        told = _FITTED_ON.sub(f"fitted_on: {fitted_on}", text[place.source_start : place.source_end])
        edits.setdefault(place.path, {}).update({
            (place.start, place.end): number, (place.source_start, place.source_end): told
        })  # fmt: skip
    return {path: _edited(read_text(path), own) for path, own in edits.items()}


def _edited(text: str, edits: Mapping[tuple[int, int], str]) -> str:
    for (start, end), new in sorted(edits.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _value(text: str, name: str) -> float:
    """Return a quantity in the unit of its field, by the end of the field's name."""
    ends = ("bytes_per_s", "bytes", "s")
    dimension = next((end for end in ends if name.endswith(f"_{end}")), "")
    return parse_quantity(text, dimension) if dimension else float(text)


def scaled(text: str, factor: float, value: float) -> str:
    """Return a quantity times a factor, in its own unit; a value of its own where it was 0.

    >>> scaled("19 us", 0.5, 9.5e-6), scaled("0.1", 1.234567, 0.1234567), scaled("0", 0.0, 0.05)
    ('9.5 us', '0.1235', '0.05')
    """
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{text!r} is no quantity", key="number", found=text, allowed="19 us")
    number = float(found["number"])
    return f"{(number * factor if number else value):.{_DIGITS}g}{found['rest']}"
