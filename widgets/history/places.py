"""Places of saved sessions: the names of their files, what is set aside, and when that was, in words."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.files import make_folder, write_text
from explorer.base.plain_data import SUFFIXES

FOLDER = ".explorer"
"""Folder, in the kernel's working folder, of sessions without a given name."""
NOTEBOOK = "JPY_SESSION_NAME"
"""Environment variable in which a Jupyter server tells a kernel its notebook."""
VARIABLE = "EXPLORER_SESSIONS"
"""Environment variable with another folder for them, or `off`."""
MOST_EARLIER = 20
"""Most earlier sessions kept of one name; the oldest is removed."""


def place(*, session: str | Path | bool | None, asked: Mapping[str, Any]) -> Path | None:
    """Return the file of a session; None if there is to be none.

    Raises:
        InputError: a file of another kind.
    """
    if isinstance(session, str | Path) and str(session):
        path = Path(session)
        if path.suffix not in SUFFIXES:
            raise InputError(
                f"unknown kind of file {path.suffix!r}",
                key="session", found=str(session), allowed=f"a name that ends in {', '.join(SUFFIXES)}",
            )  # fmt: skip
        return path
    folder = os.environ.get(VARIABLE, FOLDER)
    if session is not True or folder == "off" or not wanted():
        return None
    book = notebook()
    told = {**asked, "notebook": book}  # two notebooks of a folder have a session each
    key = json.dumps({name: str(value) for name, value in sorted(told.items()) if value})
    words = [
        book.removesuffix(".ipynb"),
        *(str(asked.get(name) or "") for name in ("plan", "model", "cluster")),
    ]
    stem = "-".join(re.sub(r"[^A-Za-z0-9]+", "-", Path(word).name).strip("-") for word in words if word)
    return Path(folder) / f"{stem[:60] or 'session'}-{hashlib.sha256(key.encode()).hexdigest()[:6]}.json"


def notebook() -> str:
    """Return the name of the notebook whose kernel this is; empty where the front end does not tell it."""
    name, suffix, _ = Path(os.environ.get(NOTEBOOK, "")).name.partition(".ipynb")  # VS Code adds a number
    return name + suffix if suffix else ""


def wanted() -> bool:
    """Tell whether this is a notebook of one person: a kernel that does not serve an application to many."""
    server = os.environ.get("SERVER_SOFTWARE", "").lower()
    if server.startswith("voila") or any(name.startswith("VOILA") for name in os.environ):
        return False
    return in_kernel()


def in_kernel() -> bool:
    """Tell whether this process is a kernel, whose cells somebody sees."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return getattr(get_ipython(), "kernel", None) is not None


def names(first: Path) -> list[Path]:
    """List the names to try, in order."""
    return [first, *(first.with_name(f"{first.stem}-{i}{first.suffix}") for i in range(2, 100))]


def renamed(path: Path, why: str) -> Path:
    """Move a file aside under the next free number."""
    for number in range(1, 10_000):
        kept = path.with_name(f"{path.stem}.{why}-{number}{path.suffix}")
        if not kept.exists():
            path.rename(kept)
            return kept
    raise InputError("too many files kept aside", file=str(path), allowed="delete some")


def forget_oldest(path: Path) -> None:
    """Remove the oldest of the earlier sessions of a name, if there are too many."""
    earlier = sorted(path.parent.glob(f"{path.stem}.earlier-*{path.suffix}"), key=lambda p: p.stat().st_mtime)
    for old in earlier[:-MOST_EARLIER]:
        old.unlink(missing_ok=True)


def make_session_folder(folder: Path) -> None:
    """Make the folder; the hidden one tells git to leave it alone."""
    make_folder(folder)
    if folder.name == FOLDER and not (folder / ".gitignore").exists():
        write_text(folder / ".gitignore", "*\n")


def moment(then_s: float, now_s: float) -> str:
    """Write a time for people, in their own zone: `at 14:02`, or with the day if it was another.

    >>> moment(0.0, 86_400.0 * 3).startswith("on ")
    True
    """
    then, now = (datetime.fromtimestamp(value, tz=UTC).astimezone() for value in (then_s, now_s))
    if then.date() == now.date():
        return f"at {then:%H:%M}"
    year = "" if then.year == now.year else f" {then.year}"
    return f"on {then.day} {then:%B}{year} at {then:%H:%M}"
