"""What changed in a target's files since an earlier plan: its own words, and the lines to copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from explorer.base.errors import ExplorerError
from explorer.base.formats import json_text, parse_json
from explorer.plan import Resolved

MOST_ROWS = 60
"""Most differences that are listed; the lines to copy have them all."""
_LONGEST = 160
_MOST_LINES = 4_000
_COMMENTS = {"sh": "#", "py": "#", "yaml": "#", "yml": "#", "toml": "#"}


def changes_view(before: Resolved, now: Resolved, target: str, against: str) -> dict[str, Any]:
    """Return `changes` of the view: what differs from an earlier plan, as the target says it.

    Targets with settings of their own say them; others have the lines of their files compared.

    Args:
        before: the earlier plan, such as an imported config.
        now: the plan shown, which the target can express.
        target: name of an exporter.
        against: what the earlier plan is, in words.

    Raises:
        InputError: an unknown target.
    """
    from explorer.export import EXPORTERS, preview
    from explorer.export.words import changes

    entry = EXPORTERS.get(target)
    try:
        old, new = preview(before, target), preview(now, target)
        if entry.settings is not None:
            rows = [
                {"key": item.key, "before": _value(item.before), "after": _value(item.after)}
                for item in changes(before, now, target)
            ]
        else:
            rows = list(_line_rows(old, new))
    except ExplorerError as error:
        return {"against": against, "rows": [], "more": 0, "files": [], "problem": str(error)}
    return {
        "against": against,
        "rows": rows[:MOST_ROWS],
        "more": max(0, len(rows) - MOST_ROWS),
        "files": changed_files(old, new) if rows else [],
        "problem": None,
    }


def changed_files(before: Mapping[str, str], after: Mapping[str, str]) -> list[dict[str, Any]]:
    r"""Return the changed part of every file that differs: `[{name, text, lines, gone}]`.

    Of JSON that is a merge patch (RFC 7386), as its lines mean nothing alone; else the lines of `after` that
    `before` has not, without comments.

    >>> changed_files({"a.sh": "x\n--tp 8\n"}, {"a.sh": "x\n--tp 4\n"})
    [{'name': 'a.sh', 'text': '--tp 4\n', 'lines': 1, 'gone': 1}]
    """
    made = []
    for name, text in after.items():
        old = before.get(name, "")
        if old == text:
            continue
        lines, gone = _patch(old, text) if name.endswith(".json") else _new_lines(name, old, text)
        if lines or gone:
            joined = "".join(f"{line}\n" for line in lines)
            made.append({"name": name, "text": joined, "lines": len(lines), "gone": gone})
    return made


def _patch(before: str, after: str) -> tuple[list[str], int]:
    old, new = (parse_json(text or "{}", ours=False) for text in (before, after))
    return json_text(merge_patch(old, new)).splitlines(), 0


def merge_patch(before: Any, after: Any) -> Any:
    """Return the JSON merge patch (RFC 7386) that makes `after` of `before`.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}, "e": 4}, {"a": 1, "b": {"c": 5, "d": 3}})
    {'b': {'c': 5}, 'e': None}
    """
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    patch = {
        key: merge_patch(before.get(key), value)
        for key, value in after.items()
        if key not in before or before[key] != value
    }
    return patch | {key: None for key in before if key not in after}


def _new_lines(name: str, before: str, after: str) -> tuple[list[str], int]:
    """Return the lines that came, and how many went."""
    came: list[str] = []
    gone = 0
    for old, new in _blocks(name, before, after):
        came += new
        gone += len(old)
    return came, gone


def _line_rows(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name in dict.fromkeys([*before, *after]):
        for old, new in _blocks(name, before.get(name, ""), after.get(name, "")):
            yield {"key": name, "before": _shown(old), "after": _shown(new)}


def _blocks(name: str, before: str, after: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield what stood and what stands wherever two texts differ, without comments and empty lines."""
    old, new = (_said(name, text) for text in (before, after))
    if len(old) + len(new) > _MOST_LINES:
        yield old, new
        return
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield old[i:j], new[k:m]


def _said(name: str, text: str) -> list[str]:
    sign = _COMMENTS.get(name.rpartition(".")[2])
    return [
        line
        for line in text.splitlines()
        if line.strip() and not (sign and line.lstrip().startswith(sign) and not line.startswith("#!"))
    ]


def _shown(lines: Iterable[str]) -> str | None:
    """Write lines for a cell of a table; None for no line."""
    text = "\n".join(lines)
    return (f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text) or None


def _value(value: object) -> str | None:
    """Write a setting for people; None if it is not set."""
    if value is None:
        return None
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
