"""Layer pieces: a layer's own operators on the pieces of its tensors that a rank has.

A capture knows of every axis of every tensor of which dimensions it is a product (`CapturedProgram.axes_of`).
So where a rank has a part of the heads, sizes that the module wrote into its views become those of the part,
and what all ranks make alike (masks, tables of positions) is cut where it meets a piece. What a layer sums up
over all ranks inside is no business of this file; an operator that would need it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NoReturn

import numpy as np
import torch

from explorer.base.errors import InputError
from explorer.models import _operators as operators
from explorer.models._axes import Axis, TensorAxes
from explorer.models.captured_program import CapturedProgram
from explorer.run.own.layer_modules import LayerModule
from explorer.run.own.recorded_calls import Known, Recorded, Recorder, filled
from explorer.run.sharded.pieces import Indices

_SIZED = {"view": 1, "reshape": 1, "_unsafe_view": 1, "expand": 1, "broadcast_to": 1}
"""Operators whose result has the sizes that an argument says, with the place of that argument."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AS_IS = (
    frozenset(_SIZED)
    | operators.PIECES
    | operators.MOVES
    | operators.MATMULS - {"einsum"}
    | operators.GROUPED
    | operators.CONVOLUTIONS
    | _words(
        """squeeze unsqueeze flatten unflatten contiguous clone alias to _to_copy type_as float double detach
        dropout view_as reshape_as expand_as repeat_interleave embedding stack where masked_fill
        _assert_tensor_metadata zeros_like ones_like full_like empty_like"""
    )
)
"""Operators that do on pieces what they do on the whole: axes that they keep apart stay apart, and sums over
an axis in part are left to whoever planned them."""
_ALONG = (
    operators.SOFTMAXES
    | operators.REDUCTIONS
    | frozenset(
        [
            "cat",
            "cumsum",
            "topk",
            "sort",
            "argsort",
            "gather",
            "scatter",
            "scatter_add",
            "index_select",
            "flip",
            "roll",
        ]
    )
)
"""Operators along an axis that they name, all of which they need; without a name along all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Which places of every atom a rank has."""

    sizes: Mapping[int, int]
    """Places along every atom."""
    held: Mapping[int, Indices]
    """Per atom of which this rank has a part, the places that it has."""
    _shapes: dict[Sequence[Axis], tuple[int, ...]] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )

    def length(self, axis: Axis) -> int:
        """Return how long an axis of a piece is."""
        return prod(len(self.held[a]) if a in self.held else self.sizes[a] for a in axis)

    def shape(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        """Return the shape of a piece."""
        found = self._shapes.get(axes)
        if found is None:
            found = self._shapes[axes] = tuple(map(self.length, axes))
        return found

    def whole(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        """Return the shape of the whole tensor."""
        return tuple(prod(self.sizes[a] for a in axis) for axis in axes)

    def splits(self, axes: Sequence[Axis]) -> bool:
        """Tell whether a rank has a part of some axes."""
        return any(a in self.held for axis in axes for a in axis)

    def cut(self, x: torch.Tensor, axes: TensorAxes) -> torch.Tensor:
        """Return this rank's piece of a whole tensor."""
        for position, axis in enumerate(axes):
            if self.splits([axis]):
                x = x.index_select(position, torch.from_numpy(self._places(axis)).to(x.device))
        return x

    def _places(self, axis: Axis) -> Indices:
        found = np.zeros(1, dtype=np.int64)
        for a in axis:
            own = self.held[a] if a in self.held else np.arange(self.sizes[a])
            found = (found[:, None] * self.sizes[a] + own[None, :]).reshape(-1)
        return found


class PieceLayer:
    """A layer of a captured program on pieces.

    The first time, its operators are gone through one by one, and each is checked. What was called then is
    called again for pieces of the same shapes.

    Args:
        program: the captured program.
        layer: the layer as a module.
        pieces: what this rank has of every atom.
    """

    def __init__(self, program: CapturedProgram, layer: LayerModule, pieces: Pieces) -> None:
        self.program, self.layer, self.pieces = program, layer, pieces
        self.nodes = list(layer.module.graph.nodes)
        self._recorded: dict[tuple[torch.Size, ...], Recorded] = {}

    def __call__(
        self, tensors: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Run the layer on pieces in the shapes of the module.

        Raises:
            InputError: an operator that needs more than its pieces.
        """
        given = [*(tensors[n] for n in self.layer.reads), *(parameters[n] for n in self.layer.parameters)]
        shapes = tuple(x.shape for x in given)
        if shapes in self._recorded:
            made = self._recorded[shapes](given)
        else:
            recorder = Recorder(len(given))
            ends = self._checked(given, recorder)
            self._recorded[shapes] = recorder.recorded(ends)
            made = [item.value for item in ends]
        return dict(zip(self.layer.writes, made, strict=True))

    def _checked(self, given: Sequence[torch.Tensor], record: Recorder) -> list[Known]:
        """Run the layer operator by operator, and return what it writes."""
        known: dict[Any, Known] = {}
        local: dict[Any, bool] = {}
        from_reads: set[Any] = set()
        for node in self.nodes:
            number = len(known)
            if number < len(self.layer.reads) or not from_reads.isdisjoint(node.all_input_nodes):
                from_reads.add(node)
            if node.op == "placeholder":
                known[node] = Known(given[number], number)
                local[node] = self._is_piece(node, given[number])
            elif node.op == "get_attr":
                known[node], local[node] = Known(getattr(self.layer.module, node.target)), False
            elif node.op == "output":
                # what is made of whole reads is no piece, though one could be cut out: all would do all of it
                alike = [not local[item] and item not in from_reads for item in node.args[0]]
                return [
                    self._cut(item, known[item], record) if same else known[item]
                    for item, same in zip(node.args[0], alike, strict=True)
                ]
            else:
                local[node] = any(local[item] for item in node.all_input_nodes)
                known[node] = self._call(node, known, local, record)
        raise AssertionError("a graph ends with its output")

    def _axes(self, node: Any) -> TensorAxes | None:
        return self.program.axes_of.get(self.layer.origin.get(node.name, ""))

    def _is_piece(self, node: Any, x: torch.Tensor) -> bool:
        axes = self._axes(node)
        if axes is None or not self.pieces.splits(axes):
            return False
        return tuple(x.shape) == self.pieces.shape(axes)

    def _cut(self, node: Any, x: Known, record: Recorder) -> Known:
        """Return this rank's piece of what all ranks make alike (a table of positions), or all of it."""
        axes = self._axes(node)
        if axes is None or not self.pieces.splits(axes):
            return x
        return record.call(self._piece_of(axes), (node,), {}, {node: x})

    def _piece_of(self, axes: TensorAxes) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: self.pieces.cut(x, axes)

    def _call(
        self, node: Any, before: Mapping[Any, Known], local: Mapping[Any, bool], record: Recorder
    ) -> Known:
        if not local[node]:
            return record.call(node.target, node.args, node.kwargs, before)
        known = dict(before)
        for item in node.all_input_nodes:
            if not local[item]:
                known[item] = self._cut(item, before[item], record)
        name = str(getattr(node.target, "_opname", getattr(node.target, "__name__", node.target)))
        known |= self._running(node, name, known, record)
        args = self._args(node, name)
        self._check(node, name, filled(args, known))
        made = record.call(node.target, args, node.kwargs, known)
        axes, value = self._axes(node), made.value
        if (
            isinstance(value, torch.Tensor)
            and axes is not None
            and tuple(value.shape) != self.pieces.shape(axes)
        ):
            self._refuse(name, f"gives {tuple(value.shape)} in place of {self.pieces.shape(axes)}")
        return made

    def _running(
        self, node: Any, name: str, known: Mapping[Any, Known], record: Recorder
    ) -> dict[Any, Known]:
        """Return the running statistics of the channels that this rank has, of a norm by channel."""
        first, *others = node.all_input_nodes
        axes = self._axes(first)
        if name != "batch_norm" or axes is None or not self.pieces.splits(axes[1:2]):
            return {}
        count, cut = self.pieces.whole(axes[1:2]), self._piece_of(axes[1:2])
        return {
            item: record.call(cut, (item,), {}, known)
            for item in others
            if not self._is_split(item) and tuple(known[item].value.shape) == count
        }

    def _args(self, node: Any, name: str) -> tuple[Any, ...]:
        """Return a node's arguments, with the sizes of pieces where it says sizes of its result."""
        axes, bare = self._axes(node), name.rstrip("_") or name
        place = _SIZED.get(bare)
        if bare in operators.PIECES:
            return self._places_of_pieces(node, bare)
        if place is None or axes is None or len(node.args) <= place:
            return tuple(node.args)
        return (*node.args[:place], list(self.pieces.shape(axes)), *node.args[place + 1 :])

    def _places_of_pieces(self, node: Any, name: str) -> tuple[Any, ...]:
        """Return the arguments of what takes an axis apart: where it cuts along the outer, whole part of an
        axis (gate and up of one matrix), its places are those of the rank's part of the inner one.
        """
        source, dim = self._axes(node.args[0]), _dimension(name, node)
        axis = source[dim] if source is not None and dim is not None else ()
        if not self.pieces.splits([axis]):
            return tuple(node.args)
        inner = axis[next(i for i, atom in enumerate(axis) if atom in self.pieces.held) :]
        outer, own = self.pieces.whole([axis[: len(axis) - len(inner)]])[0], self.pieces.length(inner)
        each = self.pieces.whole([inner])[0]
        args = list(node.args)
        if name == "chunk" and outer % args[1] == 0:
            return tuple(args)
        if name in ("split", "split_with_sizes"):
            sizes = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
            if all(size % each == 0 for size in sizes):
                scaled = [size // each * own for size in sizes]
                return (args[0], scaled if isinstance(args[1], (list, tuple)) else scaled[0], *args[2:])
        if name == "slice" and len(args) < 5:
            low, high = args[2] or 0, min(args[3], outer * each) if len(args) > 3 else outer * each
            if low % each == 0 and high % each == 0:
                return (*args[:2], low // each * own, high // each * own)
        return self._refuse(name, f"takes an axis apart of which a rank has {outer * own} of {outer * each}")

    def _check(self, node: Any, name: str, args: Sequence[Any]) -> None:
        """Refuse what takes an axis apart, or adds up over one, of which this rank has a part."""
        bare = name.rstrip("_") or name
        if bare == "batch_norm" or "pool" in bare:
            self._check_places(node, bare)
            return
        if bare == "getitem" or bare in _AS_IS or torch.Tag.pointwise in getattr(node.target, "tags", ()):
            return
        first = next((item for item in node.all_input_nodes if self._axes(item) is not None), None)
        axes = self._axes(first) if first is not None else None
        if axes is None:
            return
        dim = _dimension(bare, node)
        over = axes if dim is None else axes[dim : dim + 1 or None]
        if bare in operators.REDUCTIONS and len(node.args) > 1 and isinstance(node.args[1], (list, tuple)):
            over = tuple(axes[d] for d in node.args[1])
        if bare in operators.NORMS - operators.CHANNEL_NORMS:
            self._check_norm(node, name, axes)
        elif bare in operators.ATTENTIONS:
            self._check_heads(node, name, args)
        elif bare in _ALONG and self.pieces.splits(over):
            self._refuse(name, "goes over an axis of which a rank has a part")
        elif bare not in _ALONG and any(map(self._is_split, node.all_input_nodes)):
            self._refuse(name, "may mix what ranks have apart")

    def _is_split(self, node: Any) -> bool:
        axes = self._axes(node)
        return axes is not None and self.pieces.splits(axes)

    def _check_places(self, node: Any, name: str) -> None:
        """Refuse statistics over channels, or windows, that go over an axis of which a rank has a part."""
        axes = self._axes(node.args[0]) or ()
        over = axes[-int(name[name.index("d") - 1]) :] if "pool" in name else (axes[0], *axes[2:])
        if self.pieces.splits(over):
            self._refuse(name, "goes over an axis of which a rank has a part")

    def _check_norm(self, node: Any, name: str, axes: TensorAxes) -> None:
        shape = next((item for item in node.args if isinstance(item, (list, tuple))), ())
        if self.pieces.splits(axes[len(axes) - len(shape) :]):
            self._refuse(name, "normalises over an axis of which a rank has a part")

    def _check_heads(self, node: Any, name: str, args: Sequence[Any]) -> None:
        """Refuse queries without their keys: positions in part, or key heads in another ratio."""
        q, k = (self._axes(item) for item in node.args[:2])
        if q is None or k is None:
            return
        if self.pieces.splits(q[-2:]) or self.pieces.splits(k[-2:]):
            self._refuse(name, "needs all positions and all of a head")
        whole_q, whole_k = self.pieces.whole(q)[-3], self.pieces.whole(k)[-3]
        if args[0].shape[-3] * whole_k != args[1].shape[-3] * whole_q:
            self._refuse(name, f"has {args[0].shape[-3]} query heads for {args[1].shape[-3]} of keys")

    def _refuse(self, name: str, why: str) -> NoReturn:
        raise InputError(
            f"layer {self.layer.layers[0]!r} cannot be cut so: {name} {why}", key="layout",
            found=self.layer.layers[0], allowed="another layout of this layer, or --engine likeness",
        )  # fmt: skip


def _dimension(name: str, node: Any) -> int | None:
    """Return the axis along which an operator works; None for all, or for none that it says."""
    if name in ("unbind", "select", "slice", "narrow", "softmax", "_softmax", "log_softmax", "_log_softmax",
                "gather", "scatter", "scatter_add", "cumsum", "index_select"):  # fmt: skip
        found = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    elif name in ("chunk", "split", "split_with_sizes", "topk", "tensor_split", "unsafe_split"):
        found = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", -1 if name == "topk" else 0)
    else:
        found = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        found = found[0] if isinstance(found, (list, tuple)) and len(found) == 1 else found
    return found if isinstance(found, int) else None


__all__ = ["PieceLayer", "Pieces"]
