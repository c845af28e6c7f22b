"""What holds for every system of the library; a new file is covered without a new test."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from explorer.base.registry import Registry
from explorer.library import SYSTEMS, Outcome, System, reproduce
from explorer.schedules import SCHEDULES
from explorer.search import SEARCHERS
from explorer.simulation.check import check
from explorer.simulation.simulate import simulate
from explorer.updates import UPDATES

SYSTEM = [pytest.param(system, id=system.name) for system in SYSTEMS]


@pytest.mark.parametrize("system", SYSTEM)
def test_names_its_paper_and_what_it_uses(system: System) -> None:
    assert system.title
    assert system.paper.endswith(tuple("0123456789"))
    assert 1980 < system.year <= int(system.paper[-4:])
    assert system.uses.as_dict()
    registries: dict[str, Registry] = {  # type: ignore[type-arg]
        "schedules": SCHEDULES, "searchers": SEARCHERS, "updates": UPDATES,
    }  # fmt: skip
    for kind, names in system.uses.as_dict().items():
        for name in names if kind in registries else ():
            assert registries[kind].get(name).name == name


@pytest.mark.parametrize("system", SYSTEM)
def test_claims_hold_or_say_why_not(system: System) -> None:
    outcomes = tuple(reproduce(system))
    assert outcomes
    assert len({outcome.claim.text for outcome in outcomes}) == len(outcomes)
    for outcome in outcomes:
        assert outcome.holds or outcome.claim.why, f"{outcome.claim.text}: {outcome.ours}"
        # a loose comparison says what it rests on
        assert outcome.claim.within <= 1e-6 or outcome.claim.why
        assert outcome.as_dict()["ours"] == outcome.ours


@pytest.mark.parametrize("system", SYSTEM)
def test_its_example_runs_and_fits(system: System) -> None:
    example = system.function().resolved(title=system.title)
    workload, strategy = example.plan.workload, example.plan.strategy
    assert check(example.graph, example.cluster, workload, strategy) == []
    report = simulate(example.graph, example.cluster, workload, strategy)
    assert report.feasible
    assert not system.uses.schedules or strategy.job.schedule in system.uses.schedules
    assert example.plan.provenance.note == system.title


@pytest.mark.parametrize("kind", ["schedules", "searchers", "updates"])
def test_whatever_names_a_paper_is_used_by_a_system(kind: str) -> None:
    """A schedule, searcher or update rule of a paper comes with the paper's claims."""
    registry: Registry = {"schedules": SCHEDULES, "searchers": SEARCHERS, "updates": UPDATES}[kind]  # type: ignore[type-arg]
    published = {spec.name for spec in registry if spec.paper}
    assert published
    assert published - {name for system in SYSTEMS for name in getattr(system.uses, kind)} == set()


def test_a_claim_that_is_off_does_not_hold() -> None:
    """The comparison can fail: another figure, and one just beyond the tolerance."""
    claim = SYSTEMS.get("gpipe").claims[0]
    assert Outcome(claim=claim, ours=claim.published).holds
    assert not Outcome(claim=claim, ours=claim.published * 1.001).holds
    assert not Outcome(claim=claim, ours=0.0).holds
    assert Outcome(claim=claim, ours=claim.published).verdict == "holds"
    assert Outcome(claim=claim, ours=claim.published * 1.5).verdict == "differs by +50 %"


def test_the_page_of_the_docs_is_what_the_library_says() -> None:
    root = Path(__file__).parents[2]
    made = runpy.run_path(str(root / "scripts" / "library_page.py"))["page"]()
    assert (root / "docs" / "library.md").read_text("utf-8") == made, "run python scripts/library_page.py"
