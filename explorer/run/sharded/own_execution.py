"""Own layers on the ranks of a lane: a model's own operators on pieces, planned conversions in between.

A layer that the plan gives collectives inside (an embedding or a loss whose vocabulary is split, a norm whose
width is, attention in a ring) is computed by its kind, which has them. Whether a kind computes what the
module's own operators do is not taken for granted: `check_kinds` compares both, whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import torch

from explorer.base.errors import InputError
from explorer.graph import Layer, LayerGraph, Use
from explorer.models._axes import TensorAxes
from explorer.models.captured_program import CapturedProgram
from explorer.run.own.layer_modules import LayerModule, layer_module
from explorer.run.own.layer_pieces import PieceLayer, Pieces
from explorer.run.own.placed import beside_host
from explorer.run.sharded.execution import COMPUTE, ShardedExecution, check_enough
from explorer.run.sharded.here import Here
from explorer.run.sharded.mesh import RankMesh
from explorer.run.sharded.pieces import Indices
from explorer.run.sharded.sums import once
from explorer.run.sharded.tiled import TileAxes, tile_axes
from explorer.sharding.conv import WINDOWS
from explorer.sharding.stage import Request
from explorer.sharding.states import PARTIAL


class OwnShapes:
    """How tensors lie in the operators of a program, and how in the LayerGraph: samples first, axes apart.

    Raises:
        InputError: a tensor whose axes the LayerGraph knows otherwise.
    """

    def __init__(self, program: CapturedProgram) -> None:
        self.program, self.graph = program, program.graph
        self.parameter_at = {name: node for node, name in program.parameter_of.items()}
        several = program.shapes_for_several
        self.sample_at: dict[str, int] = {}
        """Per tensor that grows with the samples, the place of that atom among its atoms."""
        for name, one in program.shapes.items():
            axes = program.axes_of[program.made_at[name]]
            grown = [i for i, (a, b) in enumerate(zip(one, several[name], strict=True)) if a != b]
            if grown:
                self.sample_at[name] = sum(map(len, axes[: grown[0]]))

    def axes(self, tensor: str) -> TensorAxes:
        """Return the axes of a tensor as operators see it."""
        return self.program.axes_of[self.program.made_at[tensor]]

    def parameter_axes(self, name: str) -> TensorAxes:
        """Return the axes of a parameter as operators see it."""
        return self.program.axes_of[self.parameter_at[name]]

    def sample_atom(self, tensor: str) -> int | None:
        """Return the atom of the samples; None for one sample, or a tensor that does not grow with them."""
        place = self.sample_at.get(tensor)
        return None if place is None else _atoms(self.axes(tensor))[place]

    def atoms(self, tensor: str) -> tuple[int, ...]:
        """Return the atoms of a tensor without its samples, in the order of the LayerGraph."""
        found, place = _atoms(self.axes(tensor)), self.sample_at.get(tensor)
        found = found if place is None else (*found[:place], *found[place + 1 :])
        return self._checked(tensor, found, self.graph.tensor[tensor].shape)

    def parameter_atoms(self, name: str) -> tuple[int, ...]:
        """Return the atoms of a parameter, in the order of the LayerGraph."""
        return self._checked(name, _atoms(self.parameter_axes(name)), self.graph.parameter[name].shape)

    def _checked(self, name: str, atoms: tuple[int, ...], shape: Sequence[float]) -> tuple[int, ...]:
        sizes = tuple(self.program.atom_sizes[a] for a in atoms)
        if sizes != tuple(map(int, shape)):
            raise InputError(
                f"{name!r} has other axes for {self.program.samples} samples than for one", key="layout",
                found=sizes, allowed=f"{tuple(map(int, shape))}, or --engine likeness",
            )  # fmt: skip
        return atoms

    def to_operators(self, tensor: str, piece: torch.Tensor, pieces: Pieces) -> torch.Tensor:
        """Return a piece (samples first, axes apart) as operators see it."""
        place, shape = self.sample_at.get(tensor), pieces.shape(self.axes(tensor))
        if place is not None:
            return piece.movedim(0, place).reshape(shape)
        # of what does not grow with the samples all have the same
        return piece[:1].reshape(shape)

    def to_layers(self, tensor: str, value: torch.Tensor, pieces: Pieces, samples: int) -> torch.Tensor:
        """Return what operators made as layers pass it on."""
        place = self.sample_at.get(tensor)
        apart = value.reshape([pieces.length((a,)) for a in _atoms(self.axes(tensor))])
        if place is not None:
            return apart.movedim(place, 0)
        return apart.unsqueeze(0).expand(samples, *apart.shape)


class OwnExecution(ShardedExecution):
    """Some layers of a captured program on one rank of a lane.

    Args:
        shapes: the program's.
        graph: its layers, without what they write for their own backward only.
        request: layout, mesh axes and exceptions.
        mesh: this rank's lines.
        layers: names of the layers to run.
        tiles: mesh axes whose collectives go in tiles beside products, where these can.
    """

    def __init__(
        self,
        shapes: OwnShapes,
        graph: LayerGraph,
        request: Request,
        mesh: RankMesh,
        *,
        layers: Sequence[str] | None = None,
        tiles: Collection[str] = (),
    ) -> None:
        self.ways, self.program = shapes, shapes.program
        self._layers: dict[str, PieceLayer] = {}
        self._tile_layers: dict[tuple[str, TileAxes, tuple[int, ...]], PieceLayer] = {}
        self._can: dict[tuple[str, str, int], bool] = {}
        super().__init__(
            graph, request, mesh, samples=self.program.samples, layers=layers,
            options=_options(self.program), tiles=tiles,
        )  # fmt: skip

    def computes(self, layer: Layer) -> bool:
        """Tell that every layer has its operators."""
        del layer
        return True

    def check(self, here: Here) -> None:
        """Refuse a layer whose operators have none for the pieces of some rank.

        Raises:
            InputError: axes in part that an operator takes apart or adds up, or fewer units than devices.
        """
        check_enough(here)

    def compute(
        self, here: Here, reads: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Return what a layer makes of this rank's pieces: by its own operators if nothing is sent inside."""
        if by_kind(here):
            return compute_by_kind(here, reads, weights)
        return self._run(here, self.piece_layer(here), reads, weights)

    def _run(
        self,
        here: Here,
        run: PieceLayer,
        reads: Sequence[torch.Tensor],
        weights: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, ...]:
        """Run a layer's operators on pieces."""
        layer, pieces, ways = here.layer, run.pieces, self.ways
        tensors = {
            use.name: ways.to_operators(use.name, x, pieces)
            for use, x in zip(layer.reads, reads, strict=True)
        }
        parameters = {}
        for k, (use, x) in enumerate(zip(layer.parameters, weights, strict=True)):
            part = once(x, here=here.is_first_of_sum()) if _added(here, k) else x
            parameters[use.name] = part.reshape(pieces.shape(ways.parameter_axes(use.name)))
        made = run(tensors, parameters)
        count = reads[0].shape[0] if reads else round(self.replica_samples)
        return tuple(ways.to_layers(use.name, made[use.name], pieces, count) for use in layer.writes)

    # -- tiles ------------------------------------------------------------------------------------

    def can_tile(self, here: Here, use: Use, axis: int) -> bool:
        """Tell whether a layer can compute what belongs to a part of a tensor: it is tried once on zeros."""
        key = here.layer.name, use.name, axis
        if key not in self._can:
            axes = tile_axes(here, use, axis)
            self._can[key] = axes is not None and not by_kind(here) and self._try_tile(here, axes)
        return self._can[key]

    def _try_tile(self, here: Here, axes: TileAxes) -> bool:
        rows = (0,)
        try:
            run = self._tile_layer(here, axes, rows)
            reads = [
                torch.zeros(
                    run.pieces.shape(self.ways.axes(use.name)),
                    dtype=getattr(torch, self.program.dtype_at(use.name)),
                    device=self.mesh.device,
                )
                for use in here.layer.reads
            ]
            weights = [
                torch.zeros(
                    run.pieces.shape(self.ways.parameter_axes(use.name)),
                    dtype=self.program.parameter_dtype(use.name),
                    device=self.mesh.device,
                )
                for use in here.layer.parameters
            ]
            with torch.no_grad():
                run(
                    {use.name: x for use, x in zip(here.layer.reads, reads, strict=True)},
                    {use.name: x for use, x in zip(here.layer.parameters, weights, strict=True)},
                )
        except (InputError, KeyError, RuntimeError, ValueError, IndexError):
            return False
        return True

    def compute_tile(
        self,
        here: Here,
        reads: Sequence[torch.Tensor],
        weights: Sequence[torch.Tensor],
        axes: TileAxes,
        rows: Sequence[int],
    ) -> torch.Tensor:
        """Return a tile of what a layer makes: by its own operators on so much less of an axis."""
        return self._run(here, self._tile_layer(here, axes, tuple(rows)), reads, weights)[0]

    def _tile_layer(self, here: Here, axes: TileAxes, rows: tuple[int, ...]) -> PieceLayer:
        """Return a layer's operators on a tile of this rank's pieces.

        Raises:
            InputError: tensors that do not share the axis of the tile.
        """
        key = here.layer.name, axes, rows
        if key not in self._tile_layers:
            layer, whole = here.layer, self.piece_layer(here)
            cut = [(use, axis) for use, axis in zip(layer.reads, axes.reads, strict=True) if axis is not None]
            atoms = {self._atom(use.name, axis) for use, axis in (*cut, (layer.writes[0], axes.write))}
            atom = next(iter(atoms))
            if atom is None or len(atoms) > 1:
                _refuse(layer.name, "its tensors share no axis along which a tile is cut")
            have = whole.pieces.held.get(atom, np.arange(self.program.atom_sizes[atom]))
            pieces = replace(whole.pieces, held={**whole.pieces.held, atom: have[list(rows)]})
            self._tile_layers[key] = PieceLayer(self.program, whole.layer, pieces)
        return self._tile_layers[key]

    def _atom(self, tensor: str, axis: int) -> int | None:
        return self.ways.sample_atom(tensor) if axis == 0 else self.ways.atoms(tensor)[axis - 1]

    def piece_layer(self, here: Here) -> PieceLayer:
        """Return a layer's operators on this rank's pieces."""
        name = here.layer.name
        if name not in self._layers:
            self._layers[name] = PieceLayer(
                self.program, own_module(self.program, here.layer, self.mesh.device), self._pieces(here)
            )
        return self._layers[name]

    def _pieces(self, here: Here) -> Pieces:
        """Return what this rank has of every atom that a layer's tensors and parameters have."""
        layer, ways, found = here.layer, self.ways, dict[int, Indices]()
        for uses, indices in ((layer.reads, here.read_indices), (layer.writes, here.written_indices)):
            for k, use in enumerate(uses):
                samples, *places = indices(k)
                atom = ways.sample_atom(use.name)
                if atom is not None:
                    self._hold(found, atom, samples, layer.name)
                self._hold_all(found, ways.atoms(use.name), places, layer.name)
        for k, use in enumerate(layer.parameters):
            self._hold_all(found, ways.parameter_atoms(use.name), here.held_indices(k), layer.name)
        return Pieces(sizes=self.program.atom_sizes, held=found)

    def _hold_all(
        self, found: dict[int, Indices], atoms: Sequence[int], places: Sequence[Indices], layer: str
    ) -> None:
        for i, (atom, own) in enumerate(zip(atoms, places, strict=True)):
            if atom in atoms[:i]:
                if atom in found or len(own) < self.program.atom_sizes[atom]:
                    _refuse(layer, "an axis of which a rank has a part stands twice in one tensor")
                continue
            self._hold(found, atom, own, layer)

    def _hold(self, found: dict[int, Indices], atom: int, own: Indices, layer: str) -> None:
        if len(own) == self.program.atom_sizes[atom]:
            return
        if atom in found and found[atom].tolist() != own.tolist():
            _refuse(layer, "its tensors have different parts of one axis")
        found[atom] = own


def by_kind(here: Here) -> bool:
    """Tell whether a layer is computed by its kind: what it sums up over ranks, or sends, is inside of it."""
    kind, sums = here.layer.kind, any(PARTIAL in states for states in here.plan.writes)
    parts = kind in ("embedding", "pool") and sums
    rows = kind == "conv" and any(map(here.over, WINDOWS))
    return bool(here.plan.forward or here.plan.backward or kind == "loss" or parts or rows)


def compute_by_kind(
    here: Here, reads: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Return what layers of a kind make; attention with its axes as the module writes them."""
    made = COMPUTE[here.layer.kind](here, reads, weights)
    heads_first = here.layer.writes[0].dims[:2] == ("heads", "seq")
    if here.layer.kind == "attention" and heads_first and isinstance(made, torch.Tensor):
        return made.transpose(1, 2)
    return made


def _added(here: Here, k: int) -> bool:
    """Tell whether a parameter is added to a sum over ranks of which it is no factor: a bias."""
    sums = [a for states in here.plan.writes for a, state in enumerate(states) if state == PARTIAL]
    return bool(k and sums) and all(here.signatures[a].parameters[k] < 0 for a in sums)


def own_module(program: CapturedProgram, layer: Layer, device: torch.device) -> LayerModule:
    """Return a layer of a captured program as a module on a device that gives all it writes."""
    writes = [use.name for use in layer.writes]
    return layer_module(program, (layer.name,), writes=writes, loss=False, device=beside_host(device))


def _atoms(axes: TensorAxes) -> tuple[int, ...]:
    return tuple(a for axis in axes for a in axis)


def _refuse(layer: str, why: str) -> NoReturn:
    raise InputError(
        f"layer {layer!r} cannot be cut so: {why}", key="layout", found=layer,
        allowed="another layout of this layer, or --engine likeness",
    )  # fmt: skip


def _options(program: CapturedProgram) -> dict[str, dict[str, Any]]:
    """Return what the operators of norms, attention and convolutions say besides the graph."""
    found: dict[str, dict[str, Any]] = {}
    for node in program.module.graph.nodes:
        layer = program.layer_of.get(node.name, "")
        schema = getattr(node.target, "_schema", None)
        if schema is None or layer not in program.graph.index:
            continue
        for place, item in enumerate(schema.arguments):
            if item.name in ("eps", "scale", "is_causal", "stride", "padding"):
                given = node.args[place] if place < len(node.args) else node.kwargs.get(item.name)
                window = item.name in ("stride", "padding")
                value = item.default_value if given is None and window else given
                if value is not None:
                    found.setdefault(layer, {})[item.name] = value
    return found


__all__ = ["OwnExecution", "OwnShapes", "by_kind", "compute_by_kind", "own_module"]
