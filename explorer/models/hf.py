"""`hf:PATH`: any Hugging Face `config.json`, without weights, network or code of the model's repository.

The model is built on the meta device and captured with `torch.export` (`torch_export`) in a separate process,
or here if torch and transformers are already imported. The graph is then kept in the user's cache folder
(`EXPLORER_CACHE`, `XDG_CACHE_HOME`): loading it from there needs neither.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.files import exists, is_folder, read_text
from explorer.base.formats import parse_json
from explorer.graph import LayerGraph
from explorer.models import _cache

_CONFIG = "a Hugging Face config.json, or the folder it lies in"


def load(
    path: str | Path,
    *,
    sequence_length: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> LayerGraph:
    """Load the graph of the configuration at `path`.

    Args:
        path: a `config.json` (under any name) or its folder.
        sequence_length: tokens of one sample; None for the configuration's maximum, at most 4096.
        settings: refused; none are known.

    Raises:
        InputError: no such file, not JSON, no or an unknown `model_type`, values from which no model can be
            built, or transformers is not installed.
    """
    if settings:
        key = next(iter(settings))
        raise InputError(
            f"a Hugging Face model has no setting {key!r}",
            key=key,
            found=settings[key],
            allowed="no settings; change the configuration itself",
        )
    file = _file(Path(path))
    data = _read(file)
    name = (file.resolve().parent.name if file.stem == "config" else file.stem) or "model"
    request = {"data": data, "sequence_length": sequence_length, "name": name}
    key = _cache.key({**request, "versions": _versions()})
    known = _cache.load(key)
    if known is not None:
        return known
    encoded = _capture({**request, "file": str(path)})
    _cache.save(key, encoded)
    return _cache.decode(encoded)


def read_configuration(path: str | Path) -> dict[str, Any]:
    """Read the configuration at `path`; raises as `load`."""
    _versions()
    return _read(_file(Path(path)))


def _file(path: Path) -> Path:
    file = path / "config.json" if is_folder(path) else path
    if not exists(file):
        raise InputError("there is no such file", file=str(file), found=str(path), allowed=_CONFIG)
    return file


def _read(file: Path) -> dict[str, Any]:
    try:
        # a foreign format: it may hold Infinity and numbers of any size
        data = parse_json(read_text(file), ours=False, number=False)
    except InputError as error:
        raise InputError(
            error.message, file=str(file), found=error.found, allowed=f"{error.allowed}: {_CONFIG}"
        ) from None
    if not isinstance(data, dict):
        raise InputError(
            f"a {type(data).__name__} where an object is needed",
            file=str(file),
            found=type(data).__name__,
            allowed=_CONFIG,
        )
    model_type = data.get("model_type")
    if not isinstance(model_type, str):
        raise InputError(
            "names no model type" if model_type is None else f"model_type is {model_type!r}",
            file=str(file),
            key="model_type",
            found=model_type,
            allowed="a type that transformers knows, such as llama, gpt2, bert or mixtral",
        )
    return data


def _versions() -> dict[str, str]:
    """Return the versions of the packages that read a configuration, without importing them."""
    found: dict[str, str] = {}
    for package in ("torch", "transformers"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise InputError(
                f"reading a Hugging Face configuration needs {package}, which is not installed",
                key="model",
                found=package,
                allowed=f"`pip install {package}`, or a zoo model",
            ) from None
    return found


def _capture(request: dict[str, Any]) -> bytes:
    """Encode the graph here if torch and transformers are at hand, else in a process that has them."""
    if "torch" in sys.modules and "transformers" in sys.modules:
        from explorer.models._pretrained import graph_of

        return _cache.encode(graph_of(**request))
    quick = _child({**request, "one_family": True})
    return quick if quick is not None else _child(request) or b""


def _child(request: dict[str, Any]) -> bytes | None:
    """Ask a separate process; None if it asks to be called again without its shortcut."""
    done = subprocess.run(
        [sys.executable, "-m", "explorer.models._hf_child"],
        input=json.dumps(request).encode(),
        capture_output=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"},
    )
    quick = "one_family" in request
    if done.stdout[:1] == b"{":
        error = parse_json(done.stdout, ours=False)
        if quick and error["again"]:
            return None
        raise InputError(**{key: error[key] for key in ("message", "file", "key", "found", "allowed")})
    if done.returncode or not done.stdout:
        if quick:
            return None
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise InputError(
            f"reading the configuration failed: {lines[-1]}",
            file=request["file"],
            found=f"exit status {done.returncode}",
            allowed=_CONFIG,
        )
    return done.stdout
