"""The layers of a stage as one rank runs them: at once, or block by block where something is made again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from explorer.graph import Layer
from explorer.models.captured_program import CapturedProgram
from explorer.run.one_rank.faked_peers import SHARED_WEIGHTS, FakedPeers
from explorer.run.own.layer_modules import LayerModule, layer_module
from explorer.strategies.keeping import full_blocks
from explorer.strategy import Stage

FULL = "full"
Tensors = dict[str, torch.Tensor]


class Part(NamedTuple):
    """Layers that run together."""

    module: LayerModule
    """The layers."""
    again: bool
    """Whether a backward computes them again."""


class StageLayers:
    """The layers of a stage.

    Under full recomputation a block keeps only its inputs for the backward, layers outside of blocks keep
    what they save, and a stage without blocks is one block; single blocks may do otherwise
    (`Stage.keeping`). Where weights are divided over replicas (ZeRO 3) a block has its weights, and the next
    one its own already, while it works; a layer outside of blocks is one. So the cost model counts
    (`explorer.costs.memory`).
    """

    def __init__(self, program: CapturedProgram, stage: Stage, device: torch.device) -> None:
        self._whole = layer_module(program, stage.layers, device=device)
        self.reads, self.parameters = self._whole.reads, self._whole.parameters
        self.writes = self._whole.writes
        self._divided = stage.zero >= SHARED_WEIGHTS
        self._parts: list[Part] = []
        """In the order of the graph; empty where all runs at once."""
        graph, mine, full = program.graph, set(stage.layers), stage.recompute == FULL
        inside = [layer for layer in graph.layers if layer.name in mine]
        blocks = any(layer.block for layer in inside)
        again = {name for names in full_blocks(graph, stage) for name in names}

        def block_of(layer: Layer) -> tuple[str, str]:
            apart = self._divided and not layer.block and (blocks or not full)
            return layer.block, layer.name if apart else ""

        if full or again or self._divided:
            for _, layers in groupby(inside, key=block_of):
                names = tuple(layer.name for layer in layers)
                module = layer_module(program, names, device=device)
                self._parts.append(Part(module, again.issuperset(names) or (full and not blocks)))

    def __call__(
        self, tensors: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor], peers: FakedPeers
    ) -> Tensors:
        """Run the layers.

        Args:
            tensors: what they read, by name.
            parameters: what they use, by name.
            peers: who has the other parts of divided weights.
        """
        if not self._parts:
            return self._whole(tensors, parameters)
        known = dict(tensors)
        for i, (module, again) in enumerate(self._parts):
            self._gather(peers, i, i + 1)
            run = partial(module, {name: known[name] for name in module.reads}, parameters)
            made: Tensors = checkpoint(run, use_reentrant=False) if again else run()
            if self._divided:
                peers.release(module.parameters)
                self._gather_before_backward(peers, i, made)
            known |= made
        return {name: known[name] for name in self.writes}

    def _gather(self, peers: FakedPeers, *parts: int) -> None:
        for i in parts if self._divided else ():
            if 0 <= i < len(self._parts):
                peers.gather(self._parts[i].module.parameters)

    def _gather_before_backward(self, peers: FakedPeers, i: int, made: Tensors) -> None:
        """Gather a part's weights, and those of the one before it, when a gradient of what it made comes."""

        def come(gradient: torch.Tensor) -> None:
            del gradient
            self._gather(peers, i, i - 1)

        for value in made.values():
            if value.requires_grad:
                value.register_hook(come)  # type: ignore[no-untyped-call]
