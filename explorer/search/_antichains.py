r"""Antichain states of a layer DAG: the cut positions of PipeDream's optimizer on branching models.

A *state* is a set of layers that holds all predecessors of its members; its maximal layers are an
antichain. A state grows by any layer that reads something in it, which brings along whatever else that
layer needs:

          b            from {a}: by b to {a, b}, by c to {a, c}
        /   \
      a       d        from {a, b}: by c to {a, b, c}, by d to {a, b, c, d}, for d needs c as well
        \   /
          c

Layers with which every other one is comparable cut the model into *modules* (one per Inception block);
the states of each module are found on their own, as rows of bits, so 200,000 of them take a second or two.
Narayanan et al. 2019, PipeDream: Generalized Pipeline Parallelism for DNN Training, section 3.1, and its
published optimizer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BitArray = npt.NDArray[np.uint64]

MAX_STATES = 1_000_000
"""Most states of a model; one with more is refused, since parallel branches multiply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MinibatchCosts:
    """Costs of one minibatch on each layer, and who reads whom. Layers are in a topological order."""

    seconds: tuple[float, ...]
    """Seconds of forward and backward together."""
    parameter_bytes: tuple[float, ...]
    """Bytes of the weights."""
    activation_bytes: tuple[float, ...]
    """Bytes of the output."""
    readers: tuple[tuple[int, ...], ...]
    """Per layer: the layers that read its output; all come later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The states, numbered so that predecessors come first. The last one holds every layer reached."""

    seconds: FloatArray
    """(n,): seconds of all layers in the state."""
    parameter_bytes: FloatArray
    """(n,): bytes of the weights of all layers in the state."""
    output_bytes: FloatArray
    """(n,): bytes of outputs of its antichain, and of earlier layers that its members see as unread."""
    edges: IntArray
    """(e, 2): (state, state one step later), by the later one."""
    module: IntArray
    """(n,): number of the module whose layers distinguish the state."""
    words: BitArray
    """(n, w): layers of that module in the state, as bits."""
    base: tuple[int, ...]
    """Per module: bit set of the layers before it."""
    local: tuple[tuple[int, ...], ...]
    """Per module: the layers for which its bits stand."""

    @property
    def count(self) -> int:
        """Number of states n."""
        return len(self.seconds)

    def layers(self, state: int) -> int:
        """Return the bit set of the layers of a state; -1 is the empty state."""
        if state < 0:
            return 0
        module = int(self.module[state])
        row = int.from_bytes(self.words[state].tobytes(), "little")
        return self.base[module] | mask(self.local[module][i] for i in bits(row))

    def within(self, state: int) -> npt.NDArray[np.bool_]:
        """Tell for each of the n states whether it lies strictly before `state`."""
        module = self.module[state]
        inside = (self.module == module) & ~np.any(self.words & ~self.words[state], axis=1)
        found: npt.NDArray[np.bool_] = (self.module < module) | inside
        found[state] = False
        return found


class _Module(NamedTuple):
    """Layers between two bottlenecks: `base` before it, `layers` in it (the closing bottleneck included)."""

    base: int
    layers: tuple[int, ...]


def bits(number: int) -> Iterator[int]:
    """Yield the positions of the ones, ascending.

    >>> list(bits(0b1101))
    [0, 2, 3]
    """
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def mask(positions: Iterable[int]) -> int:
    """Return the number with ones at these positions.

    >>> mask([0, 2, 3])
    13
    """
    result = 0
    for position in positions:
        result |= 1 << position
    return result


def find_states(costs: MinibatchCosts, *, limit: int = MAX_STATES) -> Iterator[States | None]:
    """Yield None while working, then the states.

    The first state is the first source alone, as in the published optimizer: other sources join with the
    first layer that needs them, and layers not connected with it are left out.

    Raises:
        InputError: there are more states than `limit`.
    """
    above = _predecessors(costs.readers)
    parts: list[tuple[BitArray, IntArray]] = []
    modules = _modules(above, costs.readers)
    count = 0
    for module in modules:
        for found in _grow(module, above, costs.readers, limit - count):
            yield None
            if found is not None:
                parts.append(found)
        count += len(parts[-1][0])
    yield from _assemble(costs, above, modules, parts)


def _predecessors(readers: Sequence[Sequence[int]]) -> list[int]:
    """Return all layers before each one, over any number of edges."""
    above = [0] * len(readers)
    for layer, targets in enumerate(readers):
        for target in targets:
            above[target] |= above[layer] | 1 << layer
    return above


def _modules(above: list[int], readers: Sequence[Sequence[int]]) -> list[_Module]:
    """Return runs of layers that end with a bottleneck (or with the model)."""
    below = [mask(targets) for targets in readers]
    for layer in reversed(range(len(below))):
        for target in readers[layer]:
            below[layer] |= below[target]
    reached = _reached(above, readers)
    found = [_Module(0, (0,))]
    base = 1
    for layer in bits(reached):
        closed = above[layer] | 1 << layer
        if layer and (closed | below[layer]) & reached == reached:
            found.append(_Module(base, tuple(bits(closed & ~base))))
            base = closed
    if rest := reached & ~base:
        found.append(_Module(base, tuple(bits(rest))))
    return found


def _reached(above: list[int], readers: Sequence[Sequence[int]]) -> int:
    """Return the layers that some state holds: those the first layer leads to, those they need, and so on."""
    found, last = 1, 0
    while found != last:
        last = found
        for layer in bits(found):
            for target in readers[layer]:
                found |= above[target] | 1 << target
    return found


def _pack(rows: Sequence[int], words: int) -> BitArray:
    data = b"".join(row.to_bytes(8 * words, "little") for row in rows)
    return np.frombuffer(data, dtype=np.uint64).reshape(len(rows), words).copy()


def _unpack(rows: BitArray, width: int) -> npt.NDArray[np.bool_]:
    """Return (n, width) booleans."""
    return np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")[:, :width].astype(bool)


def _unique(rows: BitArray) -> tuple[BitArray, IntArray]:
    """Return the distinct rows, and for each given row the number of its distinct row."""
    # Sorting one number per row is 20 times faster than sorting rows; equal sums are checked below.
    factors = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64) * 2 + 1
    _, first, inverse = np.unique((rows * factors).sum(axis=1), return_index=True, return_inverse=True)
    values, inverse = rows[first], inverse.reshape(-1)
    if not np.array_equal(values[inverse], rows):
        values, inverse = np.unique(rows, axis=0, return_inverse=True)
    return values, inverse.reshape(-1)


def _grow(
    module: _Module, above: list[int], readers: Sequence[Sequence[int]], limit: int
) -> Iterator[tuple[BitArray, IntArray] | None]:
    """Yield states of a module by number of layers, and edges (number before or -1 for its base, number)."""
    width = len(module.layers)
    if width == 1:  # it reads something before, or is the very first: most modules are of this kind
        yield np.ones((1, 1), dtype=np.uint64), np.array([[-1, 0]])
        return
    moves, reads, at_once = _moves(module, above, readers)
    pending: dict[int, list[tuple[BitArray, IntArray]]] = defaultdict(list)
    pending[0].append((np.zeros((1, moves.shape[1]), dtype=np.uint64), np.array([-1])))
    rows, edges, count = [], [], 0
    for size in range(width + 1):
        if size not in pending:
            continue
        given = pending.pop(size)
        found, inverse = _unique(np.concatenate([item[0] for item in given]))
        numbers = np.arange(len(found)) + count if size else np.array([-1])
        if size:
            edges.append(np.stack([np.concatenate([item[1] for item in given]), numbers[inverse]], axis=1))
            rows.append(found)
            count += len(found)
        if count > limit:
            raise _too_many()
        available = (_available(found, reads) | at_once) & ~_unpack(found, width)
        for layer in np.flatnonzero(available.any(axis=0)).tolist():
            chosen = np.flatnonzero(available[:, layer])
            after = found[chosen] | moves[layer]
            sizes = _unpack(after, width).sum(axis=1)
            for total in np.flatnonzero(np.bincount(sizes)).tolist():
                same = sizes == total
                pending[total].append((after[same], numbers[chosen[same]]))
        yield None
    steps = np.concatenate(edges)
    keys = np.unique(
        steps[:, 1] * (count + 1) + steps[:, 0] + 1
    )  # one number per edge sorts faster than pairs
    yield np.concatenate(rows), np.stack([keys % (count + 1) - 1, keys // (count + 1)], axis=1)


def _moves(
    module: _Module, above: list[int], readers: Sequence[Sequence[int]]
) -> tuple[BitArray, BitArray, npt.NDArray[np.bool_]]:
    """Return per layer what it brings along, what it reads, and whether it reads layers before."""
    place = {layer: i for i, layer in enumerate(module.layers)}
    words = -(-len(place) // 64)
    closed = [mask(place[i] for i in bits(above[v] & ~module.base)) | 1 << place[v] for v in module.layers]
    before = [0] * len(place)
    at_once = np.full(len(place), not module.base)  # the very first layer is a state by itself
    for layer, targets in enumerate(readers):
        for target in targets:
            if target in place and layer in place:
                before[place[target]] |= 1 << place[layer]
            elif target in place and module.base >> layer & 1:
                at_once[place[target]] = True
    return _pack(closed, words), _pack(before, words), at_once


def _available(found: BitArray, reads: BitArray) -> npt.NDArray[np.bool_]:
    """Return (states, layers): whether the state holds something that the layer reads."""
    result = np.zeros((len(found), len(reads)), dtype=bool)
    for layer, needed in enumerate(reads):
        result[:, layer] = np.any(found & needed, axis=1)
    return result


def _too_many() -> InputError:
    return InputError(
        f"the model has more than {MAX_STATES:,} cut positions: its parallel branches multiply",
        key="model",
        found=f"> {MAX_STATES}",
        allowed="--option branches=compress, or a model with fewer parallel branches",
    )


def _assemble(
    costs: MinibatchCosts, above: list[int], modules: list[_Module], parts: list[tuple[BitArray, IntArray]]
) -> Iterator[States | None]:
    widest = max(rows.shape[1] for rows, _ in parts)
    readers = [mask(targets) for targets in costs.readers]
    shared = mask(layer for layer, targets in enumerate(costs.readers) if len(targets) > 1)
    before = [0.0, 0.0]
    columns: list[FloatArray] = []
    edges, last = [], -1
    for module, (rows, steps) in zip(modules, parts, strict=True):
        columns.append(_totals(costs, above, readers, shared, module, rows, before))
        before = columns[-1][:2, -1].tolist()
        edges.append(np.where(steps < 0, last, steps + last + 1))
        last += len(rows)
        yield None
    table, together = np.concatenate(columns, axis=1), np.concatenate(edges)
    yield States(
        seconds=table[0],
        parameter_bytes=table[1],
        output_bytes=table[2],
        edges=together[together[:, 0] >= 0],
        module=np.repeat(np.arange(len(parts)), [len(rows) for rows, _ in parts]),
        words=np.concatenate([np.pad(rows, ((0, 0), (0, widest - rows.shape[1]))) for rows, _ in parts]),
        base=tuple(module.base for module in modules),
        local=tuple(module.layers for module in modules),
    )


def _totals(
    costs: MinibatchCosts,
    above: list[int],
    readers: list[int],
    shared: int,
    module: _Module,
    rows: BitArray,
    before: Sequence[float],
) -> FloatArray:
    """Return (3, n): seconds, parameter and output bytes of a module's states; `before`: of its base."""
    held = np.ascontiguousarray(_unpack(rows, len(module.layers)).T)  # (layers of the module, n)
    place = {layer: i for i, layer in enumerate(module.layers)}
    result = np.zeros((3, len(rows)))
    for row, values in enumerate((costs.seconds, costs.parameter_bytes)):
        result[row] = before[row]
        for layer, i in place.items():
            result[row] += values[layer] * held[i]
    needed: dict[int, npt.NDArray[np.bool_]] = {}
    for layer, i in place.items():
        maximal = held[i].copy()
        for target in costs.readers[layer]:
            if target in place:
                maximal &= ~held[place[target]]
        for v in (layer, *bits(_still_read(layer, above, readers, shared))):
            needed[v] = needed[v] | maximal if v in needed else maximal
    for v, rows_of in needed.items():
        result[2] += costs.activation_bytes[v] * rows_of
    return result


def _still_read(layer: int, above: list[int], readers: list[int], shared: int) -> int:
    """Return the predecessors of a layer with a reader that is neither the layer nor a predecessor of it.

    Args:
        layer: the layer.
        above: all layers before each one.
        readers: readers of each layer.
        shared: layers with several readers: one of a predecessor's is the layer or before it.
    """
    other = ~(above[layer] | 1 << layer)
    return mask(item for item in bits(above[layer] & shared) if readers[item] & other)
