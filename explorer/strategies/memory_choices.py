"""What stages and single layers keep for their backward, and where: one choice each.

Choices of a stage are fields of it; those of layers are exceptions (`Stage.keeping`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from explorer.base.errors import InputError
from explorer.strategies.keeping import Kept, changed_keeping, kept_of, own_keeping
from explorer.strategy import (
    ACTIVATIONS,
    ON_DEVICE,
    ON_HOST,
    OPTIMIZER,
    RECOMPUTE_OUTPUT,
    JobStrategy,
    Stage,
)

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
    choice = _known(MEMORY_CHOICES, key)
    wrong = [number for number in stages if not 0 <= number < len(job.stages)]
    if wrong or not stages:
        raise InputError(
            f"no stage {wrong[0]}" if wrong else "no stage was chosen", key="stages",
            found=wrong[0] if wrong else 0, allowed=f"0 to {len(job.stages) - 1}",
        )  # fmt: skip
    held = not all(choice.held_by(job.stages[number]) for number in stages)
    return job.with_stages(
        _settled(choice.on(stage, held=held)) if number in stages else stage
        for number, stage in enumerate(job.stages)
    )


def _settled(stage: Stage) -> Stage:
    """Return a stage without the exceptions that say what it says anyway."""
    return changed_keeping(stage, (), lambda own: own) if stage.keeping else stage


# ---- single layers --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerChoice:
    """One choice that a layer has, or does not have."""

    key: str
    """Its name."""
    kind: str
    """`recompute`: one of several; `host`: it can be had beside others."""
    value: str = ""
    """What `Keeping.recompute` or `Keeping.on` says; empty is that no exception says anything of it."""

    def held_by(self, stage: Stage, layer: str) -> bool:
        """Tell whether a layer of a stage has it, by an exception or as all of the stage."""
        if not self.value:
            return not own_keeping(stage, layer).recompute
        kept = kept_of(stage, layer)
        return (kept.recompute if self.kind == RECOMPUTE else kept.on) == self.value

    def on(self, own: Kept, *, held: bool) -> Kept:
        """Return what the exceptions of a layer say that has it, or (of the host's memory) no longer."""
        if self.kind == RECOMPUTE:
            return own._replace(recompute=self.value)
        return own._replace(on=self.value if held else ON_DEVICE)


AS_STAGE, OUTPUT, TO_HOST = "as_stage", "output", "to_host"
LAYER_CHOICES = (
    LayerChoice(key=AS_STAGE, kind=RECOMPUTE),
    LayerChoice(key="keep", kind=RECOMPUTE, value="none"),
    LayerChoice(key="selective", kind=RECOMPUTE, value="selective"),
    LayerChoice(key="full", kind=RECOMPUTE, value="full"),
    LayerChoice(key=OUTPUT, kind=RECOMPUTE, value=RECOMPUTE_OUTPUT),
    LayerChoice(key=TO_HOST, kind=HOST, value=ON_HOST),
)
"""All choices of single layers: none but what their stage does, and each that may differ from it."""


def with_layer_choice(job: JobStrategy, layers: Collection[str], key: str) -> JobStrategy:
    """Return a strategy in which some layers have a choice; the host's memory is taken back if all have it.

    Exceptions by pattern are spelt out on the stages that change.

    Args:
        job: the strategy.
        layers: names of the layers, on any stages.
        key: `LayerChoice.key`.

    Raises:
        InputError: an unknown choice, a layer that no stage has, or none.
    """
    choice = _known(LAYER_CHOICES, key)
    wanted = frozenset(layers)
    homes = {name: stage for stage in job.stages for name in stage.all_layers if name in wanted}
    wrong = sorted(wanted - set(homes))
    if wrong or not wanted:
        raise InputError(
            f"no stage has the layer {wrong[0]!r}" if wrong else "no layer was chosen", key="layers",
            found=wrong[0] if wrong else 0, allowed="layers of the strategy",
        )  # fmt: skip
    held = not all(choice.held_by(stage, name) for name, stage in homes.items())
    return job.with_stages(
        changed_keeping(stage, wanted, lambda own: choice.on(own, held=held))
        if wanted.intersection(stage.all_layers)
        else stage
        for stage in job.stages
    )


C = TypeVar("C", MemoryChoice, LayerChoice)


def _known(choices: Sequence[C], key: str) -> C:
    """Return the choice with a key.

    Raises:
        InputError: there is none.
    """
    for choice in choices:
        if choice.key == key:
            return choice
    allowed = ", ".join(item.key for item in choices)
    raise InputError(f"unknown choice {key!r}", key="memory", found=key, allowed=allowed)
