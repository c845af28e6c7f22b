"""Tensors that autograd saves of own layers, operator by operator, as eager torch runs them.

A captured LayerGraph says what a fused kernel per layer would keep. Eager torch keeps more (the output of a
SiLU beside its input, a norm's input after division, the log-softmax of a cross entropy) or less. Which
tensors it saves is asked of autograd itself: the captured program runs once on tensors without values, and
whatever its nodes save is noted. Memory that several saved tensors share counts once; weights and data, which
are there all the same, do not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from explorer.graph import COMPUTE, Layer, LayerGraph, Tensor, Use
from explorer.models.captured_program import CapturedProgram

if TYPE_CHECKING:
    import torch

_DTYPES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bool": "bool",
    "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
}  # fmt: skip
"""Names of torch's data types in a LayerGraph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTensor:
    """Memory that autograd keeps from forward to backward."""

    layers: tuple[str, ...]
    """Layers whose operators save it, each once, in the order in which they run."""
    node: str
    """Node of the program that first makes it; '' if it is made inside of an operator."""
    elements: float
    """Elements, for one sample."""
    dtype: str
    """Data type, as torch prints it, without `torch.`."""


def with_saved(graph: LayerGraph, program: CapturedProgram) -> LayerGraph:
    """Return a graph whose layers save what autograd saves when they run operator by operator.

    Args:
        graph: the layers of the program.
        program: the program. One that cannot run on tensors without values, since what is there depends on
            them, leaves the graph as it is: then it saves what its capture says.
    """
    from torch._subclasses import fake_tensor

    need_values = (
        fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException,
        fake_tensor.UnsupportedFakeTensorException, fake_tensor.UnsupportedOperatorException,
    )  # fmt: skip
    try:
        found = saved_tensors(program)
    except need_values:
        return graph
    width = _width(program)
    named = [_named(graph, program, item, width) for item in found]
    saves: dict[str, dict[str, None]] = defaultdict(dict)
    hidden: dict[str, list[Use]] = defaultdict(list)
    made: list[Tensor] = []
    taken = {tensor.name for tensor in graph.tensors}
    for item, known in zip(found, named, strict=True):
        name = known
        if not name:
            owner = graph.layer[item.layers[0]]
            tensor, use = _hidden(graph, program, item, owner, taken, width)
            made.append(tensor)
            hidden[owner.name] += [use] if use.dims else []
            name = tensor.name
            taken.add(name)
        for layer in item.layers:
            saves[layer][name] = None
    kept = {name for names in saves.values() for name in names}
    gone = _gone(graph, kept)
    layers = tuple(
        replace(
            layer, saves=tuple(saves[layer.name]), last_read_by=(),
            writes=(*(use for use in layer.writes if use.name not in gone), *hidden[layer.name]),
        )
        for layer in graph.layers
    )  # fmt: skip
    tensors = (*(tensor for tensor in graph.tensors if tensor.name not in gone), *made)
    return replace(graph, layers=layers, tensors=tensors)


def _gone(graph: LayerGraph, kept: set[str]) -> set[str]:
    """Return what a capture has for fused kernels alone: saved there, read by nobody, not saved here."""
    saved = {name for layer in graph.layers for name in layer.saves}
    return {
        name
        for name in saved - kept
        if name in graph.producer and not graph.consumers.get(name) and not graph.tensor[name].backward
    }


def _width(program: CapturedProgram) -> str:
    """Return the data type of the parameters, which is that of compute."""
    for name in program.parameter_of.values():
        return str(program.parameter_dtype(name)).removeprefix("torch.")
    return "float32"


def _named(graph: LayerGraph, program: CapturedProgram, item: SavedTensor, width: str) -> str:
    """Return the tensor of the graph that a saved one is; '' if it is none, or a part of one."""
    name = program.tensor_at.get(item.node, "")
    if name not in graph.tensor or name not in graph.producer:
        return ""
    tensor = graph.tensor[name]
    alike = tensor.dtype == (COMPUTE if item.dtype == width else _DTYPES.get(item.dtype))
    return name if alike and prod(tensor.shape) == item.elements else ""


def _hidden(
    graph: LayerGraph, program: CapturedProgram, item: SavedTensor, owner: Layer, taken: set[str], width: str
) -> tuple[Tensor, Use]:
    """Make a tensor that no layer reads, with the dimensions of one of its layer that has its axes.

    One that is like none (statistics of a norm) has none: as a layer's result it would look like a sum.
    """
    base = f"{owner.name}.saved.{item.node}" if item.node else f"{owner.name}.saved"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    dtype = COMPUTE if item.dtype == width else _DTYPES.get(item.dtype, "byte")
    like = _alike(graph, program, item, owner)
    shape, dims = (graph.tensor[like.name].shape, like.dims) if like else ((item.elements,), ())
    return Tensor(name=name, shape=shape, dtype=dtype, backward=False), Use(name=name, dims=dims)


def _alike(graph: LayerGraph, program: CapturedProgram, item: SavedTensor, owner: Layer) -> Use | None:
    """Return what a layer reads or writes that is cut as a saved tensor is; None if nothing is."""
    axes = program.axes_of.get(item.node)
    for use in (*owner.writes, *owner.reads):
        shape = graph.tensor[use.name].shape
        other = program.axes_of.get(program.made_at.get(use.name, ""))
        same = axes is None or other is None or _atoms(axes) == _atoms(other)
        if same and prod(shape) == item.elements and len(use.dims) == len(shape):
            return use
    return None


def _atoms(axes: Any) -> tuple[int, ...]:
    return tuple(atom for axis in axes for atom in axis)


def saved_tensors(program: CapturedProgram) -> list[SavedTensor]:
    """List what autograd saves while a program runs once on tensors without values.

    Raises:
        DataDependentOutputException, DynamicOutputShapeException: an operator whose result depends on values.
        UnsupportedFakeTensorException, UnsupportedOperatorException: one that needs values to run at all.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from explorer.run.own.layer_modules import layer_module

    module = layer_module(program, [layer.name for layer in program.graph.layers])
    rows: list[tuple[str, torch.Tensor]] = []
    runner = _watched(module.module)

    def note(tensor: torch.Tensor) -> torch.Tensor:
        rows.append((runner.at, tensor))
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True):
        data = [_data(program, name) for name in module.reads]
        weights = [_weight(program, name) for name in module.parameters]
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            runner.run(*data, *weights)
    outside = {_storage(tensor) for tensor in (*data, *weights, *program.constants.values())}
    first = {_storage(t): node.name for node, made in reversed(runner.env.items()) for t in _tensors(made)}
    found: dict[int, tuple[torch.Tensor, dict[str, None]]] = {}
    for node, tensor in rows:
        if (key := _storage(tensor)) not in outside:
            found.setdefault(key, (tensor, {}))[1][_layer(program, module.origin.get(node, ""))] = None
    return [
        SavedTensor(
            layers=tuple(layers),
            node=module.origin.get(first.get(key, ""), ""),
            elements=tensor.untyped_storage().nbytes() / tensor.element_size() / program.samples,
            dtype=str(tensor.dtype).removeprefix("torch."),
        )
        for key, (tensor, layers) in found.items()
    ]


def _layer(program: CapturedProgram, node: str) -> str:
    """Return the layer of a node, or of what reads it; the last one for the loss, which is appended."""
    if node in program.layer_of:
        return program.layer_of[node]
    users = next((item.users for item in program.module.graph.nodes if item.name == node), ())
    found = [program.layer_of[user.name] for user in users if user.name in program.layer_of]
    return found[0] if found else program.graph.layers[-1].name


def _watched(module: Any) -> Any:
    """Return a runner of a module that tells at which node it is and keeps what all have made."""
    from torch import fx

    class Watched(fx.Interpreter):
        at = ""

        def run_node(self, n: fx.Node) -> Any:
            self.at = n.name
            return super().run_node(n)

    return Watched(module, garbage_collect_values=False)


def _data(program: CapturedProgram, name: str) -> torch.Tensor:
    """Make an input for as many samples as the program takes."""
    import torch

    from explorer.run.own.layer_modules import LABELS

    if name == LABELS and program.loss:
        shape = tuple(map(round, program.graph.tensor[LABELS].shape))
        return torch.zeros((program.samples, *shape), dtype=torch.long)
    value = _value(program, name)
    return torch.empty(value.shape, dtype=value.dtype)


def _weight(program: CapturedProgram, name: str) -> torch.Tensor:
    import torch

    node = next(node for node, known in program.parameter_of.items() if known == name)
    value = _value(program, node)
    return torch.empty(value.shape, dtype=value.dtype, requires_grad=value.dtype.is_floating_point)


def _value(program: CapturedProgram, node: str) -> Any:
    return next(item.meta["val"] for item in program.module.graph.nodes if item.name == node)


def _tensors(made: Any) -> Iterator[torch.Tensor]:
    import torch

    for item in made if isinstance(made, tuple | list) else (made,):
        if isinstance(item, torch.Tensor):
            yield item


def _storage(tensor: torch.Tensor) -> int:
    # memory of tensors without values has no address
    return int(tensor.untyped_storage()._cdata)


__all__ = ["SavedTensor", "saved_tensors", "with_saved"]
