"""The layers of a stage as one rank runs them: at once, or block by block where they are recomputed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby

import torch
from torch.utils.checkpoint import checkpoint

from explorer.models.captured_program import CapturedProgram
from explorer.run.own.layer_modules import LayerModule, layer_module
from explorer.strategy import Stage

FULL = "full"


class StageLayers:
    """The layers of a stage.

    Under full recomputation a block keeps only its inputs for the backward, layers outside of blocks keep
    what they save, and a stage without blocks is one block: so the cost model counts
    (`explorer.costs.memory`).
    """

    def __init__(self, program: CapturedProgram, stage: Stage, device: torch.device) -> None:
        self._whole = layer_module(program, stage.layers, device=device)
        self.reads, self.parameters = self._whole.reads, self._whole.parameters
        self.writes = self._whole.writes
        self._parts: list[tuple[LayerModule, bool]] = []
        """Modules in the order of the graph, and whether each is computed again."""
        if stage.recompute == FULL:
            graph, mine = program.graph, set(stage.layers)
            inside = [layer for layer in graph.layers if layer.name in mine]
            blocks = any(layer.block for layer in inside)
            for block, layers in groupby(inside, key=lambda layer: layer.block):
                module = layer_module(program, tuple(layer.name for layer in layers), device=device)
                self._parts.append((module, bool(block) or not blocks))

    def __call__(
        self, tensors: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Run the layers; the arguments are those of `LayerModule`."""
        if not self._parts:
            return self._whole(tensors, parameters)
        known = dict(tensors)
        for module, again in self._parts:
            run = partial(module, {name: known[name] for name in module.reads}, parameters)
            known |= checkpoint(run, use_reentrant=False) if again else run()
        return {name: known[name] for name in self.writes}
