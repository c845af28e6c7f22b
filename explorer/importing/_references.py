"""Model and cluster that an export of ours leaves in a comment of any text, for whoever imports it again."""

from __future__ import annotations

import json
import re

from explorer.base.errors import InputError
from explorer.base.formats import parse_json

_REFERENCES = re.compile(r"^\s*(?:#|//)\s*explorer:\s*(\{.*\})\s*$", re.MULTILINE)
_NAMES = ("model", "settings", "sequence_length", "cluster", "devices")


def references_line(references: dict[str, str]) -> str:
    """Return the line of a comment, without its sign, that `references_in` reads back."""
    return f"explorer: {json.dumps(references, sort_keys=True)}"


def references_in(text: str) -> dict[str, str]:
    """Return the model and cluster that an export of ours wrote into a comment; {} if there is none."""
    found = _REFERENCES.search(text)
    if found is None:
        return {}
    try:
        data = parse_json(found[1], ours=False)
    except InputError:
        return {}
    return {key: str(data[key]) for key in _NAMES if isinstance(data.get(key), (str, int))}
