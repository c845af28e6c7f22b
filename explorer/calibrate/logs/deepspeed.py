"""DeepSpeed: `epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.0, CurrSamplesPerSec=25.7`.

Rates are samples of the global batch a second, of the last step (`CurrSamplesPerSec`) or since the start
(`SamplesPerSec` of older versions, numbered `0/40`). `MaxMemAllocated` is in GiB although it says GB
(deepspeed/utils/timer.py). With `wall_clock_breakdown` a line of `time (ms) | forward: ... | backward: ... |
step: ...` follows; it is used where there are no rates.
"""

from __future__ import annotations

import re

from explorer.base.units import GIB
from explorer.calibrate.logs import LOGS, LogFacts, LoggedSteps, TrainerLog
from explorer.calibrate.measured_runs import ALLOCATED

_NUMBER = re.compile(r"(?:global_step=|\b\d{1,9}/)(\d{1,9}),")
_RATE = re.compile(r"(?:Curr|\s)SamplesPerSec=([\d.]{1,25})")
_MEMORY = re.compile(r"MaxMemAllocated=([\d.]{1,15})\s?GB")
_PARTS = tuple(
    re.compile(rf"\|\s(?:{names}):\s{{0,3}}([\d.]{{1,20}})")
    for names in ("forward|fwd", "backward|bwd", "step")
)


@LOGS.add(
    TrainerLog(name="deepspeed", title="DeepSpeed", paper="github.com/deepspeedai/DeepSpeed", whole=False)
)
def find(text: str, facts: LogFacts) -> LoggedSteps:
    """Find samples a second, or else the parts of steps."""
    steps: list[tuple[int, float]] = []
    parts: list[tuple[int, float]] = []
    memory = 0.0
    for line in text.splitlines():
        number, rate, used = _NUMBER.search(line), _RATE.search(line), _MEMORY.search(line)
        if number and rate and float(rate[1]) > 0:
            steps.append((int(number[1]), facts.global_batch / float(rate[1])))
        elif "time (ms)" in line and all(found := [part.search(line) for part in _PARTS]):
            parts.append((len(parts) + 1, sum(float(part[1]) for part in found if part) * 1e-3))
        memory = max(memory, float(used[1]) * GIB if used else 0.0)
    return LoggedSteps(steps=tuple(steps or parts), memory_bytes=memory, memory_of=ALLOCATED)
