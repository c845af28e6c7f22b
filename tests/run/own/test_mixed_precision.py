"""Own layers in bf16: against a plain loop, one process, and the bytes that were predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from explorer.run.cases.likeness import Scaled
from explorer.run.cases.mixed_precision import BF16, in_plan_precision
from explorer.run.cases.short_cases import short_case
from explorer.run.judging.calibrate import uncalibrated
from explorer.run.judging.short_results import rank_memory, sent_bytes
from explorer.run.launching.launch import run
from explorer.run.own.criterion import output_loss, token_loss
from explorer.run.own.own_layers import own_layers
from explorer.run.own.own_scale import own_scaled
from explorer.run.own.own_source import OwnSource
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.optimizers import Optimizer
from explorer.run.spec import RunSpec
from explorer.schedules import SCHEDULES
from explorer.tasks.program import REDUCE, TRANSFER
from tests.run.own.own_cases import GPT, case, cut, source
from tests.run.own.test_own_scale import plan
from tests.run.programs import EVERY, placed_stages
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")
UNIT = 2.0**-8
"""Largest relative error of one rounding to bf16."""
UNTIED = (GPT[0], {**GPT[1], "tied": "no"}, GPT[2])
WIDER = ("gpt", {"layers": "4", "embed": "128", "heads": "4", "vocab": "500"}, 64)
"""Large enough that tensors of a few numbers weigh nothing."""
TALL = ("gpt", {"layers": "2", "embed": "64", "heads": "4", "vocab": "5000", "tied": "no"}, 64)
"""Logits, and what its loss makes of them in fp32, weigh more than all else."""


def mixed(gradients: str, model: Any = UNTIED) -> OwnSource:
    found = source(*model, dtype=BF16)
    return found._replace(model=replace(found.model, gradient_dtype=gradients))


@pytest.fixture(scope="module", params=["bf16", "fp32"])
def own(request: pytest.FixtureRequest) -> OwnSource:
    """A small GPT whose gradients are added up in either precision."""
    return mixed(request.param)


# -- numbers ------------------------------------------------------------------------------------------


def plain_step(
    main: dict[str, torch.Tensor], loss: Callable[[dict[str, torch.Tensor], int], torch.Tensor], wide: bool
) -> dict[str, torch.Tensor]:
    """Mean gradients over 4 microbatches of 2 samples, added up in fp32 or bf16, by weights rounded once."""
    sums: dict[str, torch.Tensor] = {}
    for number in range(4):
        rounded = {name: w.to(torch.bfloat16).requires_grad_() for name, w in main.items()}
        found = torch.autograd.grad(loss(rounded, number), list(rounded.values()))
        for name, g in zip(rounded, found, strict=True):
            term = g.float() if wide else g
            sums[name] = sums[name] + term if name in sums else term
    return {name: total / 8 for name, total in sums.items()}


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_steps_are_those_of_a_plain_loop(own: OwnSource, optimizer: str) -> None:
    """fp32 main weights, bf16 compute by the module's own forward; what is left are roundings of fp32."""
    runs: list[Compute] = []
    ready = case(own, cut(own, 1, size=2), "1f1b", optimizer=optimizer)
    on_threads(ready, runs.append)
    layers, rate = own_layers(own.model), ready.case.learning_rate
    main = {n: layers.initial(n).float() for n in runs[0].current}
    first = {n: torch.zeros_like(w) for n, w in main.items()}
    second = {n: torch.zeros_like(w) for n, w in main.items()}
    longest = 0.0

    def loss(weights: dict[str, torch.Tensor], number: int) -> torch.Tensor:
        begin = 8 * (step - 1) + 2 * number
        made = layers.whole(weights, layers.samples(begin, begin + 2, torch.device("cpu")))
        assert made is not None
        return made

    for step in (1, 2):
        for name, mean in plain_step(main, loss, own.model.gradient_dtype == "fp32").items():
            g = mean.float()
            if optimizer == "adam":
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.999 * second[name] + 0.001 * g * g
                root = (second[name] / (1 - 0.999**step)).sqrt() + 1e-8
                change = first[name] / (1 - 0.9**step) / root
            else:
                first[name] = g + (0.9 * first[name] if optimizer == "momentum" else 0)
                change = first[name]
            longest = max(longest, rate * float(change.abs().max()))
            main[name] = main[name] - rate * change
    kept = runs[0].optimizer.main
    assert kept.keys() == main.keys()
    for name, w in main.items():
        # two steps of some ten roundings in fp32 each, of a weight or of what is taken from it
        bound = 2 * 10 * 2.0**-24 * (float(w.abs().max()) + longest)
        assert kept[name].dtype == torch.float32
        assert float((kept[name] - w).abs().max()) <= bound
        held = runs[0].present(name)
        assert held.dtype == torch.bfloat16
        assert torch.equal(held, kept[name].to(torch.bfloat16))


def test_steps_too_small_for_bf16_add_up(own: OwnSource) -> None:
    """Eight of 2^-10 turn 1 into 1 - 2^-7, where each alone rounds back to 1."""
    rule, weights = Optimizer("sgd", 2.0**-10), {"w": torch.ones(3, dtype=torch.bfloat16)}
    dtype = torch.float32 if own.model.gradient_dtype == "fp32" else torch.bfloat16
    for _ in range(7):
        rule.step(weights, {"w": torch.full((3,), 2.0, dtype=dtype)}, 2)
    assert (1 - torch.tensor(2.0**-10)).to(torch.bfloat16) == 1
    rule.step(weights, {"w": torch.full((3,), 2.0, dtype=dtype)}, 2)
    assert rule.main["w"].tolist() == [1 - 2.0**-7] * 3
    assert weights["w"].tolist() == [1 - 2.0**-7] * 3


@pytest.mark.parametrize(("pipeline", "replicas"), [(1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_ranks_have_the_very_numbers_of_one_process(
    own: OwnSource, pipeline: int, replicas: int, optimizer: str
) -> None:
    """Gradients are added up in one order, so that not a rounding is otherwise."""
    records = on_threads(case(own, cut(own, pipeline, replicas, size=2), "1f1b", optimizer=optimizer))
    assert worst(records) == 0
    assert sum(record["numerics"]["compared"] for record in records) >= 2 * len(own.graph.parameters)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", EVERY)
def test_every_schedule_adds_up_the_same_gradients(schedule: str) -> None:
    """Where four microbatches are added up in another order than in one process, by `UNIT` three times."""
    made = mixed("bf16")
    names = [layer.name for layer in made.graph.layers]
    size = 1 if SCHEDULES.get(schedule).unmet_even(2, 4) else 2
    ready = case(made, placed_stages(schedule, 2, names, size=size), schedule, optimizer="momentum")
    records = on_threads(ready)
    assert all(record["left"] == 0 and record["numerics"]["compared"] for record in records)
    assert max(record["numerics"]["first"] for record in records) <= 2 * 3 * UNIT


@pytest.mark.parametrize("gradients", ["bf16", "fp32"])
def test_a_tied_weight_differs_by_the_order_of_its_sum(gradients: str) -> None:
    """Two uses in four microbatches are eight terms, whose seven sums in either order round by `UNIT`."""
    own = mixed(gradients, GPT)
    records = on_threads(case(own, cut(own, 2, size=2), "1f1b"))
    first = max(record["numerics"]["first"] for record in records)
    assert 0 < first <= 2 * 7 * UNIT


def test_a_gradient_one_per_cent_off_is_no_rounding(own: OwnSource) -> None:
    def scaled(rank: Compute) -> None:
        add = rank._add

        def more(piece: Any, number: int, found: Any, beside: Any = ()) -> None:
            add(piece, number, {n: g if g is None else 1.01 * g for n, g in found.items()}, beside)

        rank._add = more  # type: ignore[method-assign]

    records = on_threads(case(own, cut(own, 2, size=2), "1f1b"), scaled)
    assert min(record["numerics"]["first"] for record in records) > UNIT / 2


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_what_is_made_again_is_the_same(own: OwnSource, recompute: str) -> None:
    stages = tuple(replace(stage, recompute=recompute) for stage in cut(own, 2, size=2))
    assert worst(on_threads(case(own, stages, "1f1b"))) == 0


def test_sums_of_a_criterion_are_in_fp32() -> None:
    """3,000 ones, which bf16 stops counting at 256."""
    ones = torch.ones(3000, 4, dtype=torch.bfloat16)
    assert float(output_loss(torch.ones((), dtype=torch.bfloat16) * 3, 0, 101)) == 303
    assert token_loss(ones, torch.zeros(3000, dtype=torch.long)).dtype == torch.float32
    assert float(token_loss(ones, torch.zeros(3000, dtype=torch.long))) == pytest.approx(4158.883, rel=1e-5)


# -- bytes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pipeline", "replicas"), [(1, 2), (2, 1), (2, 2)])
def test_bytes_on_the_wire_are_those_predicted(
    own: OwnSource, sent: dict[str, list[torch.Tensor]], pipeline: int, replicas: int
) -> None:
    ready = case(own, cut(own, pipeline, replicas, size=2), "1f1b")
    job = replace(ready.job, gradient_precision=own.model.gradient_dtype)
    priced = case(own, ready.strategy.stages, "1f1b", job=job)
    on_threads(priced)
    program, prices = priced.program, priced.prices.bytes
    expected = {TRANSFER: 0.0, REDUCE: 0.0}
    for slot in program.slot.tolist():
        kind = program.slots[slot].kind if slot else None
        if kind in expected:
            expected[kind] += float(prices[slot])
    assert sum(x.numel() * x.element_size() for x in sent["send"]) == expected[TRANSFER]
    each = replicas * expected[REDUCE] if replicas > 1 else 0
    assert sum(x.numel() * x.element_size() for x in sent["reduce"] if replicas > 1) == each
    assert {x.dtype for x in sent["send"]} <= {torch.bfloat16}
    wide = torch.float32 if own.model.gradient_dtype == "fp32" else torch.bfloat16
    assert {x.dtype for x in sent["reduce"] if replicas > 1} <= {wide}


def scaled_plan(model: Any = WIDER, gradients: str = "", **shape: Any) -> Scaled:
    resolved = plan(*model, microbatches=4, **shape)
    job = replace(resolved.plan.workload.job, gradient_precision=gradients)
    return in_plan_precision(own_scaled(resolved, ranks=2)[0], job)


@pytest.mark.usefixtures("with_bf16")
@pytest.mark.parametrize(
    ("model", "shape", "gradients"),
    [
        (WIDER, {"stages": 2}, ""),
        (TALL, {"stages": 2}, ""),
        pytest.param(TALL, {"stages": 2}, "fp32", marks=pytest.mark.slow),
        pytest.param(WIDER, {"stages": 2}, "fp32", marks=pytest.mark.slow),
        pytest.param(WIDER, {"replicas": 2}, "", marks=pytest.mark.slow),
        pytest.param(WIDER, {"replicas": 2}, "fp32", marks=pytest.mark.slow),
    ],
)
def test_peaks_are_within_5_per_cent(model: Any, shape: dict[str, int], gradients: str) -> None:
    scaled = scaled_plan(model, gradients, **shape)
    held = short_case(
        "bytes", scaled, scaled.strategy, uncalibrated(2), once=True, count_bytes=True, fewest=2
    )
    found = run(RunSpec(ranks=2, cases=(held.case,)))
    for item in rank_memory(found, scaled, held.case.order):
        assert item.predicted_bytes == pytest.approx(item.measured_bytes, rel=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("with_bf16")
@pytest.mark.parametrize("gradients", ["", "fp32"])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_sharded_weights_send_what_is_predicted(level: int, gradients: str) -> None:
    scaled = scaled_plan(GPT, gradients, replicas=2, zero=level)
    held = short_case("bytes", scaled, scaled.strategy, uncalibrated(2), once=True, check=True, fewest=2)
    found = run(RunSpec(ranks=2, cases=(held.case,)))
    (item,) = sent_bytes(found, scaled, held.case)
    assert item.equal
    assert item.sent_bytes > 0
    for rank in found.ranks:
        assert rank["cases"]["bytes"][0]["numerics"]["first"] <= 2 * 7 * UNIT
