"""Hugging Face Trainer: progress bars, the summary at the end, and `trainer_state.json`.

Lines of losses hold no time. A progress bar says steps and seconds since the start (`200/300 [03:45<01:52,
1.13s/it]`), so steps between two drawings are known to the second; the summary (`'train_runtime': 225.8,
'train_steps_per_second': 0.886`, in the printed dictionary or the JSON) is a mean over the whole run, its
first steps and evaluations included (transformers/trainer.py, trainer_utils.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from explorer.calibrate.logs import LOGS, LogFacts, LoggedSteps, TrainerLog

_BAR = re.compile(r"(\d{1,9})/(\d{1,9}) \[((?:\d{1,4}:)?\d{1,4}:\d\d)<")
_RUNTIME = re.compile(r"['\"]train_runtime['\"]:\s{0,3}([\d.]{1,20})")
_RATE = re.compile(r"['\"]train_steps_per_second['\"]:\s{0,3}([\d.]{1,20})")
_LAST = re.compile(r"(?:['\"]global_step['\"]:\s{0,3}|global_step=)(\d{1,9})")
_LEAST_SECONDS = 20  # between two drawings, of which each may be off by one
MEAN_SPREAD = 0.03
"""Deviation of the mean of a whole run from a warm step: its first steps, evaluations, checkpoints."""


@LOGS.add(
    TrainerLog(
        name="hf_trainer",
        title="Hugging Face Trainer",
        paper="github.com/huggingface/transformers",
        whole=True,
    )
)
def find(text: str, _facts: LogFacts) -> LoggedSteps:
    """Find steps by the progress bar, or else their mean over the run."""
    if "train_runtime" not in text and "'loss'" not in text and '"loss"' not in text:
        return LoggedSteps()
    drawn = [
        (int(bar[1]), _seconds(bar[3])) for line in re.split(r"[\r\n]+", text) for bar in _BAR.finditer(line)
    ]
    if len(steps := _between(drawn)) > 1:
        return LoggedSteps(steps=tuple(steps))
    runtime, rate, last = (pattern.findall(text) for pattern in (_RUNTIME, _RATE, _LAST))
    if runtime and last and int(last[-1]) > 0:
        mean = float(runtime[-1]) / int(last[-1])
    elif rate and float(rate[-1]) > 0:
        mean = 1 / float(rate[-1])
    else:
        return LoggedSteps(steps=tuple(steps))
    return LoggedSteps(steps=((1, mean),), spread=MEAN_SPREAD)


def _seconds(clock: str) -> int:
    """Return the seconds of `1:20:35` or `03:45`."""
    total = 0
    for part in clock.split(":"):
        total = 60 * total + int(part)
    return total


def _between(drawn: Sequence[tuple[int, int]]) -> list[tuple[int, float]]:
    """Return (step, mean seconds) between drawings of a bar that are far enough apart."""
    found: list[tuple[int, float]] = []
    if not drawn:
        return found
    steps, seconds = drawn[0]
    for now, then in drawn[1:]:
        if now < steps:  # another bar: an evaluation, or a second epoch
            steps, seconds = now, then
        elif now > steps and then - seconds >= _LEAST_SECONDS:
            found.append((now, (then - seconds) / (now - steps)))
            steps, seconds = now, then
    return found
