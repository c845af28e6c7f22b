"""CapturedProgram: a torch module as a graph of operators, each of which is known to belong to a layer.

The capture that makes a LayerGraph (`torch_export`) keeps here what it read: the exported graph, which node
computes which tensor of the LayerGraph, which parameter a placeholder is, and what its constants hold. A
module may be captured with some of its blocks; layers and parameters keep their names of full depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.graph import Defaults, LayerGraph
from explorer.models._axes import TensorAxes
from explorer.models._emission import GraphParts
from explorer.models._operators import FREE
from explorer.models._program import VALUE, Ref, TracedProgram
from explorer.models._stacks import ChosenBlocks, find_stacks
from explorer.models.torch_export import (
    Request,
    export,
    exporting,
    graph_of_parts,
    ordered,
    read_layers,
    with_loss,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

LOSS = "loss"
"""Layer that a capture appends to a model whose first output is logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedProgram:
    """The exported graph of a module, for some number of samples, with what its nodes are."""

    graph: LayerGraph
    """Its layers, for one sample."""
    module: Any
    """The `torch.fx.GraphModule`; its placeholders are parameters, constants and inputs."""
    samples: int
    """Number of samples that it computes at a time."""
    layer_of: Mapping[str, str]
    """Layer of every node that computes."""
    tensor_at: Mapping[str, str]
    """Tensor of the LayerGraph that a node gives, or of which it gives a view."""
    made_at: Mapping[str, str]
    """Node that first gives a tensor, as layers pass it on."""
    axes_of: Mapping[str, TensorAxes]
    """Per node that gives one tensor, what each of its axes is a product of: atoms, outermost first. Axes of
    two tensors with an atom in common are the same there.
    """
    atom_sizes: Mapping[int, int]
    """Places along every atom."""
    parameter_of: Mapping[str, str]
    """Parameter that a placeholder is."""
    constants: Mapping[str, Tensor]
    """Value of every placeholder that is a buffer or a constant of the module."""
    inputs: Mapping[str, Tensor]
    """Example of every other placeholder, for one sample."""
    outputs: tuple[str, ...]
    """Nodes whose values the module returns."""
    shapes: Mapping[str, tuple[int, ...]]
    """Shape of every tensor that layers pass on, for one sample."""
    training: bool
    """Whether it was captured in training mode; else in evaluation mode."""
    loss: bool
    """Whether the LayerGraph ends with a cross entropy of the first output that the module lacks."""

    @property
    def is_in_fp64(self) -> bool:
        """Whether its parameters are in fp64."""
        values = _values(self.module.graph)
        return any(str(values[node].dtype) == "torch.float64" for node in self.parameter_of)

    def value_at(self, tensor: str) -> Tensor:
        """Return the fake tensor that a tensor of the LayerGraph is."""
        found: Tensor = _values(self.module.graph)[self.made_at[tensor]]
        return found

    def dtype_at(self, tensor: str) -> str:
        """Return the data type in which a run passes a tensor on, as torch prints it, without `torch.`.

        Where parameters are in fp64, what the module lifts to fp32 by name is in fp64 as well.
        """
        found = str(self.value_at(tensor).dtype).removeprefix("torch.")
        return "float64" if found == "float32" and self.is_in_fp64 else found

    def parameter_dtype(self, name: str) -> Any:
        """Return the data type of a parameter."""
        node = next(node for node, known in self.parameter_of.items() if known == name)
        return _values(self.module.graph)[node].dtype

    @property
    def shapes_for_several(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of every tensor that layers pass on, for as many samples as it was captured with."""
        return _shapes(self.module, self.made_at)


def _values(graph: Any) -> dict[str, Any]:
    return {node.name: node.meta.get("val") for node in graph.nodes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capturing:
    """A module that can be captured for any number of samples and with any of its blocks."""

    module: nn.Module
    """The module; its parameters may be without values, its buffers may not."""
    args: tuple[Any, ...] = ()
    """Positional example inputs for one sample."""
    kwargs: Mapping[str, Any]
    """Example inputs by name."""
    name: str
    """Name of the graph."""
    loss: bool = False
    """Whether to append a cross entropy of the first output."""
    by_module: bool = False
    """Whether every module without submodules is a layer, as in modules of the zoo."""

    def blocks(self) -> tuple[ChosenBlocks, ...]:
        """Return the lists of blocks that may be shortened, whole."""
        stacks = find_stacks(self.module)
        counts = [(stack.path, len(stack.kinds)) for stack in stacks]
        return tuple(ChosenBlocks(path=path, count=n, keep=tuple(range(n))) for path, n in counts)


def capture_program(
    source: Capturing,
    *,
    samples: int = 1,
    keep: Sequence[ChosenBlocks] = (),
    one: CapturedProgram | None = None,
) -> CapturedProgram:
    """Capture a module for a number of samples.

    Args:
        source: the module with its example inputs.
        samples: number of samples; inputs are repeated so often.
        keep: the blocks to keep of some lists; all others stay whole.
        one: its capture for one sample, if that has been made already.

    Raises:
        InputError: a module that torch.export refuses, that computes otherwise for several samples, or that
            writes into its own tensors where it cannot be cut.
    """
    problem: InputError | None = None
    ways = (True, False) if one is None else (one.training,)
    for training in ways:  # as a LayerGraph is captured: what cannot be trained is evaluated
        try:
            return _captured(source, samples, keep, one, training=training)
        except InputError as error:
            problem = problem or error
    raise problem or InputError("nothing was captured", key="model", found=source.name)


def _captured(
    source: Capturing,
    samples: int,
    keep: Sequence[ChosenBlocks],
    one: CapturedProgram | None,
    *,
    training: bool,
) -> CapturedProgram:
    chosen = {item.path: item for item in keep}
    stacks = tuple(chosen.get(item.path, item) for item in source.blocks())
    # parameters are named while the module is whole
    request = Request(source.module, source.args, dict(source.kwargs))
    more = Request(source.module, *_repeated(source, samples))

    def exported(asked: Request) -> tuple[Any, TracedProgram, GraphParts, LayerGraph]:
        program = _functional(_exported(asked, source))
        read, parts = read_layers(asked, stacks, program, by_module=source.by_module)
        graph = ordered(graph_of_parts(source.name, parts, Defaults()))
        return program, read, parts, with_loss(graph) if source.loss else graph

    with exporting(source.module, stacks, training=training):
        if one is None or samples == 1:
            program, read, parts, graph = exported(request)
            shapes: Mapping[str, tuple[int, ...]] = _shapes(program, _tensors(read, parts)[0])
        else:
            graph, shapes = one.graph, one.shapes
        several = graph
        if samples != 1:
            program, read, parts, several = exported(more)
        made_at, tensor_at = _tensors(read, parts)
        axes_of = _axes(read)
        paths = program.graph_signature.inputs_to_parameters
        parameter_of = {name: request.parameter_name(path) for name, path in paths.items()}
    _check_alike(graph, several, samples)
    return CapturedProgram(
        graph=graph,
        module=program.graph_module,
        samples=samples,
        layer_of={op.node: layer for layer, ops in parts.operations.items() for op in ops},
        tensor_at=tensor_at,
        made_at=made_at,
        axes_of=axes_of,
        atom_sizes={a: read.axes.size((a,)) for axes in axes_of.values() for axis in axes for a in axis},
        parameter_of=parameter_of,
        constants=_constants(program, source),
        inputs=_inputs(program, request),
        outputs=_outputs(program),
        shapes=shapes,
        training=training,
        loss=source.loss,
    )


def _tensors(read: TracedProgram, parts: GraphParts) -> tuple[dict[str, str], dict[str, str]]:
    """Return the first node of every tensor, and the tensor of every node that gives one or a view of it."""
    made_at: dict[str, str] = {}
    tensor_at: dict[str, str] = {}
    for node, ref in read.seen.items():
        if isinstance(ref, Ref) and ref.kind == VALUE and ref.name in parts.tensor_of:
            tensor = tensor_at[node] = parts.tensor_of[ref.name]
            made_at.setdefault(tensor, node)
    return made_at, tensor_at


def _axes(read: TracedProgram) -> dict[str, TensorAxes]:
    """Return what the axes of every node's tensor are products of, as all of the program says."""
    return {
        node: tuple(map(read.axes.resolve, ref.axes))
        for node, ref in read.seen.items()
        if isinstance(ref, Ref)
    }


def _shapes(program: Any, made_at: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    values = _values(program.graph)
    return {tensor: tuple(map(int, values[node].shape)) for tensor, node in made_at.items()}


def _exported(request: Request, source: Capturing) -> Any:
    try:
        return export(request)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise InputError(
            f"torch.export refuses {source.name!r}: {type(error).__name__}: {first[:200]}",
            key="model",
            found=source.name,
            allowed="a module that torch.export accepts",
        ) from error


def _functional(program: Any) -> Any:
    """Return a program without writes into its own tensors; writes into buffers that nobody reads may stay.

    Torch's own way decomposes some operators too, and layers are named by operators, so that what is plain
    to see is done first: `y = x.add_(z)` is `y = x + z`, which readers of `x` read from there on.
    """
    for node in list(program.graph.nodes):
        if _writes(node):
            _write_anew(program.graph, node)
    program.graph_module.recompile()
    return program.run_decompositions({}) if any(map(_writes, program.graph.nodes)) else program


def _write_anew(graph: Any, node: Any) -> None:
    """Replace a write into a tensor, if nothing else is that tensor, by an operator with its own result."""
    import torch

    target, name = node.all_input_nodes[0], node.target._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.rstrip("_"), None) if name.endswith("_") else None
    overload = getattr(packet, node.target._overloadname, None)
    views = [user for user in target.users if _bare(user) in FREE and user is not node]
    if overload is None or node.args[0] is not target or target.op != "call_function":
        return
    if views or _bare(target) in FREE:
        return
    with graph.inserting_before(node):
        made = graph.call_function(overload, node.args, node.kwargs)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    target.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made and made < user)
    graph.erase_node(node)


def _bare(node: Any) -> str:
    return str(getattr(node.target, "_opname", node.target)).rstrip("_")


def _writes(node: Any) -> bool:
    """Tell whether a node writes into a tensor that is computed, or that is read afterwards."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return False
    return bool(node.users) or any(arg.op != "placeholder" for arg in node.all_input_nodes)


def _repeated(source: Capturing, samples: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Repeat example inputs of one sample."""
    from torch.utils._pytree import tree_map

    def several(item: Any) -> Any:
        if not per_sample(item):
            return item
        return item.expand(samples, *item.shape[1:]).contiguous()

    return tree_map(several, source.args), tree_map(several, dict(source.kwargs))


def per_sample(item: Any) -> bool:
    """Tell whether an example input is of one sample, rather than the same for all samples."""
    return hasattr(item, "shape") and len(item.shape) > 0 and item.shape[0] == 1


def _check_alike(one: LayerGraph, several: LayerGraph, samples: int) -> None:
    """Check that a module has the same layers for several samples as for one."""
    wiring = [
        [
            (layer.name, *({use.name for use in uses} for uses in (layer.reads, layer.parameters)))
            for layer in graph.layers
        ]
        for graph in (one, several)
    ]
    if wiring[0] != wiring[1]:
        raise InputError(
            f"{one.name!r} has other layers for {samples} samples than for one",
            key="model",
            found=f"{len(several.layers)} layers",
            allowed=f"the {len(one.layers)} layers of one sample, for any number of samples",
        )


def _outputs(program: Any) -> tuple[str, ...]:
    wanted = set(program.graph_signature.user_outputs)
    node = next(item for item in program.graph.nodes if item.op == "output")
    return tuple(dict.fromkeys(item.name for item in node.all_input_nodes if item.name in wanted))


def _constants(program: Any, source: Capturing) -> dict[str, Tensor]:
    """Return the values of buffers and lifted constants.

    Raises:
        InputError: a buffer that was made without a value.
    """
    signature, buffers = program.graph_signature, dict(source.module.named_buffers(remove_duplicate=False))
    names = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    look: Callable[[str], Any] = lambda path: buffers.get(path, program.constants.get(path))  # noqa: E731
    found = {name: look(path) for name, path in names.items()}
    used = {node.name for node in program.graph.nodes if node.op == "placeholder" and node.users}
    for name, value in found.items():
        if name in used and (value is None or value.device.type == "meta"):
            raise InputError(
                f"{names[name]!r} of {source.name!r} has no value",
                key=names[name],
                found="a buffer on the meta device",
                allowed="a module made outside of torch.device('meta'): parameters are left out anyway",
            )
    return {name: value for name, value in found.items() if value is not None}


def _inputs(program: Any, request: Request) -> dict[str, Tensor]:
    from torch.utils._pytree import tree_flatten

    flat = tree_flatten((request.args, request.kwargs))[0]
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    given = placeholders[len(placeholders) - len(flat) :]
    return {n.name: item for n, item in zip(given, flat, strict=True) if hasattr(item, "shape")}
