"""The folders of the bundled samples: cluster profiles, frameworks, models."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.files import exists
from explorer.base.plain_data import SUFFIXES


@cache
def sample_folder(part: str) -> Path:
    """Return the folder of bundled samples called `part` (`clusters`, `frameworks`, `models`).

    An installed package carries it as ``explorer/sample_profiles``; in a source checkout it stands next to
    the package.
    """
    package = Path(__file__).resolve().parents[1]
    inside = package / "sample_profiles" / part
    return inside if inside.is_dir() else package.parent / "sample_profiles" / part


@cache
def sample_names(part: str) -> tuple[str, ...]:
    """Return the names of the bundled samples of a part, sorted."""
    return tuple(sorted(path.stem for path in sample_folder(part).glob("*.yaml")))


def named_file(reference: str | Path, part: str) -> Path:
    """Return the file that a bundled name or a path means.

    Raises:
        InputError: it is neither a path nor a bundled name.
    """
    text, noun = str(reference), part.removesuffix("s")
    if isinstance(reference, Path) or text.endswith(SUFFIXES) or "/" in text or "\\" in text:
        return Path(reference)
    if text in sample_names(part):
        return sample_folder(part) / f"{text}.yaml"
    raise InputError(
        f"unknown {noun} {text!r}",
        key=noun,
        found=text,
        allowed=f"a YAML or JSON file, or one of {', '.join(sample_names(part))}",
    )


def extended_file(name: Any, path: Path, part: str, below: tuple[Path, ...]) -> Path:
    """Return the file that `path` extends by a plain name, either in its own folder or bundled.

    Args:
        name: the value under ``extends``.
        path: the file that contains it.
        part: kind of the samples.
        below: files that led to this one.

    Raises:
        InputError: there is no such file, or it is one of those that led here.
    """
    file = str(path)
    if isinstance(name, str) and name and name == Path(name).name and not name.startswith("."):
        for folder in (path.parent, sample_folder(part)):
            for suffix in SUFFIXES:
                if exists(found := folder / f"{name}{suffix}"):
                    if found in (*below, path):
                        chain = " -> ".join(item.stem for item in (*below, path, found))
                        raise InputError(f"extends itself: {chain}", file=file, key="extends", found=name)
                    return found
    near = ", ".join(get_close_matches(str(name), sample_names(part), n=3, cutoff=0.0))
    allowed = f"a file's name beside this one, or one from `explorer list {part}`, as {near}"
    raise InputError(f"cannot extend {name!r}", file=file, key="extends", found=name, allowed=allowed)


def merged_sources(*parts: Any) -> Any:
    """Merge lists of sources, the last of equal keys winning; return anything else as it is."""
    for part in parts:
        if not isinstance(part, list) or not all(_is_source(item) for item in part):
            return part
    return list({source["key"]: source for part in parts for source in part}.values())


def _is_source(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("key"), str)
