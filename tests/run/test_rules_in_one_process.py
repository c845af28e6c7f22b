"""Read and update rules against a replay: one rank in this process, and what catches a wrong version."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from explorer.actions import parse_action
from explorer.reads import READS
from explorer.run.cases.build import Prepared
from explorer.run.cases.weight_reads import Reads
from explorer.run.model import HEAD
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.interpreter import Hooks, Interpreter
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.modules import initial_weights, run_units, sample_tokens
from explorer.run.ranks.sweeps import first_guess
from explorer.run.referee.comparison import compare_with_emulation
from explorer.run.referee.emulate import Emulation
from explorer.run.referee.replay import Replay
from explorer.strategy import UpdateChoice
from explorer.updates import UPDATES
from tests.run.programs import MODEL, placed, real

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")
NUMBERS = {"buffered": "(1)", "predicted": "(2)"}
"""With which rules that have one are tried."""


class NoMessages:
    """The transport of a rank that is alone."""

    device = CPU

    def finish_sends(self) -> None:
        """Nothing was sent."""


def one_lane(rule: str) -> Prepared:
    """Two microbatches in flight on one stage, an update a microbatch, read by a rule; 2BW for buffers."""
    if rule.startswith("buffered"):
        return real("pipedream_2bw", 1, 1, name=rule, steps=4, optimizer="momentum")
    order = ["0F0"]
    for n in range(7):
        order += [f"0F{n + 1}", f"0B{n}", f"0U{n}"]
    text = " ".join([*order, "0B7", "0U7"])
    options = (("lanes", text), ("flush", False), ("covers", 2), ("read_rule", rule))
    return real("custom", 1, 1, name=rule, options=options, steps=2, optimizer="momentum")


def on_rank(prepared: Prepared, change: Callable[[Reads], Reads] = lambda reads: reads) -> dict[str, Any]:
    """The record of the only rank, its reads changed."""
    lanes = RankLanes(prepared.program)
    run = Compute(prepared.case, lanes, 0, CPU)
    run.reads = change(run.reads)
    run.reset()
    hooks = Hooks(status=lambda *_: None, before=lambda _: None, step=lambda _: None)
    transport: Any = NoMessages()
    Interpreter(lanes.plan(0), run, transport, hooks).run(time.perf_counter())
    return compare_with_emulation(run)


def one_older(reads: Reads) -> Reads:
    """Every version one too old."""
    return replace(
        reads,
        version={p: {n: max(0, v - 1) for n, v in found.items()} for p, found in reads.version.items()},
        backward={p: {key: max(0, v - 1) for key, v in found.items()} for p, found in reads.backward.items()},
        several=True,
    )


@pytest.mark.parametrize("rule", READS.names())
def test_a_rank_reads_what_the_rule_says(rule: str) -> None:
    prepared = one_lane(rule + NUMBERS.get(rule, ""))
    numerics = on_rank(prepared)
    assert numerics["compared"] > 0
    assert max(numerics["gradient"], numerics["weight"]) < 1e-12
    wrong = on_rank(prepared, one_older)
    assert wrong["gradient"] > 1e-3


def test_a_wrong_horizon_is_found() -> None:
    prepared = one_lane("predicted(2)")

    def nearer(reads: Reads) -> Reads:
        return replace(reads, reading=replace(reads.reading, horizon=lambda _stage, _op: 1))

    assert on_rank(prepared)["gradient"] < 1e-12
    assert on_rank(prepared, nearer)["gradient"] > 1e-6


def emulated(prepared: Prepared) -> Emulation:
    found = Emulation(prepared.case, CPU)
    found.finish()
    return found


def last_weights(found: Emulation) -> dict[str, torch.Tensor]:
    return {f"{piece}{name}": w for piece, held in found.weights.items() for name, w in held[-1].items()}


@pytest.mark.parametrize("rule", UPDATES.names())
@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_an_update_rule_at_its_trivial_options_is_data_parallelism(rule: str, optimizer: str) -> None:
    choice = UpdateChoice(rule=rule, options=UPDATES.get(rule).trivial)
    for shape in ((1, 2), (2, 2)):
        plain = last_weights(emulated(real("1f1b", *shape, optimizer=optimizer)))
        found = last_weights(emulated(real("1f1b", *shape, optimizer=optimizer, updates=(choice,))))
        assert all(torch.allclose(found[name], w, rtol=1e-10, atol=1e-12) for name, w in plain.items())


@pytest.mark.parametrize("rule", [name for name in UPDATES.names() if name != "plain"])
def test_an_update_rule_trains_and_is_not_data_parallelism(rule: str) -> None:
    plain = emulated(real("gpipe", 1, 4, microbatches=2, steps=9))
    found = emulated(real("gpipe", 1, 4, microbatches=2, steps=9, updates=(UpdateChoice(rule=rule),)))
    pairs = zip(last_weights(plain).values(), last_weights(found).values(), strict=True)
    assert any(not torch.allclose(a, b, rtol=1e-6) for a, b in pairs)
    count = len(found.losses) // 9
    first, last = (sum(part) for part in (found.losses[:count], found.losses[-count:]))
    assert last < 0.98 * first


def gradients(weights: dict[str, torch.Tensor], low: int, high: int) -> list[torch.Tensor]:
    """Mean gradients of some samples, by plain autograd."""
    tokens = sample_tokens(MODEL, low, high, CPU)
    units = range(len(MODEL.units))
    loss = run_units(MODEL, units, weights, {}, tokens)[len(MODEL.units) - 1] / (high - low)
    return list(torch.autograd.grad(loss, list(weights.values())))


def start() -> dict[str, torch.Tensor]:
    return initial_weights(MODEL, range(len(MODEL.units)), CPU)


def moved(weights: dict[str, torch.Tensor], gradient: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    pairs = zip(weights.items(), gradient, strict=True)
    return {name: (w - 0.05 * g).detach().requires_grad_() for (name, w), g in pairs}


def test_gossip_on_a_hypercube_averages_all_in_a_round() -> None:
    """Four workers that gossip at every update, twice: the second exchange is with another partner."""
    choice = UpdateChoice(rule="gossip")
    prepared = real("gpipe", 1, 4, batch=8, microbatches=1, steps=2, updates=(choice,))
    found = emulated(prepared)
    assert sorted(group.turn for group in prepared.program.skeleton.holders) == [(0, 2)] * 2 + [(1, 2)] * 2
    workers = [start() for _ in range(4)]
    for step, pairs in enumerate((((0, 1), (2, 3)), ((0, 2), (1, 3)))):
        for i in range(4):
            low = 8 * step + 2 * i
            workers[i] = moved(workers[i], gradients(workers[i], low, low + 2))
        for a, b in pairs:
            mean = {n: ((workers[a][n] + workers[b][n]) / 2).detach().requires_grad_() for n in workers[a]}
            workers[a] = workers[b] = mean
    for piece, held in found.weights.items():
        for name, w in held[-1].items():
            assert torch.allclose(w, workers[piece.replica][name], rtol=1e-9, atol=1e-12)


def test_local_sgd_by_hand() -> None:
    """Two workers, each with half of every microbatch of one sample each; averaged behind updates 2 and 4."""
    assert MODEL.units[-1].kind == HEAD
    choice = UpdateChoice(rule="local_sgd", options=(("period", 2),))
    found = emulated(real("gpipe", 1, 2, steps=5, microbatches=1, updates=(choice,)))
    workers = [start(), start()]
    for step in range(5):
        low = 8 * step
        parts = ((low, low + 4), (low + 4, low + 8))
        workers = [moved(w, gradients(w, *part)) for w, part in zip(workers, parts, strict=True)]
        if step % 2:
            mean = {n: ((workers[0][n] + workers[1][n]) / 2).detach().requires_grad_() for n in workers[0]}
            workers = [mean, mean]
    for piece, held in found.weights.items():
        for name, w in held[-1].items():
            assert torch.allclose(w, workers[piece.replica][name], rtol=1e-9, atol=1e-12)


def test_stale_data_parallelism_by_hand() -> None:
    """w(t + 1) = w(t) - lr g(w(t - 1)); what is left at the end is applied."""
    found = emulated(real("gpipe", 1, 2, steps=4, updates=(UpdateChoice(rule="stale"),)))
    weights, late = start(), None
    for step in range(4):
        gradient = gradients(weights, 8 * step, 8 * step + 8)
        weights = weights if late is None else moved(weights, late)
        late = gradient
    assert late is not None
    weights = moved(weights, late)
    for held in found.weights.values():
        assert all(torch.allclose(w, weights[name], rtol=1e-9, atol=1e-12) for name, w in held[-1].items())


def test_the_emulation_counts_versions_by_itself() -> None:
    """PipeDream, n - (p - s - 1); 2BW, the step before: from the emulation's own replay."""
    for schedule, rule in (
        ("pipedream", lambda n, s: n - (1 - s)),
        ("pipedream_2bw", lambda n, _: n // 4 - 1),
    ):
        books = Replay(real(schedule, 2, 1).case)
        for piece in books.workers:
            stage = books.sections[piece.section].stage
            for n in range(12):
                assert books.version(piece, "F", 2 * n, books.worker_of(0, 2 * n)) == max(0, rule(n, stage))


@pytest.mark.parametrize("sweeps", [1, 2, 3])
def test_layer_parallel_by_hand(sweeps: int) -> None:
    """Sweeps on what the neighbours made before, an update after each; the last is plain training."""
    prepared = placed("layer_parallel", 2, options=(("sweeps", sweeps),), steps=1)
    found = emulated(prepared)
    weights = [start()]
    tokens = sample_tokens(MODEL, 0, 8, CPU)
    cut = len(prepared.case.sections[0])
    between = first_guess(torch.empty(8, MODEL.seq, MODEL.d_model, dtype=torch.float64))
    back = torch.zeros_like(between)
    for _ in range(sweeps):
        now = weights[-1]
        given = between.clone().requires_grad_()
        made = run_units(MODEL, range(cut), now, {}, tokens)[cut - 1]
        loss = run_units(MODEL, range(cut, len(MODEL.units)), now, {cut - 1: given}, tokens)
        first = torch.autograd.grad(made, list(now.values()), back, allow_unused=True)
        last = torch.autograd.grad(loss[len(MODEL.units) - 1], [given, *now.values()], allow_unused=True)
        parts = [a if b is None else b for a, b in zip(first, last[1:], strict=True)]
        weights.append(moved(now, [g / 8 for g in parts if g is not None]))
        between, back = made.detach(), last[0]
    weights.append(moved(weights[-1], gradients(weights[-1], 0, 8)))
    for held in found.weights.values():
        assert len(held) == sweeps + 2
        for mine, theirs in zip(held, weights, strict=True):
            assert all(torch.allclose(w, theirs[n], rtol=1e-9, atol=1e-12) for n, w in mine.items())


def test_spectrain_looks_as_far_ahead_as_the_paper_says() -> None:
    prepared = real("spectrain", 4, 1, microbatches=8, optimizer="momentum")
    stages, order = 4, prepared.program.order
    assert order.read_rule.horizons == tuple((k // 2 + stages - k - 1, k // 2) for k in range(stages))
    # forward and backward look at one and the same update: as many as lie between them
    for k, lane in enumerate(order.lanes):
        for n in range(8, 12):
            places = [lane.index(parse_action(f"{k}{op}{n}")) for op in "FB"]
            between = sum(1 for action in lane[places[0] : places[1]] if action.op == "U")
            ahead = order.read_rule.horizons[k]
            assert ahead[0] - ahead[1] == between == stages - k - 1
    assert prepared.program.versions == (1,) * stages
    assert prepared.program.copies == (1,) * stages
