"""Names of dimensions, from the role an axis plays in the program.

The contract of tensor-parallel layouts is ``seq``, ``embed``, ``heads``, ``kv_heads``, ``head``, ``ffn``,
``vocab`` and ``experts`` (and ``height``, ``width``, ``channels`` for images). No configuration is consulted:
the second axis from the right of a query *is* the sequence, whatever its module calls it. An axis without a
role gets a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from explorer.models._axes import Axis
from explorer.models._grouping import OperationGroup
from explorer.models._program import Operation, Ref, TracedProgram


class Names:
    """Names of all atoms of a program; see `local` for names inside one layer."""

    def __init__(self, program: TracedProgram, groups: Sequence[OperationGroup]) -> None:
        self._program = program
        self._names: dict[int, str] = {}
        self._places: dict[int, str] = {}
        self._inputs()
        self._attentions(groups)
        self._rotations(groups)
        self._tables()
        self._experts(groups)
        self._widths(groups)
        self._hidden(groups)
        self._results()
        self._convolutions()

    def atoms(self, axes: Iterable[Axis]) -> tuple[int, ...]:
        """Return the atoms of a tensor: its axes of size above 1, products taken apart."""
        return tuple(atom for axis in axes for atom in self._program.axes.resolve(axis))

    def size(self, atom: int) -> int:
        """Return the extent of an atom."""
        return self._program.axes.size((atom,))

    def has_role(self, atom: int) -> bool:
        """Tell whether an atom has a name that layouts know, or that of an input."""
        return atom in self._names

    def describe(self, atoms: Iterable[int], where: str) -> None:
        """Name atoms without a role after the place where they first occur, equally for equal blocks."""
        fresh = (a for a in dict.fromkeys(atoms) if a not in self._names and a not in self._places)
        for number, atom in enumerate(list(fresh), 1):
            self._places[atom] = f"{where}:{number}"

    def name(self, atom: int) -> str:
        """Return the name of an atom over the whole graph."""
        return self._names.get(atom) or self._places.get(atom) or f"d{atom}"

    def local(self, tensors: Iterable[Sequence[int]]) -> dict[int, str]:
        """Return names inside one layer for the atoms of its tensors.

        Two atoms of one name and size are one dimension (the heads of keys and of values) unless one tensor
        has both: in that case, and if sizes differ, the later gets a number.
        """
        found: dict[int, str] = {}
        taken: dict[str, int] = {}
        for tensor in tensors:
            for atom in tensor:
                if atom in found:
                    continue
                name, number = self.name(atom), 1
                while self._clash(name, atom, tensor, found, taken):
                    number += 1
                    name = f"{self.name(atom)}_{number}"
                found[atom] = name
                taken.setdefault(name, atom)
        return found

    def _clash(
        self, name: str, atom: int, tensor: Sequence[int], found: dict[int, str], taken: dict[str, int]
    ) -> bool:
        if name not in taken:
            return False
        together = any(found.get(other) == name for other in tensor if other != atom)
        return together or self.size(taken[name]) != self.size(atom)

    # -- roles, strongest first ----------------------------------------------------------------------

    def _give(self, axis: Axis, *names: str) -> None:
        """Name the atoms of an axis that have no name yet; several names go to several atoms in order."""
        atoms = self._program.axes.resolve(axis)
        for i, atom in enumerate(atoms):
            self._names.setdefault(atom, names[min(i, len(names) - 1)])

    def _inputs(self) -> None:
        for name in self._program.inputs:
            value = self._program.values[name]
            if value.dtype == "compute" and len(value.axes) == 4:
                for axis, role in zip(value.axes[1:], ("in_channels", "height", "width"), strict=True):
                    self._give(axis, role)
            elif value.dtype != "compute" and len(value.axes) == 2:
                self._give(value.axes[1], "decoder_seq" if "decoder" in name else "seq")

    def _attentions(self, groups: Sequence[OperationGroup]) -> None:
        for item in groups:
            if item.kind != "attention":
                continue
            fused = [op for op in item.operations if op.category == "attention"]
            if fused:
                self._fused(*fused[0].refs[:3])
            else:
                products = [op for op in item.operations if op.category == "matmul"]
                self._scores(products[0], products[-1])

    def _fused(self, q: Ref, k: Ref, v: Ref) -> None:
        self._give(q.axes[-2], "seq")
        self._give(k.axes[-2], "kv_seq")
        for ref in (q, k, v):
            self._give(ref.axes[-1], "head")
        if len(q.axes) > 2:
            self._give(q.axes[-3], "heads")
            if k.sizes[-3] != q.sizes[-3]:  # shared by queries inside the operator
                self._give(k.axes[-3], "kv_heads")
            self._heads_of(k)
            self._heads_of(v)

    def _heads_of(self, ref: Ref) -> None:
        """Name the heads of a tensor; of repeated key heads the axis of the value written counts."""
        value = self._program.values.get(ref.name)
        if value is None:
            return
        seen = self.atoms(ref.axes[-3:])
        others = [atom for atom in self.atoms(value.axes) if atom not in seen and atom not in self._names]
        if len(others) == 1:
            fused = set(seen) <= set(self.atoms(value.axes))
            self._names[others[0]] = "qkv" if fused else "kv_heads"

    def _scores(self, first: Operation, last: Operation) -> None:
        """Name the axes of the query-key product (..., heads, seq, kv_seq), which contracts the head size."""
        q, k = _factors(first)
        _, v = _factors(last)
        self._give(q.axes[-1], "head")
        self._give(v.axes[-1], "head")
        shape = self._program.values[first.writes[0]].axes
        for axis, role in zip(reversed(shape), ("kv_seq", "seq", "heads"), strict=False):
            self._give(axis, role)
        self._heads_of(k)
        self._heads_of(v)

    def _rotations(self, groups: Sequence[OperationGroup]) -> None:
        """Name the axes of whatever is rotated: heads, and otherwise parts of a head, halves or pairs."""
        for item in groups:
            made = {self._names.get(atom) for name in item.writes for atom in self._of(name)}
            if item.kind != "elementwise" or "head" not in made:
                continue
            for name in item.reads:
                atoms = self._of(name)
                if {"heads", "kv_heads"} & {self._names.get(atom) for atom in atoms}:
                    self._give(atoms, "head")

    def _of(self, value: str) -> tuple[int, ...]:
        return self.atoms(self._program.values[value].axes)

    def _tables(self) -> None:
        known: set[str] = set()
        for item in self._program.operations:
            if item.op != "embedding":
                continue
            table, index = item.refs[:2]
            asked = index.name in self._program.inputs
            first = asked and index.name not in known
            known.add(index.name)
            if table.kind == "parameter" and len(table.axes) == 2:
                self._give(table.axes[0], "vocab" if first else "positions")
                self._give(table.axes[1], "embed")

    def _results(self) -> None:
        for name in self._program.outputs[:1]:
            axes = self._program.values[name].axes
            if axes:
                tokens = any(self.name(atom).endswith("seq") for atom in self.atoms(axes[:-1]))
                self._give(axes[-1], "vocab" if tokens else "classes")

    def _experts(self, groups: Sequence[OperationGroup]) -> None:
        counts: set[int] = set()
        for item in groups:
            if item.kind == "experts":
                for ref in _weights(item):
                    if len(ref.sizes) > 2:
                        counts.add(ref.sizes[0])
                        self._give(self._program.parameters[ref.name].axes[0], "experts")
        for item in groups:
            if item.kind == "router" or (item.kind == "linear" and counts):
                for ref in _weights(item):
                    if len(ref.sizes) == 2 and min(ref.sizes) in counts:
                        axes = self._program.parameters[ref.name]
                        self._give(axes.axes[ref.sizes.index(min(ref.sizes))], "experts")

    def _widths(self, groups: Sequence[OperationGroup]) -> None:
        """Name each norm's axis: the model's width, or a latent's if its size is not the embedding's."""
        known = {self.size(atom) for atom, name in self._names.items() if name == "embed"}
        for item in groups:
            if item.kind != "norm":
                continue
            for ref in _weights(item):
                if len(ref.axes) == 1:
                    own = "latent" if known and ref.sizes[0] not in known else "embed"
                    role = "channels" if item.operations[0].op == "batch_norm" else own
                    self._give(self._program.parameters[ref.name].axes[0], role)

    def _convolutions(self) -> None:
        for item in self._program.operations:
            if item.category != "conv":
                continue
            weight, result = item.refs[1], self._program.values[item.writes[0]]
            one = len(weight.axes) == 3
            kernel = ("kernel",) if one else ("kernel_height", "kernel_width")
            for axis, role in zip(weight.axes[2:], kernel, strict=False):
                self._give(axis, role)
            for axis, role in zip(result.axes[2:], ("seq",) if one else ("height", "width"), strict=False):
                self._give(axis, role)
            for axis in weight.axes[:2]:
                self._give(axis, "channels")

    def _hidden(self, groups: Sequence[OperationGroup]) -> None:
        """Name the feed-forward width: the axis that one product of a block makes and another contracts."""
        made: dict[tuple[str, int], int] = {}
        for item in groups:
            if item.kind not in ("linear", "experts"):
                continue
            for operation in item.operations:
                for atom in _contracted(self, operation):
                    if item.kind == "experts" or (item.block, atom) in made:
                        self._names.setdefault(atom, "ffn")
                for atom in _produced(self, operation):
                    made[item.block, atom] = atom


def _weights(item: OperationGroup) -> Iterator[Ref]:
    for operation in item.operations:
        yield from operation.parameters


def _factors(operation: Operation) -> tuple[Ref, Ref]:
    """Return the two factors of a product; an addend stands first."""
    left, right = operation.refs[1:3] if operation.op in ("addmm", "baddbmm") else operation.refs[:2]
    return left, right


def _contracted(names: Names, operation: Operation) -> tuple[int, ...]:
    factor = next((ref for ref in operation.refs if ref.kind == "value"), None)
    return names.atoms(factor.axes[-1:]) if factor is not None and operation.category == "matmul" else ()


def _produced(names: Names, operation: Operation) -> tuple[int, ...]:
    if operation.category != "matmul":
        return ()
    own = names._program.values[operation.writes[0]]
    return names.atoms(own.axes[-1:])
