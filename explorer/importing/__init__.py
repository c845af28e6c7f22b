"""Import: the config of a running job as a plan, one file for each trainer.

An importer reads a text and never runs it: shell scripts, Python modules and YAML are parsed. What a plan has
no word for is listed with its line and what is assumed of it.

>>> from explorer.importing import IMPORTERS
>>> "torchtitan" in IMPORTERS.names()
True
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from explorer.base.errors import InputError, PlanError
from explorer.base.files import STANDARD_INPUT, exists, is_folder, read_standard_input, read_text
from explorer.base.registry import Registry
from explorer.base.trust import Trust
from explorer.importing._source import SourceText
from explorer.importing.spec import Imported, Importer, UnknownKey

__all__ = [
    "IMPORTERS",
    "Imported",
    "Importer",
    "SourceText",
    "UnknownKey",
    "import_file",
    "import_text",
    "recognised",
    "source_text",
]

IMPORTERS: Registry[Importer] = Registry("importer", "explorer.importing")


def import_file(
    path: Path, name: str, *, model: str | None = None, cluster: str | None = None, trust: Trust = False
) -> Imported:
    """Read a config of the trainer called `name` as a plan; without a name, of the trainer that it shows.

    Args:
        path: a file, a folder that an export made, or `-` for standard input.
        name: name of an importer; empty to tell by the text.
        model: model, needed if the config does not tell; otherwise it overrides.
        cluster: cluster, needed if the config does not tell; otherwise it overrides.
        trust: code that the config may name as its model: see `explorer.base.trust`.

    Raises:
        InputError: the trainer is unknown or not told, or the config cannot be read as a plan.
        PlanError: keys that contradict each other, or what a plan cannot express; lists all of it.
    """
    main = IMPORTERS.get(name).main if name else _main_of(path)
    return import_text(replace(source_text(path, main, model, cluster), trusted=trust), name)


def import_text(source: SourceText, name: str = "") -> Imported:
    """Read a text as the config of the trainer called `name`; without a name, of the trainer that it shows.

    Raises:
        InputError: the trainer is unknown or not told, or the text cannot be read as a plan.
        PlanError: keys that contradict each other, or what a plan cannot express; lists all of it.
    """
    entry = IMPORTERS.get(name or _only(source))
    try:
        imported: Imported = entry.function(source)
    except PlanError as error:
        raise PlanError(error.problems, file=error.file or source.name) from None
    except InputError as error:
        raise error.within(file=source.name) from None
    return imported


def recognised(source: SourceText) -> list[str]:
    """Return the names of the importers that take a text for their trainer's."""
    return [entry.name for entry in IMPORTERS if entry.sniff(source)]


def _only(source: SourceText) -> str:
    names = recognised(source)
    if len(names) != 1:
        raise InputError(
            f"the text shows {'no trainer' if not names else ' and '.join(names)}",
            file=source.name,
            key="--from",
            found=", ".join(names) or "none",
            allowed=", ".join(names or IMPORTERS.names()),
        )
    return names[0]


def _main_of(path: Path) -> str:
    """Return the file of a folder that some importer reads."""
    if str(path) == STANDARD_INPUT or not is_folder(path):
        return ""
    return next((entry.main for entry in IMPORTERS if entry.main and exists(path / entry.main)), "")


def source_text(path: Path, main: str, model: str | None, cluster: str | None) -> SourceText:
    """Return the text to be read; ``file.py:name`` also names a part of the file.

    Args:
        path: a file, a folder or `-` for standard input.
        main: name of the file that is read in a folder.
        model: model that the user names.
        cluster: cluster that the user names.

    Raises:
        InputError: the file cannot be read.
    """
    part = ""
    if str(path) == STANDARD_INPUT:
        text = read_standard_input()
        return SourceText(name="standard input", text=text, folder=Path(), model=model, cluster=cluster)
    if not exists(path) and ":" in path.name:
        name, _, part = path.name.rpartition(":")
        path = path.with_name(name)
    if is_folder(path):
        path /= main
    return SourceText(
        name=str(path), text=read_text(path), folder=path.parent, part=part, model=model, cluster=cluster
    )
