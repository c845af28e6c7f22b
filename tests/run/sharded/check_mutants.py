"""Run on every rank: sharded runs that are wrong on purpose, in one thing each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist

from explorer.graph import LayerGraph
from explorer.models.builder import GraphBuilder
from explorer.run.ranks.compute import Compute
from explorer.run.sharded import attention, boxing
from explorer.run.sharded.collectives import AllReduce
from explorer.run.sharded.flat_weights import FlatWeights
from explorer.run.sharded.here import Here
from explorer.run.sharded.layout_units import LayoutUnits
from explorer.run.sharded.overlapped import Tiling, _Run
from explorer.run.sharded.routing import Exchanged
from explorer.run.sharded.sharded_compute import ShardedCompute
from explorer.run.spec import RunCase
from tests.run.own.own_cases import GPT, case, cut, source
from tests.run.sharded.check_backend import played
from tests.run.sharded.plans import CASES, TENSOR, Case, plan
from tests.sharding.checking import without_internals

Wrong = Iterator[None]
RING = Case("ring", "gpipe", 1, axes=(("context", 2),), layout=(("seq", "context"), ("ring", "context")))
EXPERTS = Case("experts", "gpipe", 1, axes=TENSOR, layout=(("experts", "tensor"),))


def first_lane() -> bool:
    return dist.get_rank() == 0


@cache
def mixture() -> LayerGraph:
    """A decoder's block of experts, with a loss."""
    b = GraphBuilder("mixture")
    x = b.embedding("embed", b.input("tokens", {"seq": 8}, dtype="int64"), {"vocab": 16}, {"embed": 8})
    scores = b.router("router", x, 4)
    x = b.add("add", x, b.experts("experts", x, scores, ffn=16, active=2))
    b.loss("loss", b.linear("logits", x, {"vocab": 16}), b.input("targets", {"seq": 8}, dtype="int64"))
    return without_internals(b.build())


@cache
def made(name: str) -> RunCase:
    """The case of a name."""
    if name == "own layers":
        own = source(*GPT)
        return case(own, cut(own, 1, 2, size=2), "1f1b").case
    if name == "experts":
        with patch("tests.run.sharded.plans.GRAPH", mixture()):
            return plan(EXPERTS).case
    return plan(RING if name == "ring" else next(item for item in CASES if item.name == name)).case


def replaced(owner: Any, name: str, change: Callable[..., Any]) -> Any:
    """`owner.name` replaced by `change(what it was, ...)`."""
    before = getattr(owner, name)
    return patch.object(owner, name, lambda *given, **named: change(before, *given, **named))


@contextmanager
def skipped_block() -> Wrong:
    """A rank leaves out the block of keys and values that its neighbour sent around the ring."""

    def blind(before: Any, ring: Any, q: Any, keys: Any, source: int) -> torch.Tensor:
        found: torch.Tensor = before(ring, q, keys, source)
        return found if source == ring.line.place else found - 1e9

    with replaced(attention, "_logits", blind):
        yield


@contextmanager
def swapped_tokens() -> Wrong:
    """Tokens come to their experts one place further on."""
    with replaced(Exchanged, "forward", lambda before, self, x: before(self, x).roll(1, 0)):
        yield


@contextmanager
def experts_exchanged() -> Wrong:
    """Replicas add the gradients of their different experts up, as if they held the same."""
    with replaced(LayoutUnits, "held_apart", lambda _before, _self, _units: set()):
        yield


@contextmanager
def shifted_shard() -> Wrong:
    """Every part of sharded weights begins one element late."""

    def late(before: Any, self: FlatWeights) -> torch.Tensor:
        del before
        each = self._flat.numel() // self.lines.size
        return self._flat.roll(-1)[self.lines.place * each : (self.lines.place + 1) * each]

    with replaced(FlatWeights, "_mine", late):
        yield


@contextmanager
def neighbours_shard() -> Wrong:
    """Gradients are scattered to the wrong ranks."""

    def turned(before: Any, self: FlatWeights, gradients: Any) -> Any:
        return before(self, {name: g.flip(0) for name, g in gradients.items()})

    with replaced(FlatWeights, "begin_reduce", turned):
        yield


@contextmanager
def lost_in_one_replica() -> Wrong:
    """One replica forgets one microbatch."""

    def but_one(before: Any, self: Compute, piece: Any, number: int, found: Any, beside: Any = ()) -> None:
        before(self, piece, number, {} if first_lane() and number == 1 else found, beside)

    with replaced(Compute, "_add", but_one):
        yield


@contextmanager
def tied_twice() -> Wrong:
    """What one stage adds to the gradient of a weight that two share counts twice."""

    def double(before: Any, self: ShardedCompute, item: Any) -> torch.Tensor:
        found: torch.Tensor = before(self, item)
        return 2 * found if first_lane() else found

    with replaced(ShardedCompute, "contribution", double):
        yield


@contextmanager
def unsummed() -> Wrong:
    """A rank takes its own part of a sum for all of it."""
    with replaced(AllReduce, "forward", lambda _before, _self, x: x.clone()):
        yield


@contextmanager
def swapped_pieces() -> Wrong:
    """Pieces of a gathered tensor are joined in the wrong order."""

    def turned(before: Any, line: Any, op: str, given: Any, shapes: Any) -> Any:
        found = before(line, op, given, shapes)
        return found[::-1] if op == "all_gather" else found

    with replaced(boxing, "exchange", turned):
        yield


@contextmanager
def bias_everywhere() -> Wrong:
    """Every rank adds the bias to its part of a sum."""
    with replaced(Here, "is_first_of_sum", lambda _before, _self, _k=0: True):
        yield


@contextmanager
def early_tiles() -> Wrong:
    """Tiles that come count nothing: they are read before they are there."""

    def early(before: Any, self: _Run, peer: int) -> torch.Tensor:
        return torch.zeros_like(before(self, peer))

    with replaced(_Run, "taken", early):
        yield


@contextmanager
def tiles_out_of_order() -> Wrong:
    """Tiles are joined in the order in which they came."""
    with replaced(Tiling, "join", lambda before, self, parts: before(self, [*parts[1:], parts[0]])):
        yield


@contextmanager
def scaled_exchange() -> Wrong:
    """One replica's gradients are one per cent too large."""

    def larger(before: Any, self: Compute, item: Any) -> torch.Tensor:
        found: torch.Tensor = before(self, item)
        return 1.01 * found if first_lane() else found

    with replaced(Compute, "contribution", larger):
        yield


MUTANTS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "skipped block": (skipped_block, ("ring",)),
    "swapped tokens": (swapped_tokens, ("experts", "experts over replicas")),
    "experts exchanged": (experts_exchanged, ("experts over replicas",)),
    "shifted shard": (shifted_shard, ("zero 1", "zero 2", "zero 3")),
    "neighbours' shard": (neighbours_shard, ("zero 1", "zero 2", "zero 3")),
    "lost in one replica": (lost_in_one_replica, ("data", "zero 2", "zero 3", "own layers")),
    "tied twice": (tied_twice, ("tied pipeline",)),
    "unsummed": (unsummed, ("tensor",)),
    "swapped pieces": (swapped_pieces, ("sequence",)),
    "bias everywhere": (bias_everywhere, ("tensor", "sequence")),
    "scaled exchange": (scaled_exchange, ("own layers",)),
    "early tiles": (early_tiles, ("tensor in tiles", "sequence in tiles")),
    "tiles out of order": (tiles_out_of_order, ("tensor in tiles", "sequence in tiles")),
}


def check() -> list[dict[str, Any]]:
    """Every case as it is, then every mutant of it."""
    rows = [("", name) for name in dict.fromkeys(name for _, names in MUTANTS.values() for name in names)]
    rows += [(mutant, name) for mutant, (_, names) in MUTANTS.items() for name in names]
    found = []
    for mutant, name in rows:
        if mutant:
            with MUTANTS[mutant][0]():
                errors = played(made(name))["numerics"]
        else:
            errors = played(made(name))["numerics"]
        found.append({"mutant": mutant, "case": name, "worst": max(errors["gradient"], errors["weight"])})
    return found
