"""Repetition of exported blocks to the full depth: 80 equal blocks cost the time of two.

A block that was left out is a copy of a kept block of the same structure, with the names changed; it reads
from its previous block what the kept one reads from its own. If that does not determine the graph (a block
that reads from an arbitrary earlier one), `NotRepeatable` says so and the caller exports the whole model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.graph import Layer, LayerGraph, Parameter, Tensor, Use
from explorer.models._stacks import Stack


class NotRepeatable(Exception):  # noqa: N818
    """The blocks of a stack are wired differently; this is no error, the full depth is exported instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    """One exported block."""

    index: int
    layers: tuple[Layer, ...]
    carried: tuple[str, ...]
    """Tensors it reads from the previous block, in order of first use."""


def repeat(graph: LayerGraph, stacks: Sequence[Stack]) -> LayerGraph:
    """Repeat the kept blocks of a graph to its full depth.

    Raises:
        NotRepeatable: the wiring of a stack is not the same for all its blocks.
    """
    for stack in stacks:
        if len(stack.keep) < len(stack.kinds):
            graph = _Expansion(graph, stack).build()
    return graph


class _Expansion:
    """A stack whose missing blocks are being filled in."""

    def __init__(self, graph: LayerGraph, stack: Stack) -> None:
        self.graph, self.stack = graph, stack
        self.producer_block = {use.name: layer.block for layer in graph.layers for use in layer.writes}
        self.templates = self._templates()
        self.handed = self._handed()
        self.tensors: dict[str, Tensor] = {}
        self.parameters: dict[str, Parameter] = {}

    def _block_layers(self, index: int) -> tuple[Layer, ...]:
        name = self.stack.block(index)
        return tuple(layer for layer in self.graph.layers if layer.block == name)

    def _outside(self, layers: Sequence[Layer]) -> tuple[str, ...]:
        """Return the tensors that a block reads from elsewhere, in order of first use."""
        own = {use.name for layer in layers for use in layer.writes}
        return tuple(
            dict.fromkeys(use.name for layer in layers for use in layer.reads if use.name not in own)
        )

    def _templates(self) -> dict[int, _Template]:
        """Map kept items to templates; if a structure is kept twice, the second shows what is handed on."""
        keep, kinds = self.stack.keep, self.stack.kinds
        reads = {i: self._outside(self._block_layers(i)) for i in keep}
        found: dict[int, _Template] = {}
        for i in keep:
            twins = [j for j in keep if kinds[j] == kinds[i]][:2]
            carried = self._from_before(i, reads[i])
            if len(twins) == 2:
                first, second = (reads[j] for j in twins)
                if len(first) != len(second):
                    raise NotRepeatable
                slots = [k for k, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
                if set(slots) - {reads[twins[1]].index(name) for name in self._from_before(twins[1], second)}:
                    raise NotRepeatable
                carried = tuple(reads[i][k] for k in slots)
            found[i] = _Template(index=i, layers=self._block_layers(i), carried=carried)
        return found

    def _from_before(self, index: int, names: Sequence[str]) -> tuple[str, ...]:
        position = self.stack.keep.index(index)
        if position == 0:
            return ()
        before = self.stack.block(self.stack.keep[position - 1])
        return tuple(name for name in names if self.producer_block.get(name) == before)

    def _handed(self) -> dict[int, tuple[str, ...]]:
        """Map each structure to the names, relative to the block, of what it hands to the next one."""
        found: dict[int, tuple[str, ...]] = {}
        for before, after in zip(self.stack.keep, self.stack.keep[1:], strict=False):
            prefix, kind = self.stack.block(before), self.stack.kinds[before]
            names = self.templates[after].carried
            if any(self.producer_block.get(name) != prefix for name in names):
                raise NotRepeatable
            relative = tuple(name[len(prefix) :] for name in names)
            known = found.get(kind, ())
            if known[: len(relative)] != relative[: len(known)]:
                raise NotRepeatable
            found[kind] = max(known, relative, key=len)
        return found

    def build(self) -> LayerGraph:
        """Build the graph with every block of the stack."""
        self._check()
        segments = self._segments()
        layers: list[Layer] = []
        for block, part in segments:
            index = self._index(block)
            if index is None:
                layers += part
                continue
            layers += self._instance(index)
            following = [i for i in self.stack.keep if i > index]
            for missing in range(index + 1, following[0] if following else len(self.stack.kinds)):
                layers += self._instance(missing)
        layers = self._reconnect(layers)
        return self._graph(layers)

    def _index(self, block: str) -> int | None:
        return next((i for i in self.stack.keep if self.stack.block(i) == block), None)

    def _segments(self) -> list[tuple[str, list[Layer]]]:
        found: list[tuple[str, list[Layer]]] = []
        for layer in self.graph.layers:
            if not found or found[-1][0] != layer.block:
                found.append((layer.block, []))
            found[-1][1].append(layer)
        blocks = [block for block, _ in found if self._index(block) is not None]
        if blocks != [self.stack.block(i) for i in self.stack.keep]:
            raise NotRepeatable
        return found

    def _check(self) -> None:
        """Refuse readers outside the stack that read from any block but the last."""
        own = {self.stack.block(i) for i in self.stack.keep}
        last = self.stack.block(self.stack.keep[-1])
        for layer in self.graph.layers:
            if layer.block not in own and any(
                self.producer_block.get(use.name) in own - {last} for use in layer.reads
            ):
                raise NotRepeatable

    def _instance(self, index: int) -> list[Layer]:
        """Make the layers of block `index`, reading from the previous block."""
        kinds = self.stack.kinds
        source = index
        if index not in self.templates:
            source = [i for i in self.stack.keep if kinds[i] == kinds[index]][-1]
        template = self.templates[source]
        old, new = self.stack.block(source), self.stack.block(index)
        names = {name: name for name in self._outside(template.layers)}
        if index > 0:
            given = self.handed[kinds[index - 1]]
            if len(given) < len(template.carried):
                raise NotRepeatable
            before = self.stack.block(index - 1)
            names |= {name: before + given[k] for k, name in enumerate(template.carried)}
        return [self._renamed(layer, old, new, names) for layer in template.layers]

    def _renamed(self, layer: Layer, old: str, new: str, outside: dict[str, str]) -> Layer:
        def local(name: str) -> str:
            return new + name[len(old) :] if name == old or name.startswith(old + ".") else name

        def uses(items: Sequence[Use], kind: str) -> tuple[Use, ...]:
            found = []
            for use in items:
                name = outside[use.name] if use.name in outside else local(use.name)
                self._remember(kind, use.name, name)
                found.append(use if name == use.name else replace(use, name=name))
            return tuple(found)

        return replace(
            layer,
            name=local(layer.name),
            block=new,
            reads=uses(layer.reads, "tensor"),
            writes=uses(layer.writes, "tensor"),
            parameters=uses(layer.parameters, "parameter"),
            saves=tuple(outside[name] if name in outside else local(name) for name in layer.saves),
        )

    def _remember(self, kind: str, old: str, new: str) -> None:
        if kind == "tensor":
            if new not in self.tensors:
                self.tensors[new] = replace(self.graph.tensor[old], name=new)
        elif new not in self.parameters:
            self.parameters[new] = replace(self.graph.parameter[old], name=new)

    def _reconnect(self, layers: list[Layer]) -> list[Layer]:
        """Make layers after the stack read from the last block of full depth."""
        old, new = self.stack.block(self.stack.keep[-1]), self.stack.block(len(self.stack.kinds) - 1)
        if old == new:
            return layers
        names = {name: new + name[len(old) :] for name, block in self.producer_block.items() if block == old}
        found = []
        for layer in layers:
            outside = not layer.block.startswith(self.stack.path + ".")
            if outside and any(use.name in names for use in layer.reads):
                reads = tuple(
                    replace(use, name=names[use.name]) if use.name in names else use for use in layer.reads
                )
                saves = tuple(names.get(name, name) for name in layer.saves)
                layer = replace(layer, reads=reads, saves=saves)  # noqa: PLW2901
            found.append(layer)
        return found

    def _graph(self, layers: list[Layer]) -> LayerGraph:
        tensors = {**self.graph.tensor, **self.tensors}
        parameters = {**self.graph.parameter, **self.parameters}
        return replace(
            self.graph,
            layers=tuple(layers),
            tensors=tuple(tensors.values()),
            parameters=tuple(parameters.values()),
        )
