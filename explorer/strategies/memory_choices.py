"""What a stage keeps for its backward, and where: recomputation and the host's memory, one choice each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from explorer.base.errors import InputError
from explorer.strategy import ACTIVATIONS, OPTIMIZER, JobStrategy, Stage

RECOMPUTE, HOST = "recompute", "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChoice:
    """One choice that a stage has, or does not have."""

    key: str
    """Its name."""
    words: str
    """What it does, in words."""
    kind: str
    """`recompute`: one of several; `host`: it can be had beside others."""
    value: str
    """The value of `Stage.recompute`, or the entry of `Stage.offload`."""

    def held_by(self, stage: Stage) -> bool:
        """Tell whether a stage has it."""
        return stage.recompute == self.value if self.kind == RECOMPUTE else self.value in stage.offload

    def on(self, stage: Stage, *, held: bool) -> Stage:
        """Return a stage that has it, or (of the host's memory) has it no longer."""
        if self.kind == RECOMPUTE:
            return replace(stage, recompute=self.value)
        others = tuple(item for item in stage.offload if item != self.value)
        return replace(stage, offload=(*others, self.value) if held else others)


MEMORY_CHOICES = (
    MemoryChoice(key="keep", words="Keep all activations", kind=RECOMPUTE, value="none"),
    MemoryChoice(key="selective", words="Recompute selectively", kind=RECOMPUTE, value="selective"),
    MemoryChoice(key="full", words="Recompute whole blocks", kind=RECOMPUTE, value="full"),
    MemoryChoice(key="activations", words="Activations to the host", kind=HOST, value=ACTIVATIONS),
    MemoryChoice(key="optimizer", words="Optimizer states to the host", kind=HOST, value=OPTIMIZER),
)
"""All choices."""


def with_memory_choice(job: JobStrategy, stages: Collection[int], key: str) -> JobStrategy:
    """Return a strategy in which some stages have a choice; one of the host's memory that all of them have is
    taken back.

    Args:
        job: the strategy.
        stages: numbers of the stages.
        key: `MemoryChoice.key`.

    Raises:
        InputError: an unknown choice or stage, or none.
    """
    choice = next((item for item in MEMORY_CHOICES if item.key == key), None)
    if choice is None:
        raise InputError(
            f"unknown choice {key!r}",
            key="memory",
            found=key,
            allowed=", ".join(x.key for x in MEMORY_CHOICES),
        )
    wrong = [number for number in stages if not 0 <= number < len(job.stages)]
    if wrong or not stages:
        raise InputError(
            f"no stage {wrong[0]}" if wrong else "no stage was chosen", key="stages",
            found=wrong[0] if wrong else 0, allowed=f"0 to {len(job.stages) - 1}",
        )  # fmt: skip
    held = not all(choice.held_by(job.stages[number]) for number in stages)
    return job.with_stages(
        choice.on(stage, held=held) if number in stages else stage for number, stage in enumerate(job.stages)
    )
