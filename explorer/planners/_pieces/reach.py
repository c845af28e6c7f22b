"""The loops of `max_load`: from each ideal all larger ones, node after node, with the stage in between.

A table has a cell for each state (devices used of each kind) and ideal. `spent`, `banned` and `left` have a
row of all ideals for each kind or bound, `may` one of all states for each bound, `used` one of all kinds for
each state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.base.compiling import kernel

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def _rounds(*arguments: Any) -> int:
    """Return the rounds of one turn: visits, each of some tensors, states and numbers of replicas."""
    start, turn, most, used, radix = arguments[0], arguments[3], arguments[5], arguments[17], arguments[18]
    each = 20 + most * len(used) // (4 * len(radix))
    return int(each * min(turn, len(start) ** 2 // 2))


@kernel(results=4, rounds=_rounds)
def reach(
    start: IntArray, node: IntArray, to: IntArray, turn: int, limit: float, most: int,
    spent: FloatArray, banned: FloatArray, held: FloatArray, reduced: FloatArray,
    room: FloatArray, pays: FloatArray, reduce_s: FloatArray,
    touch_start: IntArray, touch: IntArray, transfer_s: FloatArray, reader_count: IntArray,
    used: IntArray, radix: IntArray, counts: IntArray, left: FloatArray, may: FloatArray,
    stamp: IntArray, made: IntArray, read: IntArray, at: IntArray, edge: IntArray, added: IntArray,
    sent: FloatArray, usable: IntArray,
    progress: IntArray, value: FloatArray, origin: IntArray, choice: IntArray,
) -> None:  # fmt: skip
    """Visit all ideals above some more ideals, and improve what stages between them make possible.

    Args:
        start: first edge out of each ideal.
        node: node that each edge adds.
        to: ideal that each edge leads to.
        turn: ideals to visit.
        limit: seconds that no stage may take.
        most: most replicas of a stage.
        spent: seconds of each ideal on each kind.
        banned: its nodes that a kind may not run.
        held: its bytes.
        reduced: its bytes of gradients.
        room: bytes of a device of each kind.
        pays: whether it spends time on transfers.
        reduce_s: its seconds to reduce a byte.
        touch_start: first tensor of each node in `touch`.
        touch: tensors, 2 t + 1 if the node makes it.
        transfer_s: seconds of each tensor.
        reader_count: nodes that read it.
        used: devices of each kind in each state.
        radix: states between one device more or less of a kind.
        counts: devices of each kind.
        left: work of each bound outside of each ideal.
        may: work of each bound that the devices which are left can do.
        stamp: room for the last ideal from which each was visited.
        made: room to tell whether a tensor is made in the stage.
        read: room for the number of its readers there.
        at: room for the ideals on the way.
        edge: room for the edges out of them.
        added: room for the nodes on the way.
        sent: room for the seconds of transfers.
        usable: room for the states of an ideal.
        progress: the next ideal, and how many were visited.
        value: least max-load of every cell.
        origin: ideal before its last stage.
        choice: kind x (most + 1) + replicas of that.
    """
    source, visited = progress[0], 0
    while source < len(start) - 1 and visited < turn:
        alive = _alive(source, limit, len(start) - 1, used, radix, left, may, value, usable)
        depth = 0 if alive > 0 else -1
        at[0], edge[0], sent[0] = source, start[source], 0.0
        while depth >= 0:
            if edge[depth] == start[at[depth] + 1]:
                if depth > 0:
                    _take(added[depth], touch_start, touch, made, read)
                depth -= 1
                continue
            e = edge[depth]
            edge[depth] = e + 1
            goal = to[e]
            if stamp[goal] == source:
                continue
            stamp[goal] = source
            if not _grows(source, goal, limit, most, spent, banned, held, room, counts):
                continue
            visited += 1
            depth += 1
            cost = _put(node[e], sent[depth - 1], touch_start, touch, transfer_s, reader_count, made, read)
            at[depth], edge[depth], added[depth], sent[depth] = goal, start[goal], node[e], cost
            for k in range(len(radix)):
                if _fits(source, goal, k, banned, held, room):
                    alone = spent[k * len(held) + goal] - spent[k * len(held) + source] + pays[k] * cost
                    sums = (reduced[goal] - reduced[source]) * reduce_s[k]
                    for r in range(1, min(most, counts[k]) + 1):
                        load = alone / r + sums * (r - 1) / r
                        if load < limit:
                            code = k * (most + 1) + r
                            _improve(
                                source, goal, load, code, k, r, alive, used, radix, counts, usable, value,
                                origin, choice,
                            )  # fmt: skip
        source += 1
    progress[0], progress[1] = source, progress[1] + visited


def _alive(
    source: int, limit: float, ideals: int, used: IntArray, radix: IntArray, left: FloatArray,
    may: FloatArray, value: FloatArray, usable: IntArray,
) -> int:  # fmt: skip
    """List the states of an ideal from which a plan below the limit may come; return how many."""
    kinds = len(radix)
    states = len(used) // kinds
    alive = 0
    for s in range(states):
        best = value[s * ideals + source]
        good = best < limit
        for k in range(kinds):
            if good and used[s * kinds + k] > 0 and value[(s - radix[k]) * ideals + source] <= best:
                good = False  # fewer devices do as well
        for b in range(len(left) // ideals):
            if left[b * ideals + source] > may[b * states + s]:
                good = False
        if good:
            usable[alive] = s
            alive += 1
    return alive


def _fits(source: int, goal: int, k: int, banned: FloatArray, held: FloatArray, room: FloatArray) -> bool:
    """Tell whether a device of a kind may run and hold what lies between two ideals."""
    row = k * len(held)
    return bool(held[goal] - held[source] <= room[k] and banned[row + goal] == banned[row + source])


def _grows(
    source: int, goal: int, limit: float, most: int, spent: FloatArray, banned: FloatArray, held: FloatArray,
    room: FloatArray, counts: IntArray,
) -> bool:  # fmt: skip
    """Tell whether what lies between two ideals, or more, may be a stage below the limit."""
    for k in range(len(counts)):
        row = k * len(held)
        seconds = (spent[row + goal] - spent[row + source]) / min(most, counts[k])
        if seconds < limit and _fits(source, goal, k, banned, held, room):
            return True
    return False


def _put(
    v: int, cost: float, touch_start: IntArray, touch: IntArray, transfer_s: FloatArray,
    reader_count: IntArray, made: IntArray, read: IntArray,
) -> float:  # fmt: skip
    """Add a node to the stage; return the seconds of all tensors that then enter or leave it."""
    for j in range(touch_start[v], touch_start[v + 1]):
        t = touch[j] // 2
        if touch[j] % 2:
            if read[t] > 0:
                cost -= transfer_s[t]
            made[t] = 1
            if read[t] < reader_count[t]:
                cost += transfer_s[t]
        else:
            if made[t] == 0 and read[t] == 0:
                cost += transfer_s[t]
            read[t] += 1
            if made[t] == 1 and read[t] == reader_count[t]:
                cost -= transfer_s[t]
    return cost


def _take(v: int, touch_start: IntArray, touch: IntArray, made: IntArray, read: IntArray) -> None:
    """Take a node out of the stage."""
    for j in range(touch_start[v], touch_start[v + 1]):
        if touch[j] % 2:
            made[touch[j] // 2] = 0
        else:
            read[touch[j] // 2] -= 1


def _improve(
    source: int, goal: int, load: float, code: int, k: int, r: int, alive: int, used: IntArray,
    radix: IntArray, counts: IntArray, usable: IntArray, value: FloatArray, origin: IntArray,
    choice: IntArray,
) -> None:  # fmt: skip
    """Improve the cells of an ideal by a last stage on r devices of kind k."""
    kinds = len(radix)
    ideals = len(value) // (len(used) // kinds)
    for i in range(alive):
        s = usable[i]
        if used[s * kinds + k] + r <= counts[k]:
            longest = max(value[s * ideals + source], load)
            cell = (s + r * radix[k]) * ideals + goal
            if longest < value[cell]:
                value[cell], origin[cell], choice[cell] = longest, source, code
