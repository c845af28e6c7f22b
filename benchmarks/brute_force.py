"""`auto` against brute force on random small problems. `python benchmarks/brute_force.py [--problems N]`

Every problem is searched to the end; then every strategy of the space is simulated, listed by plain loops
that share nothing with the search (`explorer.search.spaces`). None may be better than what the search found,
nor below a bound that it claimed at any time; of a frontier each must be matched by what was kept. In half of
the problems memory is limited to what only some members need. `exhaustive` is held to its own space likewise,
and to its word where it says `optimal`. With `--sample N` only so many of each space are simulated.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from random_problems import random_problem

from explorer.base.errors import ExplorerError
from explorer.search import Problem, Progress, objective_value, search
from explorer.search._scheduling import scheduled
from explorer.search.objectives import frontier_axes
from explorer.search.problem import respecting
from explorer.search.spaces import even_points, uniform_strategies
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Strategy

TOLERANCE = 1e-9
RULES = {
    "limit": "a limit of memory", "pins": "pins", "bans": "bans", "any": "older weights allowed",
    "infer": "no training",
}  # fmt: skip
"""Words for what problems have beside a model and devices."""
FEW, MOST_LISTED = 40, 200_000
"""Members by which a limit of memory is drawn, and members that are listed at most."""


class Member(NamedTuple):
    """One strategy of a space, simulated."""

    label: str
    report: Report


class Confirmed(NamedTuple):
    """What came of one problem."""

    problem: Problem
    members: int
    tried: int
    wrong: tuple[str, ...]


def members_of(problem: Problem, sample: int, luck: random.Random) -> list[Member]:
    """Simulate the members of the space of `auto`."""
    points = list(itertools.islice(even_points(problem), MOST_LISTED))
    if sample and len(points) > sample:
        points = luck.sample(points, sample)
    found = (
        (point.degrees.label + " by speed" * point.by_speed, point.strategy(problem)) for point in points
    )
    return list(_simulated(problem, found))


def uniform_of(problem: Problem, sample: int, luck: random.Random) -> list[Member]:
    """Simulate the members of the space of `exhaustive`, under the schedule that is asked for."""
    strategies = list(itertools.islice(uniform_strategies(problem), MOST_LISTED))
    if sample and len(strategies) > sample:
        strategies = luck.sample(strategies, sample)
    found = []
    for item in strategies:
        with suppress(ExplorerError):  # which may not order it
            found.append(("uniform", respecting(problem, scheduled(problem, item))))
    return list(_simulated(problem, iter(found)))


def _simulated(problem: Problem, found: Iterator[tuple[str, Strategy | None]]) -> Iterator[Member]:
    for label, strategy in found:
        if strategy is None:
            continue
        try:
            yield Member(label, simulate(problem.graph, problem.needed_cluster, problem.workload, strategy))
        except ExplorerError:
            continue  # a schedule that needs another shape


def limited(problem: Problem, luck: random.Random) -> Problem:
    """Limit memory in half of the problems: to what some members need, or no member."""
    if luck.random() < 0.5:
        return problem
    peaks = sorted(max(x.report.peak_memory_bytes) for x in members_of(problem, FEW, luck))
    if not peaks:
        return problem
    limit = luck.choice((*peaks[: len(peaks) // 2 + 1], peaks[0] / 2)) or 1.0
    return replace(problem, memory_limit_bytes=limit)


def ended(problem: Problem, searcher: str) -> tuple[Progress, float]:
    """Search to the end; return the last progress and the greatest bound that was claimed."""
    claimed, last = 0.0, None
    for last in search(problem, searcher):
        claimed = max(claimed, last.lower_bound or 0.0)
    if last is None:
        raise RuntimeError(f"{searcher} said nothing")
    return last, claimed


def faults(problem: Problem, last: Progress, claimed: float, members: list[Member]) -> Iterator[str]:
    """Yield what members of a space say against the result of a search of it."""
    best = last.best.value if last.best is not None else math.inf
    for label, report in members:
        value = objective_value(problem, report)
        if value < best * (1 - TOLERANCE):
            yield f"{label}: {value:.8g} < {best:.8g}" + " optimal" * last.optimal
        if value < claimed * (1 - TOLERANCE):
            yield f"{label}: {value:.8g} below the bound {claimed:.8g}"
        if problem.keeps_frontier and math.isfinite(value) and not _matched(problem, last, report):
            yield f"{label}: {value:.8g} is not dominated by the frontier"


def _matched(problem: Problem, last: Progress, report: Report) -> bool:
    axes = frontier_axes(problem.objective)
    point = [axis.value(problem.needed_cluster, problem.job, report) for axis in axes]
    return any(
        all(a <= b * (1 + TOLERANCE) for a, b in zip(item.outcome.point, point, strict=True))
        for item in last.frontier
    )


def confirm(problem: Problem, sample: int, luck: random.Random) -> Confirmed:
    """Hold `auto` and `exhaustive` to brute force."""
    members = members_of(problem, sample, luck)
    last, claimed = ended(problem, "auto")
    wrong = list(faults(problem, last, claimed, members))
    best = last.best.value if last.best is not None else math.inf
    if last.best is not None:
        again = simulate(problem.graph, problem.needed_cluster, problem.workload, last.best.strategy)
        if objective_value(problem, again) != best or not problem.rules.respected_by(last.best.strategy.job):
            wrong.append("the best is not what it says")
    other, claimed = ended(problem, "exhaustive")
    uniform = uniform_of(problem, sample // 4, luck)
    wrong += [f"exhaustive: {text}" for text in faults(problem, other, claimed, uniform)]
    if other.best is not None and other.best.value < best * (1 - TOLERANCE):
        wrong.append(f"exhaustive found {other.best.value:.8g} < {best:.8g}")
    return Confirmed(problem, len(members) + len(uniform), last.evaluations, tuple(wrong))


def drawn(seed: int) -> tuple[Problem, random.Random]:
    """Draw a problem, with a limit of memory perhaps."""
    luck = random.Random(f"limit {seed}")
    return limited(random_problem(seed), luck), luck


def main() -> int:
    """Print how many problems hold, as Markdown by kind of model, and what was wrong; 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=0, help="members of each space to simulate; 0 for all")
    parser.add_argument("--objective", default="", help="only problems of this one")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no problem after so many")
    options = parser.parse_args()
    began = time.perf_counter()
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    bad = []
    for number in range(options.seed, options.seed + options.problems):
        if time.perf_counter() - began > options.seconds:
            break
        start = time.process_time()
        if options.objective and random_problem(number).objective != options.objective:
            continue
        problem, luck = drawn(number)
        try:
            result = confirm(problem, options.sample, luck)
        except Exception as error:  # noqa: BLE001 - any end of a search but its own is a finding
            result = Confirmed(problem, 0, 0, (f"{type(error).__name__}: {error}",))
        row = (
            f"{number:>5} {problem.graph.name:<13}{problem.needed_cluster.name:<17}"
            f"{len(problem.devices)} devices {problem.objective:<17}{problem.schedule or 'any schedule':<18}"
            f"{_words(problem):<17}{result.members:>6} members{result.tried:>6} tried"
            f"{time.process_time() - start:>7.1f} s  {'; '.join(result.wrong[:3]) or 'confirmed'}"
        )
        print(row, file=sys.stderr, flush=True)
        bad += [row] * bool(result.wrong)
        for group in (_group(problem), *(f"with {RULES[word]}" for word in _words(problem).split())):
            sums[group].update(
                problems=1, members=result.members, tried=result.tried, wrong=int(bool(result.wrong))
            )
    print("| problems | drawn | members simulated | tried by `auto` | wrong |\n|---|---|---|---|---|")
    for group, found in sorted(sums.items(), key=lambda item: (item[0].startswith("with"), item[0])):
        print(f"| {group} | {found['problems']} | {found['members']} | {found['tried']} | {found['wrong']} |")
    print(*bad, sep="\n")
    return 1 if bad else 0


def _group(problem: Problem) -> str:
    """Name the kind of a problem's model and of its devices."""
    mixed = len(problem.needed_cluster.device_kinds) > 1
    return f"{problem.graph.name.capitalize()}, {'mixed' if mixed else 'equal'} devices"


def _words(problem: Problem) -> str:
    """Name the rules of a problem."""
    named = (("limit", problem.memory_limit_bytes), ("pins", problem.pins), ("bans", problem.bans),
             ("any", problem.weights == "any"), ("infer", not problem.job.training))  # fmt: skip
    return " ".join(word for word, there in named if there)


if __name__ == "__main__":
    sys.exit(main())
