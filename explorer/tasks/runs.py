"""Runs: consecutive actions of one stage on a lane, over which sharded weights may stay gathered.

ZeRO 2 and 3 can gather weights and scatter gradients for every action (`action`: the blocks come and go, two
at a time), or once for all consecutive actions of a stage on its lane (`run`: gathered at the first, given
back when the lane goes on to another stage or updates, with one reduction of all that the run added up). The
second is what makes breadth-first orders cheap (Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys
2023): with v chunks a step has 2 v - 1 gathers of a chunk and v reductions, however many microbatches; it
holds a chunk's weights and gradients whole. Torch's pipelines do the same (UNSHARD, RESHARD, REDUCE_GRAD).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from explorer.strategy import RESHARD_ACTION, RESHARD_RUN
from explorer.tasks.work import Lowering


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Of all lanes."""

    of: dict[int, int]
    """Compute task -> its run, on the first of its lanes."""
    whole: tuple[bool, ...]
    """Per section whether its weights stay gathered, and its gradients whole, over each run."""


def find_runs(work: Lowering) -> Runs:
    """Number the runs of every lane, and say which sections keep their weights gathered over them.

    A stage that leaves it open does in a breadth-first order: one whose lanes have several stages each, and
    always several actions of one at a time. In other orders little would be gained.
    """
    if all(section.zero < 2 for section in work.sections):
        return Runs(of={}, whole=(False,) * len(work.sections))
    numbers: dict[int, int] = {}
    shortest, count = len(work.action), 0
    for program in work.programs:
        for (*_, op), tasks in groupby(program, key=lambda task: _key(work, task)):
            run = list(tasks)
            for task in run:
                numbers.setdefault(task, count)
            count += 1
            if op != "U":
                shortest = min(shortest, len({work.action[task] for task in run}))
    breadth_first = shortest > 1 and all(len(set(places)) > 1 for places in work.lanes.places)
    default = RESHARD_RUN if breadth_first else RESHARD_ACTION
    return Runs(
        of=numbers,
        whole=tuple(
            section.zero >= 2 and section.shards > 1 and (section.reshard or default) == RESHARD_RUN
            for section in work.sections
        ),
    )


def _key(work: Lowering, task: int) -> tuple[int, int, str]:
    action = work.action[task]
    return action.stage, action.copy, "U" if action.op == "U" else ""
