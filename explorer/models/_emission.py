"""From groups of operations to the layers, tensors and parameters of a LayerGraph.

Counting follows the rules of `explorer.models.builder`: moved elements are the activations a layer reads and
writes, with everything pointwise inside one layer taken as one kernel; it keeps what autograd keeps of what it
reads and writes, and of its inside only what a fused kernel keeps too (dropout masks, row statistics of fused
attention), or all of it where the inside is large (scores of an unfused attention, experts).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from explorer.graph import COMPUTE, Dim, Layer, Parameter, Tensor, Use, Work
from explorer.models._grouping import Group
from explorer.models._naming import Names
from explorer.models._program import Operation, Program, Value

_OPEN = frozenset({"attention", "experts", "router", "linear", "other", "recurrent"})
"""Kinds of layer whose kept intermediates exist as tensors."""
_UNEVEN = frozenset({"lookup", "softmax", "pool"})


class Parts(NamedTuple):
    """What becomes a LayerGraph."""

    layers: tuple[Layer, ...]
    tensors: tuple[Tensor, ...]
    parameters: tuple[Parameter, ...]


class _Kept(NamedTuple):
    """A tensor kept inside a layer."""

    tensor: Tensor
    atoms: tuple[int, ...]


def emit(
    program: Program, groups: Sequence[Group], *, path: Callable[[str], str], trainable: Callable[[str], bool]
) -> Parts:
    """The layers of a program.

    Args:
        program: its operations.
        groups: which of them make one layer.
        path: name for people of a module path (blocks left out of the export shift the numbers).
        trainable: whether a parameter gets a gradient.
    """
    return _Emitter(program, _alive(groups, program.outputs), path, trainable).run()


def _alive(groups: Sequence[Group], outputs: Iterable[str]) -> list[Group]:
    """Groups that an output depends on."""
    needed, found = set(outputs), []
    for item in reversed(groups):
        if needed & set(item.writes):
            needed |= set(item.reads)
            found.append(item)
    return found[::-1]


class _Emitter:
    def __init__(
        self,
        program: Program,
        groups: list[Group],
        path: Callable[[str], str],
        trainable: Callable[[str], bool],
    ) -> None:
        self.program, self.groups, self.path, self.trainable = program, groups, path, trainable
        self.names = Names(program, groups)
        self.tensors: dict[str, Tensor] = {}
        self.parameters: dict[str, Parameter] = {}
        self.layers: dict[str, Layer] = {}
        self.tensor_of: dict[str, str] = {}
        self.read = {name for item in groups for name in item.reads} | set(program.outputs)

    def run(self) -> Parts:
        for name in self.program.inputs:
            if name in self.read:
                self._tensor(name, self.program.values[name], backward=False)
        for item in self.groups:
            self._layer(item)
        used = {use.name for layer in self.layers.values() for use in (*layer.reads, *layer.writes)}
        tensors = tuple(item for item in self.tensors.values() if item.name in used)
        return Parts(tuple(self.layers.values()), tensors, tuple(self.parameters.values()))

    def _sizes(self, atoms: Iterable[int]) -> tuple[float, ...]:
        return tuple(float(self.names.size(atom)) for atom in atoms)

    def _atoms(self, name: str) -> tuple[int, ...]:
        return self.names.atoms(self.program.values[name].axes)

    def _tensor(self, name: str, value: Value, *, backward: bool) -> None:
        self.tensor_of[value.name] = name
        self.tensors[name] = Tensor(
            name=name, shape=self._sizes(self.names.atoms(value.axes)), dtype=value.dtype, backward=backward
        )

    def _name(self, item: Group) -> str:
        base = ".".join(part for part in (self.path(item.owner), item.label) if part) or "layer"
        name, number = base, 1
        while name in self.layers:
            number += 1
            name = f"{base}_{number}"
        return name

    def _layer(self, item: Group) -> None:
        name, values = self._name(item), self.program.values
        written = [value for value in item.writes if value in self.read]
        for k, value in enumerate(written):
            self._tensor(
                name if len(written) == 1 else f"{name}.{k}",
                values[value],
                backward=values[value].gradient,
            )
        weights = tuple(dict.fromkeys(ref.name for op in item.operations for ref in op.parameters))
        weights = tuple(sorted(weights, key=lambda w: -len(self.program.parameters[w].sizes)))
        inside = self._inside(item, name, written)
        reads = [value for value in item.reads if value in self.tensor_of]
        atoms = {value: self._atoms(value) for value in (*reads, *written)}
        tables = {w: self.names.atoms(self.program.parameters[w].axes) for w in weights}
        local = self.names.local([*tables.values(), *atoms.values(), *(kept.atoms for kept in inside)])
        self._alias_rows(item, local, tables.values(), inside)
        rows = _fixed_table(item)
        for weight, shape in tables.items():
            self.parameters.setdefault(
                weight,
                Parameter(name=weight, shape=self._sizes(shape), trainable=self.trainable(weight)),
            )
        dims = self._dims(item, local, [*tables.values(), *atoms.values(), *(k.atoms for k in inside)], rows)
        uses = {
            w: Use(name=w, dims=tuple("" if (w, i) in rows else d for i, d in enumerate(_dims(shape, local))))
            for w, shape in tables.items()
        }
        self.layers[name] = Layer(
            name=name,
            kind=item.kind,
            block=item.block,
            dims=dims,
            reads=tuple(self._use(value, atoms[value], local) for value in reads),
            writes=(
                *(self._use(value, atoms[value], local) for value in written),
                *(Use(name=k.tensor.name, dims=_dims(k.atoms, local)) for k in inside),
            ),
            parameters=tuple(uses.values()),
            saves=self._saves(item, reads, written, inside),
            **self._work(item, reads, written, inside, weights),
        )
        self.tensors |= {kept.tensor.name: kept.tensor for kept in inside}

    def _use(self, value: str, atoms: Sequence[int], local: dict[int, str]) -> Use:
        return Use(name=self.tensor_of[value], dims=_dims(atoms, local))

    def _alias_rows(
        self,
        item: Group,
        local: dict[int, str],
        tables: Iterable[Sequence[int]],
        inside: Sequence[_Kept],
    ) -> None:
        # Rows of chosen experts: a device with one part in n of the experts has one part in n of these.
        if item.kind != "experts":
            return
        weights = {atom for shape in tables for atom in shape}
        for kept in inside:
            for atom in kept.atoms:
                if (
                    atom not in weights
                    and local[atom] == self.names.name(atom)
                    and local[atom].startswith("d")
                ):
                    local[atom] = "experts"

    def _dims(
        self,
        item: Group,
        local: dict[int, str],
        shapes: Iterable[Sequence[int]],
        rows: set[tuple[str, int]],
    ) -> tuple[Dim, ...]:
        skipped = {self.names.atoms(self.program.parameters[w].axes)[i] for w, i in rows}
        fixed, found = self._fixed(item, local), {}
        for shape in shapes:
            for atom in shape:
                name = local[atom]
                if atom in skipped or name in found:
                    continue
                found[name] = Dim(name=name, size=float(self.names.size(atom)), splittable=name not in fixed)
        return tuple(found.values())

    def _fixed(self, item: Group, local: dict[int, str]) -> set[str]:
        """Dimensions whose splitting needs more than the einsum rule."""
        names = set(local.values())
        if item.kind in ("attention", "other"):
            return names - {"heads", "kv_heads"}
        if item.kind in ("conv", "pool"):
            return {name for name in names if "channels" not in name and name != "embed"}
        if item.kind == "router":
            return names - {"seq", "embed"}
        if item.kind == "norm":
            return {local[atom] for atom in self._normalised(item) if atom in local}
        if item.kind == "elementwise" and (
            item.label == "rope"
            or any(op.category in _UNEVEN or op.op in ("cat", "sum", "mean") for op in item.operations)
        ):
            last = self.names.atoms(self.program.values[item.operations[-1].writes[0]].axes)
            return {local[last[-1]]} if last and last[-1] in local else set()
        return set()

    def _normalised(self, item: Group) -> tuple[int, ...]:
        first = item.operations[0]
        if first.op == "batch_norm":
            return ()
        weights = [ref for op in item.operations for ref in op.parameters]
        if weights:
            return tuple(a for ref in weights for a in self.names.atoms(ref.axes))
        return self._atoms(first.reads[0])[-1:] if first.reads else ()

    # -- what is kept and what it costs --------------------------------------------------------------

    def _inside(self, item: Group, name: str, written: Sequence[str]) -> list[_Kept]:
        """Tensors that exist only to be kept for this layer's backward."""
        known, found = {*item.reads, *written}, list[_Kept]()
        for op in item.operations:
            if op.category == "attention" and op.keeps:
                shape = self.names.atoms(op.refs[0].axes[:-1])
                found.append(self._kept(name, "statistics", shape, "fp32", found))
            if op.mask:
                found.append(self._kept(name, "mask", self._atoms(op.writes[0]), "bool", found))
            if item.kind in _OPEN:
                for value in op.keeps:
                    if value not in known:
                        known.add(value)
                        dtype = self.program.values[value].dtype
                        part = _source(item, value)
                        found.append(self._kept(name, part, self._atoms(value), dtype, found))
        return found

    def _kept(
        self, layer: str, part: str, atoms: tuple[int, ...], dtype: str, others: Sequence[_Kept]
    ) -> _Kept:
        name, number, taken = f"{layer}.{part}", 1, {kept.tensor.name for kept in others}
        while name in taken:
            number += 1
            name = f"{layer}.{part}_{number}"
        tensor = Tensor(name=name, shape=self._sizes(atoms), dtype=dtype, backward=False)
        return _Kept(tensor, atoms)

    def _saves(
        self, item: Group, reads: Sequence[str], written: Sequence[str], inside: Sequence[_Kept]
    ) -> tuple[str, ...]:
        kept = dict.fromkeys(name for op in item.operations for name in op.keeps)
        touched = {*reads, *written}
        names = [name for name in kept if name in touched]
        if item.kind == "norm" and kept:
            names = [name for name in reads if self.program.values[name].gradient] or names
        if kept and not names and item.kind not in _OPEN:
            # Only intermediates of a fused kernel are kept: it starts again from what it read.
            names = [name for name in reads if self.program.values[name].gradient]
        found = [self.tensor_of[name] for name in names] + [k.tensor.name for k in inside]
        return tuple(dict.fromkeys(found))

    def _work(
        self,
        item: Group,
        reads: Sequence[str],
        written: Sequence[str],
        inside: Sequence[_Kept],
        weights: Sequence[str],
    ) -> dict[str, Work]:
        elements = {name: self.program.values[name].elements for name in (*reads, *written)}
        read, write = (sum(elements[name] for name in names) for names in (reads, written))
        open_inside = sum(math.prod(k.tensor.shape) for k in inside if k.tensor.dtype == COMPUTE)
        moved = float(read + write + 2 * open_inside)
        learning = any(self.trainable(name) for name in weights)
        moving = any(self.program.values[name].gradient for name in reads)
        flops = [
            sum(getattr(op, key) for op in item.operations)
            for key in ("forward_flops", "input_grad_flops", "weight_grad_flops")
        ]
        forward, backward, learned = moved, moved, moved
        if item.kind == "embedding":
            forward, backward, learned = 2.0 * write, 0.0, 2.0 * write
        elif item.kind == "attention":
            backward, learned = 2 * moved, 0.0
        elif item.kind in ("elementwise", "norm"):
            kept = {name for op in item.operations for name in op.keeps}
            extra = sum(elements[name] for name in elements if name in kept)
            backward, learned = moved + extra, float(read + write)
        return {
            "forward": Work(flops=float(flops[0]), moved_elements=forward),
            "input_grad": Work(flops=float(flops[1]), moved_elements=backward) if moving else Work(),
            "weight_grad": Work(flops=float(flops[2]), moved_elements=learned) if learning else Work(),
        }


def _dims(atoms: Sequence[int], local: Mapping[int, str]) -> tuple[str, ...]:
    """Dimension names of a tensor; an axis that comes twice (scores of a sequence with itself) has one once."""
    names = [local[atom] for atom in atoms]
    return tuple("" if name in names[:i] else name for i, name in enumerate(names))


def _source(item: Group, value: str) -> str:
    return next((op.op.strip("_") for op in item.operations if value in op.writes), "kept")


def _fixed_table(item: Group) -> set[tuple[str, int]]:
    """Axes that a layer does not iterate: rows of a table looked up at places that are always the same."""
    found: set[tuple[str, int]] = set()
    for op in item.operations:
        if op.op == "embedding" and _looks_up_constants(op):
            found.add((op.refs[0].name, 0))
    return found


def _looks_up_constants(op: Operation) -> bool:
    return op.refs[0].kind == "parameter" and op.refs[1].kind == "constant"
