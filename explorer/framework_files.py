"""Framework files: YAML or JSON that describes a framework, bundled by name or anywhere by path.

A file is data: the fields of `explorer.framework.Framework`, quantities as numbers or text with a unit,
besides ``schema: explorer.framework/1`` and, optionally, ``extends: NAME``. The framework of that name
(bundled, or next to the file) is read first and this file's keys go over its own. `by_kind` says by device
kind what differs from `costs`; what it leaves out is as there, with its source. A number that a file states
is that file's: a framework that extends another without restating it shares it, and a fit to measurements
moves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.plain_data import read_document, to_fields, validate
from explorer.base.sample_files import extended_file, merged_sources, named_file, sample_names
from explorer.framework import USUAL, Framework

SCHEMA = "explorer.framework/1"
"""Format name and version, which every file states."""


def framework_names() -> list[str]:
    """Return the names of the bundled frameworks, sorted."""
    return list(sample_names("frameworks"))


def framework_called(name: str) -> str:
    """Return the bundled framework that a name means: the newest one of that name where the year is left out,
    else the name as it is.

    >>> framework_called("deepspeed")
    'deepspeed-2023'
    """
    of_years = [item for item in framework_names() if item.rpartition("-")[2].isdigit()]
    return max((item for item in of_years if item.rpartition("-")[0] == name), default=name)


def load_framework(reference: str | Path) -> Framework:
    """Return a framework: a bundled one by name, or the one in a YAML or JSON file; empty text is `USUAL`.

    >>> load_framework("megatron-2021").software
    'Megatron-LM'

    Raises:
        InputError: no such name or file, or a wrong file: one line with file, key, value and what is allowed.
    """
    if not str(reference):
        return USUAL
    path = named_file(reference, "frameworks")
    try:
        changed = path.stat().st_mtime_ns
    except (OSError, ValueError):
        changed = 0  # reading it says what is wrong
    return _loaded(path, changed)


@lru_cache(maxsize=64)
def _loaded(path: Path, _changed: int) -> Framework:
    raw = _resolved(path, ())
    try:
        return validate(to_fields(raw, Framework), Framework)
    except InputError as error:
        raise error.within(file=str(path)) from None


def _resolved(path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    """Return the plain data of a file merged over that of the one it extends; `below` are the files that led
    here.
    """
    raw, file = read_document(path), str(path)
    if not isinstance(raw, Mapping) or raw.get("schema") != SCHEMA:
        found = raw.get("schema") if isinstance(raw, Mapping) else raw
        raise InputError("not a framework", file=file, key="schema", found=found, allowed=SCHEMA)
    own = {key: value for key, value in raw.items() if key != "schema"}
    base: dict[str, Any] = {}
    if (name := own.pop("extends", None)) is not None:
        base = _resolved(extended_file(name, path, "frameworks", below), (*below, path))
    own["costs"] = _costs(own.get("costs"), base.get("costs", {}), own, file, "costs")
    by_kind = own.get("by_kind", {})
    if not isinstance(by_kind, Mapping):
        raise InputError(
            "no costs by device kind", file=file, key="by_kind", found=by_kind, allowed="a mapping by kind"
        )
    here = {kind: _costs(part, own["costs"], own, file, f"by_kind.{kind}") for kind, part in by_kind.items()}
    own["by_kind"] = {
        **here,
        **{kind: part for kind, part in base.get("by_kind", {}).items() if kind not in here},
    }
    return {**base, **own}


def _costs(
    part: Any, under: Mapping[str, Any], own: Mapping[str, Any], file: str, key: str
) -> dict[str, Any]:
    """Return the costs of a file, what they leave out taken from those `under` them.

    Raises:
        InputError: `part` is not a mapping.
    """
    if part is None:
        return dict(under)
    if not isinstance(part, Mapping):
        raise InputError("no costs", file=file, key=key, found=part, allowed="host_issue_s: 6 us, ...")
    sources = merged_sources(under.get("sources", []), part.get("sources", []))
    return {**under, "framework": own.get("name", ""), **part, "sources": sources}
