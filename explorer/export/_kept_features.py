"""Where a plan uses exceptions of layers from what their stage keeps: whole blocks, groups, single layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from explorer.export._plan_parts import PlanPart, listed, stage_name
from explorer.graph import LayerGraph
from explorer.importing._megatron_recompute import BLOCK, recomputation_of
from explorer.strategies.keeping import exceptions_of, kept_of
from explorer.strategy import RECOMPUTES, JobStrategy, Stage

FIRST, GROUPS, BLOCKS, LAYERS = "first", "groups", "blocks", "layers"
"""Forms of recomputation by exceptions, each with a feature of its own."""


def recomputed_form(graph: LayerGraph, job: JobStrategy) -> str:
    """Return the form of what a strategy's exceptions recompute; empty if they say nothing of it."""
    stages = job.stages
    if not any(own.recompute for stage in stages for own in exceptions_of(stage).values()):
        return ""
    if asked := recomputation_of(graph, job):
        return FIRST if asked.method == BLOCK else GROUPS
    return BLOCKS if all(block_choices(graph, stage) is not None for stage in stages) else LAYERS


def block_choices(graph: LayerGraph, stage: Stage) -> dict[str, str] | None:
    """Return what is made again of every block of a stage that is an exception: none, selective or full.

    None if layers of one block differ, drop what they write, or are outside of blocks.
    """
    found: dict[str, str] = {}
    excepted = exceptions_of(stage)
    for name in stage.all_layers:
        block, own = graph.layer[name].block, kept_of(stage, name).recompute
        if name in excepted and excepted[name].recompute and (not block or own not in RECOMPUTES):
            return None
        if block and found.setdefault(block, own) != own:
            return None
    return {block: own for block, own in found.items() if own != stage.recompute}


def recomputing(form: str) -> Callable[[PlanPart], Iterator[str]]:
    """Make a finder of plans whose exceptions recompute in some form, which names the stages."""

    def find(part: PlanPart) -> Iterator[str]:
        if recomputed_form(part.graph, part.strategy) == form:
            yield from _where(part, "recompute")

    return find


def offloading(part: PlanPart) -> Iterator[str]:
    """Yield the stages some layers of which keep their activations elsewhere than the others."""
    yield from _where(part, "on")


def _where(part: PlanPart, field: str) -> Iterator[str]:
    """Yield how many layers of which stages are exceptions in a field."""
    counts = {
        stage_name(i, stage): sum(bool(getattr(own, field)) for own in exceptions_of(stage).values())
        for i, stage in enumerate(part.strategy.stages)
        if stage.keeping
    }
    if found := [f"{count} layer{'s' * (count != 1)} of {name}" for name, count in counts.items() if count]:
        yield listed(found)
