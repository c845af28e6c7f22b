"""The layers of one rank of a lane of several: its pieces, with the lane's other ranks imagined.

Layers run as ranks run them (`run.sharded.own_units`): own operators on pieces, and what the plan converts
and adds up between them. The others send zeros, so that sizes are those of the rank and values are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from explorer.models.captured_program import CapturedProgram, Capturing
from explorer.run.one_rank.faked_peers import FakedPeers
from explorer.run.one_rank.rank_layers import Layers, RankLayers
from explorer.run.own.layer_modules import TOTAL
from explorer.run.own.own_model import OwnModel
from explorer.run.own.placed import with_index
from explorer.run.sharded.layout_units import LOSS_KEY
from explorer.run.sharded.mesh import imagined_mesh
from explorer.run.sharded.own_units import OwnPieces
from explorer.strategy import Stage


class CutLayers:
    """Some layers on one rank's pieces.

    Args:
        pieces: all layers of the model on this rank.
        names: layers that run.
        samples: samples of a microbatch.
    """

    def __init__(self, pieces: OwnPieces, names: Sequence[str], samples: int) -> None:
        numbers = {name: i for i, name in enumerate(pieces.own.model.layers)}
        self.units = tuple(sorted(numbers[name] for name in names))
        self.pieces, self.tensors = pieces, pieces.own.model.tensors
        self.keys = {self.tensors[key].name: key for key in pieces.reads(self.units)}
        run = pieces.execution(self.units, samples)
        self.parameters, self.reads = tuple(run.uses), tuple(self.keys)
        self.writes = tuple(use.name for layer in run.layers for use in layer.writes)
        self.data = pieces.samples(0, samples, pieces.mesh.device)

    def __call__(
        self, tensors: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor], peers: FakedPeers
    ) -> dict[str, torch.Tensor]:
        """Run the layers."""
        del peers
        outside = {key: tensors[name] for name, key in self.keys.items()}
        made = self.pieces.run(self.units, parameters, outside, self.data)
        return {
            TOTAL if key == LOSS_KEY else self.tensors[key].name: value for key, value in made.items()
        }  # fmt: skip


class CutRankLayers(RankLayers):
    """The pieces of one rank's layers with their weights, gradients and states.

    Args:
        model: the layers and how they are laid out.
        program: the captured program.
        source: the module.
        stages: the rank's stages.
        optimizer: name of the optimizer.
        device: cpu or cuda.
    """

    def __init__(
        self,
        model: OwnModel,
        program: CapturedProgram,
        source: Capturing,
        stages: Mapping[int, Stage],
        optimizer: str,
        device: str,
    ) -> None:
        self.pieces = OwnPieces(model, imagined_mesh(model.mesh_axes, with_index(torch.device(device))))
        super().__init__(program, source, stages, optimizer, device)

    def _stage(self, stage: Stage) -> Layers:
        return CutLayers(self.pieces, stage.layers, self.samples)

    def _layer(self, name: str) -> Layers:
        return CutLayers(self.pieces, (name,), self.samples)

    def _drawn(self, module: Layers, names: Sequence[str]) -> dict[str, torch.Tensor]:
        wanted = set(names)
        cut = self.pieces.weights(module.units, self.device) if isinstance(module, CutLayers) else {}
        return {name: weight for name, weight in cut.items() if name in wanted}

    def _given(self, module: Layers, *, gradients: bool) -> dict[str, torch.Tensor]:
        found = {}
        for name, key in module.keys.items() if isinstance(module, CutLayers) else ():
            made = self.pieces.blank(key, self.samples, self.device)
            if made.dtype.is_floating_point:
                made.normal_()
                made.requires_grad_(gradients and self.pieces.differentiable(key))
            else:
                made.zero_()
            found[name] = made
        return found

    def _worked_s(self) -> float:
        return super()._worked_s() - self.pieces.mesh.meter.imagined_s
