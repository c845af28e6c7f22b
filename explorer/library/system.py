"""Published systems: their descriptions and claims, and how the claims are reproduced."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from explorer.base.errors import InputError
from explorer.base.registry import Registry, Spec, unregistered
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.plan import Provenance, Reference, Resolved, make_plan
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.workload import Job, default_workload

EXACT = 1e-6
"""Tolerances up to this are for rounding alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """Names of the parts that a system is made of, by registry; `explorer list` shows each of them."""

    schedules: tuple[str, ...] = ()
    """Names in `explorer.schedules`."""
    searchers: tuple[str, ...] = ()
    """Names in `explorer.search`."""
    updates: tuple[str, ...] = ()
    """Names in `explorer.updates`."""
    options: tuple[str, ...] = ()
    """Fields of a strategy in words: "tensor layout", "ZeRO", "stage DAG"."""

    def as_dict(self) -> dict[str, list[str]]:
        """Return the names by registry, without empty ones."""
        found = {item.name: list(getattr(self, item.name)) for item in fields(self)}
        return {kind: names for kind, names in found.items() if names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement of a paper, with its figure and the way to compute it here.

    Raises:
        InputError: a published figure or tolerance is not a finite number.
    """

    text: str
    """Statement of the paper, with the case that the figure is for."""
    published: float
    """The figure of the paper (or of its formula at the stated case)."""
    unit: str
    """Unit of the figure; "" for counts and ratios."""
    measure: Callable[[], float]
    """Computes our figure."""
    within: float = 1e-9
    """Largest relative difference that counts as the same; exact statements keep the default."""
    why: str = ""
    """Reason for a difference, or what the figure rests on; required if the claim does not hold."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.published) and 0 <= self.within < 1):
            raise InputError(
                f"claim {self.text!r} of {self.published} within {self.within}",
                key="published",
                found=self.published,
                allowed="a finite figure, and a tolerance from 0 to below 1",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A claim with our figure."""

    claim: Claim
    """The claim."""
    ours: float
    """Our figure, in the claim's unit."""

    @property
    def difference(self) -> float:
        """Relative difference: ours over published less 1 (the plain difference if 0 was published)."""
        published = self.claim.published
        return self.ours / published - 1 if published else self.ours

    @property
    def holds(self) -> bool:
        """Whether the two agree within the claim's tolerance."""
        return abs(self.difference) <= self.claim.within

    @property
    def verdict(self) -> str:
        """Whether it holds, in words, with the tolerance or the difference."""
        if not self.holds:
            size = f"{100 * self.difference:+.3g} %" if self.claim.published else figure(self.difference)
            return f"differs by {size}"
        within = self.claim.within
        return f"holds within {100 * within:g} %" if within > EXACT else "holds"

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `explorer reproduce --json` prints for a claim."""
        claim = self.claim
        return {
            "text": claim.text, "published": claim.published, "ours": self.ours, "unit": claim.unit,
            "within": claim.within, "holds": self.holds, "why": claim.why,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A problem for the board that shows a system at work."""

    model: str
    """Name of a model in the zoo."""
    cluster: str
    """Name of a bundled cluster profile."""
    global_batch: int
    """Samples of one step."""
    shape: Mapping[str, Any] = field(default_factory=dict)
    """Division of the model: keywords of `explorer.uniform`."""
    divide: Callable[[LayerGraph, Cluster, Job], Strategy] | None = None
    """Makes the strategy if it is not uniform; None for `shape`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the model."""

    def resolved(self, *, title: str = "") -> Resolved:
        """Return the plan of the example, ready for `simulate`, the board or a file."""
        graph = load_model(self.model, settings=self.settings)
        cluster = load_cluster(self.cluster)
        workload = default_workload(graph).with_job(global_batch=self.global_batch)
        if self.divide is not None:
            strategy = self.divide(graph, cluster, workload.job)
        else:
            strategy = uniform(graph, cluster, workload.job, **self.shape)
        model = Reference(reference=self.model, settings=tuple(self.settings.items()))
        made = Provenance(searcher="library", note=title)
        plan = make_plan(model, graph, self.cluster, cluster, workload, strategy, made)
        return Resolved(plan=plan, graphs={"model": graph}, cluster=cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Figures of ours beside a system's claims, for its page."""

    title: str
    """What the rows are, in words."""
    head: tuple[str, ...]
    """Names of the columns, with units."""
    rows: tuple[tuple[str, ...], ...]
    """Cells as they are printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System(Spec):
    """A published system: its paper, what it is in our terms, and its claims."""

    uses: Uses
    """Names of the parts it is made of here."""
    claims: tuple[Claim, ...]
    """Claims of its paper, at least one."""
    year: int
    """Year of the first publication."""
    missing: str = ""
    """Parts of the system that are missing here, in words; empty if none are."""
    table: Callable[[], Table] | None = None
    """Computes further figures for its page; None for none."""
    function: Callable[[], Example] = unregistered
    """Makes the example problem; its docstring says in words what problem that is, for people to read."""

    def as_dict(self, outcomes: tuple[Outcome, ...]) -> dict[str, Any]:
        """Return the object that `explorer reproduce --json` prints for a system."""
        return {
            "name": self.name, "title": self.title, "paper": self.paper, "year": self.year,
            "uses": self.uses.as_dict(), "missing": self.missing,
            "claims": [outcome.as_dict() for outcome in outcomes],
        }  # fmt: skip


def figure(value: float) -> str:
    """Return a figure for people: four significant digits, or all digits before the point.

    >>> figure(1 / 3), figure(11.6), figure(50331648.0), figure(174603800576.2)
    ('0.3333', '11.6', '50,331,648', '174,603,800,576')
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


SYSTEMS: Registry[System] = Registry("system", "explorer.library")


def reproduce(system: System) -> Iterator[Outcome]:
    """Yield every claim of a system with our figure, computed when it is asked for."""
    for claim in system.claims:
        yield Outcome(claim=claim, ours=float(claim.measure()))
