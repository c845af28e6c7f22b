"""Embedding tables of which a step touches few rows: the share it touches, and a lookup that adds up."""

from __future__ import annotations

import math

from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.graph import Work
from explorer.models.builder import GraphBuilder, Value


def samples_per_step(default: int) -> Option:
    """Return the option for the batch over which touched rows are counted."""
    return Option(
        name="samples_per_step",
        default=default,
        help="batch for which the touched rows of tables are counted",
    )


def check_samples(samples: int) -> None:
    """Refuse a step without samples.

    Raises:
        InputError: fewer than one.
    """
    if samples < 1:
        raise InputError(f"{samples} samples per step", key="samples_per_step", found=samples, allowed=">= 1")


def touched_share(rows: float, lookups: float) -> float:
    """Return the expected share of distinct rows among lookups drawn evenly: 1 - (1 - 1/rows)^lookups.

    Indices of real data repeat more, so this is an upper bound for them.

    >>> round(touched_share(1000, 1000), 3)
    0.632
    """
    return -math.expm1(lookups * math.log1p(-1 / rows)) if rows > 1 else 1.0


def lookup_sum(
    b: GraphBuilder, name: str, indices: Value, rows: float, embed: int, *, density: float
) -> Value:
    """Add the sum of the rows that `indices` (one axis called ``""``) name: an EmbeddingBag.

    As an einsum it contracts a one-hot with the (vocab, embed) table and adds up over the indices.
    """
    table = b.parameter(f"{b.full(name)}.weight", {"vocab": rows, "embed": embed}, density=density)
    y = b.output(name, {"embed": embed}, [indices], [table])
    work = Work(moved_elements=(indices.elements + 1) * embed)
    b.layer(
        name, "embedding", reads=[indices], writes=[y], weights=[table], saves=[indices],
        forward=work, weight_grad=work,
    )  # fmt: skip
    return y
