"""Model files: a file's content decides its reader; one clear error if there is none.

Files are data. Nothing here or in the readers runs what a file says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.base import files
from explorer.base.errors import InputError
from explorer.base.formats import parse_json
from explorer.graph import LayerGraph

if TYPE_CHECKING:
    from explorer.cluster import Cluster

MOST_BYTES = 64 * 2**20
"""Longest model file that is read: a hundred thousand layers."""

_KINDS = "a PipeDream graph.txt, a partitioning JSON (nodes, edges, maxFPGAs) or a saved LayerGraph JSON"


def load(
    reference: str, sequence_length: int | None, settings: Mapping[str, str]
) -> tuple[LayerGraph, Cluster | None]:
    """Load the graph in a file, and the cluster if the file has one.

    Raises:
        InputError: no such file, a file of no known kind, or one that the reader of its kind refuses.
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
    data = _parsed(text, file)
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
    """Read the text of a file; ``-`` is standard input.

    Raises:
        InputError: the file is missing, a folder, unreadable or not text.
    """
    if path != files.STANDARD_INPUT and files.is_folder(path):
        hint = f"; load its configuration as hf:{path}" if (Path(path) / "config.json").exists() else ""
        raise InputError(f"this is a folder{hint}", file=path, found="a folder", allowed=_KINDS)
    if path != files.STANDARD_INPUT and not files.exists(path):
        raise InputError("there is no such file", file=path, found=path, allowed=_KINDS)
    try:
        return files.read_text(path, most=MOST_BYTES)
    except InputError as error:
        raise InputError(
            error.message, file=error.file, found=error.found, allowed=error.allowed or _KINDS
        ) from None


def _parsed(text: str, file: str) -> Any:
    try:
        return parse_json(text)
    except InputError as error:
        raise error.within(file=file or None) from None
