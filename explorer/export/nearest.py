"""What a target makes of a plan: exact, approximate at a price, refused; the nearest plan that it runs."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from explorer.base.errors import ExplorerError, InputError
from explorer.export import EXPORTERS, refusals
from explorer.export._repairs import REPAIRS, rebuilt, with_job
from explorer.export.features import uses
from explorer.plan import Resolved
from explorer.simulation.check import check
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees_neighbours import divisible, neighbouring_degrees
from explorer.strategies.degrees_reading import nearest_degrees

EXACT, APPROXIMATE, REFUSED = "exact", "approximate", "refused"
SAME = "-"
"""Name of the repair that changes nothing, as the model of cost sees no difference."""
_ROUNDS = 4
_MOST_TRIED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a target makes of one use of a feature."""

    name: str
    """Name of the feature."""
    feature: str
    """Title of the feature."""
    where: str
    """Where the plan uses it, or which value."""
    answer: str
    """`exact`, `approximate` or `refused`."""
    how: str
    """By what means; if refused: the way out."""
    step_time_s: float | None = None
    """Predicted seconds of a step of what the target runs instead, or (refused) of the plan without the
    feature, where that is another plan that can run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """A plan near to another that a target can run."""

    resolved: Resolved
    """The plan."""
    changes: tuple[str, ...]
    """What was changed, in words."""
    step_time_s: float
    """Predicted seconds of its step."""
    before_s: float
    """Predicted seconds of a step of the plan as it was."""
    feasible: bool
    """Whether it fits the memory of every device."""

    @property
    def words(self) -> str:
        """Say the price: `8.9 s instead of 8.6 s: even`."""
        said = f"{self.step_time_s:.3g} s instead of {self.before_s:.3g} s"
        return f"{said}: {'; '.join(self.changes)}{'' if self.feasible else ' (does not fit)'}"


def answers(resolved: Resolved, name: str, *, priced: bool = True) -> list[Answer]:
    """Return what a target makes of everything that a plan uses, before anything is written.

    Args:
        resolved: the plan with its inputs.
        name: name of the target.
        priced: whether what is approximate or refused is simulated without it.

    Raises:
        InputError: the target is unknown.
    """
    return list(answer_slices(resolved, name, priced=priced))


def answer_slices(resolved: Resolved, name: str, *, priced: bool = True) -> Iterator[Answer]:
    """Yield the rows of `answers`, each as soon as it is simulated."""
    table = EXPORTERS.get(name).capabilities
    for use in uses(resolved):
        support = table[use.name]
        answer = REFUSED if not support.covers(use) else EXACT if support.exact else APPROXIMATE
        # what is approximate names what runs in its place; what is refused has its own way out
        repair = support.instead or (use.name if answer == REFUSED else "")
        yield Answer(
            name=use.name, feature=use.feature, where=use.where, answer=answer, how=support.how,
            step_time_s=_price(resolved, repair) if priced and answer != EXACT else None,
        )  # fmt: skip


def _price(resolved: Resolved, repair: str) -> float | None:
    """Return the seconds of a step of what runs in place of a feature; None if that is not another plan."""
    if repair not in REPAIRS or len(resolved.plan.strategy.jobs) > 1:
        return None
    try:
        made = REPAIRS[repair](resolved)
        return None if made.plan == resolved.plan or _wrong(made) else _seconds(made)[0]
    except ExplorerError:
        return None


def nearest(resolved: Resolved, name: str) -> Nearest | None:
    """Return the nearest plan that a target can run: repaired feature by feature, else by its degrees.

    None where no such plan is found; the plan itself, without changes, where the target can run it.

    Raises:
        InputError: the target is unknown.
    """
    slices = nearest_slices(resolved, name)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            found: Nearest | None = end.value
            return found


def nearest_slices(resolved: Resolved, name: str) -> Generator[None, None, Nearest | None]:
    """Find what `nearest` returns, one simulation a slice, so that gestures may come in between."""
    EXPORTERS.get(name)
    if len(resolved.plan.strategy.jobs) > 1 or not resolved.plan.workload.job.training:
        return None
    made, changes = _repaired(resolved, name)
    if _stands_against(made, name):
        found = yield from _by_degrees(made, name)
        if found is None:
            return None
        made, words = found
        changes = [*changes, words]
    before, (after, feasible) = _seconds(resolved)[0], _seconds(made)
    return Nearest(
        resolved=made, changes=tuple(changes), step_time_s=after, before_s=before, feasible=feasible
    )


def _repaired(resolved: Resolved, name: str) -> tuple[Resolved, list[str]]:
    """Take away the features that a target refuses, one after the other."""
    table, changes, made = EXPORTERS.get(name).capabilities, [], resolved
    for _ in range(_ROUNDS):
        refused = [use for use in uses(made) if not table[use.name].covers(use)]
        before = made
        for use in refused:
            repair = table[use.name].instead or use.name
            try:
                after = REPAIRS.get(repair, rebuilt)(made)
            except ExplorerError:
                continue
            if after.plan != made.plan:
                made = after
                changes.append(f"without {use.feature} ({use.where})")
        if before.plan == made.plan:
            break
    return made, list(dict.fromkeys(changes))


def _by_degrees(resolved: Resolved, name: str) -> Generator[None, None, tuple[Resolved, str] | None]:
    """Return the fastest of the regular plans one or two changes away that a target can run."""
    best: tuple[bool, float, Resolved, str] | None = None
    tried = 0
    for made, words in _regular(resolved):
        if _stands_against(made, name):
            continue
        seconds, fits = _seconds(made)
        tried += 1
        if best is None or (not fits, seconds) < best[:2]:
            best = (not fits, seconds, made, words)
        if tried >= _MOST_TRIED:
            break
        yield
    return (best[2], best[3]) if best else None


def _regular(resolved: Resolved) -> Iterator[tuple[Resolved, str]]:
    """Yield the regular plan nearest to one, then its neighbours, then theirs."""
    job, graph, cluster = resolved.plan.workload.job, resolved.graph, resolved.cluster
    plain = replace(
        nearest_degrees(resolved.plan.strategy.job), schedule="1f1b", options=(), chunks=1, bucket_bytes=0.0
    )
    first = divisible(plain, job)
    seen, layer = {first}, [first]
    for _ in range(3):
        for degrees in layer:
            try:
                made = with_job(resolved, degrees.build(graph, cluster, job).job)
                yield REPAIRS["even"](made), degrees.label
            except InputError:
                continue
        following = [item for one in layer for item in neighbouring_degrees(one, graph, cluster, job)]
        layer = [item for item in dict.fromkeys(following) if item not in seen]
        seen.update(layer)


def _stands_against(resolved: Resolved, name: str) -> bool:
    return bool(_wrong(resolved) or refusals(resolved, name))


def _wrong(resolved: Resolved) -> list[str]:
    plan = resolved.plan
    return list(check(resolved.graph, resolved.cluster, plan.workload, plan.strategy))


def _seconds(resolved: Resolved) -> tuple[float, bool]:
    plan = resolved.plan
    report = simulate(resolved.graph, resolved.cluster, plan.workload, plan.strategy)
    return report.step_time_s, report.feasible
