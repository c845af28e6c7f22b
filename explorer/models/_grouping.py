"""Grouping of operations into layers of the size people think in: about a dozen for a transformer block.

1. Consecutive operations of one module are a run; a module of experts is one run with all inside it.
2. A run is cut at its anchors: products with weights, convolutions, embeddings, norms, attention (from the
   product of queries and keys to the product with the values); what lies between is pointwise.
3. A pointwise piece whose only reader is another pointwise piece joins it (silu into the product with it, a
   dropout into the residual addition), and one or two operations joins the attention that reads them.

Every piece of a topological order cut into intervals depends on earlier pieces only, and step 3 moves a piece
later, to its only reader; hence the layers are again in a topological order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from explorer.models import _operators as operators
from explorer.models._program import Operation, TracedProgram

_ANCHORS = frozenset({"conv", "embedding", "norm", "attention", "recurrent", "pool"})
_FEW = 2
"""Operations that may join an attention: a scale or a mask, but not a rotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationGroup:
    """The operations of one layer."""

    operations: tuple[Operation, ...]
    """Operations in program order."""
    kind: str
    """Kind of the layer, as `Layer.kind`."""
    owner: str
    """Path of the module that the layer belongs to."""
    label: str = ""
    """Role in that module; empty if it is the whole module."""
    block: str = ""
    """Repeated block that the layer belongs to; empty if none."""

    @property
    def writes(self) -> tuple[str, ...]:
        """Values that its operations write."""
        return tuple(name for item in self.operations for name in item.writes)

    @property
    def reads(self) -> tuple[str, ...]:
        """Values that it reads from others, each once."""
        own = set(self.writes)
        names = dict.fromkeys(name for item in self.operations for name in item.reads)
        return tuple(name for name in names if name not in own)

    @property
    def simple(self) -> bool:
        """Whether it is pointwise and without parameters."""
        return self.kind == "elementwise" and not any(item.parameters for item in self.operations)


def group(
    program: TracedProgram, *, leaves: Collection[str], block_of: Callable[[str], str]
) -> list[OperationGroup]:
    """Group the operations of a program into layers, still without names.

    Args:
        program: the program.
        leaves: paths of modules without submodules.
        block_of: function from a module path to its block.
    """
    whole = _expert_modules(program.operations)

    def owner(item: Operation) -> str:
        path = item.owner
        if path in leaves and item.owner_class.startswith(("Dropout", "Softmax")):
            # A Dropout or Softmax module is a step of the module around it.
            path = path.rpartition(".")[0]
        return next((p for p in whole if path == p or path.startswith(p + ".")), path)

    found: list[OperationGroup] = []
    for path, run in groupby(program.operations, key=owner):
        parts = _cut(list(run), path, leaf=path in leaves, experts=path in whole)
        found.extend(replace(part, block=block_of(path)) for part in parts)
    return _merge(found, set(program.outputs))


def group_modules(program: TracedProgram, *, block_of: Callable[[str], str]) -> list[OperationGroup]:
    """Make one layer of all operations of a module without submodules, called the module's path.

    Args:
        program: a program in which such modules alone compute.
        block_of: function from a module path to its block.
    """
    return [
        OperationGroup(
            operations=(part := tuple(run)), kind=_kind(list(part)), owner=path, block=block_of(path)
        )
        for path, run in groupby(program.operations, key=lambda item: item.owner)
    ]


def _expert_modules(operations: Sequence[Operation]) -> list[str]:
    """Return the modules that multiply with a stack of matrices, one per expert."""
    return sorted(
        {
            item.owner
            for item in operations
            if item.category == "matmul"
            and any(len(ref.sizes) > 2 and ref.kind == "parameter" for ref in item.refs)
        }
    )


def _cut(run: list[Operation], path: str, *, leaf: bool, experts: bool) -> Iterator[OperationGroup]:
    if experts:
        yield OperationGroup(operations=tuple(run), kind="experts", owner=path)
        return
    products = [item for item in run if item.category == "matmul"]
    if len(products) <= 1 and any(item.op == "topk" for item in run):
        yield OperationGroup(operations=tuple(run), kind="router", owner=path, label="" if leaf else "router")
        return
    parts = list(_pieces(run))
    for part in parts:
        kind = _kind(part)
        alone = leaf and len(parts) == 1
        yield OperationGroup(
            operations=tuple(part), kind=kind, owner=path, label="" if alone else _label(part, kind)
        )


def _pieces(run: list[Operation]) -> Iterator[list[Operation]]:
    """Yield anchors and the pieces between them."""
    between: list[Operation] = []
    i = 0
    while i < len(run):
        end = _anchor_end(run, i)
        if end == i:
            between.append(run[i])
            i += 1
            continue
        if between:
            yield between
            between = []
        yield run[i:end]
        i = end
    if between:
        yield between


def _anchor_end(run: list[Operation], start: int) -> int:
    """Return the end of the anchor that begins at `start`; `start` itself if none does."""
    first = run[start]
    if first.category in _ANCHORS:
        return start + 1
    if first.category != "matmul":
        return start
    if not first.uses_weight:
        for i in range(start + 1, len(run)):
            if run[i].category == "matmul":
                softmax = any(item.category == "softmax" for item in run[start:i])
                return i + 1 if softmax and not run[i].uses_weight else start + 1
    return start + 1


def _kind(part: list[Operation]) -> str:
    categories = [item.category for item in part]
    if "attention" in categories or (categories.count("matmul") > 1 and "softmax" in categories):
        return "attention"
    for name in ("conv", "embedding", "norm", "pool"):
        if name in categories:
            return name
    if "matmul" in categories or "recurrent" in categories:
        return "linear" if any(item.uses_weight for item in part) else "other"
    means = any(item.op in ("rsqrt", "mean", "var", "sqrt") for item in part)
    return "norm" if means and "norm" in part[0].owner_class.lower() else "elementwise"


def _label(part: list[Operation], kind: str) -> str:
    if kind != "elementwise":
        return {"linear": "linear", "other": part[-1].op}.get(kind, kind)
    names = {item.op for item in part}
    if {"neg", "cat"} <= names or {"neg", "stack"} <= names:
        return "rope"
    if names & operators.ACTIVATIONS:
        return "act"
    if "cat" in names:
        return "cat"
    return {"add": "residual"}.get(part[-1].op, part[-1].op.strip("_"))


def _merge(groups: list[OperationGroup], outputs: set[str]) -> list[OperationGroup]:
    """Apply step 3 until nothing joins any more; one pass suffices, as a piece only moves to a later one."""
    readers: dict[str, list[int]] = {}
    for i, item in enumerate(groups):
        for name in item.reads:
            readers.setdefault(name, []).append(i)
    merged: dict[int, OperationGroup] = dict(enumerate(groups))
    for i in range(len(groups)):
        item = merged[i]
        targets = {j for name in item.writes for j in readers.get(name, ())} - {i}
        if len(targets) != 1 or not item.simple or outputs & set(item.writes):
            continue
        target = merged[j := targets.pop()]
        small = len(item.operations) <= _FEW and target.kind == "attention"
        if target.block == item.block and (target.simple or small):
            merged[j] = _joined(item, target)
            del merged[i]
            for name in item.reads:
                readers[name] = [j if reader == i else reader for reader in readers[name]]
    return list(merged.values())


def _joined(item: OperationGroup, target: OperationGroup) -> OperationGroup:
    operations = (*item.operations, *target.operations)
    if target.kind == "attention":
        return replace(target, operations=operations)
    return replace(target, operations=operations, label=_label(list(operations), "elementwise"))
