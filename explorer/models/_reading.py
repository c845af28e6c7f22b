"""Reading of a `torch.export.ExportedProgram` into a `TracedProgram`.

Nodes are walked in order with every tensor as a `Ref`: a mere view, cast or constant stays one, and only what
computes becomes an operation. Regions under `no_grad` or `autocast` are read as if they were written in
place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from explorer.models import _operators as operators
from explorer.models._axes import Axes, TensorAxes
from explorer.models._layouts import result_axes
from explorer.models._program import CONSTANT, PARAMETER, VALUE, Operation, Ref, TracedProgram, TracedValue


def read_program(
    exported: Any, *, parameter_name: Callable[[str], str], trainable: Callable[[str], bool]
) -> TracedProgram:
    """Read the operations of a `torch.export.ExportedProgram` made with one sample.

    Args:
        exported: the program.
        parameter_name: canonical name of a parameter by its path; tied ones share it.
        trainable: whether the parameter of that canonical name gets a gradient.
    """
    reader = _Reader(TracedProgram(axes=Axes()), parameter_name, trainable)
    signature = exported.graph_signature
    paths = {**signature.inputs_to_parameters}
    constants = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    bound: dict[Any, Any] = {}
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            bound[node] = reader.placeholder(node, paths.get(node.name), node.name in constants)
    results = reader.run(exported.graph_module, exported.graph, bound, {}, gradient=True, outermost=True)
    wanted = set(signature.user_outputs)
    for node, ref in zip(_output_nodes(exported.graph), _flat(results), strict=False):
        if isinstance(ref, Ref) and ref.kind == VALUE and getattr(node, "name", "") in wanted:
            reader.program.outputs.append(ref.name)
    return reader.program


def _output_nodes(graph: Any) -> list[Any]:
    output = next(node for node in graph.nodes if node.op == "output")
    return list(_flat(output.args))


def _flat(tree: Any) -> Iterable[Any]:
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from _flat(item)
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from _flat(item)
    else:
        yield tree


def _dtype(value: Any) -> str:
    if value.dtype.is_floating_point or value.dtype.is_complex:
        return "compute"
    return {"torch.bool": "bool", "torch.int32": "int32", "torch.int8": "int8"}.get(str(value.dtype), "int64")


def _tensors(value: Any) -> list[Any]:
    """List the tensors among the results of a node, in order."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in items if hasattr(item, "shape") and hasattr(item, "dtype")]


def _operator_name(target: Any) -> str:
    name = getattr(target, "_opname", None) or getattr(target, "__name__", str(target))
    return str(name)


_CONSTANT_MAKERS = ("new_", "empty_like", "zeros_like", "ones_like", "full_like")


class _Reader:
    """A walk over graphs that fills `program`."""

    def __init__(
        self, program: TracedProgram, parameter_name: Callable[[str], str], trainable: Callable[[str], bool]
    ) -> None:
        self.program = program
        self._parameter_name, self._trainable = parameter_name, trainable
        self._latest: dict[str, TracedValue] = {}
        self._whole: dict[str, tuple[TensorAxes, int]] = {}
        self._node = ""

    def placeholder(self, node: Any, path: str | None, constant: bool) -> Any:  # noqa: FBT001
        """Classify an input of the graph: a parameter, a constant, or a value that the caller passes in."""
        value, axes = node.meta.get("val"), self.program.axes
        if path is not None:
            name = self._parameter_name(path)
            known = self.program.parameters.get(name)
            if known is None:
                sizes = tuple(map(int, value.shape))
                known = Ref(
                    kind=PARAMETER, name=name, axes=axes.fresh(sizes), sizes=sizes,
                    gradient=self._trainable(name), weight=True,
                )  # fmt: skip
                self.program.parameters[name] = known
            return known
        if not hasattr(value, "shape"):
            return value
        if constant:
            return self._constant(value)
        self.program.inputs.append(node.name)
        return self._new_value(node.name, axes.fresh(tuple(map(int, value.shape))), value, gradient=False)

    def _current(self, item: Any) -> Any:
        """Return the current version of a tensor: readers after a write into it read what was written."""
        if isinstance(item, (list, tuple)):
            return [self._current(part) for part in item]
        while isinstance(item, Ref) and item.name in self._latest:
            value = self._latest[item.name]
            item = replace(item, kind=VALUE, name=value.name, gradient=value.gradient, weight=False)
        return item

    def _written_into(self, target: Ref, result: Ref) -> None:
        """Let a tensor written into a part of `target` replace all of it from here on."""
        made = self.program.values[result.name]
        axes, elements = self._whole.get(target.name, (made.axes, made.elements))
        if elements > made.elements:
            made = replace(made, axes=axes, elements=elements)
            self.program.values[made.name] = made
        if target.kind != PARAMETER:
            self._latest[target.name] = made

    def _constant(self, value: Any, shape: TensorAxes | None = None) -> Ref:
        sizes = tuple(map(int, value.shape))
        axes = self.program.axes.fresh(sizes) if shape is None else shape
        # Constants are named, too: views of one may be written into.
        name = f"constant {len(self._whole)}"
        self._whole[name] = axes, math.prod(sizes)
        return Ref(kind=CONSTANT, name=name, axes=axes, sizes=sizes, dtype=_dtype(value), weight=True)

    def _new_value(
        self, name: str, shape: TensorAxes, value: Any, *, gradient: bool, weight: bool = False
    ) -> Ref:
        sizes, dtype = tuple(map(int, value.shape)), _dtype(value)
        while name in self.program.values:
            name += "_"
        wanted = gradient and dtype == "compute"
        self._whole[name] = shape, math.prod(sizes)
        self.program.values[name] = TracedValue(
            name=name, axes=shape, elements=math.prod(sizes), dtype=dtype, gradient=wanted
        )
        return Ref(
            kind=VALUE, name=name, axes=shape, sizes=sizes, dtype=dtype, gradient=wanted, weight=weight
        )

    def run(
        self,
        module: Any,
        graph: Any,
        bound: dict[Any, Any],
        owner: Mapping[str, Any],
        *,
        gradient: bool,
        outermost: bool = False,
    ) -> Any:
        """Read one graph with its placeholders bound and return the result of its output node."""
        env = dict(bound)

        def look(arg: Any) -> Any:
            if isinstance(arg, (list, tuple)):
                return [look(item) for item in arg]
            if isinstance(arg, Mapping):
                return {key: look(item) for key, item in arg.items()}
            return self._current(env.get(arg)) if hasattr(arg, "op") and hasattr(arg, "meta") else arg

        for node in graph.nodes:
            if outermost:
                self._node = node.name
            if node.op == "output":
                return look(node.args[0])
            if node.op == "get_attr":
                env[node] = self._attribute(module, node)
            elif node.op == "call_function":
                args, kwargs = look(node.args), look(node.kwargs)
                env[node] = self._call(node, args, kwargs, owner, gradient)
            if outermost:
                self.program.seen[node.name] = env.get(node)
        return None

    def _attribute(self, module: Any, node: Any) -> Any:
        found = module
        for part in node.target.split("."):
            found = getattr(found, part)
        return self._constant(found) if hasattr(found, "dtype") and hasattr(found, "shape") else found

    def _call(self, node: Any, args: Any, kwargs: Any, owner: Mapping[str, Any], gradient: bool) -> Any:  # noqa: FBT001
        op, value = _operator_name(node.target), node.meta.get("val")
        if op == "getitem":
            source = args[0]
            return source[args[1]] if isinstance(source, (list, tuple)) else source
        inner = next((arg for arg in args if hasattr(arg, "graph") and hasattr(arg, "code")), None)
        stack = node.meta.get("nn_module_stack") or owner
        if inner is not None:
            return self._nested(op, args, inner, stack, gradient)
        refs = [item for item in _flat([args, kwargs]) if isinstance(item, Ref)]
        results = _tensors(value)
        if not results or op == "_assert_tensor_metadata":
            return value
        shapes = result_axes(
            self.program.axes, op, _axes_in(args), [ref.axes for ref in refs], [_sizes(r) for r in results]
        )
        free = op.rstrip("_") in operators.FREE and ("dropout" not in op or operators.drops_nothing(op, args))
        if free and refs:
            found = [self._view(refs[0], r, shape) for r, shape in zip(results, shapes, strict=True)]
        elif all(ref.kind == CONSTANT for ref in refs) or op.startswith(_CONSTANT_MAKERS):
            found = [self._constant(r, shape) for r, shape in zip(results, shapes, strict=True)]
        else:
            found = self._operation(node.name, op, args, refs, results, shapes, stack, gradient)
            if op.endswith("_") and not op.endswith("__") and isinstance(args[0], Ref):
                self._written_into(args[0], found[0])
        return found if isinstance(value, (list, tuple)) else found[0]

    def _nested(self, op: str, args: Any, inner: Any, stack: Mapping[str, Any], gradient: bool) -> Any:  # noqa: FBT001
        # A region under no_grad or autocast: read as if it were written here.
        position = next(i for i, arg in enumerate(args) if arg is inner)
        if "set_grad_enabled" in op:
            gradient = gradient and bool(args[0])
        names = [node for node in inner.graph.nodes if node.op == "placeholder"]
        bound = dict(zip(names, args[position + 1 :], strict=False))
        return self.run(inner, inner.graph, bound, stack, gradient=gradient)

    def _view(self, source: Ref, result: Any, shape: TensorAxes) -> Ref:
        return replace(source, axes=shape, sizes=_sizes(result), dtype=_dtype(result))

    def _operation(
        self,
        name: str,
        op: str,
        args: Any,
        refs: list[Ref],
        results: list[Any],
        shapes: list[TensorAxes],
        stack: Mapping[str, Any],
        gradient: bool,  # noqa: FBT001
    ) -> list[Ref]:
        bare = op.rstrip("_") or op
        wanted = gradient and any(ref.gradient for ref in refs)
        weight = all(ref.weight for ref in refs)
        found = [
            self._new_value(
                name if len(results) == 1 else f"{name}.{i}", shape, result, gradient=wanted, weight=weight
            )
            for i, (result, shape) in enumerate(zip(results, shapes, strict=True))
        ]
        flops = operators.forward_flops(
            bare,
            [ref.sizes for ref in refs],
            _sizes(results[0]),
            args[0] if bare == "einsum" else "",
        )
        to_input, to_weight = _gradient_flops(bare, refs, flops) if wanted else (0.0, 0.0)
        owner, owner_class = _innermost(stack)
        self.program.operations.append(
            Operation(
                op=bare,
                category=operators.category(bare),
                owner=owner,
                owner_class=owner_class,
                refs=tuple(refs),
                writes=tuple(ref.name for ref in found),
                forward_flops=flops,
                input_grad_flops=to_input,
                weight_grad_flops=to_weight,
                keeps=_keeps(bare, refs, found[0]) if wanted else (),
                mask=wanted and operators.kept(bare) == "mask",
                node=self._node,
            )
        )
        return found


def _sizes(value: Any) -> tuple[int, ...]:
    return tuple(map(int, value.shape))


def _axes_in(args: Any) -> Any:
    if isinstance(args, (list, tuple)):
        return [_axes_in(arg) for arg in args]
    return args.axes if isinstance(args, Ref) else args


def _innermost(stack: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path and class of the innermost module of an `nn_module_stack`."""
    if not stack:
        return "", ""
    path, kind = list(stack.values())[-1]
    return str(path), (kind if isinstance(kind, str) else kind.__name__).rsplit(".", 1)[-1]


def _operands(op: str, refs: list[Ref]) -> list[Ref]:
    """Return the factors of a product, without an addend or bias."""
    if op in ("addmm", "baddbmm", "addmv"):
        return refs[1:3]
    return refs[:3] if op in operators.ATTENTIONS else refs[:2]


def _gradient_flops(op: str, refs: list[Ref], flops: float) -> tuple[float, float]:
    """Split FLOPs into input and weight gradient: one product for each operand that wants a gradient.

    Attention is two products forward and four backward; all of them belong to its inputs.
    """
    if not flops:
        return 0.0, 0.0
    if op in operators.ATTENTIONS:
        return 2 * flops, 0.0
    wanted = [ref for ref in _operands(op, refs) if ref.gradient]
    if op in operators.RECURRENT:
        return (flops if refs[0].gradient else 0.0), flops
    weights = sum(ref.weight for ref in wanted)
    return flops * (len(wanted) - weights), flops * weights


def _keeps(op: str, refs: list[Ref], result: Ref) -> tuple[str, ...]:
    """Return the values autograd keeps: an operand if its partner wants a gradient; inputs; or the result."""
    how = operators.kept(op)
    if how == "output":
        return (result.name,)
    if how != "inputs":
        return ()
    if op in operators.ATTENTIONS:
        return tuple(dict.fromkeys([*(ref.name for ref in refs if ref.kind == VALUE), result.name]))
    factors = _operands(op, refs)
    if op in ("mul", "div") or op in operators.MATMULS | operators.GROUPED:
        kept = [
            ref
            for i, ref in enumerate(factors)
            if any(other.gradient for j, other in enumerate(factors) if j != i)
        ]
    else:
        kept = refs[:2]
    return tuple(dict.fromkeys(ref.name for ref in kept if ref.kind == VALUE))
