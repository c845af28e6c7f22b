"""`validate` from a plan to a comparison, with the keys that others rely on."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.cli.running import comparison_text
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.plan import Resolved, load_plan, make_plan, resolve
from explorer.run import make_experiment, validate
from explorer.run.cases.likeness import SMALL
from explorer.run.dry_run import DRY_ACTION_S
from explorer.run.judging.calibrate import uncalibrated
from explorer.run.judging.compare import CONFIRMED, GRADIENT_TOLERANCE, OFF, TOO_NOISY
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

PLANS = Path(__file__).parents[1] / "plans"
KEYS = {
    "predicted", "measured", "error_pct", "speedup_error_pct", "parts", "numerics_ok", "contention",
    "validated", "verdict",
}  # fmt: skip


def plan(**shape: object) -> Resolved:
    graph, cluster = load_model("gpt2-small"), load_cluster("dgx-a100-4")
    workload = default_workload(graph).with_job(global_batch=64)
    strategy = uniform(graph, cluster, workload.job, **shape)  # type: ignore[arg-type]
    return resolve(make_plan("gpt2-small", graph, "dgx-a100-4", cluster, workload, strategy))


def test_the_short_run_of_a_plan_for_32_devices() -> None:
    seen = []
    found = validate(
        plan(stages=4, replicas=2, tensor=4, microbatches=16),
        steps=2, on_event=seen.append, ranks=2, size=SMALL,
    )  # fmt: skip
    data = asdict(found)
    assert set(data) >= KEYS
    assert set(data["predicted"]) == {"step_time_s", "speedup"}
    assert set(data["measured"]) == {"step_time_s", "speedup", "iqr_s"}
    assert data["numerics_ok"] is True
    assert found.verdict in (CONFIRMED, OFF, TOO_NOISY)
    assert found.baseline == "data_parallel"
    assert 0 < found.contention <= 1.05
    for side in ("predicted", "measured"):
        assert set(found.parts[side]) == {"compute", "communication", "bubble", "overhead"}
        assert min(found.parts[side].values()) >= 0
    assert any("tensor parallelism: 4" in text for text in found.not_validated)
    assert found.costs is None
    assert "explorer profile" in found.costs_missing
    assert [item.rank for item in found.memory] == [0, 1]
    assert all(abs(item.predicted_bytes / item.measured_bytes - 1) < 0.3 for item in found.memory)
    assert found.plan_speedup is not None
    assert found.plan_speedup > 0
    assert {"start", "ready", "round", "case", "step", "done"} <= {event["event"] for event in seen}


def test_a_profile_of_this_machine_answers_whether_its_costs_are_true() -> None:
    """Both errors stand side by side; a device a thousand times as fast is found out."""
    kind = replace(uncalibrated(2).device_kinds[0], name="cpu", peak_flops_per_s=(("fp32", 1e15),))
    rough = uncalibrated(2)
    nodes = tuple(replace(group, device_kind="cpu") for group in rough.nodes)
    profile = Cluster(name="mine", title="fast", device_kinds=(kind,), nodes=nodes, levels=rough.levels)
    found = validate(plan(stages=2, microbatches=8), steps=1, ranks=2, size=SMALL, profile=profile)
    assert found.costs is not None
    assert found.costs_missing == ""
    assert (found.costs.profile, found.costs.clock) == ("mine: fast", "processor")
    assert found.costs.verdict == OFF
    assert found.costs.error_pct < -50
    assert {item.layer for item in found.costs.layers} >= {"embed", "stage0.0", "head"}
    said = comparison_text(found)
    assert "cost model     off" in said
    assert "the plan's own" in said
    assert said.count("\nmemory ") == 2


@pytest.mark.slow
def test_torchs_engine_beside_ours_in_one_launch() -> None:
    found = validate(plan(stages=2, microbatches=8), steps=1, engine="torch", ranks=2, size=SMALL)
    assert [run.engine for run in found.engines] == ["interpreter", "torch"]
    assert all(run.step_time_s > 0 and run.gradient <= GRADIENT_TOLERANCE for run in found.engines)
    own, other = found.engines
    difference = 100 * (other.step_time_s / own.step_time_s - 1)
    assert (
        f"the same order on torch's own runtime: equal gradients, {difference:+.1f} % time" in found.validated
    )
    assert found.numerics_ok is True
    for row in asdict(found)["engines"]:
        assert set(row) == {"engine", "step_time_s", "gradient"}
    lines = [line for line in comparison_text(found).splitlines() if line.startswith("engine ")]
    assert [line.split()[1] for line in lines] == ["interpreter:", "torch:"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "magic"}, "unknown engine"),
        ({"rounds": 0}, "0 rounds"),
        ({"baseline": "no-such-file.yaml", "ranks": 2}, "no-such-file"),
        ({"engine": "dry", "profile": uncalibrated(2)}, "a dry run computes nothing"),
    ],
)
def test_wrong_options(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_experiment(plan(stages=2, microbatches=8), **options)  # type: ignore[arg-type]


def test_a_plan_too_large_for_a_dry_run_says_so() -> None:
    with pytest.raises(InputError, match="too large for a dry run"):
        make_experiment(plan(stages=4, microbatches=8), engine="dry", ranks=2)


def test_a_long_dry_run_has_fewer_microbatches_and_not_shorter_actions() -> None:
    """What a rank adds to an action is small only against a long one."""
    whole = plan(stages=4, microbatches=64)
    (case,) = make_experiment(whole, engine="dry", rounds=1).spec.cases
    lanes = [task for lane in case.order.lanes for task in lane]
    count = case.shape.microbatches[0]
    assert 64 % count == 0
    assert 8 <= count < 64
    assert len(lanes) == 4 * 2 * (2 * count + 1)
    assert max(case.seconds) >= DRY_ACTION_S
    short = make_experiment(plan(stages=4, microbatches=8), engine="dry", rounds=1).spec.cases[0]
    assert short.shape.microbatches[0] == 8


def test_a_dry_run_of_fewer_replicas_shards_over_those() -> None:
    """Four replicas share their states in one group; the two that are left are one as well."""
    whole = plan(replicas=4, microbatches=8, zero=1)
    job = whole.plan.strategy.job
    stages = [replace(stage, zero_replicas=4) for stage in job.stages]
    grouped = replace(
        whole, plan=replace(whole.plan, strategy=whole.plan.strategy.with_job(job.with_stages(stages)))
    )
    assert make_experiment(grouped, engine="dry", ranks=2, rounds=1).spec.ranks == 2


def test_what_no_rank_can_compute_is_refused_before_launch() -> None:
    """Two later sweeps read what the first one made."""
    plain = load_plan(PLANS / "07-layer-parallel.yaml")
    sweeps = ("", "^1", "^2")
    lanes = "; ".join(" ".join(f"{s}{op}0{k}" for k in sweeps for op in "FBU") for s in range(4))
    job = replace(plain.plan.strategy.job, schedule="custom", options=(("lanes", lanes), ("lag", "0, 1, 2")))
    resolved = replace(plain, plan=replace(plain.plan, strategy=plain.plan.strategy.with_job(job)))
    with pytest.raises(InputError, match="one sweep that several later ones read") as caught:
        make_experiment(resolved, ranks=4)
    assert "engine dry" in str(caught.value)
    assert make_experiment(resolved, engine="dry").spec.cases


@pytest.mark.parametrize("level", [1, 3])
def test_zero_runs_as_the_plan_says(level: int) -> None:
    """Flat weights, scattered gradients and gathered parts give the weights of one process."""
    found = validate(plan(replicas=2, microbatches=4, zero=level), steps=1, ranks=2, size=SMALL)
    assert found.numerics_ok
    assert found.numerics["weight"] < 1e-5
    assert f"ZeRO level {level}" in found.validated
    assert not any("ZeRO" in text for text in found.not_validated)


def test_tensor_parallelism_runs_on_as_many_ranks() -> None:
    """One lane of two ranks: gradients of one process, and the predicted bytes."""
    found = validate(plan(tensor=2, microbatches=4), steps=1, ranks=2, size=SMALL, warmup_rounds=0)
    assert found.numerics_ok
    assert found.numerics["gradient"] < GRADIENT_TOLERANCE
    assert "tensor parallelism: 2" in found.validated
    assert not any("tensor parallelism" in text for text in found.not_validated)
    assert [item.where for item in found.sent] == ["inside lanes"]
    assert found.sent[0].equal
    assert found.sent[0].sent_bytes > 0
    assert "bytes          inside lanes" in comparison_text(found)


@pytest.mark.slow
def test_a_pipeline_of_tensor_parallel_lanes_runs_on_four_ranks() -> None:
    found = validate(plan(stages=4, tensor=4, microbatches=8), steps=1, ranks=4, size=SMALL, warmup_rounds=0)
    assert found.numerics_ok
    assert all(item.equal for item in found.sent)
    places = {"inside lanes", "between stages", "between replicas"}  # the embedding is tied
    assert {item.where for item in found.sent} == places
    assert any(
        "tensor parallelism: 4 devices of a lane in the plan, 2 here" in s for s in found.not_validated
    )


def test_what_cannot_be_laid_out_is_said_and_runs_on_lanes_of_one_rank() -> None:
    graph = load_model("bert-large")
    cluster = load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=8)
    strategy = uniform(graph, cluster, workload.job, tensor=2, microbatches=2)
    resolved = resolve(make_plan("bert-large", graph, "dgx-a100", cluster, workload, strategy))
    spec = make_experiment(resolved, ranks=2, size=SMALL).spec
    assert {case.lane_ranks for case in spec.cases} == {1}
