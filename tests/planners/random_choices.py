"""Small random graphs of choices, and all that can be chosen, in plain loops."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np

from explorer.planners._pieces.choice_graph import ChoiceGraph


def random_choices(draw: random.Random, *, most: int = 6, options: int = 3, near: float = 0.5) -> ChoiceGraph:
    """A few vertices, some alike, some without neighbours; small numbers, so that some sums are equal."""
    n = draw.randint(1, most)
    sizes = [draw.randint(1, options) for _ in range(n)]

    def value() -> float:
        return float(draw.choice([0, 1, 2, 3, draw.randint(0, 50)]))

    kinds = {size: (_array(value, size), _array(value, size)) for size in set(sizes)}
    own = [kinds[k] if draw.random() < 0.4 else (_array(value, k), _array(value, k)) for k in sizes]
    pairs = [pair for pair in itertools.combinations(range(n), 2) if draw.random() < near]
    return ChoiceGraph(
        seconds=tuple(seconds for seconds, _ in own),
        held_bytes=tuple(held for _, held in own),
        edges={(u, v): np.array([_array(value, sizes[v]) for _ in range(sizes[u])]) for u, v in pairs},
    )


def _array(value: object, size: int) -> np.ndarray:
    return np.array([value() for _ in range(size)])  # type: ignore[operator]


def all_choices(costs: ChoiceGraph) -> Iterator[tuple[int, ...]]:
    """Every combination of options."""
    yield from itertools.product(*(range(len(own)) for own in costs.seconds))
