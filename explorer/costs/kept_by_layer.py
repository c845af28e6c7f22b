"""What is kept from forward to backward if the layers of a stage choose it one by one.

Every layer has a rule, and a tensor is kept if the rule of any layer keeps it:

    none        keeps all that the layer saves
    selective   the same, less inner tensors of attention that their writer makes again; in graphs that say
                what selective recomputation keeps (`Layer.selective`), as `full`, and those tensors besides
    full        layers of a block that are made again are one region, which keeps what it reads and does not
                make; layers outside of blocks keep what they save, and a stage without blocks is one block
    output      as `full` (outside of blocks a region by itself); and no rule keeps what the layer writes,
                unless another stage reads it: it is made again, if need be from what is made again before

Where all layers choose alike this is what `explorer.costs.memory_counts` finds for the whole stage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.costs.keeping import OnHost, Recompute
from explorer.costs.memory_arrays import BoolArray, FloatArray, GraphArrays, IntArray, graph_arrays
from explorer.costs.memory_counts import Counts, held_tensors, late_tensors, recomputed_together
from explorer.costs.memory_peaks import TensorSize, backward_peak, kept_twice, largest, largest_layer
from explorer.graph import LayerGraph
from explorer.sharding.result import ShardedLayers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the rules of a stage's layers come to."""

    kept: BoolArray
    """Per tensor of the graph: whether it is kept."""
    dropped: BoolArray
    """Per tensor: whether a layer of the stage saves it, and it is made again."""
    keepers: tuple[IntArray, IntArray]
    """(layers, tensors), in pairs: whose rule keeps what."""
    region: IntArray
    """Per layer: what it is made again with; -1 if it is not, or only as the core of an attention."""
    gone: BoolArray
    """Per tensor: whether an `output` layer writes it, so that nobody keeps it."""
    twice: BoolArray
    """Per layer: whether it keeps the form of its own that it has of a tensor (`kept_twice`)."""


def rules_of(arrays: GraphArrays, inside: BoolArray, choices: tuple[str, ...]) -> Rules:
    """Apply the rules of some layers.

    Args:
        arrays: the graph.
        inside: per layer whether the stage has it.
        choices: what each of those chooses, in the order of the graph.
    """
    chosen = np.full(len(inside), "", dtype="<U9")
    chosen[inside] = choices
    selective, output, writer = chosen == "selective", chosen == "output", arrays.writer
    together = recomputed_together(arrays, inside)
    again = (chosen == "full") | (selective if arrays.policy is not None else False)
    region = np.where(again, together, -1)
    region = np.where(output, np.where(together >= 0, together, arrays.own_block), region)

    mine = inside[arrays.saves.layer]
    layer, item = arrays.saves.layer[mine], arrays.saves.item[mine]
    by_save = region[layer] < 0
    if arrays.policy is None:
        remade = ~inside[writer] | selective[writer] | (region[writer] >= 0)
        by_save &= ~(selective[layer] & arrays.inner[item] & remade[item])
    reader, read = arrays.reads.layer, arrays.reads.item
    made = (writer[read] >= 0) & inside[writer[read]] & (region[writer[read]] == region[reader])
    by_read = (region[reader] >= 0) & ~made
    keeper = [layer[by_save], reader[by_read]]
    tensor = [item[by_save], read[by_read]]
    if arrays.policy is not None:
        for pairs in (arrays.saves, arrays.touches):
            stated = selective[pairs.layer] & arrays.policy[pairs.item]
            keeper.append(pairs.layer[stated])
            tensor.append(pairs.item[stated])

    leaves = np.zeros(len(writer), dtype=bool)
    leaves[read[~inside[reader]]] = True
    gone = (writer >= 0) & output[writer] & ~leaves
    keepers, tensors = np.concatenate(keeper), np.concatenate(tensor)
    stay = ~gone[tensors]
    kept, saved = np.zeros_like(gone), np.zeros_like(gone)
    kept[tensors[stay]], saved[item] = True, True
    return Rules(
        kept=kept, dropped=saved & ~kept, keepers=(keepers[stay], tensors[stay]), region=region, gone=gone,
        twice=(chosen == "none") | selective,
    )  # fmt: skip


def with_choices(
    found: Counts,
    graph: LayerGraph,
    sharded: ShardedLayers,
    shares: FloatArray,
    recompute: Recompute,
) -> Counts:
    """Return counts that know what a choice for every layer comes to; of one for all they know it already.

    Args:
        found: counts of the same layers.
        graph: the model.
        sharded: their sharding.
        shares: per layer of the graph the share that is here, 0 for those elsewhere.
        recompute: the choices.
    """
    if isinstance(recompute, str):
        return found
    arrays, inside = graph_arrays(graph), shares > 0
    held = held_tensors(arrays, sharded, shares)
    rules = rules_of(arrays, inside, recompute)
    twice = kept_twice(graph, sharded)
    groups = _live_together(arrays, inside, rules)
    late = late_tensors(arrays, inside)

    def most(mask: BoolArray) -> TensorSize:
        return largest(arrays.compute, arrays.fixed, held * mask, *groups)

    return replace(
        found,
        saved={**found.saved, recompute: _size(arrays, held * rules.kept, twice, inside & rules.twice)},
        again={**found.again, recompute: most(rules.dropped)},
        again_in_turn={recompute: _in_turn(arrays, held, inside, rules, twice, groups)},
        again_for_inputs={**found.again_for_inputs, recompute: most(rules.dropped & ~late)},
        working={**found.working, recompute: _working(arrays, held, inside, rules)},
        # All that is dropped: what regions read is taken to stay until the backward, saved or not.
        whole={recompute: _size(arrays, held * rules.dropped, twice, inside & ~rules.twice)},
    )


def _size(arrays: GraphArrays, share: FloatArray, twice: FloatArray, layers: BoolArray) -> TensorSize:
    """Add up tensors, and the second forms of some that layers keep."""
    compute, fixed = twice[:, layers].sum(axis=1).tolist()
    return TensorSize(float(arrays.compute @ share) + compute, float(arrays.fixed @ share) + fixed)


def _working(arrays: GraphArrays, held: FloatArray, inside: BoolArray, rules: Rules) -> TensorSize:
    """Count gradients under way: without anything made again as ever, else never too few.

    What is made again is counted by itself, so that only kept tensors can make room for gradients; and inside
    of a region nothing counts as free when a gradient is needed.
    """
    gradient = held * arrays.gradient
    beside = backward_peak(arrays, held * rules.kept, gradient, inside)
    if not rules.dropped.any() and (rules.region < 0).all():
        return beside
    alone = largest_layer(arrays, gradient, inside)
    return max(beside, alone, key=lambda size: size.bytes(2.0))


def _live_together(arrays: GraphArrays, inside: BoolArray, rules: Rules) -> tuple[IntArray, IntArray]:
    """Return (block, tensor) pairs, each once: dropped tensors that are there in the backward of a block.

    Those that a layer of the block saves; a stage without blocks is made again at once. A tensor that an
    `output` layer of one block writes and a later block needs is there from that block's backward to the
    last one that saves it, and so is all that is made again on the way to it.
    """
    block = _blocks(arrays, inside, rules)
    mine = inside[arrays.saves.layer] & rules.dropped[arrays.saves.item]
    layer, item = arrays.saves.layer[mine], arrays.saves.item[mine]
    pairs = {(b, t) for b, t in zip(block[layer].tolist(), item.tolist(), strict=True)}
    if rules.gone.any():
        order = list(dict.fromkeys(block[inside].tolist()))
        place = {number: k for k, number in enumerate(order)}
        first, last = _spans(arrays, rules, [place.get(number, -1) for number in block.tolist()], layer, item)
        pairs |= {(order[k], t) for t, low in first.items() for k in range(low, last[t] + 1)}
    found = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _blocks(arrays: GraphArrays, inside: BoolArray, rules: Rules) -> IntArray:
    """Return per layer the block whose backward needs what the layer saves; of a stage without blocks one."""
    whole = (rules.region >= 0).any() and not (arrays.block[inside] >= 0).any()
    return np.zeros_like(arrays.block) if whole else arrays.own_block


def _in_turn(
    arrays: GraphArrays,
    held: FloatArray,
    inside: BoolArray,
    rules: Rules,
    twice: FloatArray,
    groups: tuple[IntArray, IntArray],
) -> TensorSize:
    """Count what a whole backward makes again on top of all that is kept, less what it has freed by then.

    It goes from the last block to the first: what only later blocks keep is free when a block's turn comes.
    """
    block = _blocks(arrays, inside, rules)
    order = {number: place for place, number in enumerate(dict.fromkeys(block[inside].tolist()))}
    place = np.array([order.get(number, -1) for number in block.tolist()])
    keeper, tensor = rules.keepers
    first = np.full(len(held), len(order))
    np.minimum.at(first, tensor, place[keeper])
    kept, form = np.flatnonzero(rules.kept), inside & rules.twice
    made, needed = groups
    sizes = np.zeros((2, len(order)))
    for row, (size, more) in enumerate(zip((arrays.compute, arrays.fixed), twice, strict=True)):
        freed = np.zeros(len(order) + 1)
        np.add.at(freed, first[kept], size[kept] * held[kept])
        np.add.at(freed, place[form], more[form])
        sizes[row] -= np.cumsum(freed[::-1])[::-1][1:]
        np.add.at(sizes[row], [order[number] for number in made.tolist()], size[needed] * held[needed])
    if not len(made):
        return TensorSize()
    compute, fixed = np.maximum(sizes[:, int((2 * sizes[0] + sizes[1]).argmax())], 0.0).tolist()
    return TensorSize(compute, fixed)


def _spans(
    arrays: GraphArrays, rules: Rules, place: list[int], layer: IntArray, item: IntArray
) -> tuple[dict[int, int], dict[int, int]]:
    """Return by dropped tensor the first and last block, by place, in whose backward it is there."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for who, tensor in zip(layer.tolist(), item.tolist(), strict=True):
        first[tensor] = min(first.get(tensor, place[who]), place[who])
        last[tensor] = max(last.get(tensor, -1), place[who])
    writes: dict[int, list[int]] = {}
    for tensor, who in enumerate(arrays.writer.tolist()):
        if who >= 0 and not rules.kept[tensor]:
            writes.setdefault(who, []).append(tensor)
    reads: dict[int, list[int]] = {}
    for who, tensor in zip(arrays.reads.layer.tolist(), arrays.reads.item.tolist(), strict=True):
        if not rules.kept[tensor]:
            reads.setdefault(who, []).append(tensor)
    # A region is made again at once, for the last block that needs any of it, with all that it reads.
    again = np.flatnonzero(rules.region >= 0)[::-1].tolist()
    needed = dict.fromkeys(rules.region[again].tolist(), -1)
    settled = False
    while not settled:
        before = dict(needed)
        for who in again:
            region = int(rules.region[who])
            asked = [last.get(tensor, -1) for tensor in writes.get(who, ())]
            needed[region] = max([needed[region], *asked])
            for tensor in (*writes.get(who, ()), *reads.get(who, ())):
                last[tensor] = max(last.get(tensor, -1), needed[region])
        settled = needed == before
    return first, last


# ---- on the host -----------------------------------------------------------------------------------


class MovedSize(NamedTuple):
    """Tensors that go to the host, per sample."""

    all: TensorSize
    """All of them."""
    here: TensorSize
    """Those of the two blocks that move most: one in use, and one on its way meanwhile."""


@remembered(STAGES_KEPT)
def moved_size(
    graph: LayerGraph,
    sharded: ShardedLayers,
    layers: IntArray,
    fractions: FloatArray | None,
    recompute: Recompute,
    away: tuple[bool, ...],
) -> MovedSize:
    """Count what goes to the host if some layers keep their tensors there: what no other layer needs here.

    Args:
        graph: the model.
        sharded: sharding of the layers.
        layers: their positions.
        fractions: share of each; None if all are whole.
        recompute: what they make again.
        away: which of them, in the order of the graph, keep their tensors on the host.
    """
    arrays, shares = graph_arrays(graph), np.zeros(len(graph.layers))
    shares[layers] = 1.0 if fractions is None else fractions
    inside, hosts = shares > 0, np.zeros(len(shares), dtype=bool)
    hosts[inside] = away
    choices = (recompute,) * len(layers) if isinstance(recompute, str) else recompute
    rules = rules_of(arrays, inside, choices)
    layer, item = rules.keepers
    moves = np.zeros(len(arrays.writer), dtype=bool)
    moves[item[hosts[layer]]] = True
    needed = inside & ~hosts
    moves[item[needed[layer]]] = False
    moves[arrays.saves.item[needed[arrays.saves.layer]]] = False
    mine = moves[item] & hosts[layer]
    held, twice = held_tensors(arrays, sharded, shares), kept_twice(graph, sharded)
    tensors, at = np.unique(item[mine], return_index=True)  # each once, with the first block that keeps it
    block, kept = arrays.own_block[layer[mine]][at], inside & hosts & rules.twice
    sizes = np.zeros((2, 1 + int(arrays.own_block.max(initial=0))))
    for row, size in enumerate((arrays.compute, arrays.fixed)):
        np.add.at(sizes[row], block, size[tensors] * held[tensors])
        np.add.at(sizes[row], arrays.own_block[kept], twice[row, kept])
    most = np.argsort(-(2 * sizes[0] + sizes[1]), kind="stable")[:2]
    return MovedSize(
        TensorSize(*sizes.sum(axis=1).tolist()), TensorSize(*sizes[:, most].sum(axis=1).tolist())
    )


def moves_anything(away: OnHost) -> bool:
    """Tell whether any layer keeps its tensors on the host."""
    return away if isinstance(away, bool) else any(away)
