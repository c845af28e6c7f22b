"""Real gloo ranks for tests: one fresh process imports torch once, and forks a process per rank.

`on_ranks` runs a function of a module on all of them and returns what each returned, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LIMIT_S = 300


def on_ranks(count: int, function: str) -> list[Any]:
    """What `function` ("module:name") returns on each of `count` ranks."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        found = subprocess.run(
            [sys.executable, "-m", "tests.run.sharded.ranks", str(count), function, folder],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert found.returncode == 0, found.stdout + found.stderr
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(count)]


def _rank(rank: int, count: int, function: str, folder: Path) -> int:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=60),
    )
    module, _, name = function.partition(":")
    try:
        result = getattr(importlib.import_module(module), name)()
        (folder / f"{rank}.json").write_text(json.dumps(result))
        dist.barrier()
    except Exception:  # noqa: BLE001 - told, and the exit status says it
        traceback.print_exc()
        return 1
    return 0


def main(count: int, function: str, folder: Path) -> int:
    import torch.distributed  # noqa: F401 - once, before the ranks part

    importlib.import_module(function.partition(":")[0])
    children = []
    for rank in range(count):
        child = os.fork()
        if not child:
            status = 1
            try:
                status = _rank(rank, count, function, folder)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(abs(main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))))
