"""Emission of layers, tensors and parameters of a LayerGraph from groups of operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from explorer.graph import Dim, Layer, Parameter, Tensor, Use
from explorer.models._counting import BorderTraffic, KeptInside, kept_inside, kept_outside, work
from explorer.models._grouping import OperationGroup
from explorer.models._naming import Names
from explorer.models._program import Operation, TracedProgram, TracedValue

_UNEVEN = frozenset({"lookup", "softmax", "pool"})
"""Categories whose last axis needs more than the einsum rule to be split."""

Atoms = tuple[int, ...]


class GraphParts(NamedTuple):
    """The parts that become a LayerGraph."""

    layers: tuple[Layer, ...]
    tensors: tuple[Tensor, ...]
    parameters: tuple[Parameter, ...]
    operations: Mapping[str, tuple[Operation, ...]]
    """Operations by layer."""
    tensor_of: Mapping[str, str]
    """Tensors by the value of the program that they are."""


def emit(
    program: TracedProgram,
    groups: Sequence[OperationGroup],
    *,
    path: Callable[[str], str],
    trainable: Callable[[str], bool],
) -> GraphParts:
    """Make the layers of a program.

    Args:
        program: the program.
        groups: operations that make one layer, for each layer.
        path: readable name of a module path (blocks left out of the export shift the numbers).
        trainable: whether a parameter gets a gradient.
    """
    return _Emitter(program, _alive(groups, program.outputs), path, trainable).run()


def _alive(groups: Sequence[OperationGroup], outputs: Iterable[str]) -> list[OperationGroup]:
    """Drop the groups that no output depends on."""
    needed, found = set(outputs), list[OperationGroup]()
    for item in reversed(groups):
        if needed & set(item.writes):
            needed |= set(item.reads)
            found.append(item)
    return found[::-1]


class _Emitter:
    """Maker of one layer after the other; tensors and parameters appear with the layers that use them."""

    def __init__(
        self,
        program: TracedProgram,
        groups: list[OperationGroup],
        path: Callable[[str], str],
        trainable: Callable[[str], bool],
    ) -> None:
        self.program, self.groups, self.path, self.trainable = program, groups, path, trainable
        self.names = Names(program, groups)
        self.tensors: dict[str, Tensor] = {}
        self.parameters: dict[str, Parameter] = {}
        self.layers: dict[str, Layer] = {}
        self.operations: dict[str, tuple[Operation, ...]] = {}
        self.tensor_of: dict[str, str] = {}
        self.read = {name for item in groups for name in item.reads} | set(program.outputs)

    def run(self) -> GraphParts:
        for name in self.program.inputs:
            if name in self.read:
                self._tensor(name, self.program.values[name])
        for item in self.groups:
            layer = self._layer(item, self._name(item))
            self.layers[layer.name] = layer
            self.operations[layer.name] = item.operations
        used = {use.name for layer in self.layers.values() for use in (*layer.reads, *layer.writes)}
        tensors = tuple(item for item in self.tensors.values() if item.name in used)
        parameters = tuple(self.parameters.values())
        return GraphParts(tuple(self.layers.values()), tensors, parameters, self.operations, self.tensor_of)

    def _sizes(self, atoms: Iterable[int]) -> tuple[float, ...]:
        return tuple(float(self.names.size(atom)) for atom in atoms)

    def _atoms(self, value: str) -> Atoms:
        return self.names.atoms(self.program.values[value].axes)

    def _tensor(self, name: str, value: TracedValue) -> None:
        self.tensor_of[value.name] = name
        shape = self._sizes(self.names.atoms(value.axes))
        self.tensors[name] = Tensor(name=name, shape=shape, dtype=value.dtype, backward=value.gradient)

    def _name(self, item: OperationGroup) -> str:
        base = ".".join(part for part in (self.path(item.owner), item.label) if part) or "layer"
        return _free(base, self.layers, "_")

    def _layer(self, item: OperationGroup, name: str) -> Layer:
        written = [value for value in item.writes if value in self.read]
        for k, value in enumerate(written):
            self._tensor(name if len(written) == 1 else f"{name}.{k}", self.program.values[value])
        reads = tuple(value for value in item.reads if value in self.tensor_of)
        traffic = BorderTraffic(reads=reads, writes=tuple(written))
        inside = list(kept_inside(self.program, item, traffic))
        hidden = self._hidden(name, inside)
        tables = self._tables(item)
        shapes = [*tables.values(), *map(self._atoms, (*reads, *written)), *hidden.values()]
        where = name.removeprefix(item.block + ".")
        self.names.describe((atom for atoms in shapes for atom in atoms), where)
        local = self.names.local(shapes)
        if item.kind == "experts":
            self._share_rows(local, tables.values(), hidden.values())
        learning = any(map(self.trainable, tables))
        forward, input_grad, weight_grad = work(self.program, item, traffic, inside, learning=learning)
        saves = [self.tensor_of[value] for value in kept_outside(self.program, item, traffic)]
        return Layer(
            name=name,
            kind=item.kind,
            block=item.block,
            dims=self._dims(item, local, shapes, self._skipped(item)),
            reads=self._uses(reads, local),
            writes=(
                *self._uses(written, local),
                *(Use(name=tensor, dims=_names(atoms, local)) for tensor, atoms in hidden.items()),
            ),
            parameters=tuple(
                Use(name=weight, dims=_names(atoms, local, self._skipped(item)))
                for weight, atoms in tables.items()
            ),
            saves=tuple(dict.fromkeys([*saves, *hidden])),
            forward=forward,
            input_grad=input_grad,
            weight_grad=weight_grad,
        )

    def _uses(self, values: Sequence[str], local: Mapping[int, str]) -> tuple[Use, ...]:
        return tuple(
            Use(name=self.tensor_of[value], dims=_names(self._atoms(value), local)) for value in values
        )

    def _hidden(self, layer: str, inside: Sequence[KeptInside]) -> dict[str, Atoms]:
        """Add the tensors kept inside a layer, and return them with their atoms."""
        found: dict[str, Atoms] = {}
        for item in inside:
            name, atoms = _free(f"{layer}.{item.part}", found, "_"), self.names.atoms(item.axes)
            shape = self._sizes(atoms)
            self.tensors[name] = Tensor(name=name, shape=shape, dtype=item.dtype, backward=False)
            found[name] = atoms
        return found

    def _tables(self, item: OperationGroup) -> dict[str, Atoms]:
        """Return the parameters of a layer with their atoms, matrices before vectors."""
        names = dict.fromkeys(ref.name for op in item.operations for ref in op.parameters)
        known = self.program.parameters
        found = {
            name: self.names.atoms(known[name].axes)
            for name in sorted(names, key=lambda name: -len(known[name].sizes))
        }
        for name, atoms in found.items():
            made = Parameter(name=name, shape=self._sizes(atoms), trainable=self.trainable(name))
            self.parameters.setdefault(name, made)
        return found

    def _share_rows(self, local: dict[int, str], tables: Iterable[Atoms], hidden: Iterable[Atoms]) -> None:
        """Map rows of chosen experts: a device with one part in n of the experts has as much of the rows."""
        weights = {atom for atoms in tables for atom in atoms}
        for atom in (atom for atoms in hidden for atom in atoms):
            if atom not in weights and not self.names.has_role(atom):
                local[atom] = "experts"

    def _skipped(self, item: OperationGroup) -> frozenset[int]:
        """Return the axes that a layer does not iterate: rows of a table looked up at fixed places."""
        return frozenset(
            atom
            for op in item.operations
            if op.op == "embedding" and op.refs[0].kind == "parameter" and op.refs[1].kind == "constant"
            for atom in self.names.atoms(self.program.parameters[op.refs[0].name].axes[:1])
        )

    def _dims(
        self, item: OperationGroup, local: Mapping[int, str], shapes: Iterable[Atoms], skipped: frozenset[int]
    ) -> tuple[Dim, ...]:
        fixed, found = self._fixed(item, local), dict[str, Dim]()
        for atom in (atom for atoms in shapes for atom in atoms if atom not in skipped):
            name = local[atom]
            size = float(self.names.size(atom))
            found.setdefault(name, Dim(name=name, size=size, splittable=name not in fixed))
        return tuple(found.values())

    def _fixed(self, item: OperationGroup, local: Mapping[int, str]) -> set[str]:
        """Return the dimensions whose splitting needs more than the einsum rule."""
        names = set(local.values())
        if item.kind in ("attention", "other"):
            return names - {"heads", "kv_heads"}
        if item.kind in ("conv", "pool"):
            return {name for name in names if "channels" not in name and name != "embed"}
        if item.kind == "router":
            return names - {"seq", "embed"}
        if item.kind == "norm":
            return {local[atom] for atom in self._normalised(item) if atom in local}
        uneven = any(op.category in _UNEVEN or op.op in ("cat", "sum", "mean") for op in item.operations)
        if item.kind == "elementwise" and (item.label == "rope" or uneven):
            last = self._atoms(item.operations[-1].writes[0])[-1:]
            return {local[atom] for atom in last if atom in local}
        return set()

    def _normalised(self, item: OperationGroup) -> Atoms:
        first = item.operations[0]
        if first.op == "batch_norm":
            # statistics of each channel, over samples and places
            channels = set(self._atoms(first.writes[0])[:1])
            return tuple(a for a in self._atoms(first.writes[0]) if a not in channels)
        weights = [ref for op in item.operations for ref in op.parameters]
        if weights:
            return tuple(atom for ref in weights for atom in self.names.atoms(ref.axes))
        return self._atoms(first.reads[0])[-1:] if first.reads else ()


def _free(base: str, taken: Iterable[str], mark: str) -> str:
    """Return `base`, with the first free number appended if it is taken."""
    name, number, known = base, 1, set(taken)
    while name in known:
        number += 1
        name = f"{base}{mark}{number}"
    return name


def _names(atoms: Atoms, local: Mapping[int, str], skipped: frozenset[int] = frozenset()) -> tuple[str, ...]:
    """Name the dimensions of a tensor; an axis that occurs twice (a sequence with itself) is named once."""
    names = ["" if atom in skipped else local[atom] for atom in atoms]
    return tuple("" if name in names[:i] else name for i, name in enumerate(names))
