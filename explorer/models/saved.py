"""LayerGraphs in JSON: written and read back exactly, versioned, and nothing but data.

The file holds ``schema`` and the fields of `LayerGraph`, without those at their default. It is checked
against the same dataclasses, so there is no second description to keep in step.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from explorer.base import plain_data
from explorer.base.errors import InputError
from explorer.base.files import write_text
from explorer.base.formats import json_text
from explorer.base.plain_data import read_json
from explorer.graph import LayerGraph

SCHEMA = "explorer.layer_graph/1"
"""Format and version."""


def to_json(graph: LayerGraph) -> str:
    """Write the text of the file: one line per layer, tensor and parameter.

    >>> import json
    >>> from explorer.models.synthetic import chain
    >>> read(json.loads(to_json(chain([1.0])))) == chain([1.0])
    True
    """
    content = {"schema": SCHEMA, **plain_data.to_plain(graph)}
    parts = [f"{json_text(key)}: {_lines(value)}" for key, value in content.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(value: Any) -> str:
    if not isinstance(value, list):
        return json_text(value, indent=None)
    return "[\n " + ",\n ".join(json_text(item, indent=None) for item in value) + "\n]"


def save(graph: LayerGraph, path: str | Path) -> None:
    """Write the graph to a file.

    Raises:
        InputError: a folder that is missing or not writable.
    """
    write_text(path, to_json(graph))


def load(path: str | Path) -> LayerGraph:
    """Load the graph in a file.

    Raises:
        InputError: no such file, not this format or version, or a wrong value, named by its key.
    """
    return read(read_json(path), file=str(path))


def looks_like(data: Any) -> bool:
    """Tell whether parsed JSON claims to be of this format, in whatever version."""
    return isinstance(data, dict) and str(data.get("schema", "")).startswith("explorer.layer_graph/")


def read(data: Any, *, file: str = "") -> LayerGraph:
    """Read the graph that parsed JSON describes.

    Raises:
        InputError: another format or version, an unknown key, or a wrong value, named by its key.
    """
    try:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        if found != SCHEMA:
            raise InputError(f"schema is {found!r}", key="schema", found=found, allowed=SCHEMA)
        fields = {key: value for key, value in data.items() if key != "schema"}
        return _quickly(fields) or plain_data.validate(plain_data.to_fields(fields, LayerGraph), LayerGraph)
    except InputError as error:
        raise error.within(file=file or None) from None


_NEGATIVE = re.compile(r"[\[:,] ?-")


def _quickly(fields: dict[str, Any]) -> LayerGraph | None:
    """Build the graph if its fields are plainly right; None if the slower, explaining way must look.

    This is three times as fast, which counts for models of a thousand layers. The slower way asks for the
    same: finite numbers of 0 or more, strict types and no unknown keys.
    """
    try:
        text = json_text(fields, indent=None)
        if _NEGATIVE.search(text):
            return None
        graph: LayerGraph = plain_data.adapter(LayerGraph).validate_json(text, strict=True, extra="forbid")
    except (InputError, TypeError, ValueError):  # pydantic's error is a ValueError
        return None
    return graph
