"""Layer modules: runs of a captured program's layers, each as one torch module with named tensors.

What crosses from one module to another are the tensors of the LayerGraph, whole, by name. Views of them, and
what depends on neither inputs nor parameters (masks, positions), are computed again wherever they are needed.
Parameters are inputs, so that a caller passes the version, or the shard, that it means. Dropout passes
everything: a run is compared with another one.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.models.captured_program import LOSS, CapturedProgram
from explorer.run.own.criterion import output_loss, token_loss
from explorer.run.own.formal_arguments import formal_argument, valued_inputs, without_formal

if TYPE_CHECKING:
    import torch

LABELS = "labels"
"""Input of the cross entropy that a capture appends."""
TOTAL = "loss.total"
"""What a module with an output of the model gives beside its tensors: the loss, summed over samples."""
_RATES = frozenset({"p", "dropout_p", "dropout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerModule:
    """Some layers of a captured program."""

    layers: tuple[str, ...]
    """Layers, in the order of the graph."""
    reads: tuple[str, ...]
    """Tensors that it needs from others: inputs of the model, and what other layers write."""
    parameters: tuple[str, ...]
    """Parameters that it uses."""
    writes: tuple[str, ...]
    """Tensors that it gives; with an output of the model `TOTAL` as well."""
    module: Any
    """`torch.fx.GraphModule` that takes `reads`, then `parameters`, and returns `writes`."""
    origin: Mapping[str, str]
    """Node of the program that each of its nodes copies."""

    def __call__(
        self, tensors: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Run the layers.

        Args:
            tensors: what it reads, by name, and perhaps more.
            parameters: what it uses, by name, and perhaps more.
        """
        given = [tensors[name] for name in self.reads] + [parameters[name] for name in self.parameters]
        return dict(zip(self.writes, self.module(*given), strict=True))


def layer_module(
    program: CapturedProgram,
    layers: Collection[str],
    *,
    writes: Sequence[str] | None = None,
    device: torch.device | None = None,
    loss: bool = True,
) -> LayerModule:
    """Make the module of some layers.

    Args:
        program: the captured program.
        layers: names of its layers; none may lie between two of them on a path.
        writes: tensors to give; None for all that other layers read.
        device: where its constants lie and what it makes is made; None for where the module was captured.
        loss: whether to give `TOTAL` where an output of the model is made.

    Raises:
        InputError: an unknown layer, or an operator that draws random numbers.
    """
    unknown = [name for name in layers if name not in program.graph.index]
    if unknown:
        raise InputError(
            f"the captured model has no layer {unknown[0]!r}", key="layers", found=unknown[0],
            allowed=f"layers of {program.graph.name}",
        )  # fmt: skip
    return _Builder(program, frozenset(layers), device).build(writes, loss=loss)


def layer_modules(program: CapturedProgram, *, device: torch.device | None = None) -> dict[str, LayerModule]:
    """Make one module for every layer of a captured program, by name."""
    return {item.name: layer_module(program, (item.name,), device=device) for item in program.graph.layers}


class _Builder:
    """Copies the nodes of some layers, and of what they need, into a graph of their own."""

    def __init__(self, program: CapturedProgram, layers: frozenset[str], device: torch.device | None) -> None:
        from torch import fx

        self.program, self.layers, self.device = program, layers, device
        self.in_fp64 = program.is_in_fp64
        self.nodes = {node.name: node for node in program.module.graph.nodes}
        self.graph = fx.Graph()
        self.attributes: dict[str, Any] = {}
        self.made: dict[str, Any] = {}
        self.reads: dict[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        # what is read comes before the first mark, parameters before the second, all else before the end
        self.marks = [self.graph.call_function(len, ((),)) for _ in range(2)]
        self.end = self.graph.output(())

    def build(self, writes: Sequence[str] | None, *, loss: bool) -> LayerModule:
        from torch import fx

        program, graph = self.program, self.program.graph
        layers = tuple(layer.name for layer in graph.layers if layer.name in self.layers)
        wanted = self._crossing(layers) if writes is None else writes
        ends = {name: program.made_at[name] for name in wanted if not (program.loss and name == LOSS)}
        self._copy_in_order([*ends.values(), *(self._counted() if loss else ())])
        given: dict[str, Any] = {name: self._copy(self.nodes[node]) for name, node in ends.items()}
        total = self._total() if loss else None
        if total is not None:
            given[TOTAL] = total
        self.end.args = (tuple(given.values()),)
        for mark in self.marks:
            self.graph.erase_node(mark)
        self.graph.lint()
        return LayerModule(
            layers=layers, reads=tuple(self.reads), parameters=tuple(self.parameters), writes=tuple(given),
            module=fx.GraphModule(self.attributes, self.graph),
            origin={made.name: name for name, made in self.made.items()},
        )  # fmt: skip

    def _crossing(self, layers: Sequence[str]) -> list[str]:
        """List the tensors of some layers that other layers read."""
        graph = self.program.graph
        written = [use.name for name in layers for use in graph.layer[name].writes]
        return [
            name
            for name in written
            if any(reader not in self.layers for reader in graph.consumers.get(name, ()))
        ]

    # -- the loss ---------------------------------------------------------------------------------

    def _total(self) -> Any:
        """Return the node of the loss over the outputs that these layers make; None if they make none."""
        program = self.program
        parts = []
        if program.loss:
            for name in self._counted():
                labels = self._input(self.reads, LABELS)
                parts.append(self._call(token_loss, (self._copy(self.nodes[name]), labels)))
        else:
            for name, number in self._counted().items():
                args = (self._copy(self.nodes[name]), number, program.samples)
                parts.append(self._call(output_loss, args))
        total = parts[0] if parts else None
        for part in parts[1:]:
            total = self._call(operator.add, (total, part))
        return total

    def _counted(self) -> dict[str, int]:
        """Return the nodes of outputs that these layers make and the loss counts, with their numbers."""
        program = self.program
        if program.loss:
            return {self._logits(): 0} if LOSS in self.layers else {}
        found = {}
        for number, name in enumerate(program.outputs):
            made = program.made_at.get(program.tensor_at.get(name, ""), "")
            if program.layer_of.get(self._maker(made)) in self.layers and self._differentiable(name):
                found[name] = number
        return found

    def _logits(self) -> str:
        read = self.program.graph.layer[LOSS].reads[0].name
        return next(name for name in self.program.outputs if self.program.tensor_at.get(name) == read)

    def _maker(self, node: str) -> str:
        """Return the node that computes what a node gives: itself, or the one whose results it picks from."""
        while node and node not in self.program.layer_of:
            before = self.nodes[node].all_input_nodes
            node = before[0].name if before else ""
        return node

    def _differentiable(self, node: str) -> bool:
        value = self.nodes[node].meta["val"]
        tensor = self.program.tensor_at.get(node, "")
        return bool(value.dtype.is_floating_point) and self.program.graph.tensor[tensor].backward

    # -- nodes ------------------------------------------------------------------------------------

    def _copy_in_order(self, ends: Sequence[str]) -> None:
        """Copy some nodes with all they need, in the order of the program: its gradients come in that order,
        the last first, and so does memory.
        """
        needed, stack = set(), [self.nodes[name] for name in ends]
        while stack:
            item = stack.pop()
            if item.name not in needed:
                needed.add(item.name)
                stack += [] if self._outside(item) else valued_inputs(item)
        for name in (name for name in self.nodes if name in needed):
            self._copy(self.nodes[name])

    def _copy(self, node: Any) -> Any:
        """Return the copy of a node all of whose inputs have been copied."""
        if node.name not in self.made:
            outside = self._outside(node)
            self.made[node.name] = self._input(self.reads, outside) if outside else self._node(node)
        return self.made[node.name]

    def _outside(self, node: Any) -> str:
        """Return the tensor that a node gives if another layer, or the caller, makes it; else ''."""
        program = self.program
        tensor = program.tensor_at.get(node.name, "")
        if not tensor or program.made_at[tensor] != node.name:
            return ""
        layer = program.layer_of.get(self._maker(node.name))
        return tensor if layer is None or layer not in self.layers else ""

    def _node(self, node: Any) -> Any:
        program = self.program
        if node.op == "placeholder":
            if node.name in program.parameter_of:
                name = program.parameter_of[node.name]
                return self._input(self.parameters, name)
            if node.name in program.constants:
                return self._attribute(node.name, program.constants[node.name])
            return self._input(self.reads, node.name)
        if node.op == "get_attr":
            found = program.module
            for part in node.target.split("."):
                found = getattr(found, part)
            inner = self.in_fp64 and hasattr(found, "graph")
            return self._attribute("of_" + node.target.replace(".", "_"), found, lift=inner)
        from explorer.run.own.double import lift_node  # imports torch
        from explorer.run.own.placed import place_node

        _check_repeatable(node)
        with self.graph.inserting_before(self.end):
            formal = formal_argument(node)
            if formal is None or formal.name in self.made:
                made = self.graph.node_copy(node, self._made)
            else:
                made = without_formal(self.graph, node, self._made)
        _keep_everything(made)
        if self.in_fp64:
            lift_node(made)
        if self.device is not None:
            place_node(made, self.device)
        return made

    def _made(self, node: Any) -> Any:
        return self.made[node.name]

    def _call(self, function: Any, args: tuple[Any, ...]) -> Any:
        with self.graph.inserting_before(self.end):
            return self.graph.call_function(function, args)

    def _input(self, inputs: dict[str, Any], name: str) -> Any:
        """Return the placeholder of a tensor or a parameter."""
        if name not in inputs:
            with self.graph.inserting_before(self.marks[inputs is self.parameters]):
                # a list of modules names its parameters by number, and no argument begins with a digit
                inputs[name] = self.graph.placeholder("of_" + name.replace(".", "_"))
        return inputs[name]

    def _attribute(self, name: str, value: Any, *, lift: bool = False) -> Any:
        from explorer.run.own.double import lifted_module  # imports torch
        from explorer.run.own.placed import placed_module

        if name not in self.attributes:
            value = lifted_module(value) if lift else value
            if self.device is not None and hasattr(value, "graph"):
                value = placed_module(value, self.device)
            elif self.device is not None and hasattr(value, "to"):
                value = value.to(self.device)
            self.attributes[name] = value
        with self.graph.inserting_before(self.end):
            return self.graph.get_attr(name)


def check_repeatable(program: CapturedProgram) -> None:
    """Refuse a program of which no two runs compute the same, before any is started.

    Raises:
        InputError: an operator that draws random numbers.
    """
    for node in program.module.graph.nodes:
        if node.op == "call_function":
            _check_repeatable(node)


def _check_repeatable(node: Any) -> None:
    """Refuse operators that draw random numbers, which no two runs would draw alike."""
    import torch

    tags = getattr(node.target, "tags", ())
    schema = getattr(node.target, "_schema", None)
    known = schema is not None and _RATES & {item.name for item in schema.arguments}
    if torch.Tag.nondeterministic_seeded in tags and not known:
        raise InputError(
            f"{node.target} draws random numbers", key="model", found=str(node.target),
            allowed="dropout, which a run leaves out; other random numbers cannot be compared",
        )  # fmt: skip


def _keep_everything(node: Any) -> None:
    """Let a dropout, or the dropout inside of an operator, drop nothing."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return
    names = [item.name for item in schema.arguments]
    for rate in _RATES & set(names):
        place = names.index(rate)
        if "dropout" not in str(node.target) and rate == "p":
            continue
        if place < len(node.args):
            node.args = (*node.args[:place], 0.0, *node.args[place + 1 :])
        elif rate in node.kwargs:
            node.kwargs = {**node.kwargs, rate: 0.0}


__all__ = ["LABELS", "TOTAL", "LayerModule", "check_repeatable", "layer_module", "layer_modules"]
