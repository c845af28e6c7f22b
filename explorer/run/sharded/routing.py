"""Experts on a rank: each token goes to the ranks that hold its chosen experts, and its results come back.

Where `experts` are split every rank sends each of its tokens, once for every chosen expert, to the rank of
that expert, and gets the results back; the backward goes the same ways (GShard). How many go where is known
only when the scores are: the numbers are exchanged first (`ROUTING`), then for which expert each token is
(`ROUTED`). Sharding predicts balanced routing, so what is sent differs by what the routing was. Otherwise
each rank runs the experts, or its part of each, on its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit

from explorer.run.sharded.collectives import apply, exchange
from explorer.run.sharded.here import Here
from explorer.run.sharded.kinds import Tensors, contract
from explorer.run.sharded.layout_model import ROUTED, ROUTING
from explorer.run.sharded.mesh import Line
from explorer.sharding.experts import active_experts, token_read


def score(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Return how much each token wants each expert: a softmax over experts."""
    return torch.softmax(contract(here, reads, weights), -1)


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Rows in the order of their target go there; what comes is in the order of its source."""

    line: Line
    given: tuple[int, ...]
    """Rows for every place."""
    taken: tuple[int, ...]
    """Rows from every place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the rows that came."""
        shapes = [(n, *x.shape[1:]) for n in self.taken]
        return torch.cat(exchange(self.line, "all_to_all", torch.split(x, list(self.given)), shapes))

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the gradients of the rows that went."""
        return Exchanged(self.line, self.taken, self.given).forward(y)


def mix(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Return for every token the sum of its chosen experts' outputs, weighted by their scores."""
    x, chance, chosen = _routed(here, reads)
    rows = x.flatten(0, 1)
    tokens = torch.arange(len(rows), device=x.device).repeat_interleave(chosen.shape[1])
    experts, share = chosen.reshape(-1), chance.reshape(-1, 1)
    position = here.layer.parameters[0].dims.index("experts")
    held = torch.from_numpy(here.held_indices(0)[position])
    over = here.over("experts") if here.lines("all_to_all") else ()
    made = _sent_around(here, over, rows[tokens], experts, held, weights)
    found = torch.zeros(len(rows), made.shape[-1], dtype=made.dtype, device=x.device)
    return found.index_add(0, tokens, made * share).view(*x.shape[:2], made.shape[-1])


def _routed(here: Here, reads: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the tokens, and for each the weights and the numbers of its experts, one row a token.

    Layers of the builder read scores of all experts; a module's own read the chosen ones and their weights.
    """
    tokens = token_read(here.layer)
    others = [item.flatten(0, 1) for k, item in enumerate(reads) if k != tokens]
    if len(others) == 1:
        return (reads[tokens], *others[0].topk(round(active_experts(here.layer))))
    chosen, chance = sorted(others, key=torch.is_floating_point)
    return reads[tokens], chance, chosen


def _sent_around(
    here: Here,
    over: Sequence[int],
    rows: torch.Tensor,
    experts: torch.Tensor,
    held: torch.Tensor,
    weights: Tensors,
) -> torch.Tensor:
    """Send rows to the ranks of their experts, over one mesh axis after the other, and the results home."""
    if not over:
        return _run(rows, experts, held, weights)
    line, use = here.mesh.lines[over[0]], here.layer.parameters[0]
    table = here.dimensions.mask(use.name, use.dims.index("experts") + 1, here.sizes["experts"], over[0])
    target = torch.from_numpy(table.argmax(0)).to(experts.device)[experts]
    order = torch.argsort(target, stable=True)
    given = torch.bincount(target, minlength=line.size)
    counts = exchange(line, ROUTING, list(given.view(-1, 1)), [(1,)] * line.size)
    sent, taken = tuple(given.tolist()), tuple(int(count) for count in counts)
    names = exchange(line, ROUTED, torch.split(experts[order], list(sent)), [(n,) for n in taken])
    come = apply(Exchanged(line, sent, taken), rows[order])
    made = _sent_around(here, over[1:], come, torch.cat(names), held, weights)
    back = apply(Exchanged(line, taken, sent), made)
    return torch.zeros_like(back).index_copy(0, order, back)


def _run(
    rows: torch.Tensor, experts: torch.Tensor, held: torch.Tensor, weights: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Run gated experts on rows, each on its own; a module's own have gate and up as one matrix."""
    gate, up = weights[0].unbind(1) if len(weights) == 2 else weights[:2]
    down = weights[-1]
    found = torch.zeros(len(rows), down.shape[1], dtype=rows.dtype, device=rows.device)
    for local, expert in enumerate(held.tolist()):
        mine = torch.nonzero(experts == expert).flatten()
        x = rows[mine]
        wide = F.silu(F.linear(x, gate[local])) * F.linear(x, up[local])
        found = found.index_add(0, mine, F.linear(wide, down[local]))
    return found
