"""Megatron-LM: `iteration 20/ 100 | elapsed time per iteration (ms): 5630.1 | global batch size: 128 |`.

The time is a mean since the last line. Memory comes once, after the first iterations: `[Rank 1] (after 2
iterations) memory (MB) | allocated: ... | max allocated: ... | reserved: ... | max reserved: ...`, in MiB
(megatron/training/training.py, utils.py).
"""

from __future__ import annotations

import re

from explorer.base.errors import InputError
from explorer.base.units import MIB
from explorer.calibrate.logs import LOGS, LogFacts, LoggedSteps, TrainerLog
from explorer.calibrate.measured_runs import ALLOCATED, RESERVED

_ITERATION = re.compile(r"\biteration\s{1,9}(\d{1,9})\s{0,3}/")
_TIME = re.compile(r"elapsed time per iteration \(ms\):\s{0,3}([\d.]{1,15})")
_BATCH = re.compile(r"global batch size:\s{0,9}(\d{1,9})\s")
_MEMORY = {
    RESERVED: re.compile(r"max (?:reserved|cached):\s{0,3}([\d.]{1,20})"),
    ALLOCATED: re.compile(r"max allocated:\s{0,3}([\d.]{1,20})"),
}


@LOGS.add(TrainerLog(name="megatron", title="Megatron-LM", paper="github.com/NVIDIA/Megatron-LM", whole=True))
def find(text: str, facts: LogFacts) -> LoggedSteps:
    """Find milliseconds of iterations.

    Raises:
        InputError: the log's global batch is not the plan's.
    """
    steps: list[tuple[int, float]] = []
    peaks = {RESERVED: 0.0, ALLOCATED: 0.0}
    for line in text.splitlines():
        number, time = _ITERATION.search(line), _TIME.search(line)
        if number and time:
            batch = _BATCH.search(line)
            if batch and int(batch[1]) != facts.global_batch:
                raise InputError(
                    f"the log's global batch is {batch[1]}, the plan's {facts.global_batch}: another run",
                    key="--log", found=batch[1], allowed=str(facts.global_batch),
                )  # fmt: skip
            steps.append((int(number[1]), float(time[1]) * 1e-3))
        elif "memory (MB)" in line:
            for name, pattern in _MEMORY.items():
                used = pattern.search(line)
                peaks[name] = max(peaks[name], float(used[1]) * MIB if used else 0.0)
    name = RESERVED if peaks[RESERVED] else ALLOCATED
    return LoggedSteps(steps=tuple(steps), memory_bytes=peaks[name], memory_of=name)
