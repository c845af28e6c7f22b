"""Split backward in torch: gradients of inputs first, those of weights later, without a second traversal.

Torch's own halves (`torch.distributed.pipelining`) do the work: the first goes through the graph once and
keeps the gradients that reach each product, the second starts from those. What the second does not need is
freed at once, as the simulator counts it (`explorer.costs.split_backward`): torch would keep it, since the
products' nodes hold the graph before them. Weights of one dimension (norms) get their gradients in the first
half.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.distributed.pipelining import _backward as halves

from explorer.run.ranks.kept import Saved
from explorer.run.ranks.modules import Made, Samples, Weights
from explorer.run.ranks.units import Units

Gradients = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """State between the two halves of one backward."""

    weights: Weights
    """Weights whose gradients wait."""
    early: Weights
    """Weights of one dimension: of units behind a table they wait as well."""
    groups: list[dict[str, Any]]
    """Torch's groups: weights with the nodes from which their gradients start, and the gradients that arrived
    there.
    """
    made: Gradients
    """Gradients that the first half made on its way."""
    tables: tuple[tuple[torch.Tensor, torch.Tensor | None], ...]
    """Outputs of units that read nothing but the model's input (embeddings), with their gradients."""


def run_cut(
    units: Units,
    section: Iterable[int],
    weights: Weights,
    inputs: Mapping[int, torch.Tensor],
    data: Samples,
) -> tuple[Made, tuple[tuple[torch.Tensor, torch.Tensor], ...]]:
    """Run the forward of a section whose backward is split.

    The graph is cut after what reads nothing (embeddings): its gradients belong to the second half.

    Returns:
        What the section makes, and the `tables` of `input_half`.
    """
    first = units.first(section)
    tables = units.run(first, weights, {}, data)
    apart = [key for key, made in tables.items() if made.requires_grad and key != units.loss]
    cut = {**tables, **{key: tables[key].detach().requires_grad_() for key in apart}}
    rest = [unit for unit in section if unit not in set(first)]
    made = {**cut, **units.run(rest, weights, {**inputs, **cut}, data)}
    return made, tuple((tables[key], cut[key]) for key in apart)


def input_half(
    outputs: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor | None],
    inputs: Sequence[torch.Tensor],
    weights: Weights,
    tables: Sequence[tuple[torch.Tensor, torch.Tensor]],
) -> tuple[tuple[torch.Tensor | None, ...], Waiting]:
    """Run the first half.

    Args:
        outputs: what to differentiate; detached when this returns.
        gradients: gradient of each of them; None for a loss.
        inputs: leaves whose gradients are wanted.
        weights: weights of the units in between, by name.
        tables: (output of a unit that reads nothing, the leaf that the other units read in its place).

    Returns:
        The gradients of `inputs`, None for one that no output depends on, and what waits for `weight_half`.
    """
    # torch detaches in place, which neither a view allows nor who else saved the tensor
    read = _read_inside(outputs)
    outputs = [x.clone() if x._is_view() or x.grad_fn in read else x for x in outputs]
    roots = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
    late = {name: weight for name, weight in weights.items() if weight.dim() > 1}
    early = {name: weight for name, weight in weights.items() if name not in late}
    leaves = [*inputs, *(leaf for _, leaf in tables), *early.values()]
    came = cast("list[torch.Tensor]", list(gradients))
    trained = cast("Iterator[torch.nn.Parameter]", iter(late.values()))
    found, groups = halves.stage_backward_input(list(outputs), came, leaves, trained)
    for leaf in leaves:
        leaf.grad = None  # torch adds up there, too
    groups = [group for group in groups if "grads" in group]
    _give_back(roots, groups)
    behind = len(inputs) + len(tables)
    made = {name: g for name, g in zip(early, found[behind:], strict=True) if g is not None}
    pairs = zip((output for output, _ in tables), found[len(inputs) : behind], strict=True)
    return found[: len(inputs)], Waiting(
        weights=late, early=early, groups=groups, made=made, tables=tuple(pairs)
    )  # fmt: skip


def weight_half(waiting: Waiting) -> Gradients:
    """Run the second half: the gradients of all weights that have one."""
    trained = cast("Iterator[torch.nn.Parameter]", iter(waiting.weights.values()))
    halves.stage_backward_weight(trained, waiting.groups)
    found = dict(waiting.made)
    for name, weight in waiting.weights.items():
        if weight.grad is not None:
            found[name], weight.grad = weight.grad, None
    every = {**waiting.weights, **waiting.early}
    for output, gradient in waiting.tables:
        if gradient is None:
            continue
        own = torch.autograd.grad(output, list(every.values()), gradient, allow_unused=True)
        for name, more in zip(every, own, strict=True):
            if more is not None:
                found[name] = found[name] + more if name in found else more
    return found


def _read_inside(outputs: Sequence[torch.Tensor]) -> set[Any]:
    """Return the nodes whose results others of the graph read."""
    roots = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
    return {before for node in _nodes(roots) for before, _ in node.next_functions}


def _give_back(roots: Sequence[Any], groups: Sequence[dict[str, Any]]) -> None:
    """Drop what autograd saved at the nodes that no weight gradient starts from or passes."""
    kept: set[Any] = set()
    for group in groups:
        kept.update(group["intermediates"])
        before = halves.construct_reverse_graph(group["intermediates"])
        kept.update(halves.reverse_closure(list(group["params"]), kept, before)[0])
    for node in _nodes(roots):
        if node not in kept:
            for name in dir(node):
                if name.startswith("_raw_saved_"):
                    _drop(getattr(node, name))


def _nodes(roots: Sequence[Any]) -> Iterator[Any]:
    seen, open_nodes = set(roots), list(roots)
    while open_nodes:
        node = open_nodes.pop()
        yield node
        fresh = {before for before, _ in node.next_functions if before is not None} - seen
        seen |= fresh
        open_nodes.extend(fresh)


def _drop(saved: Any) -> None:
    for item in saved if isinstance(saved, tuple | list) else (saved,):
        try:
            item.register_hooks(lambda _: None, _gone)
        except RuntimeError:  # nothing was saved there, or by hooks
            held = getattr(item, "data", None)
            if isinstance(held, Saved):
                held.tensor = None


def _gone(_: None) -> torch.Tensor:
    raise RuntimeError("a saved tensor that no weight gradient reads was asked for again")
