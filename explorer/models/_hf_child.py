"""The process that reads a Hugging Face configuration: `python -m explorer.models._hf_child`.

Reads a JSON request from standard input and writes an encoded graph, or a JSON error, to the file descriptor
that was standard output. A process of its own is faster than the caller's: most of the time is importing, which
goes best without garbage collection and without packages that torch and transformers only probe for, and
ending such a process properly takes another second. It also keeps torch out of the caller.
"""

from __future__ import annotations

import gc
import json
import os
import sys

PROBED = ("scipy", "sklearn", "dill", "pandas", "matplotlib", "torchvision", "jinja2")
"""Packages imported where present, and not needed to build a model without weights."""


def main() -> None:
    """Answer one request and end at once."""
    gc.disable()
    out = os.dup(1)
    os.dup2(2, 1)  # a model that prints must not write into the answer
    for name in PROBED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    request = json.loads(sys.stdin.buffer.read())
    from explorer.errors import InputError

    try:
        from explorer.models._cache import encode
        from explorer.models._pretrained import graph_of

        answer = encode(graph_of(**request))
    except InputError as error:
        answer = json.dumps({**error.as_dict(), "message": error.message}).encode()
    with os.fdopen(out, "wb") as file:
        file.write(answer)
    os._exit(0)


if __name__ == "__main__":
    main()
