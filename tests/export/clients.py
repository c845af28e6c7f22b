"""Trainers' own parsers, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[1] / "support" / "client_configs.py"


def read_by(client: str, files: Sequence[tuple[Path, int]]) -> list[dict[str, Any]]:
    """What a client makes of files, each for so many data-parallel ranks."""
    given = [text for path, ranks in files for text in (str(path), str(ranks))]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), client, *given],
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
