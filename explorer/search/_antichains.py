"""Antichain states of a layer DAG: the cut positions of PipeDream's optimizer on branching models.

A *state* is a set of layers that holds all predecessors of its members (an ideal); its maximal layers are
an antichain. From a state one goes on by any layer that reads something in it, which brings along what
else that layer needs:

          b            state {a, b}: antichain (b); next {a, b, c} and {a, b, d, c}, for d needs b and c
        /   \\
      a       d        states: {a} {ab} {ac} {abc} {abcd}, edges by one step
        \\   /
          c

Sets of layers are integers, bit i being layer i of the graph. Narayanan et al. 2019, PipeDream:
Generalized Pipeline Parallelism for DNN Training, section 3.1, and its published optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_STATES = 300_000
"""States beyond which a model is refused: parallel branches multiply."""
CHUNK = 256
"""States found between two chances to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCosts:
    """What one minibatch costs on each layer, and who reads whom."""

    seconds: tuple[float, ...]
    """Forward and backward together."""
    parameter_bytes: tuple[float, ...]
    """Weights."""
    activation_bytes: tuple[float, ...]
    """Output."""
    readers: tuple[tuple[int, ...], ...]
    """Per layer: layers that read its output; all come later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """States in an order in which predecessors come first; `n` of them. The last holds every layer reached."""

    layers: tuple[int, ...]
    """Bit set of each state."""
    edges: tuple[tuple[int, ...], ...]
    """Per state: states one step before it."""
    seconds: FloatArray
    """(n,): of all layers in the state."""
    parameter_bytes: FloatArray
    """(n,): of all layers in the state."""
    output_bytes: FloatArray
    """(n,): of its antichain and of those earlier layers that a later one still reads."""

    @property
    def count(self) -> int:
        """Number of states n."""
        return len(self.layers)


def bits(number: int) -> Iterator[int]:
    """Positions of the ones, ascending.

    >>> list(bits(0b1101))
    [0, 2, 3]
    """
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def find_states(costs: LayerCosts, *, limit: int = MAX_STATES) -> Iterator[States | None]:
    """Yields None while it works, then the states.

    The first state is the first source alone, as in the published optimizer: other sources join with the
    first layer that needs them.

    Raises:
        InputError: more states than `limit`.
    """
    above = _predecessors(costs.readers)
    readers = [_mask(items) for items in costs.readers]
    start = 1
    found: dict[int, int] = {start: 0}  # state -> its antichain's readers and those of extra layers
    found[start] = readers[0]
    steps: dict[int, list[int]] = {start: []}
    queue = [start]
    for count, state in enumerate(queue):
        if count % CHUNK == CHUNK - 1:
            yield None
        for layer in bits(found[state] & ~state):
            added = (above[layer] | 1 << layer) & ~state
            after = state | added
            if after not in found:
                if len(found) >= limit:
                    raise InputError(
                        f"the model has more than {limit} cut positions: its branches multiply",
                        key="model",
                        found=f"> {limit}",
                        allowed="a model with fewer parallel branches, or one compressed to blocks",
                    )
                found[after] = found[state]
                for new in bits(added):
                    found[after] |= readers[new]
                steps[after] = []
                queue.append(after)
            steps[after].append(state)
    yield None
    yield _states(costs, above, sorted(found, key=int.bit_count), steps)


def _mask(items: Sequence[int]) -> int:
    return sum(1 << item for item in items)


def _predecessors(readers: Sequence[Sequence[int]]) -> list[int]:
    """All layers before each one, over any number of edges."""
    above = [0] * len(readers)
    for layer, targets in enumerate(readers):
        for target in targets:
            above[target] |= above[layer] | 1 << layer
    return above


def _states(costs: LayerCosts, above: list[int], order: list[int], steps: dict[int, list[int]]) -> States:
    number = {state: i for i, state in enumerate(order)}
    extra = [_still_read(layer, above, costs.readers) for layer in range(len(above))]
    totals = np.zeros((3, len(order)))
    for i, state in enumerate(order):
        before = steps[state]
        known, rest = (number[before[0]], state & ~before[0]) if before else (i, state)
        new = list(bits(rest))
        totals[0, i] = totals[0, known] + sum(costs.seconds[item] for item in new)
        totals[1, i] = totals[1, known] + sum(costs.parameter_bytes[item] for item in new)
        totals[2, i] = sum(costs.activation_bytes[item] for item in bits(_open(state, above, extra)))
    return States(
        layers=tuple(order),
        edges=tuple(tuple(number[item] for item in steps[state]) for state in order),
        seconds=totals[0],
        parameter_bytes=totals[1],
        output_bytes=totals[2],
    )


def _still_read(layer: int, above: list[int], readers: Sequence[Sequence[int]]) -> int:
    """Predecessors of a layer that are read by something which is neither it nor a predecessor of it."""
    own = above[layer] | 1 << layer
    return _mask([item for item in bits(above[layer]) if any(not own >> r & 1 for r in readers[item])])


def _open(state: int, above: list[int], extra: list[int]) -> int:
    """The state's antichain and the earlier layers that its members see as still read."""
    antichain, left = 0, state
    while left:
        top = left.bit_length() - 1  # layers are in topological order: the last one left is maximal
        antichain |= 1 << top
        left &= ~(above[top] | 1 << top)
    return antichain | _mask([]) | _union(extra[item] for item in bits(antichain))


def _union(sets: Iterator[int]) -> int:
    result = 0
    for item in sets:
        result |= item
    return result
