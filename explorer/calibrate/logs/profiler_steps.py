"""Traces of torch.profiler: the spans `ProfilerStep#12` that `profiler.step()` leaves on the host's track.

What the operators of such a trace took is read by `explorer calibrate --with` (`explorer.calibrate.kineto`).
Recording slows the host, so steps of many small kernels read too long.
"""

from __future__ import annotations

from typing import Any

from explorer.base.errors import InputError
from explorer.base.formats import parse_json
from explorer.calibrate.logs import LOGS, LogFacts, LoggedSteps, TrainerLog

_MARK = "ProfilerStep#"
_TRACED = 0.03  # deviation that recording adds


@LOGS.add(TrainerLog(name="profiler", title="torch.profiler", paper="github.com/pytorch/kineto", whole=True))
def find(text: str, _facts: LogFacts) -> LoggedSteps:
    """Find the spans of steps; the device's own copies of them (`gpu_user_annotation`) do not count."""
    if _MARK not in text or not text.lstrip().startswith(("{", "[")):
        return LoggedSteps()
    try:
        data = parse_json(text, ours=False)
    except InputError:
        return LoggedSteps()  # a log that quotes such a line
    events = data.get("traceEvents") if isinstance(data, dict) else data
    steps = [step for event in (events if isinstance(events, list) else ()) if (step := _step(event))]
    return LoggedSteps(steps=tuple(steps), spread=_TRACED)


def _step(event: Any) -> tuple[int, float] | None:
    if not isinstance(event, dict) or event.get("cat") == "gpu_user_annotation" or event.get("ph") != "X":
        return None
    name, duration = event.get("name"), event.get("dur")
    if not (isinstance(name, str) and name.startswith(_MARK)) or isinstance(duration, bool):
        return None
    number = name.removeprefix(_MARK)
    usable = number.isdecimal() and isinstance(duration, (int, float)) and duration > 0
    return (int(number), duration * 1e-6) if usable else None  # type: ignore[operator]
