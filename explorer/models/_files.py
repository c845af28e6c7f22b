"""Model files: which reader takes a file, told by its content; one clear error where none does.

Files are data. Nothing here or in the readers runs what a file says.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.base.plain_data import parse_document
from explorer.graph import LayerGraph

if TYPE_CHECKING:
    from explorer.cluster import Cluster

_KINDS = "a PipeDream graph.txt, a partitioning JSON (nodes, edges, maxFPGAs) or a saved LayerGraph JSON"


def load(
    reference: str, sequence_length: int | None, settings: Mapping[str, str]
) -> tuple[LayerGraph, Cluster | None]:
    """The graph in a file, and the cluster where the file carries one.

    Raises:
        InputError: no such file, none of the known kinds, or what the reader of its kind refuses.
    """
    text = read_text(reference)
    graph, cluster = _read(text, reference, settings)
    own = graph.defaults.sequence_length
    if sequence_length not in (None, own):
        raise InputError(
            "a file has the sequence length it was made with",
            file=reference,
            key="sequence_length",
            found=sequence_length,
            allowed=str(own) if own else "none given",
        )
    return graph, cluster


def _read(text: str, file: str, settings: Mapping[str, str]) -> tuple[LayerGraph, Cluster | None]:
    from explorer.models import partitioning, pipedream, saved

    if not text.lstrip().startswith(("{", "[")):
        if not pipedream.looks_like(text):
            raise _refusal(file, "this is no model file", text[:60].strip())
        return pipedream.read(text, file=file, settings=settings), None
    for key, value in settings.items():
        message = f"a JSON model has no setting {key!r}"
        raise InputError(message, file=file, key=key, found=value, allowed="no settings")
    data = parse(text, file)
    if partitioning.looks_like(data):
        return partitioning.read(data, file=file)
    if saved.looks_like(data):
        return saved.read(data, file=file), None
    keys = ", ".join(list(data)[:8]) if isinstance(data, dict) else type(data).__name__
    if isinstance(data, dict) and ("model_type" in data or "architectures" in data):
        raise _refusal(file, f"this is a Hugging Face configuration; load it as hf:{file}", keys)
    raise _refusal(file, f"this JSON is no model (its keys: {keys})", keys)


def _refusal(file: str, message: str, found: str) -> InputError:
    return InputError(message, file=file, found=found, allowed=_KINDS)


def read_text(path: str) -> str:
    """The text of a file; ``-`` is standard input.

    Raises:
        InputError: missing, a folder, unreadable or not text.
    """
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("there is no such file", file=path, found=path, allowed=_KINDS) from None
    except IsADirectoryError:
        hint = f"; load its configuration as hf:{path}" if (Path(path) / "config.json").exists() else ""
        raise InputError(f"this is a folder{hint}", file=path, found="a folder", allowed=_KINDS) from None
    except (OSError, ValueError) as error:
        raise InputError(f"the file cannot be read: {error}", file=path, allowed=_KINDS) from None


def parse(text: str, file: str) -> Any:
    """Parsed JSON.

    Raises:
        InputError: not JSON, or a key given twice.
    """
    try:
        return parse_document(text, json_text=True)
    except InputError as error:
        raise error.within(file=file or None) from None
