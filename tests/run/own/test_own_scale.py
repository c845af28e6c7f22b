"""Own scale: what of a plan runs here with its model's own layers, and what is refused."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.cli.running import comparison_text
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.plan import Reference, Resolved, make_plan, resolve
from explorer.run import make_experiment, validate
from explorer.run.cases.likeness import SMALL
from explorer.run.judging.calibrate import uncalibrated
from explorer.run.own import own_scale
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_scale import FEWEST_TOKENS, own_scaled
from explorer.run.spec import from_data, read_spec, to_data, write_spec
from explorer.simulation.check import check_job
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload
from tests.run.own.own_cases import FACTORIES, GPT

STACK = f"{FACTORIES}:stack"
IMPOSSIBLE_S = 1e-12
"""Seconds of a step that nothing meets, so that all goes that may."""


def plan(
    reference: str, settings: dict[str, str] | None = None, tokens: int = 0, **shape: object
) -> Resolved:
    graph = load_model(reference, settings=settings or {}, sequence_length=tokens or None)
    cluster = load_cluster("dgx-a100-4")
    workload = default_workload(graph).with_job(global_batch=16)
    strategy = uniform(graph, cluster, workload.job, **shape)  # type: ignore[arg-type]
    named = Reference(reference=reference, settings=tuple((settings or {}).items()), sequence_length=tokens)
    return resolve(make_plan(named, graph, "dgx-a100-4", cluster, workload, strategy), trust=True)


@pytest.fixture(scope="module")
def stack() -> Resolved:
    return plan(STACK, stages=4, microbatches=4)


def test_a_small_model_runs_whole(stack: Resolved) -> None:
    scaled, rows = own_scaled(stack, ranks=2)
    assert isinstance(scaled.model, OwnModel)
    assert [layer.name for layer in scaled.graph.layers] == [layer.name for layer in stack.graph.layers]
    before = stack.plan.strategy.job.stages
    after = scaled.strategy.stages
    assert scaled.groups == ((0, 1), (2, 3))
    for stage, group in zip(after, scaled.groups, strict=True):
        assert set(stage.layers) == {name for s in group for name in before[s].layers}
    assert not check_job(scaled.graph, uncalibrated(scaled.ranks), scaled.job, scaled.strategy)
    assert {row.what for row in rows} == {"samples of a microbatch", "samples of a batch", "ranks"}
    count = len(stack.graph.layers)
    assert f"the model's own layers: {count} of {count}" in scaled.validated


def test_blocks_go_in_equal_shares_and_stand_in_the_table(stack: Resolved) -> None:
    scaled, rows = own_scaled(stack, ranks=4, step_s=IMPOSSIBLE_S)
    assert not check_job(scaled.graph, uncalibrated(scaled.ranks), scaled.job, scaled.strategy)
    for stage in scaled.strategy.stages:
        blocks = {scaled.graph.layer[name].block for name in stage.layers} - {"", "first", "head"}
        assert len([b for b in blocks if b.startswith("blocks.")]) == 1
    table = {row.what: (row.plan, row.here) for row in rows}
    assert table["blocks of blocks"] == ("12", "4")
    left = Counter(layer.block.startswith("blocks.") for layer in scaled.graph.layers)
    whole = Counter(layer.block.startswith("blocks.") for layer in stack.graph.layers)
    assert 3 * left[True] == whole[True]
    assert left[False] == whole[False], "what is outside the blocks stays"


def test_blocks_go_where_memory_is_short(stack: Resolved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_scale, "_free_bytes", lambda: 2.5e5)
    scaled, _ = own_scaled(stack, ranks=2)
    assert isinstance(scaled.model, OwnModel)
    assert scaled.model.keep == (("blocks", 12, (0, 3, 6, 9)),)
    monkeypatch.setattr(own_scale, "_free_bytes", lambda: 1e5)
    with pytest.raises(InputError, match="GiB on 2 ranks, however few blocks run"):
        own_scaled(stack, ranks=2)


def test_a_step_that_stays_too_long_is_refused_unless_asked_for(stack: Resolved) -> None:
    with pytest.raises(InputError, match="takes some 0 s, however few blocks run"):
        own_scaled(stack, ranks=2, step_s=IMPOSSIBLE_S, most_s=IMPOSSIBLE_S)


def test_own_layers_run_where_there_is_code_and_stand_ins_say_why_elsewhere(
    stack: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_experiment(stack, ranks=2, rounds=1)
    assert (own.engine, own.stand_ins) == ("layers", "")
    assert all(isinstance(case.model, OwnModel) for case in own.spec.cases)
    for resolved, options, why in (
        (plan("alexnet", stages=2, microbatches=4), {}, "a graph without code"),
        (renamed(stack), {}, "is a layer of the module only"),
        (stack, {"size": SMALL}, "they were asked for"),
        (stack, {"engine": "likeness"}, "they were asked for"),
        (stack, {"engine": "interpreter"}, "they were asked for"),
    ):
        made = make_experiment(resolved, ranks=2, rounds=1, **options)  # type: ignore[arg-type]
        assert made.engine == "likeness"
        assert why in made.stand_ins
        assert not any(isinstance(case.model, OwnModel) for case in made.spec.cases)
    monkeypatch.setattr(own_scale, "ELEMENT_S", 1.0)
    assert "takes some" in make_experiment(stack, ranks=2, rounds=1).stand_ins
    assert make_experiment(stack, engine="layers", ranks=2, rounds=1).engine == "layers"


def test_tokens_go_before_blocks() -> None:
    reference, settings, _ = GPT
    long = plan(reference, settings, 64, stages=2, microbatches=4)
    scaled, rows = own_scaled(long, ranks=2, step_s=IMPOSSIBLE_S)
    table = {row.what: (row.plan, row.here) for row in rows}
    assert table["tokens of a sample"] == ("64", str(FEWEST_TOKENS))
    assert isinstance(scaled.model, OwnModel)
    assert scaled.model.sequence_length == FEWEST_TOKENS
    assert not any(text.startswith("tokens of a sample") for text in scaled.not_validated)
    whole, rows = own_scaled(long, ranks=2)
    assert "tokens of a sample" not in {row.what for row in rows}
    assert len(whole.graph.layers) == len(long.graph.layers)


def renamed(resolved: Resolved) -> Resolved:
    """A plan whose graph has a layer that its code has not."""
    last = resolved.graph.layers[-1]
    graph = replace(resolved.graph, layers=(*resolved.graph.layers[:-1], replace(last, name="tail")))
    job = resolved.plan.strategy.job
    stages = [
        replace(stage, layers=tuple("tail" if name == last.name else name for name in stage.layers))
        for stage in job.stages
    ]
    made = replace(resolved.plan, strategy=replace(resolved.plan.strategy, jobs=(job.with_stages(stages),)))
    (name,) = resolved.graphs
    return replace(resolved, plan=made, graphs={name: graph})


def test_refusals_are_one_line_with_the_way_out(stack: Resolved) -> None:
    for refused, said in (
        (plan("alexnet", stages=2, microbatches=4), "'alexnet' is a graph without code"),
        (renamed(stack), "is a layer of the module only"),
    ):
        with pytest.raises(InputError, match=re.escape(said)) as caught:
            own_scaled(refused, ranks=2)
        assert "--engine likeness" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_the_engine_is_refused_before_anything_starts(stack: Resolved) -> None:
    with pytest.raises(InputError, match="--engine likeness"):
        make_experiment(plan("alexnet", stages=2, microbatches=4), engine="layers", ranks=2)
    with pytest.raises(InputError, match="the sizes of their model"):
        make_experiment(stack, engine="layers", ranks=2, size=SMALL)


@pytest.mark.parametrize(("name", "said"), [("noisy", "draws random numbers"), ("rows", "for two")])
def test_a_model_that_cannot_be_cut_is_refused_before_anything_starts(name: str, said: str) -> None:
    resolved = plan(f"{FACTORIES}:{name}", stages=2, microbatches=4)
    with pytest.raises(InputError, match=said) as caught:
        make_experiment(resolved, engine="layers", ranks=2)
    assert "\n" not in str(caught.value)
    fallen = make_experiment(resolved, ranks=2)
    assert fallen.engine == "likeness"
    assert said in fallen.stand_ins


def test_a_launch_of_own_layers_is_plain_data(stack: Resolved) -> None:
    own = make_experiment(stack, engine="layers", ranks=2, rounds=1).spec
    assert own.calibration is not None
    assert isinstance(own.calibration.model, OwnModel)
    assert from_data(to_data(own)) == own


def test_sections_of_the_plan_and_of_its_baseline_are_timed(stack: Resolved) -> None:
    own = make_experiment(stack, engine="layers", ranks=2, rounds=1).spec
    assert own.calibration is not None
    timed = {case.sections for case in own.cases if not case.once}
    assert {item.sections for item in own.calibration.cuts} == timed
    assert len({len(sections) for sections in timed}) == 2
    stand_ins = make_experiment(stack, engine="likeness", ranks=2, rounds=1).spec
    assert stand_ins.calibration is not None
    assert stand_ins.calibration.cuts == ()


@pytest.mark.parametrize("engine", ["layers", "likeness"])
def test_orders_made_from_times_can_be_written(engine: str, tmp_path: Path) -> None:
    """Nothing moves to the host here, which takes infinitely long in the shape that they are made from."""
    timed = plan(STACK, stages=2, microbatches=4, schedule="zb_h1")
    spec = make_experiment(timed, engine=engine, ranks=2, rounds=1).spec
    write_spec(spec, tmp_path / "spec.json")
    assert read_spec(tmp_path / "spec.json") == spec


@pytest.mark.slow
def test_own_layers_on_two_ranks(stack: Resolved) -> None:
    found = validate(stack, steps=1, engine="layers", ranks=2)
    assert found.engine == "layers"
    assert found.numerics_ok is True
    assert found.numerics["gradient"] <= 1e-4
    assert any(text.startswith("the model's own layers") for text in found.validated)
    assert min(found.parts["predicted"].values()) >= 0
    assert [item.rank for item in found.memory] == [0, 1]
    assert all(abs(item.predicted_bytes / item.measured_bytes - 1) < 0.3 for item in found.memory)
    rows = asdict(found)["shortened"]
    assert {"what": "samples of a microbatch", "plan": "4", "here": "1"} in rows
    assert "shortened      samples of a microbatch: 4 in the plan, 1 here" in comparison_text(found)
