"""Real ranks compute what one process computes: every schedule, split and round-robin replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from explorer.run.cases.build import Prepared
from explorer.run.cases.weight_reads import find_reads
from explorer.run.judging.compare import GRADIENT_TOLERANCE
from explorer.run.launching.launch import RunResult, run
from explorer.run.model import transformer
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.modules import initial_weights, run_units, sample_tokens
from explorer.run.spec import RunSpec
from explorer.strategy import Mesh, Stage, UpdateChoice
from explorer.updates import WEIGHTS, rule_of
from tests.run.programs import EVERY, IN_HALVES, MODEL, SCHEDULES, moved_away, placed, real

FLUSHED = ("gpipe", "1f1b", "interleaved_1f1b")
NAMES = ("embed", *(f"layers.{i}" for i in range(6)), "head")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Cases that ran together."""

    cases: dict[str, Prepared]
    result: RunResult

    def records(self, name: str) -> list[dict[str, Any]]:
        found = [rank["cases"][name][0] for rank in self.result.ranks]
        return [record for record in found if record["stamps"]]


def launched(cases: list[Prepared], ranks: int) -> Launch:
    result = run(RunSpec(ranks=ranks, cases=tuple(item.case for item in cases)))
    return Launch(cases={item.case.name: item for item in cases}, result=result)


def two_ranks() -> list[Prepared]:
    cases = [real(name, 2, 1) for name in SCHEDULES]
    cases += [placed(name, 2, optimizer="momentum") for name in EVERY if name not in SCHEDULES]
    cases.append(placed("chimera", 2, options=DOUBLED, label="doubled"))
    cases += variants(2)
    cases += in_fp32(2)
    cases += [real(name, 1, 2) for name in ("gpipe", "pipedream")]
    cases += [real(name, 1, 2, updates=(rule,), steps=5, name=named(rule, name)) for name, rule in RULES]
    cases += [real("spectrain", 2, 1, optimizer=name) for name in ("momentum", "adam")]
    cases += [real("pipedream_2bw", 1, 2)]
    cases += [real(name, 1, 2, turns=True) for name in ("1f1b", "pipedream", "pipedream_2bw")]
    cases += [real("1f1b", 2, 1, optimizer="adamw"), real("pipedream", 2, 1, optimizer="momentum")]
    tied = replace(MODEL, units=transformer(6, d_model=8, heads=2, ffn=16, seq=4, tied=True).units)
    cases += [
        real("1f1b", 2, 1, model=tied, name="tied"),
        real("interleaved_1f1b", 2, 1, model=tied, name="tied-chunks"),
    ]
    again = tuple(replace(stage, recompute="full") for stage in real("gpipe", 2, 1).strategy.stages)
    cases += [real("gpipe", 0, 0, stages=again, name="recompute")]
    cases += [real("1f1b", 1, 2, shares=(3.0, 1.0), microbatches=2, name="shares")]
    split = real("custom", 2, 1, name="split-backward", microbatches=2, options=SPLIT_BACKWARD)
    again = tuple(replace(stage, recompute="full") for stage in split.strategy.stages)
    for name, more in (("tied", {"model": tied}), ("recompute", {"stages": again})):
        where = (0, 0) if "stages" in more else (2, 1)
        cases.append(
            real("custom", *where, name=f"split-{name}", microbatches=2, options=SPLIT_BACKWARD, **more)
        )
    cases += [placed(name, 2, "tied", model=tied) for name in ("zb_v", "hanayo")]
    cases.append(real("custom", 2, 1, name="recomputed-apart", microbatches=2, options=REMADE))
    cases += [moved_away(2), real("custom", 2, 1, name="moved-halves", options=(("lanes", IN_HALVES),))]
    return [*cases, split]


def variants(ranks: int) -> list[Prepared]:
    """Schedules under options that change what their default does."""
    options = (
        ("cyclic", "rule", "v2"), ("graphpipe", "k", "2"), ("bapipe", "variant", "1F1B-SNO"),
        ("bapipe", "variant", "FBP-AS"), ("optpipe", "limit", 1), ("interleaved_1f1b", "blocking", True),
    )  # fmt: skip
    return [
        placed(name, ranks, f"{key} {value}", options=((key, value),), steps=4)
        for name, key, value in options
    ]


SINGLE = replace(MODEL, dtype="fp32")


def in_fp32(ranks: int) -> list[Prepared]:
    """Every schedule in the precision that people run."""
    return [placed(name, ranks, "fp32", model=SINGLE, steps=2, optimizer="momentum") for name in EVERY]


def tolerance(prepared: Prepared) -> float:
    model = prepared.case.model
    return 1e-10 if model is not None and model.dtype == "fp64" else GRADIENT_TOLERANCE


def named(choice: UpdateChoice, schedule: str) -> str:
    return "-".join([schedule, choice.rule, *(f"{key}{value}" for key, value in choice.options)])


RULES = tuple(
    (schedule, UpdateChoice(rule=rule, options=options))
    for schedule, rule, options in (
        ("gpipe", "local_sgd", (("period", 1),)),
        ("gpipe", "local_sgd", (("period", 2),)),
        ("pipedream", "local_sgd", (("period", 2),)),
        ("gpipe", "periodic", (("period", 2),)),
        ("gpipe", "gossip", ()),
        ("gpipe", "stale", ()),
        ("gpipe", "stale", (("delay", 2),)),
        ("gpipe", "stale", (("compensation", 0.5),)),
        ("pipedream_2bw", "stale", ()),
    )
)
DOUBLED = (("concatenate", True), ("double", True))
REMADE = (("lanes", "0F0 0RECOMPUTE0 0B0 0F1 0RECOMPUTE1 0B1; 1F0 1RECOMPUTE0 1B0 1F1 1B1"),)
SPLIT_BACKWARD = (("lanes", "0F0 0F1 0I0 0W0 0I1 0W1; 1F0 1I0 1F1 1I1 1W0 1W1"),)


def four_ranks() -> list[Prepared]:
    cases = [real(name, 4, 1) for name in ("pipedream", "pipedream_2bw", "interleaved_1f1b")]
    cases += [placed(name, 4, optimizer="momentum") for name in EVERY]
    cases += variants(4)
    cases += in_fp32(4)
    cases += [placed("chimera", 4, options=DOUBLED, label="doubled"), placed("chimera_4", 4), moved_away(4)]
    cases += [real(name, 2, 2) for name in SCHEDULES]
    cases += [real(name, 2, 2, turns=True) for name in ("gpipe", "pipedream")]
    gossip = [UpdateChoice(rule="gossip", options=(("topology", name),)) for name in ("ring", "hypercube")]
    cases += [real("gpipe", 1, 4, microbatches=2, updates=(rule,), name=named(rule, "")) for rule in gossip]
    uneven = (
        Stage(layers=NAMES[:4], meshes=(Mesh(devices=(0, 1, 2)),), microbatch_samples=4),
        Stage(layers=NAMES[4:], meshes=(Mesh(devices=(3,)),), microbatch_samples=2),
    )
    return [*cases, real("1f1b", 0, 0, stages=uneven, name="uneven")]


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def launch(request: pytest.FixtureRequest) -> Iterator[Launch]:
    ranks = int(request.param)
    return launched(two_ranks() if ranks == 2 else four_ranks(), ranks)


def test_gradients_and_weights_are_those_of_one_process(launch: Launch) -> None:
    wrong = {}
    for name in launch.cases:
        for record in launch.records(name):
            numerics = record["numerics"]
            assert numerics["compared"] > 0
            assert numerics["largest_gradient"] > 1e-3
            if max(numerics["gradient"], numerics["weight"]) > tolerance(launch.cases[name]):
                wrong[name] = numerics
            assert record["left"] == 0, f"{name} leaves messages unread"
    assert not wrong


def test_synchronous_gradients_are_those_of_the_full_batch(launch: Launch) -> None:
    """Against plain autograd on the whole batch in this process, nothing of the run's own code around it."""
    cpu, model = torch.device("cpu"), MODEL
    weights = initial_weights(model, range(len(model.units)), cpu)
    loss = run_units(model, range(len(model.units)), weights, {}, sample_tokens(model, 0, 8, cpu))[7] / 8
    expected = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
    checked = 0
    for name, prepared in launch.cases.items():
        rules = {rule_of(group.update) for group in prepared.program.skeleton.holders}
        own = any(rule.exchanges == WEIGHTS or rule.period > 1 for rule in rules)
        if not prepared.program.order.flush or prepared.program.order.lag or "tied" in name or own:
            continue
        near = {"rel": 1e-10} if tolerance(prepared) < 1e-9 else {"rel": 1e-4, "abs": 1e-9}
        for record in launch.records(name):
            for parameter, squares in record["squares"].items():
                assert squares == pytest.approx(float((expected[parameter] ** 2).sum()), **near)
                checked += 1
    assert checked > 100


def test_as_many_versions_as_predicted(launch: Launch) -> None:
    for name, prepared in launch.cases.items():
        assert max(r["versions"] for r in launch.records(name)) == max(prepared.program.versions), name


def test_stamps_cover_every_task_in_order(launch: Launch) -> None:
    for name, prepared in launch.cases.items():
        for lane, record in zip(prepared.program.programs, launch.records(name), strict=True):
            stamps = record["stamps"]
            assert [int(stamp[0]) for stamp in stamps] == lane.tolist()
            times = [t for stamp in stamps for t in stamp[1:4]]
            assert times == sorted(times)


@pytest.mark.parametrize("p", [2, 4])
def test_pipedream_reads_the_version_of_its_place(p: int) -> None:
    """Stage s runs microbatch n on the weights of n - (p - s - 1) updates."""
    lanes = RankLanes(real("pipedream", p, 1).program)
    reads = find_reads(lanes, [lanes.plan(i) for i in range(p)])
    for piece, found in reads.version.items():
        stage = lanes.sections[piece.section].stage
        assert found == {n: max(0, n - (p - stage - 1)) for n in range(12)}


def test_2bw_reads_the_version_before_the_last() -> None:
    lanes = RankLanes(real("pipedream_2bw", 2, 1).program)
    reads = find_reads(lanes, [lanes.plan(i) for i in range(2)])
    assert all(found[n] == max(0, n // 4 - 1) for found in reads.version.values() for n in range(12))
