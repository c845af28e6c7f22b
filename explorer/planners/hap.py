"""HAP: a program by A* and unequal shares of devices by a linear program, in turns.

On devices of several kinds every device takes a share r of what is split. For given shares A* finds the
program of least seconds (`best_first`): for every layer which dimension is split, whether all devices do
the same or each has samples of its own, and with it the collectives between layers. For a given program a
linear program finds the shares (`unlike_devices`). Both go on in turns until the seconds fall no more (Jiang
et al., EuroSys 2024). A plan has unequal shards of tensors, or unequal samples of
replicas (whole ones), not both: a program that mixes them is judged with equal shares, and the best programs
of shards alone and of samples alone are judged beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from explorer.base.registry import Option
from explorer.planners._pieces.best_first import MOST_STATES, cheapest
from explorer.planners._pieces.folding import folded
from explorer.planners._pieces.layer_meshes import INNER, by_microbatch, layer_mesh, strategy_of_options
from explorer.planners._pieces.unlike_devices import ANY, SAMPLES, SHARDS, SharedModel, best_shares
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategy import Mesh, Stage, Strategy, single

MOST_TURNS = 8
"""Turns of both programs; shares settle after two or three."""


@SEARCHERS.add(
    Searcher(
        name="hap",
        title="A program by A*, unequal shares of unlike devices by a linear program, in turns",
        paper="Jiang et al., HAP: SPMD DNN Training on Heterogeneous GPU Clusters with Automated Program"
        " Synthesis, EuroSys 2024",
        options=(Option(name="states", default=MOST_STATES, minimum=1, help="most states of the A* search"),),
        space=Space(words="dimensions or samples, layer by layer x shares of devices"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def hap(problem: Problem, evaluator: Evaluator, *, states: int) -> Iterator[Candidate | None]:
    """Find programs and shares for each microbatch size, and have the plans judged.

    Raises:
        InputError: there is no cluster, or a program takes more states than asked for.
    """

    def plans(size: int) -> Iterator[tuple[Strategy, str] | None]:
        model = SharedModel.of(problem, layer_mesh(problem, ((INNER, len(problem.order)),), size))
        seen: set[tuple[int, ...]] = set()
        for family in (ANY, SHARDS, SAMPLES):
            yield None
            if not model.offers(family):
                continue
            plan = in_turns(model, family, states=states)
            yield None
            if plan.chosen not in seen:
                seen.add(plan.chosen)
                yield _strategy(problem, model, plan, size), f"{_words(model, plan)}, microbatches of {size}"

    yield from by_microbatch(problem, evaluator, plans)


class Plan(NamedTuple):
    """A program and the shares of devices."""

    seconds: float
    chosen: tuple[int, ...]
    """Option of each layer."""
    shares: tuple[float, ...]
    """Share of one device of each kind."""


def in_turns(model: SharedModel, family: str, *, states: int) -> Plan:
    """Return program and shares, each the best for the other, beginning with equal shares.

    Args:
        model: the layers.
        family: what programs may do: anything, split dimensions alone, or samples alone.
        states: most states of A*.

    Raises:
        InputError: A* needs more states.
    """
    shares = (1.0 / model.devices,) * len(model.counts)
    best: Plan | None = None
    for _ in range(MOST_TURNS):
        whole = folded(model.costs(shares, family))
        chosen = whole.spread(cheapest(whole.costs, most=states).chosen)
        shares = program_shares(model, chosen)
        seconds = model.costs(shares, family).total_s(chosen)
        if best is not None and seconds >= best.seconds * (1 - 1e-9):
            break
        best = Plan(seconds, chosen, shares)
        if len(model.counts) == 1:
            break
    assert best is not None
    return best


def program_shares(model: SharedModel, chosen: Sequence[int]) -> tuple[float, ...]:
    """Return the best shares of a program: what is split, and what is sent between layers."""
    work: Counter[tuple[int, int]] = Counter()
    for own, parted, k in zip(model.compute_s, model.parted, chosen, strict=True):
        if parted[k]:
            work[id(own), k] += 1
    first = {id(own): own for own in model.compute_s}
    loads = [count * first[name][:, k] for (name, k), count in work.items()]
    sent = sum(float(x[chosen[u], chosen[v]]) for (u, v), x in model.mesh.costs.edges.items())
    return best_shares(loads, sent, model.counts)


# ---- plans -----------------------------------------------------------------------------------------


def _mixed(model: SharedModel, plan: Plan) -> bool:
    own = {bool(row[k]) for row, k in zip(model.samples, plan.chosen, strict=True)}
    return len(own) > 1


def _unequal(model: SharedModel, plan: Plan) -> bool:
    return max(plan.shares) > min(plan.shares) * (1 + 1e-6) and not _mixed(model, plan)


def _of_devices(model: SharedModel, plan: Plan) -> tuple[float, ...]:
    """Return the share of every device, in order."""
    lane = model.mesh.table.layers.lane
    by_name = dict(zip(lane.names, plan.shares, strict=True))
    return tuple(by_name[lane.cluster.kind_of(d).name] for d in model.mesh.stage.meshes[0].devices)


def _strategy(problem: Problem, model: SharedModel, plan: Plan, size: int) -> Strategy:
    """Return the plan with its shares, as far as a strategy can say them."""
    even = strategy_of_options(problem, model.mesh, plan.chosen)
    if not _unequal(model, plan):
        return even
    stage, shares = even.job.stages[0], _of_devices(model, plan)
    if model.samples[0][plan.chosen[0]]:
        own = Stage(
            layers=stage.layers, meshes=(Mesh(devices=stage.meshes[0].devices),), microbatch_samples=size,
            shares=shares,
        )  # fmt: skip
        return single(stages=(own,), job=problem.job.name)
    split = next((item.layout for item in stage.shardings if item.layout), ())
    if not split:
        return even
    return even.with_job(even.job.with_stages([replace(stage, layout=split, axis_shares=((INNER, shares),))]))


def _words(model: SharedModel, plan: Plan) -> str:
    if _mixed(model, plan):
        return "samples and shards in equal shares"
    what = "samples" if model.samples[0][plan.chosen[0]] else "shards"
    if not _unequal(model, plan):
        return f"{what} in equal shares"
    least_one = min(plan.shares)
    return f"{what} in shares of " + " : ".join(f"{share / least_one:.3g}" for share in plan.shares)
