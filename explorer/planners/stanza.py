"""Stanza: most devices train the convolutions, a few others the fully connected layers behind them.

With m microbatches a step, which go through both parts one after the other,

    there = C + X + D + (m - 1) max(C, X, D)        back = D' + X' + C' + (m - 1) max(D', X', C')
    T = there + max( m D' + R_D,  back + R_C )

C, D and C', D' are the seconds of a microbatch forward and backward on the convolutions' N_c devices and on
the N_f others, X and X' those in which what lies between passes there and back, R those of reducing each
part's gradients among its own devices. So no weights of the fully connected layers travel to the N_c, of
which each sends 2 (N_c - 1) / N_c of the convolutions' gradients and its samples' activations. Every N_c and
N_f is tried, all layers on N_c alone as well. The paper has m = 1 (Wu et al.).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.registry import Option
from explorer.graph import LayerGraph
from explorer.planners._pieces.fleet import fleet_of
from explorer.planners._pieces.layer_meshes import by_microbatch
from explorer.planners._pieces.plans import strategy_of
from explorer.planners._pieces.stage_costs import Devices, Load, StageCosts, stage_costs
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategy import Strategy

FloatArray = npt.NDArray[np.float64]
CONVOLUTION = "conv"
"""Kind of the layers that most devices train."""
DENSE, ANY = "dense", "any"
MOST_GROUPS = 16
"""Most groups of devices that are told apart."""
JUDGED = 4
"""Splits of least T that are simulated."""


class Part(NamedTuple):
    """Seconds of a part on its devices, numbers or arrays of one shape."""

    forward_s: FloatArray
    backward_s: FloatArray
    reduce_s: FloatArray


class Split(NamedTuple):
    """A separation, and the seconds T of a step."""

    seconds: float
    cut: int
    """First node of the second part; the number of nodes if there is none."""
    first: Devices
    second: Devices


@SEARCHERS.add(
    Searcher(
        name="stanza",
        title="Convolutions on most devices, fully connected layers on few, by the seconds of a step",
        paper="Wu et al., Stanza: Layer Separation for Distributed Training in Deep Learning, 2018",
        space=Space(words="devices of two parts"),
        rigid=True,
        alone=True,
        options=(
            Option(
                name="cut", default=DENSE, choices=(DENSE, ANY),
                help="dense: before the first layer with weights behind the last convolution, where there is"
                " one; any: before any node",
            ),
        ),
        objectives=("time",),
    )
)  # fmt: skip
def stanza(problem: Problem, evaluator: Evaluator, *, cut: str) -> Iterator[Candidate | None]:
    """Find the separations of least T, and have them judged.

    Raises:
        InputError: there is no cluster.
    """
    fleet = fleet_of(problem)
    groups = fleet.joined(MOST_GROUPS)

    def plans(size: int) -> Iterator[tuple[Strategy, str] | None]:
        costs = stage_costs(problem, fleet.cluster, fleet.kinds, size, width=len(groups[0]))
        cuts = cuts_of(problem.graph, costs.work, cut)
        found: list[Split] = []
        for split in splits(problem, costs, groups, cuts, size):
            if split is None:
                yield None
            else:
                found.append(split)
        for best in heapq.nsmallest(JUDGED, found):
            yield _strategy(problem, costs.work, best, size)

    yield from by_microbatch(problem, evaluator, plans)


def step_s(first: Part, second: Part, there_s: FloatArray, back_s: FloatArray, rounds: int) -> FloatArray:
    """Return T of two parts and the seconds in which a microbatch passes between them, either way."""
    longest = np.maximum(np.maximum(first.forward_s, there_s), second.forward_s)
    there = first.forward_s + there_s + second.forward_s + (rounds - 1) * longest
    longest = np.maximum(np.maximum(first.backward_s, back_s), second.backward_s)
    back = second.backward_s + back_s + first.backward_s + (rounds - 1) * longest
    ended = np.maximum(rounds * second.backward_s + second.reduce_s, back + first.reduce_s)
    return np.asarray(there + ended)


def cuts_of(graph: LayerGraph, work: WorkGraph, where: str) -> list[int]:
    """Return the nodes before which the second part may begin.

    Args:
        graph: the model.
        work: its nodes.
        where: `dense`, or `any`, which a model without such layers gets in any case.
    """
    layers = [[graph.layers[layer] for layer in own] for own in work.members]
    convolutions = [v for v, own in enumerate(layers) if any(item.kind == CONVOLUTION for item in own)]
    if where == DENSE and convolutions:
        behind = range(convolutions[-1] + 1, work.count)
        dense = [v for v in behind if any(item.parameters for item in layers[v])]
        if dense:
            return dense[:1]
    return list(range(1, work.count))


def splits(
    problem: Problem, costs: StageCosts, groups: Sequence[Devices], cuts: Sequence[int], size: int
) -> Iterator[Split | None]:
    """Yield None while working, and for all numbers of devices the best of some cuts, if any is allowed."""
    rounds, end = problem.job.global_batch // size, costs.work.count
    at = np.array(cuts, dtype=np.int64)
    for many in range(1, len(groups) + 1):
        first = tuple(chain(*groups[:many]))
        ahead = costs.load(first)
        yield None
        if ahead.allowed[0, end]:
            alone = _part(ahead, np.array(0), np.array(end))
            seconds = rounds * (alone.forward_s + alone.backward_s) + alone.reduce_s
            yield Split(float(seconds), end, first, ())
        for few in range(1, len(groups) - many + 1) if cuts else ():
            second = tuple(chain(*groups[many : many + few]))
            behind = costs.load(second)
            there = costs.sent(first, second)[at]
            back = costs.sent(second, first)[at] if problem.job.training else np.zeros(len(at))
            parts = _part(ahead, np.array(0), at), _part(behind, at, np.array(end))
            found = np.where(
                ahead.allowed[0, at] & behind.allowed[at, end], step_s(*parts, there, back, rounds), np.inf
            )
            best = int(found.argmin())
            yield None
            if np.isfinite(found[best]):
                yield Split(float(found[best]), int(at[best]), first, second)


def _part(load: Load, start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]) -> Part:
    return Part(load.forward_s[start, stop], load.backward_s[start, stop], load.reduce_s[start, stop])


def _strategy(problem: Problem, work: WorkGraph, split: Split, size: int) -> tuple[Strategy, str]:
    """Return the strategy of a separation and what it is in words."""
    stages = [(work.layers(range(split.cut)), split.first)]
    words = f"{len(split.first)} devices for all layers"
    if split.second:
        stages.append((work.layers(range(split.cut, work.count)), split.second))
        start = problem.graph.layers[min(work.members[split.cut])].name
        words = f"{len(split.first)} devices up to {start}, {len(split.second)} from there on"
    return strategy_of(problem, stages, size, schedule="gpipe"), f"{words}, microbatches of {size}"
