"""What the tests of the command line share: the usual arguments, and what came of a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

SMALL = ["--model", "gpt2-small", "--cluster", "dgx-a100", "--global-batch", "16"]
SHAPE = ["--stages", "4", "--microbatches", "8"]
TOO_LARGE = ["--model", "gpt2-xl", "--cluster", "dgx-1-v100", "--global-batch", "8", "--precision", "fp16"]


class Output:
    """Exit status, standard output and standard error of one command."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        assert self.out.count("\n") == 1
        found: dict[str, Any] = json.loads(self.out)
        assert {"schema", "explorer_version"} <= set(found)
        return found


Run = Callable[..., Output]
