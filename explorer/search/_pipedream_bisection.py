"""The one-level plan of `_planning` for models of very many states, by bisection on the slowest stage.

With g_m(x) = (C_x + 4 (m - 1) P_x / (BW m)) / m of a state x, a stage between states k and j on m machines
takes g_m(j) - g_m(k). So "can every stage stay within T?" needs no pairs of states: only, for every state,
the largest g_m(k) of the usable states before it, which one sweep over the edges carries along:

    usable(j, m)  if  g_m(j) <= T,  or for some m'
                      max of g_m'(k) over usable (k, m - m') with k < j  >=  g_m'(j) - T

The answer is exact to 1e-11: each "yes" is traced to a plan whose own slowest stage is the next upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from explorer.search._antichains import FloatArray, States
from explorer.search._pipedream_program import Choice, Cut, OptimalPlan, PlanLevel, stage_seconds

BoolArray = npt.NDArray[np.bool_]

TOLERANCE = 1e-11
"""Relative distance to the next better plan below which none is looked for."""
GROUPS = 4
"""Groups of states that are swept between two chances to stop."""


def plan_threshold(states: States, level: PlanLevel, choice: Choice) -> Iterator[OptimalPlan | None]:
    """Yield None while working, then the optimum; its seconds are infinite if no plan uses every machine."""
    search = _Threshold(states, level, choice)
    low, best = float(states.seconds[-1]) / level.machines, None
    limit, gap = search.ceiling_s(), 1e-3
    while True:
        found: OptimalPlan | None = None
        for item in search.within(limit):
            if item is not None:
                found = item
            yield None
        if found is not None and np.isfinite(found.seconds):
            best = found
        elif best is None or limit >= best.seconds * (1 - 2 * TOLERANCE):
            break  # nothing at all, or nothing better than the best
        else:
            low = limit
        if best.seconds <= low * (1 + TOLERANCE):
            break  # a perfect split
        if best.seconds - low > gap * best.seconds:
            limit = (low + best.seconds) / 2
        else:
            limit, gap = best.seconds * (1 - TOLERANCE), gap / 100
    yield best or OptimalPlan(seconds=np.inf, cuts=())


class _Threshold:
    """Arrays that every sweep uses; machine counts index them from 1."""

    def __init__(self, states: States, level: PlanLevel, choice: Choice) -> None:
        self.states, self.machines = states, level.machines
        self.most = 1 if choice.straight else level.machines
        bandwidth = level.bandwidth_bytes_per_s
        self.done = np.array(
            [
                stage_seconds(states.seconds, states.parameter_bytes, m, bandwidth)
                for m in range(1, self.most + 1)
            ]
        )
        self.moved = 2.0 * states.output_bytes / bandwidth if choice.counted else np.zeros(states.count)
        self.sent = np.append(self.moved[:-1], 0.0)  # the last layer sends nothing
        self.pointer = np.searchsorted(states.edges[:, 1], np.arange(states.count + 1))
        self.groups = _groups(states, self.pointer)

    def ceiling_s(self) -> float:
        """Return seconds within which every plan stays."""
        return float(max(self.done[0, -1], self.done[-1, -1], self.moved.max()))

    def within(self, limit: float) -> Iterator[OptimalPlan | None]:
        """Yield None while working, then a plan with all stages within `limit`, or an infinite one."""
        usable: list[BoolArray] = [np.zeros(0, dtype=bool)]
        for m in range(1, self.machines):
            usable.append(
                self.done[m - 1] <= limit if m <= self.most else np.zeros(self.states.count, dtype=bool)
            )
            if m > 1:
                values = np.empty((self.states.count, min(m - 1, self.most)))
                for used in range(1, values.shape[1] + 1):
                    values[:, used - 1] = self._offered(usable, m - used, used, limit)
                    yield None
                for reached in self._sweep(values):
                    yield None
                    if reached is not None:
                        values = reached
                for used in range(1, values.shape[1] + 1):
                    fits = values[:, used - 1] >= self.done[used - 1] - limit
                    usable[m] |= fits & (self.sent / used <= limit)
                    yield None
        yield self._trace(usable, limit)

    def _offered(self, usable: list[BoolArray], before: int, used: int, limit: float) -> FloatArray:
        """Return g of each state at which a stage on `used` machines may follow `before` machines."""
        return np.where(usable[before] & (self.moved / used <= limit), self.done[used - 1], -np.inf)

    def _sweep(self, values: FloatArray) -> Iterator[FloatArray | None]:
        """Yield None while working, then (n, c): per state the largest value of states strictly before it."""
        edges, pointer = self.states.edges[:, 0], self.pointer
        reached = np.full_like(values, -np.inf)
        carried = values.copy()
        for number, (first, last) in enumerate(self.groups):
            start = pointer[first]
            sources = carried[edges[start : pointer[last]]]
            reached[first:last] = np.maximum.reduceat(sources, pointer[first:last] - start, axis=0)
            np.maximum(carried[first:last], reached[first:last], out=carried[first:last])
            if number % GROUPS == GROUPS - 1:
                yield None
        yield reached

    def _trace(self, usable: list[BoolArray], limit: float) -> OptimalPlan:
        cuts: list[Cut] = []
        slowest, state, left = 0.0, self.states.count - 1, self.machines
        while left > self.most or self.done[left - 1, state] > limit:
            found = self._last_stage(usable, state, left, limit)
            if found is None:
                return OptimalPlan(seconds=np.inf, cuts=())
            before, used, seconds = found
            cuts.append(Cut(before=before, last=state, machines=used))
            slowest = max(slowest, seconds, self.moved[before] / used, self.sent[state] / used)
            state, left = before, left - used
        cuts.append(Cut(before=-1, last=state, machines=left))
        slowest = max(slowest, float(self.done[left - 1, state]))
        return OptimalPlan(seconds=float(slowest), cuts=tuple(reversed(cuts)))

    def _last_stage(
        self, usable: list[BoolArray], state: int, machines: int, limit: float
    ) -> tuple[int, int, float] | None:
        """Return (state before, machines, seconds) of the shortest last stage; None if there is none."""
        inside = self.states.within(state)
        best: tuple[int, int, float] | None = None
        for used in range(1, min(machines, self.most + 1)):
            if self.sent[state] / used > limit:
                continue
            offered = np.where(inside, self._offered(usable, machines - used, used, limit), -np.inf)
            before = int(np.argmax(offered))
            seconds = float(self.done[used - 1, state] - offered[before])
            if seconds <= limit and (best is None or seconds < best[2]):
                best = (before, used, seconds)
        return best


def _groups(states: States, pointer: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return runs of states without an edge inside: [first, last), without state 0, which has none before."""
    if states.count == 1:
        return []
    latest = np.maximum.reduceat(states.edges[:, 0], pointer[1:-1]).tolist()
    found, first = [], 1
    for state, source in enumerate(latest, start=1):
        if source >= first and state > first:
            found.append((first, state))
            first = state
    return [*found, (first, states.count)]
