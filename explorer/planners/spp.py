"""SPP: the order of devices by recursive minimum cuts (RDO), then stages and replicas along it (PRM).

For s stages PRM finds, over cuts of the line and of the order, the least of the longest

    m w / r                      m microbatches of a stage with r replicas
    2 (r - 1) / r  g / b         its gradients, over its slowest link
    m x / (min(r, r') b)         what goes to the next stage and back, over the slowest link between the two

and the number of stages is the one whose list schedule (the schedule `spp`, their PE) is simulated to be the
fastest. More than 16 groups of devices are taken two, four, ... at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt

from explorer.planners._pieces.fleet import fleet_of, room_bytes
from explorer.planners._pieces.line import Line, line_of
from explorer.planners._pieces.plans import judged, sizes_worth_trying, strategy_of
from explorer.planners._pieces.work_graph import work_graph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem

FloatArray = npt.NDArray[np.float64]
MOST_GROUPS = 16
"""Most groups of devices along the order."""
MOST_STAGES = 8
"""Most stages that are planned for."""


class Segment(NamedTuple):
    """A stage: nodes from `start` to before `stop`, on `replicas` groups from number `first` on."""

    start: int
    stop: int
    first: int
    replicas: int


class Planned(NamedTuple):
    """Stages, and the longest of what they do in a step, in seconds."""

    seconds: float
    stages: tuple[Segment, ...]


@SEARCHERS.add(
    Searcher(
        name="spp",
        title="Device order by minimum cuts, stages and replicas along it, list scheduled",
        paper="Luo et al., Efficient Pipeline Planning for Expedited Distributed DNN Training, INFOCOM 2022",
        space=Space(words="cuts x replicas along one order"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def spp(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Plan for every number of stages and some sizes of microbatches, and have the plans judged.

    Raises:
        InputError: there is no cluster.
    """
    fleet = fleet_of(problem)
    groups = fleet.joined(MOST_GROUPS)
    ends = [group[0] for group in groups]
    rate = np.array([[fleet.cluster.path(a, b).bandwidth_bytes_per_s for b in ends] for a in ends])
    order = device_order(rate)
    kinds = tuple(fleet.cluster.kind_of(ends[k]) for k in order)
    groups, rate = tuple(groups[k] for k in order), rate[np.ix_(order, order)]
    room = min(room_bytes(problem, kind) for kind in kinds)
    for size in sizes_worth_trying(problem, len(groups), replicas=len(groups[0]))[:3]:
        samples = size / len(groups[0])
        work = work_graph(problem.graph, kinds, problem.job, samples=samples, bytes_per_s=1.0)
        line, rounds = line_of(work), problem.job.global_batch // size
        for found in partitions(line, rate, rounds, room_bytes=room, most_replicas=size // len(groups[0])):
            yield None
            stages = [
                (work.layers(range(a, b)), tuple(d for group in groups[i : i + r] for d in group))
                for a, b, i, r in found.stages
            ]
            label = (
                f"stages on {'-'.join(str(len(devices)) for _, devices in stages)}, microbatches of {size}"
            )
            yield from judged(problem, evaluator, strategy_of(problem, stages, size, schedule="spp"), label)


def device_order(bytes_per_s: FloatArray) -> list[int]:
    """Return devices so that those between which little goes are far apart: minimum cuts, again and again.

    Args:
        bytes_per_s: (devices, devices) rates of links.
    """

    def ordered(part: list[int]) -> list[int]:
        rates = bytes_per_s[np.ix_(part, part)]
        off = rates[~np.eye(len(part), dtype=bool)]
        if len(part) < 3 or off.max() <= off.min():
            return part
        graph: nx.Graph[int] = nx.Graph()
        graph.add_weighted_edges_from((a, b, float(bytes_per_s[a, b])) for a in part for b in part if a < b)
        _, (one, other) = nx.stoer_wagner(graph)
        first, second = sorted((sorted(one), sorted(other)))
        return ordered(first) + ordered(second)

    return ordered(list(range(len(bytes_per_s))))


def partitions(
    line: Line,
    bytes_per_s: FloatArray,
    rounds: int,
    *,
    room_bytes: float,
    most_stages: int = MOST_STAGES,
    most_replicas: int = MOST_GROUPS,
) -> Iterator[Planned]:
    """Yield the best partition for each number of stages, on all devices in their order.

    Args:
        line: the model, its kinds the devices in order.
        bytes_per_s: (devices, devices) rates of links, by place in the order.
        rounds: microbatches m of a step.
        room_bytes: bytes of a device.
        most_stages: most stages.
        most_replicas: most replicas of a stage.
    """
    devices, size = len(bytes_per_s), line.count + 1
    loads = {
        (i, r): _load(line, bytes_per_s, rounds, i, r, room_bytes)
        for i in range(devices)
        for r in range(1, min(devices - i, most_replicas) + 1)
    }
    nothing = np.where(np.arange(size) == 0, 0.0, np.inf)
    ahead = {(0, 0): nothing}  # (devices used, replicas of the last stage): least of each prefix
    chosen: list[dict[tuple[int, int], tuple[npt.NDArray[np.int64], list[int]]]] = []
    for count in range(1, min(most_stages, devices, line.count) + 1):
        now: dict[tuple[int, int], FloatArray] = {}
        chosen.append({})
        for (i, r), load in loads.items():
            lasts = [last for used, last in ahead if used == i]
            if not lasts:
                continue
            ways = [
                np.maximum(ahead[i, last], _sent(line, bytes_per_s, rounds, i, last, r)) for last in lasts
            ]
            longest = np.maximum(np.min(ways, axis=0)[:, None], load)
            now[i + r, r] = longest.min(axis=0)
            chosen[-1][i + r, r] = longest.argmin(axis=0), [lasts[k] for k in np.argmin(ways, axis=0)]
        ahead = now
        ends = {r: float(value[-1]) for (used, r), value in now.items() if used == devices}
        best = min(ends, key=lambda r: ends[r], default=0)
        if best and np.isfinite(ends[best]):
            yield Planned(ends[best], _stages(chosen[:count], line.count, devices, best))


def _load(
    line: Line, bytes_per_s: FloatArray, rounds: int, first: int, replicas: int, room: float
) -> FloatArray:
    """Return the seconds of a step of every run on some devices in a row: work or reduction."""
    slowest = line.seconds[first : first + replicas].max(axis=0)
    rate = bytes_per_s[first : first + replicas, first : first + replicas].min() if replicas > 1 else np.inf
    reduced = 2 * (replicas - 1) / replicas * line.reduced_bytes / rate
    found: FloatArray = np.maximum(rounds * slowest / replicas, reduced)
    return np.where(line.held_bytes <= room, found, np.inf)


def _sent(line: Line, bytes_per_s: FloatArray, rounds: int, at: int, last: int, replicas: int) -> FloatArray:
    """Return the seconds of a step that each cut sends between two stages that meet at a device."""
    if not last:
        return np.zeros(line.count + 1)
    rate = bytes_per_s[at - last : at, at : at + replicas].min()
    sent: FloatArray = rounds * line.sent_bytes / (min(last, replicas) * rate)
    return sent


def _stages(
    chosen: Sequence[dict[tuple[int, int], tuple[npt.NDArray[np.int64], list[int]]]],
    stop: int,
    used: int,
    r: int,
) -> tuple[Segment, ...]:
    found = []
    for table in reversed(chosen):
        starts, lasts = table[used, r]
        start = int(starts[stop])
        found.append(Segment(start, stop, used - r, r))
        used, stop, r = used - r, start, lasts[start]
    return tuple(reversed(found))
