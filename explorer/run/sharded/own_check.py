"""What is found out before own layers start on lanes of several ranks: one line says which layer cannot.

Every layer runs once here on the pieces of a rank, without the others. Layers that ranks compute by their
kind run whole as well, and must give what the module's own operators give.
"""

from __future__ import annotations

import torch

from explorer.base.errors import InputError
from explorer.graph import Layer
from explorer.run.own.layer_modules import TOTAL, layer_module
from explorer.run.own.layer_pieces import PieceLayer, Pieces
from explorer.run.own.own_model import OwnModel
from explorer.run.ranks.modules import Samples
from explorer.run.sharded.execution import COMPUTE
from explorer.run.sharded.here import Here
from explorer.run.sharded.layout_units import WHOLE, alone
from explorer.run.sharded.mesh import imagined_mesh
from explorer.run.sharded.own_execution import (
    OwnExecution,
    OwnShapes,
    by_kind,
    compute_by_kind,
    own_module,
)
from explorer.run.sharded.own_units import OwnPieces

BOUND = {"fp64": 1e-10, "fp32": 1e-4}
"""Largest error of a layer by its kind, of the largest scalar that its own operators give."""
CPU = torch.device("cpu")


def require_pieces(model: OwnModel, samples: int) -> None:
    """Refuse a model whose own layers cannot run on the ranks of its lanes.

    Args:
        model: the layers and how they are laid out.
        samples: samples of a microbatch; of one lane where layers are over ranks of several.

    Raises:
        InputError: a layer that has no arithmetic for its pieces.
    """
    units = OwnPieces(model, imagined_mesh(model.mesh_axes, CPU))
    samples *= units.together
    program = units.own.program(samples)
    for name in (program.tensor_at.get(node, "") for node in program.outputs):
        if name and not program.loss and units.graph.consumers.get(name):
            raise InputError(
                f"the model returns {name!r}, which its own layers read as well", key="layout", found=name,
                allowed="outputs that no layer reads, or --engine likeness",
            )  # fmt: skip
    shapes, data = units.shapes(samples), units.samples(0, samples, CPU)
    run = OwnExecution(shapes, units.graph, units.request, units.mesh)
    whole = OwnExecution(shapes, units.graph, WHOLE, alone(CPU))
    with torch.no_grad():
        for layer in run.layers:
            here = run.here[layer.name]
            if by_kind(here):
                _require_alike(model, whole, whole.here[layer.name], data, layer)
            else:
                _try(run, here, layer)


def _try(run: OwnExecution, here: Here, layer: Layer) -> None:
    """Run a layer's operators on a rank's pieces of nothing."""
    piece = run.piece_layer(here)
    reads = {use.name: _blank(run.ways, use.name, piece.pieces) for use in layer.reads}
    weights = {
        use.name: torch.zeros(piece.pieces.shape(run.ways.parameter_axes(use.name)), dtype=_dtype(run))
        for use in layer.parameters
    }
    if unknown := [name for name in piece.layer.reads if name not in reads]:
        raise InputError(
            f"layer {layer.name!r} reads {unknown[0]!r}, of which the graph says nothing", key="layout",
            found=layer.name, allowed="--engine likeness",
        )  # fmt: skip
    try:
        made = piece(reads, weights)
        for use in layer.writes:
            run.ways.to_layers(use.name, made[use.name], piece.pieces, run.program.samples)
    except (RuntimeError, ValueError, IndexError):
        pieces = ", ".join(f"{name} of {tuple(item.shape)}" for name, item in {**reads, **weights}.items())
        raise InputError(
            f"layer {layer.name!r} cannot be cut so: its operators do not run on pieces ({pieces})",
            key="layout",
            found=layer.name,
            allowed="another layout of this layer, or --engine likeness",
        ) from None


def _dtype(run: OwnExecution) -> torch.dtype:
    values = [item for item in run.program.module.graph.nodes if item.name in run.program.parameter_of]
    found: torch.dtype = values[0].meta["val"].dtype if values else torch.float32
    return found


def _blank(ways: OwnShapes, name: str, pieces: Pieces) -> torch.Tensor:
    dtype = getattr(torch, ways.program.dtype_at(name))
    return torch.zeros(pieces.shape(ways.axes(name)), dtype=dtype)


def _require_alike(model: OwnModel, whole: OwnExecution, here: Here, data: Samples, layer: Layer) -> None:
    """Refuse a layer of which its kind computes something else than its own operators.

    Raises:
        InputError: a kind without arithmetic, or with another.
    """
    if layer.kind not in COMPUTE:
        raise InputError(
            f"layer {layer.name!r} would send inside, which layers of kind {layer.kind!r} cannot",
            key="layout", found=layer.name, allowed="another layout of this layer, or --engine likeness",
        )  # fmt: skip
    reads, weights = drawn(whole, data, layer)
    try:
        made = compute_by_kind(here, reads, weights)
    except (RuntimeError, ValueError, IndexError, InputError):
        raise InputError(
            f"layer {layer.name!r} does not read what pieces of kind {layer.kind!r} are computed from",
            key="layout",
            found=layer.name,
            allowed="another layout of this layer, or --engine likeness",
        ) from None
    found = made if isinstance(made, tuple) else (made,)
    for one, other in zip(found, by_operators(whole, layer, reads, weights), strict=True):
        # a module's loss may be the mean over its samples
        summed = layer.kind == "loss" or other.dim() == 0
        total, whole_total = (one.sum(), other.sum()) if summed else (one, other)
        scale = max(float(whole_total.abs().max()), 1e-30)
        same = total.shape == whole_total.shape
        if not same or float((total - whole_total).abs().max()) > BOUND[model.dtype] * scale:
            raise InputError(
                f"layer {layer.name!r} computes something else than layers of kind {layer.kind!r} do",
                key="layout", found=layer.name,
                allowed="another layout of this layer, or --engine likeness",
            )  # fmt: skip


def drawn(whole: OwnExecution, data: Samples, layer: Layer) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Draw what a layer reads, and its parameters, whole and as layers pass them on.

    Args:
        whole: all layers on one rank.
        data: inputs of the model.
        layer: a layer.
    """
    generator, dtype = torch.Generator().manual_seed(0), _dtype(whole)
    reads = []
    for use in layer.reads:
        shape = whole.shapes[use.name]
        if (given := data.get(use.name)) is not None:
            reads.append(given.reshape(shape))
        elif not whole.graph.tensor[use.name].dtype.startswith("int"):
            reads.append(torch.randn(shape, generator=generator, dtype=dtype))
        else:  # numbers of experts
            most = next((int(dim.size) for dim in layer.dims if dim.name == "experts"), 1)
            reads.append(torch.randint(most, shape, generator=generator))
    weights = [
        torch.randn(whole.shapes[use.name][1:], generator=generator, dtype=dtype) for use in layer.parameters
    ]
    return reads, weights


def by_operators(
    whole: OwnExecution, layer: Layer, reads: list[torch.Tensor], weights: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Return what a layer's own operators give of what `drawn` returned: of a loss the sum over samples."""
    ways, nothing = whole.ways, Pieces(sizes=whole.program.atom_sizes, held={})
    tensors = {
        use.name: ways.to_operators(use.name, x, nothing) if use.name in whole.program.made_at else x
        for use, x in zip(layer.reads, reads, strict=True)
    }
    parameters = {
        use.name: x.reshape(nothing.shape(ways.parameter_axes(use.name)))
        for use, x in zip(layer.parameters, weights, strict=True)
    }
    if layer.kind == "loss" and whole.program.loss:
        return [layer_module(whole.program, (layer.name,), writes=())(tensors, parameters)[TOTAL]]
    made = PieceLayer(whole.program, own_module(whole.program, layer, CPU), nothing)(tensors, parameters)
    count = whole.program.samples
    return [ways.to_layers(use.name, made[use.name], nothing, count) for use in layer.writes]
