"""torchtitan: `step: 10  loss: ...  memory: 40.20GiB(50.10%)  tps: 3,214  tflops: ...  mfu: ...%`.

`tps` is tokens a second of one device (the group that shares a batch counts as many), averaged since the last
line; `memory` is the most that the allocator reserved (torchtitan/components/metrics.py). Older versions call
the rate `wps`.
"""

from __future__ import annotations

import re

from explorer.base.errors import InputError
from explorer.base.units import GIB
from explorer.calibrate.logs import LOGS, LogFacts, LoggedSteps, TrainerLog, number_of
from explorer.calibrate.measured_runs import RESERVED

_STEP = re.compile(r"\bstep:\s{0,9}(\d{1,9})\s[^\n]{0,200}?\b(?:tps|wps):\s{0,9}([\d,]{1,15})")
_MEMORY = re.compile(r"\bmemory:\s{0,9}([\d.]{1,9})GiB\(")


@LOGS.add(
    TrainerLog(name="torchtitan", title="torchtitan", paper="github.com/pytorch/torchtitan", whole=True)
)
def find(text: str, facts: LogFacts) -> LoggedSteps:
    """Find tokens a second of one device.

    Raises:
        InputError: the plan's samples are no sequences of tokens.
    """
    steps, memory = [], 0.0
    for line in text.splitlines():
        found = _STEP.search(line) if "validate" not in line else None
        if found and (rate := number_of(found[2])) > 0:
            if not facts.sequence_length:
                raise InputError(
                    "the log prints tokens a second, the plan's samples are no sequences", key="--plan",
                    allowed="a plan with sequence_length",
                )  # fmt: skip
            tokens = facts.global_batch * facts.sequence_length
            steps.append((int(found[1]), tokens / (rate * facts.devices)))
            used = _MEMORY.search(line)
            memory = max(memory, float(used[1]) * GIB if used else 0.0)
    return LoggedSteps(steps=tuple(steps), memory_bytes=memory, memory_of=RESERVED)
