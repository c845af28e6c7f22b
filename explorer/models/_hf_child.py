"""The process that reads a Hugging Face configuration: `python -m explorer.models._hf_child`.

It reads a JSON request from standard input and writes an encoded graph, or a JSON error, to what was standard
output. Nearly all of its time goes into importing torch and transformers, which here takes half as long as in
the caller: no garbage collection, no packages that are only probed for, no listing of 400 model families to
find one, and no tidy end. It also keeps torch out of the caller.
"""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

PROBED = ("scipy", "sklearn", "dill", "pandas", "matplotlib", "torchvision", "jinja2")
"""Packages that transformers imports if present, and that a model without weights does not need."""


def main() -> None:
    """Answer one request and end at once; a model that prints does not write into the answer."""
    gc.disable()
    out = os.dup(1)
    os.dup2(2, 1)
    for name in PROBED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    answer = _answer(json.loads(sys.stdin.buffer.read()))
    with os.fdopen(out, "wb") as file:
        file.write(answer)
    os._exit(0)


def _answer(request: dict[str, Any]) -> bytes:
    from explorer.base.errors import InputError

    family = _family(request["data"]) if request.pop("one_family", False) else None
    if family:
        _list_only(family)
    try:
        from explorer.models._cache import encode
        from explorer.models._pretrained import graph_of

        return encode(graph_of(**request))
    except InputError as error:
        again = family is not None and error.key != "model_type"
        answer = {**error.as_dict(), "message": error.message, "again": again}
        return json.dumps(answer, default=str).encode()


def _family(data: Mapping[str, Any]) -> str | None:
    """Return the folder of the one model family that a configuration needs; None if there are several."""
    spec = importlib.util.find_spec("transformers")
    composite = any(isinstance(value, dict) and "model_type" in value for value in data.values())
    if spec is None or not spec.submodule_search_locations or composite or not data.get("architectures"):
        return None
    name = str(data["model_type"]).replace("-", "_")
    folder = Path(spec.submodule_search_locations[0]) / "models" / name
    return name if name.isidentifier() and folder.is_dir() else None


def _list_only(family: str) -> None:
    """Make transformers list this family only, instead of reading 2,000 files, twice, to list them all.

    Its import begins by listing what every model file defines, through one function. That function is
    replaced here, before its first use, by one that lists the relevant folders once. Other families can still
    be imported by path; if anything is missing all the same, the caller asks again without this shortcut.
    """
    spec = importlib.util.find_spec("transformers")
    if spec is None:
        return
    sys.modules["transformers"] = package = importlib.util.module_from_spec(spec)
    package.__version__ = importlib.metadata.version("transformers")  # type: ignore[attr-defined]
    from transformers.utils import import_utils

    del sys.modules["transformers"]
    original = getattr(import_utils, "create_import_structure_from_path", None)
    if original is None:
        return

    @cache
    def listed(path: str) -> dict[str, Any]:
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        if folder.name != "models":
            return dict(original(path))
        return {name: original(str(folder / name)) for name in ("auto", family)}

    import_utils.create_import_structure_from_path = lambda path: {
        k: dict(v) for k, v in listed(str(path)).items()
    }


if __name__ == "__main__":
    main()
