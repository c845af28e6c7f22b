"""Lines of the keys of a JSON or YAML text, and what an export of ours left in a comment of any text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import yaml

from explorer.base.formats import parse_yaml

_REFERENCES = re.compile(r"^\s*(?:#|//)\s*explorer:\s*(\{.*\})\s*$", re.MULTILINE)
_NAMES = ("model", "settings", "sequence_length", "cluster", "devices")
_DEEPEST = 100


def yaml_lines(text: str) -> dict[str, int]:
    r"""Return dotted key -> line, counted from 1, of all keys of mappings in a YAML (or JSON) text.

    >>> yaml_lines("a:\n  b: 1\nc: 2")
    {'a': 1, 'a.b': 2, 'c': 3}

    Raises:
        InputError: the text is neither.
    """
    text = text.expandtabs()
    parse_yaml(text)  # refuses what is too deep or too large before a tree is built
    return dict(_keys(yaml.compose(text, Loader=yaml.SafeLoader), "", 0))


def json_lines(text: str) -> dict[str, int]:
    """Return dotted key -> line of a JSON text, as the YAML that it is.

    Raises:
        InputError: the text is neither.
    """
    return yaml_lines(text)


def _keys(node: object, above: str, depth: int) -> Iterator[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode) or depth > _DEEPEST:
        return
    for key, value in node.value:
        name = f"{above}{getattr(key, 'value', '')}"
        yield name, key.start_mark.line + 1
        yield from _keys(value, f"{name}.", depth + 1)


def references_line(references: dict[str, str]) -> str:
    """Return the line of a comment, without its sign, that `references_in` reads back."""
    return f"explorer: {json.dumps(references, sort_keys=True)}"


def references_in(text: str) -> dict[str, str]:
    """Return the model and cluster that an export of ours wrote into a comment; {} if there is none."""
    found = _REFERENCES.search(text)
    if found is None:
        return {}
    try:
        data = json.loads(found[1])
    except (ValueError, RecursionError):
        return {}
    return {key: str(data[key]) for key in _NAMES if isinstance(data.get(key), (str, int))}
