"""What the papers say of each schedule beside its makespan: memory, versions, delay, order."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Order, Shape
from explorer.base.errors import InputError
from explorer.schedules import SCHEDULES, make_order
from explorer.schedules._clock import clock_of
from explorer.schedules._common import turns
from explorer.schedules.check import coverage
from explorer.schedules.placements import BIDIRECTIONAL, BIDIRECTIONAL_VEE, SNAKE
from tests.schedules.shapes import bidirectional, dags, line, looped, replicated, workers
from tests.schedules.slots import peak_in_flight, simulate, stashed_versions


def peaks(order: Order) -> list[int]:
    return [peak_in_flight(lane) for lane in order.lanes]


@pytest.mark.parametrize(("p", "m"), [(1, 3), (4, 2), (4, 4), (4, 9), (8, 24)])
def test_in_flight_of_flush_schedules(p: int, m: int) -> None:
    assert peaks(make_order("gpipe", line(p, m))) == [m] * p
    assert peaks(make_order("1f1b", line(p, m))) == [min(p - s, m) for s in range(p)]


@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 8), (4, 2), (4, 9), (8, 24)])
def test_eager_1f1b_runs_twice_as_far_ahead(p: int, m: int) -> None:
    order = make_order("eager_1f1b", line(p, m))
    assert peaks(order) == [min(2 * (p - s) - 1, m) for s in range(p)]
    for s, lane in enumerate(order.lanes):
        ahead = next(at for at, action in enumerate(lane) if action.op == "B")
        assert ahead == min(2 * (p - 1 - s) + 1, m)


@pytest.mark.parametrize("transfer_s", [0.1, 0.5, 1.0])
def test_eager_1f1b_hides_transfers(transfer_s: float) -> None:
    """Its step grows by the way there and back, that of 1F1B with every microbatch."""
    p, seconds = 4, {"B": 2}
    for m in (16, 32):
        shape = line(p, m)
        eager, plain = (
            simulate(make_order(name, shape), shape, seconds, transfer_s=transfer_s).makespan
            for name in ("eager_1f1b", "1f1b")
        )
        assert eager == pytest.approx(3 * (m + p - 1) + 2 * (p - 1) * transfer_s)
        assert plain >= 3 * m + m * transfer_s


def test_eager_1f1b_takes_a_stage_dag() -> None:
    """Two branches of one stage: twice the depth ahead, not twice the number of stages."""
    branches = replicated([(0, 1), (0, 2), (1, 3), (2, 3)], [8] * 4, [1] * 4, [False] * 4)
    order = make_order("eager_1f1b", branches)
    assert peaks(order) == [5, 3, 3, 1]
    assert simulate(order, branches).makespan == (8 + 3 - 1) * 2


@pytest.mark.parametrize(("p", "m", "v"), [(2, 4, 2), (4, 8, 2), (4, 4, 3), (8, 16, 4)])
def test_breadth_first_works_on_one_chunk_at_a_time(p: int, m: int, v: int) -> None:
    shape = looped(p, m, v)
    order = make_order("breadth_first", shape)
    assert peaks(order) == [m * v] * p
    assert simulate(order, shape, {"B": 2}).makespan / (3 * m * v) - 1 == pytest.approx((p - 1) / (v * m))
    for r, lane in enumerate(order.lanes):
        turns_taken = [stage for stage, _ in groupby(action.stage for action in lane if action.op != "U")]
        chunks = list(range(r, p * v, p))
        assert turns_taken == chunks + chunks[-2::-1]


@pytest.mark.parametrize(("p", "m", "v"), [(2, 4, 2), (4, 8, 2), (4, 4, 3), (8, 16, 4)])
def test_interleaved_in_flight_and_bubble(p: int, m: int, v: int) -> None:
    shape = looped(p, m, v)
    order = make_order("interleaved_1f1b", shape)
    assert peaks(order) == [min(2 * (p - r - 1) + (v - 1) * p + 1, m * v) for r in range(p)]
    work = 3 * m * v
    assert simulate(order, shape, {"B": 2}).makespan / work - 1 == pytest.approx((p - 1) / (v * m))
    assert order.options["chunks"] == v


@pytest.mark.parametrize(
    ("stages", "in_flight"), [(4, [3, 4, 4, 3]), (6, [4, 5, 6, 6, 5, 4]), (8, [5, 6, 7, 8, 8, 7, 6, 5])]
)
def test_chimera(stages: int, in_flight: list[int]) -> None:
    shape = bidirectional(stages, stages)
    order = make_order("chimera", shape)
    assert peaks(order) == in_flight
    assert simulate(order, shape).makespan == 2 * stages + stages - 2
    assert simulate(order, shape, {"B": 2}).makespan == 3 * stages + 2 * (stages - 2)
    assert order == make_order("chimera", shape, options={"concatenate": True})
    assert str(order.lanes[0][-1]) == f"0U0-{stages - 1}"  # both copies apply all samples
    assert str(order.lanes[0][-2]) == f"{stages - 1}U0-{stages - 1}~1"


@pytest.mark.parametrize(("stages", "idle"), [(4, (1, 2)), (6, (2, 4)), (8, (3, 6))])
def test_bitpipe(stages: int, idle: tuple[int, int]) -> None:
    """Idle for (D - 2)(F + B)/4 where F = B, for D - 2 forwards where B = 2 F; a chunk is half a stage."""
    shape = BIDIRECTIONAL_VEE.shape(BIDIRECTIONAL_VEE.grid(stages), stages)
    order = make_order("bitpipe", shape)
    found = [simulate(order, shape, {"F": 0.5, "B": b / 2}).makespan - stages * (1 + b) for b in (1, 2)]
    assert found == [(stages - 2) * 2 / 4, stages - 2] == list(idle)
    assert max(peaks(order)) <= 2 * stages
    if stages == 4:
        assert [peak / 2 for peak in peaks(order)] == [3.5, 4, 4, 3.5]


@pytest.mark.parametrize("stages", [4, 6, 8, 12])
@pytest.mark.parametrize("name", ["chimera", "bitpipe"])
def test_opposed_lanes_begin_and_end_with_their_own_copy(name: str, stages: int) -> None:
    """What the bound of opposed pipelines rests on: whichever microbatches, and whatever they take."""
    placement = SCHEDULES.get(name).placement
    for m in range(2, 3 * stages + 1, 2):
        order = make_order(name, placement.shape(placement.grid(stages), m))
        for lane, actions in enumerate(order.lanes):
            last = next(action for action in reversed(actions) if action.op == "B")
            own = (lane, 0) if lane < stages // 2 else (stages - 1 - lane, 1)
            assert (actions[0].stage, actions[0].copy) == (last.stage, last.copy) == own


def test_chimera_order_of_the_paper() -> None:
    lanes = make_order("chimera", bidirectional(4, 4)).lanes
    assert " ".join(map(str, lanes[0][:8])) == "0F0 0F1 3F2~1 3B2~1 3F3~1 3B3~1 0B0 0B1"
    assert " ".join(map(str, lanes[1][:8])) == "1F0 2F2~1 1F1 2F3~1 2B2~1 1B0 2B3~1 1B1"


@pytest.mark.parametrize(("stages", "copies"), [(4, 4), (6, 6), (8, 4), (8, 8)])
def test_chimera_with_several_pairs(stages: int, copies: int) -> None:
    """k pairs idle for D/k - 2 slots, whatever m; a lane holds D microbatches at most (section 3.6)."""
    grid = BIDIRECTIONAL.grid(stages, copies=copies)
    for m in (stages, 3 * stages):
        shape = BIDIRECTIONAL.shape(grid, m)
        order = make_order("chimera", shape)
        slots = stages * 2 // copies - 2
        assert simulate(order, shape).makespan == 2 * m + slots
        assert simulate(order, shape, {"B": 2}).makespan == 3 * m + 2 * slots
        assert max(peaks(order)) <= stages


@pytest.mark.parametrize("stages", [4, 6, 8])
def test_forward_doubling_leaves_no_bubble_between_units(stages: int) -> None:
    """B = 2 F: units idle once for 2 (D - 2) forwards; without doubling every unit idles."""
    idle: dict[bool, list[float]] = {True: [], False: []}
    for units in (1, 2, 3):
        m = 2 * stages * units
        shape = bidirectional(stages, m)
        for double, found in idle.items():
            order = make_order("chimera", shape, options={"concatenate": True, "double": double})
            assert coverage(order, shape) == []
            found.append(simulate(order, shape, {"B": 2}).makespan - 3 * m)
    assert idle[True] == [2 * (stages - 2)] * 3
    assert idle[False] == [(stages - 2) * (1 + 2 * units) for units in (1, 2, 3)]


def test_forward_doubling_of_an_odd_number() -> None:
    shape = bidirectional(4, 6)
    lanes = make_order("chimera", shape, options={"double": True}).lanes
    forwards = [str(action) for action in lanes[0] if action.op == "F" and action.copy == 0]
    assert forwards == ["0F0-1", "0F2"]


@pytest.mark.parametrize("units", [2, 3])
def test_chimera_units(units: int) -> None:
    """Concatenation keeps the memory of one unit and at F = B also its idle time."""
    shape = bidirectional(6, 6 * units)
    apart = make_order("chimera", shape, options={"concatenate": True})
    assert peaks(apart) == [4, 5, 6, 6, 5, 4]
    assert simulate(apart, shape).makespan == 2 * 6 * units + 4
    assert peaks(make_order("chimera", shape)) == [6] * 6


@pytest.mark.parametrize("p", [1, 2, 4, 7])
def test_pipedream_versions_and_delay(p: int) -> None:
    order = make_order("pipedream", line(p, 2 * p), steps=2)
    for stage, lane in enumerate(order.lanes):
        versions, delays = stashed_versions(lane)
        assert versions == p - stage
        assert set(delays[p:-p]) <= {p - stage - 1}
        assert max(delays) == p - stage - 1
        assert [str(a) for a in lane[-2:]] == [f"{stage}B{4 * p - 1}", f"{stage}U{4 * p - 1}"]
    assert order.read_rule.name == "stash"


def uneven(steps: int, *, together: bool) -> tuple[Shape, Order]:
    """PipeDream's 3 -> 2 replicas in turn, six microbatches a step."""
    shape = replicated([(0, 1)], [6, 6], [3, 2], [True, True])
    return shape, make_order("pipedream", shape, steps=steps, options={"together": together})


@pytest.mark.parametrize(("together", "period"), [(False, 18), (True, 21)])
def test_pipedream_replicas_in_turn(together: bool, period: float) -> None:
    """F + B = 9 s on stage 0, 6 s on stage 1: 3 s a microbatch unless a round waits for its replicas."""
    shape, order = uneven(8, together=together)
    timeline = simulate(order, shape, {"F": 1, "B": 2}, weight=(3, 2))
    for lane in timeline.spans:
        last = {a.first_microbatch // 6: end for _, end, a in lane if a.op == "B"}
        assert [last[k + 1] - last[k] for k in range(2, 5)] == [period] * 3


def test_pipedream_warm_up_is_noam_per_replica() -> None:
    """ceil(5 / 3) = 2 on each replica of the first stage, 1 on the second."""
    _, order = uneven(4, together=False)
    assert peaks(order) == [2, 2, 2, 1, 1]
    assert [stashed_versions(lane)[0] for lane in order.lanes] == [2, 2, 2, 1, 1]
    assert " ".join(map(str, order.lanes[1][:6])) == "0F1 0F4 0B1 0U1 0F7 0B4"
    _, waiting = uneven(4, together=True)
    assert " ".join(map(str, waiting.lanes[1][:6])) == "0F1 0F4 0B1 0U0-2 0F7 0B4"


@pytest.mark.parametrize("p", [2, 4, 6])
def test_2bw_two_versions_delay_one(p: int) -> None:
    """Step t reads version t - 1: made by the U of step t - 2, one U before its own."""
    m, steps = p + 1, 4
    order = make_order("pipedream_2bw", line(p, m), steps=steps)
    assert (order.read_rule.name, order.read_rule.parameter) == ("buffered", 1)
    for lane in order.lanes:
        newest, live = 0, 1
        for at, action in enumerate(lane):
            if action.op == "U":
                newest += 1
                assert action.first_microbatch == (newest - 1) * m
                assert action.count == m
            else:
                assert newest >= action.first_microbatch // m - 1  # the version it reads exists
            readers = [max(a.first_microbatch // m - 1, 0) for a in lane[at + 1 :] if a.op != "U"]
            live = max(live, newest - min([*readers, newest]) + 1)
        assert live == 2
    with pytest.raises(InputError, match=f"{p} or more"):
        make_order("pipedream_2bw", line(p, p - 1))


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_cyclic_keeps_activations_constant(n: int) -> None:
    """N workers, N stages: N(N+1)/2 stage activations at all times once started, period 2N slots."""
    shape = workers(n, n, n)
    order = make_order("cyclic", shape, steps=4)
    spans = [span for lane in simulate(order, shape).spans for span in lane]
    begun = [start for start, _, action in spans if action.op == "F"]
    ended = [end for _, end, action in spans if action.op == "B"]
    stored = {sum(t >= a for a in begun) - sum(t >= b for b in ended) for t in range(2 * n, 6 * n)}
    assert stored == {n * (n + 1) // 2}
    firsts = [start for start, _, a in spans if a.op == "F" and (a.stage, a.copy) == (0, n - 1)]
    assert [b - a for a, b in pairwise(firsts)] == [2 * n] * 3
    assert firsts[0] == 2 * (n - 1)


@pytest.mark.parametrize("rule", ["v1", "v2"])
def test_cyclic_delay(rule: str) -> None:
    """v1 reads theta of the step before everywhere; v2 the present one where its gradients are in."""
    n, steps = 4, 4
    shape = workers(n, n, n)
    order = make_order("cyclic", shape, steps=steps, options={"rule": rule})
    assert simulate(order, shape).makespan == 2 * (n - 1) + 2 * n * steps  # updates hold nobody up
    fresh = set()
    for worker, lane in enumerate(order.lanes):
        applied = [0] * n
        for action in lane:
            step = action.first_microbatch // n
            if action.op == "U":
                applied[action.stage] += 1
            elif step > 0:
                assert applied[action.stage] in ((step - 1,) if rule == "v1" else (step - 1, step))
                if applied[action.stage] == step:
                    fresh.add((worker, action.stage))
        assert applied == [steps] * n
    expected = {(w, s) for w in range(n) for s in range(n) if s >= n - 1 - w} if rule == "v2" else set()
    assert fresh == expected


@pytest.mark.parametrize(("p", "sweeps"), [(3, 2), (7, 0), (4, 3)])
def test_layer_parallel_time(p: int, sweeps: int) -> None:
    """r T/p + T for a serial pass of T seconds."""
    shape, serial = line(p, 1), 3 * p
    order = make_order("layer_parallel", shape, options={"sweeps": sweeps})
    assert simulate(order, shape, {"B": 2}).makespan == sweeps * serial / p + serial
    assert order.lag == (1,) * sweeps + (0,)
    assert [str(a) for a in order.lanes[0] if a.op == "U"] == [
        "0U0" + (f"^{sweep}" if sweep else "") for sweep in range(sweeps + 1)
    ]


def test_two_microbatch_sizes_on_a_dag() -> None:
    """Two branches of half-size microbatches join at a stage of twice the size, as GraphPipe allows."""
    shape = replicated([(0, 1), (0, 2), (1, 3), (2, 3)], [8, 8, 8, 4], [1] * 4, [False] * 4)
    order = make_order("1f1b", shape)
    timeline = simulate(order, shape)
    assert timeline.blocked == ()
    assert timeline.start("3F0") == 3  # when each branch has ended its second forward
    assert peaks(order) == [5, 4, 4, 1]
    branches = [re.sub(r"\d+([FBU])", r"\1", " ".join(map(str, order.lanes[s]))) for s in (1, 2)]
    assert branches[0] == branches[1]


def test_depth_counts_not_the_number_of_stages() -> None:
    branches = replicated([(0, 1), (0, 2), (1, 3), (2, 3)], [6] * 4, [1] * 4, [False] * 4)
    assert peaks(make_order("1f1b", branches)) == [3, 2, 2, 1]
    assert simulate(make_order("1f1b", branches), branches).makespan == (6 + 3 - 1) * 2


@settings(max_examples=200, deadline=None)
@given(shape=dags())
def test_clock_is_later_than_what_it_waits_for(shape: Shape) -> None:
    clock = clock_of(shape)
    for s in range(shape.stages):
        assert clock.ahead[s] % turns(shape, s) == 0
        for n in range(6):
            assert clock.forward(s, n) < clock.backward(s, n) < clock.backward(s, n + 1)
            assert clock.backward(s, n - clock.ahead[s] - 1) < clock.forward(s, n)
    for source, target in shape.edges:
        a, b = clock.samples[source], clock.samples[target]
        for n in range(12):
            for i in range(12):
                if n * a < (i + 1) * b and i * b < (n + 1) * a:
                    assert clock.forward(source, n) < clock.forward(target, i)
                    assert clock.backward(target, i) < clock.backward(source, n)


CHAINS = [*product((1, 2, 4), repeat=3), *product((2, 3), repeat=4), (2, 1, 2, 1), (2, 1, 4, 4)]


@pytest.mark.parametrize("counts", CHAINS)
def test_equal_stages_never_stall_whatever_their_microbatch_sizes(counts: tuple[int, ...]) -> None:
    """Idle time does not grow with the number of microbatches: the warm-up is long enough."""
    p, idle = len(counts), []
    for steps in (5, 8):
        sizes = [steps * count for count in counts]
        shape = replicated(line(p, 1).edges, sizes, [1] * p, [False] * p)
        timeline = simulate(make_order("1f1b", shape), shape, {"B": 2})
        idle.append(timeline.makespan - 3 * max(sizes))
    assert idle[0] == idle[1]


@given(replicas=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_warm_up_is_noam_of_any_chain(replicas: list[int]) -> None:
    p = len(replicas)
    shape = replicated(line(p, 1).edges, [60] * p, replicas, [True] * p)
    in_flight = [ahead // count + 1 for ahead, count in zip(clock_of(shape).ahead, replicas, strict=True)]
    assert in_flight == [-(-sum(replicas[s:]) // replicas[s]) for s in range(p)]


@pytest.mark.parametrize(("waves", "bubble"), [(1, 0.333), (2, 0.213), (4, 0.119)])
def test_hanayo_waves(waves: int, bubble: float) -> None:
    """Idle share of four lanes at m = p = 4 and B = 2 F; no lane holds more than p whole microbatches."""
    shape = SNAKE.shape(SNAKE.grid(4, 2 * waves), 4)
    timed = replace(
        shape,
        forward_s=(1.0,) * shape.stages,
        input_grad_s=(1.0,) * shape.stages,
        weight_grad_s=(1.0,) * shape.stages,
    )
    order = make_order("hanayo", timed)
    makespan = simulate(order, shape, {"B": 2}).makespan
    assert 1 - 3 * 4 * 2 * waves / makespan == pytest.approx(bubble, abs=5e-4)
    assert max(peaks(order)) <= 4 * 2 * waves


@pytest.mark.parametrize(("m", "bubble"), [(8, 0.1504), (16, 0.1312)])
def test_hanayo_with_more_microbatches_than_lanes(m: int, bubble: float) -> None:
    shape = SNAKE.shape(SNAKE.grid(4, 4), m)
    order = make_order("hanayo", shape)
    assert 1 - 3 * m * 4 / simulate(order, shape, {"B": 2}).makespan == pytest.approx(bubble, abs=5e-5)
    assert max(peaks(order)) <= 4 * 4
