"""Actions that an order may name: gathers, releases, reductions and recomputation."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.actions import NAMED, OPS, WHOLE_STAGE, Action, parse_action
from explorer.base.errors import InputError, PlanError
from explorer.cluster_profiles import load_cluster
from explorer.models.synthetic import chain
from explorer.run.cases.build import prepare
from explorer.run.launching.launch import run as launch
from explorer.run.spec import RunSpec
from explorer.schedules import make_order
from explorer.schedules._torch_notation import to_torch_csv
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.tasks.program import CLOSING, GATHER, REDUCE
from explorer.workload import Job, Workload
from tests.schedules.shapes import line

BUFFERS, ACTIVATIONS = MEMORY_PARTS.index("buffers"), MEMORY_PARTS.index("activations")
_DGX = load_cluster("dgx-a100")
CLUSTER = replace(_DGX, device_kinds=tuple(replace(kind, device_spread=0.0) for kind in _DGX.device_kinds))
"""Devices of one speed: replicas wait for the slowest otherwise, and seconds that are told take longer."""
SECONDS, LAYER, SAVED = 1e-3, 1e6, 50.0


@given(
    op=st.sampled_from([*OPS, *NAMED]),
    stage=st.integers(0, 99),
    first=st.integers(0, 99),
    copy=st.integers(0, 2),
    sweep=st.integers(0, 2),
    count=st.integers(1, 9),
)
def test_text_round_trip(op: str, stage: int, first: int, copy: int, sweep: int, count: int) -> None:
    action = Action(op, stage, first, 1 if op in WHOLE_STAGE else count, copy, sweep)
    assert parse_action(str(action)) == action


@pytest.mark.parametrize("text", ["0UNSHARD", "3RESHARD", "1REDUCE_GRAD", "2RECOMPUTE7"])
def test_torchs_words(text: str) -> None:
    assert str(parse_action(text)) == text


@pytest.mark.parametrize("text", ["0RECOMPUTE", "0UNSHARD0-3", "0SEND_F0", "UNSHARD", "0unshard"])
def test_what_is_no_action(text: str) -> None:
    with pytest.raises(InputError, match="is not an action"):
        parse_action(text)


@pytest.mark.parametrize(
    ("lanes", "said"),
    [
        ("0F0 0UNSHARD 0B0 0RESHARD", "0F0 outside of UNSHARD and RESHARD"),
        ("0UNSHARD 0F0 0UNSHARD 0B0 0RESHARD", "0UNSHARD where the weights are there"),
        ("0UNSHARD 0F0 0B0 0RESHARD 0RESHARD", "0RESHARD where the weights are not there"),
        ("0UNSHARD 0F0 0B0 0U0", "0U0 before RESHARD"),
        ("0F0 0REDUCE_GRAD 0B0", "0REDUCE_GRAD without a gradient"),
        ("0F0 0B0 0U0 0REDUCE_GRAD", "0U0 before REDUCE_GRAD of 0B0"),
        ("0F0 0B0 0RECOMPUTE0", "not between the forward and the backward of microbatch 0, or twice"),
        ("0F0 0RECOMPUTE0 0RECOMPUTE0 0B0", "0RECOMPUTE0 not between"),
        ("0F0 0OFFLOAD0 0B0", "0B0 while the activations of microbatch 0 are with the host"),
        ("0F0 0RELOAD0 0B0", "0RELOAD0 not between"),
        ("0F0 0FREE0 0B0", "0FREE0 of other microbatches than any OFFLOAD"),
        ("0F0 0OFFLOAD0 0FREE0 0B0", "0B0 while the activations of microbatch 0 are with the host"),
        ("0F0 0OFFLOAD0 0RELOAD0 0FREE0 0B0", "0FREE0 not between"),
        ("0F0 0OFFLOAD0 0OFFLOAD0 0RELOAD0 0B0", "0OFFLOAD0 not between"),
        ("0F0 0OFFLOAD0 0RECOMPUTE0 0RELOAD0 0B0", "0RECOMPUTE0 not between"),
        ("1UNSHARD 0F0 0B0", "a place that the lane does not hold"),
    ],
)
def test_what_is_wrong_is_named(lanes: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        make_order("custom", line(1, 1), options={"lanes": lanes})
    assert any(said in text for text in caught.value.problems)


@pytest.mark.parametrize(
    ("lanes", "said"),
    [
        ("0UNSHARD 0F0 0RESHARD 0UNSHARD 0B0 0REDUCE_GRAD 0RESHARD", "REDUCE_GRAD, RESHARD, UNSHARD"),
        ("0F0 0RECOMPUTE0 0B0", "RECOMPUTE apart from the backward"),
        ("0F0 0OFFLOAD0 0RELOAD0 0B0", "activations moved to the host and back"),
    ],
)
def test_torchs_csv_refuses_them_by_name(lanes: str, said: str) -> None:
    order = make_order("custom", line(1, 1), options={"lanes": lanes})
    with pytest.raises(PlanError, match=said):
        to_torch_csv(order, line(1, 1))


# ---- gathers and reductions ----------------------------------------------------------------------------


def strategy_of(lanes: str, job: Job, *, zero: int, chunks: int, recompute: str = "none") -> Strategy:
    graph = chain([SECONDS] * 4, parameter_bytes=LAYER, activation_bytes=10.0, saved_bytes=SAVED)
    made = uniform(
        graph, CLUSTER, job, stages=1 if chunks > 1 else 2, chunks=chunks, replicas=2, microbatches=2,
        recompute=recompute, zero=zero, schedule="gpipe",
    )  # fmt: skip
    job_part = replace(made.job, schedule="custom", options=(("lanes", lanes),)) if lanes else made.job
    return made.with_job(job_part)


def run(lanes: str, *, zero: int = 3, chunks: int = 2, recompute: str = "none") -> Report:
    graph = chain([SECONDS] * 4, parameter_bytes=LAYER, activation_bytes=10.0, saved_bytes=SAVED)
    job = Job(global_batch=4, precision="fp32", optimizer="adam")
    strategy = strategy_of(lanes, job, zero=zero, chunks=chunks, recompute=recompute)
    return simulate(graph, CLUSTER, Workload(jobs=(job,)), strategy)


def counted(report: Report) -> Counter[int]:
    """Gathers (those that close) and reductions of the first step."""
    program = report.timeline.program
    found: Counter[int] = Counter()
    for task in range(program.size):
        slot = program.slots[program.slot[task]]
        counts = slot.kind == REDUCE or (slot.kind == GATHER and slot.part == CLOSING)
        if counts and program.step[task] == 0:
            found[slot.kind] += 1
    return found


NAMED_BY_RULE = (
    "0UNSHARD 0F0 0F1 0RESHARD 1UNSHARD 1F0 1F1 1B0 1B1 1REDUCE_GRAD 1RESHARD"
    " 0UNSHARD 0B0 0B1 0REDUCE_GRAD 0RESHARD"
)


def test_named_as_the_rule_would_it_is_the_same_step() -> None:
    """Breadth-first: the rule gathers as late as prefetching allows, the order when it comes to it."""
    named, ruled = run(NAMED_BY_RULE), run("")
    assert counted(named) == counted(ruled) == {GATHER: 3, REDUCE: 2}
    assert named.traffic_bytes == pytest.approx(ruled.traffic_bytes)
    assert named.memory_parts_bytes == ruled.memory_parts_bytes


def test_gathered_earlier_both_chunks_are_held_and_nothing_is_waited_for() -> None:
    early = "0UNSHARD 1UNSHARD 0F0 0F1 1F0 1F1 1B0 1B1 1REDUCE_GRAD 1RESHARD 0B0 0B1 0REDUCE_GRAD 0RESHARD"
    both, one = run(early), run(NAMED_BY_RULE)
    assert counted(both) == {GATHER: 2, REDUCE: 2}
    assert both.step_time_s < one.step_time_s
    whole = one.timeline.prices.memory[0].run_buffer_bytes
    assert both.memory_parts_bytes[0][BUFFERS] - one.memory_parts_bytes[0][BUFFERS] == pytest.approx(whole)


@pytest.mark.parametrize("zero", [0, 2])
def test_gradients_are_reduced_where_the_order_says(zero: int) -> None:
    plain = "0F0 0F1 0B0 0B1; 1F0 1F1 1B0 1B1"
    each = "0F0 0F1 0B0 0REDUCE_GRAD 0B1 0REDUCE_GRAD; 1F0 1F1 1B0 1REDUCE_GRAD 1B1 1REDUCE_GRAD"
    once = "0F0 0F1 0B0 0B1 0REDUCE_GRAD; 1F0 1F1 1B0 1B1 1REDUCE_GRAD"
    found = [counted(run(lanes, zero=zero, chunks=1))[REDUCE] for lanes in (plain, each, once)]
    assert found == [2 if zero == 0 else 4, 4, 2]


# ---- recomputation -------------------------------------------------------------------------------------


def test_recomputation_of_its_own_uses_the_wait_for_the_gradient() -> None:
    """The first stage makes its activations again while the second works; the second has no time to."""
    within = "0F0 0B0 0F1 0B1; 1F0 1B0 1F1 1B1"
    apart = "0F0 0RECOMPUTE0 0B0 0F1 0RECOMPUTE1 0B1; 1F0 1B0 1F1 1B1"
    reports = [run(lanes, zero=0, chunks=1, recompute="full") for lanes in (within, apart)]
    again = 2 * SECONDS  # two layers of a stage, once for a microbatch
    steps = [report.step_time_s for report in reports]
    assert steps[0] - steps[1] == pytest.approx(2 * again, rel=1e-6)
    assert sum(reports[0].busy_s) == pytest.approx(sum(reports[1].busy_s), rel=1e-12)


def test_what_it_makes_stays_until_the_backward() -> None:
    apart = "0F0 0F1 0RECOMPUTE0 0RECOMPUTE1 0B0 0B1; 1F0 1F1 1B0 1B1"
    report = run(apart, zero=0, chunks=1, recompute="full")
    item = report.timeline.prices.memory[0]
    assert item.recompute_whole_bytes_per_sample == 2 * SAVED - item.activation_bytes_per_sample
    assert report.memory_parts_bytes[0][ACTIVATIONS] == pytest.approx(2 * 2 * SAVED)


# ---- moves to the host ---------------------------------------------------------------------------------


def moving(lanes: str, gib_per_s: float = 64.0, saved: float = 2.0**20) -> Report:
    """One device, one layer: F takes 1 ms, B 2 ms, the activations of a microbatch `saved` bytes."""
    kinds = tuple(
        replace(kind, host_bandwidth_bytes_per_s=gib_per_s * 2**30) for kind in CLUSTER.device_kinds
    )
    cluster = replace(CLUSTER, device_kinds=kinds)
    graph = chain([SECONDS], parameter_bytes=1.0, activation_bytes=1.0, saved_bytes=saved)
    job = Job(global_batch=3, precision="fp32", optimizer="none")
    strategy = uniform(graph, cluster, job, stages=1, microbatch_size=1, schedule="gpipe")
    made = replace(strategy.job, schedule="custom", options=(("lanes", lanes),))
    return simulate(graph, cluster, Workload(jobs=(job,)), strategy.with_job(made))


PLAIN = "0F0 0F1 0F2 0B2 0B1 0B0"
AWAY = "0F0 0OFFLOAD0 0F1 0F2 0B2 0RELOAD0 0B1 0B0"


def test_what_is_away_takes_no_room() -> None:
    """Microbatch 0 leaves during F1 and comes back during B1: two of three are there at once."""
    plain, away = moving(PLAIN), moving(AWAY)
    size = plain.timeline.prices.memory[0].activation_bytes_per_sample
    assert [report.memory_parts_bytes[0][ACTIVATIONS] / size for report in (plain, away)] == [3.0, 2.0]
    assert away.step_time_s == pytest.approx(plain.step_time_s, rel=1e-12)  # both moves hide behind work


def test_a_slow_link_is_waited_for() -> None:
    """A move of 5 ms: F2 waits 4 ms for the one out, behind F1; B0 waits 3 ms for the one back, behind B1."""
    size = 2.0**20
    plain, away = moving(PLAIN), moving(AWAY, gib_per_s=size / (5 * SECONDS) / 2**30)
    assert away.step_time_s - plain.step_time_s == pytest.approx(7 * SECONDS, rel=1e-6)
    assert away.exposed_communication_s["host"] == pytest.approx(7 * SECONDS, rel=1e-6)
    assert away.traffic_bytes == plain.traffic_bytes


def test_the_lane_waits_where_the_room_is_needed() -> None:
    """A move of 2.5 ms hides behind F1 and F2 but for half a millisecond; its room is free for F3."""
    kinds = tuple(replace(kind, host_bandwidth_bytes_per_s=2**20 / 2.5e-3) for kind in CLUSTER.device_kinds)
    cluster = replace(CLUSTER, device_kinds=kinds)
    graph = chain([SECONDS], parameter_bytes=1.0, activation_bytes=1.0, saved_bytes=2.0**20)
    job = Job(global_batch=4, precision="fp32", optimizer="none")
    made = uniform(graph, cluster, job, stages=1, microbatch_size=1, schedule="gpipe")

    def run_of(lanes: str) -> Report:
        literal = replace(made.job, schedule="custom", options=(("lanes", lanes),))
        return simulate(graph, cluster, Workload(jobs=(job,)), made.with_job(literal))

    behind = "0B3 0RELOAD0 0B2 0B1 0B0"
    plain = run_of("0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0")
    late = run_of(f"0F0 0OFFLOAD0 0F1 0F2 0FREE0 0F3 {behind}")
    soon = run_of(f"0F0 0OFFLOAD0 0F1 0F2 0F3 {behind}")
    size = plain.timeline.prices.memory[0].activation_bytes_per_sample
    held = [report.memory_parts_bytes[0][ACTIVATIONS] / size for report in (plain, late, soon)]
    assert held == [4.0, 3.0, 3.0]
    assert late.step_time_s - plain.step_time_s == pytest.approx(0.5 * SECONDS, rel=1e-6)
    assert soon.step_time_s - plain.step_time_s == pytest.approx(1.5 * SECONDS, rel=1e-6)


def test_room_is_taken_again_when_what_left_has_gone() -> None:
    """RELOAD behind FREE begins when that move has ended, not before: both of 5 ms, F1 of 1 ms between."""
    slow = 2.0**20 / (5 * SECONDS) / 2**30
    plain = moving("0F0 0F1 0F2 0B1 0B0 0B2")
    found = moving("0F0 0OFFLOAD0 0F1 0F2 0FREE0 0RELOAD0 0B1 0B0 0B2", slow)
    assert found.step_time_s - plain.step_time_s == pytest.approx((3 + 3) * SECONDS, rel=1e-6)


def test_a_link_of_unknown_bandwidth_is_refused() -> None:
    with pytest.raises(InputError, match="whose link has no bandwidth"):
        moving(AWAY, gib_per_s=0.0)


def test_a_dry_run_plays_the_moves() -> None:
    """Moves of 50 ms beside actions of 10 and 20: the run takes what was predicted, never less."""
    kinds = tuple(replace(kind, host_bandwidth_bytes_per_s=2**20 / 0.05) for kind in CLUSTER.device_kinds)
    cluster = replace(CLUSTER, device_kinds=kinds)
    graph = chain([10 * SECONDS], parameter_bytes=1.0, activation_bytes=1.0, saved_bytes=2.0**20)
    job = Job(global_batch=3, precision="fp32", optimizer="none")
    strategy = uniform(graph, cluster, job, stages=1, microbatch_size=1, schedule="gpipe").job
    made = replace(strategy, schedule="custom", options=(("lanes", AWAY),))
    prepared = prepare("moves", graph, cluster, job, made, steps=1)
    (rank,) = launch(RunSpec(ranks=1, cases=(prepared.case,))).ranks
    stamps = rank["cases"]["moves"][0]["stamps"]
    predicted = float(prepared.timing.end_s.max())
    assert predicted == pytest.approx(0.09 + 0.07, rel=1e-6)
    assert stamps[-1][3] - stamps[0][2] >= predicted * (1 - 1e-3)
