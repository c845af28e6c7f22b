"""What a file that is opened holds: a state or a session. Touches no widget, so that a thread can read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.plain_data import SUFFIXES, parse_document, read_document
from explorer.importing import SourceText, recognised, source_text
from explorer.plan import SHARED, from_document
from explorer.plan_text import is_packed, unpacked
from widgets.opening import file_point, plan_point
from widgets.session import Point

from .file import SCHEMA, SavedSession, parse_session
from .load import Restored, restore
from .trainers import open_config

LONGEST_UPLOAD = 16 * 2**20
"""Most characters of an uploaded file; plans are a thousandth of it."""
PATH, TEXT, DROPPED = "open_path", "open_text", "drop_text"
OPENS = (PATH, TEXT, DROPPED)
"""Kinds of gestures that open a file: by its path, with its text, and dropped anywhere on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a file holds, worked out."""

    point: Point | None = None
    """State of a plan or a trainer's config; None for a session."""
    session: SavedSession | None = None
    """The session that it holds; None for a plan."""
    restored: Restored | None = None
    """States of that session."""
    remarks: tuple[str, ...] = ()
    """What has to be known of it, one sentence each."""


def opened(intent: Mapping[str, Any], now: Point | None) -> Opened:
    """Read what a gesture opens and work it out, beside the state shown.

    Args:
        intent: a gesture of one of the kinds `OPENS`; the text is None if it was too long to be sent.
        now: state shown; None if there is none yet.

    Raises:
        ExplorerError: it is nothing that can be opened.
    """
    if intent["kind"] == PATH:
        return _path(str(intent["path"]).strip(), now)
    name, text = str(intent["name"]), intent["text"]
    if text is None or len(text) > LONGEST_UPLOAD:
        raise InputError("the file is too long", file=name, allowed=f"up to {LONGEST_UPLOAD} characters")
    return _text(name, str(text), now)


def _path(path: str, now: Point | None) -> Opened:
    if is_packed(path):
        return _shared(path, now)
    source = source_text(Path(path), "", None, None)
    if _is_trainers(source):
        return _config(source, now)
    data = read_document(Path(path))
    if isinstance(data, dict) and data.get("schema") == SCHEMA:
        return _session(parse_session(data, file=path), now)
    return Opened(point=file_point(path, trust=_named(now)))


def _text(name: str, text: str, now: Point | None) -> Opened:
    if is_packed(text):
        return _shared(text, now)
    source = SourceText(name=name, text=text, folder=Path())
    if _is_trainers(source):
        return _config(source, now)
    try:
        data = parse_document(text, json_text=name.endswith(".json"))
    except InputError as error:
        raise error.within(file=name) from None
    if isinstance(data, dict) and data.get("schema") == SCHEMA:
        return _session(parse_session(data, file=name), now)
    return Opened(point=plan_point(from_document(data, file=name, trust=_named(now))))


def _shared(text: str, now: Point | None) -> Opened:
    """Open a plan that came as a text; say what of its model and cluster has changed since."""
    resolved = from_document(unpacked(text), file=SHARED, trust=_named(now))
    return Opened(point=plan_point(resolved), remarks=resolved.mismatches)


def _config(source: SourceText, now: Point | None) -> Opened:
    found = open_config(source, now)
    return Opened(point=found.point, remarks=found.remarks)


def _session(session: SavedSession, now: Point | None) -> Opened:
    return Opened(session=session, restored=restored_of(session, now))


def restored_of(session: SavedSession, now: Point | None) -> Restored:
    """Restore the states of a session, and draw the one shown.

    Raises:
        InputError: nothing of it can be restored.
    """
    restored = restore(session, known=now.inputs if now is not None else None)
    restored.points[restored.at].scene  # noqa: B018 - may fail, and then nothing has happened
    return restored


def _named(now: Point | None) -> tuple[str, ...]:
    """Return the model shown: if it is code, a person named it, and a file may name it too."""
    return (now.inputs.model.reference,) if now is not None else ()


def _is_trainers(source: SourceText) -> bool:
    """Tell whether a text is a trainer's config, and no plan or session of ours."""
    if not recognised(source):
        return False
    try:
        data = parse_document(source.text, json_text=source.name.endswith(".json"))
    except InputError:
        return True
    return not (isinstance(data, dict) and "schema" in data and source.name.endswith(SUFFIXES))
