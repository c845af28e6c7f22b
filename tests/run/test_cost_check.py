"""What a machine's profile says of a run, on made-up machines and timings whose answer is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from explorer.base.errors import InputError
from explorer.base.units import dtype_bytes
from explorer.cluster import Cluster
from explorer.costs.compute import layer_costs
from explorer.graph import COMPUTE
from explorer.run.cases.build import Prepared, prepare
from explorer.run.cases.operators import by_operator, operator_graph
from explorer.run.cases.short_cases import short_case
from explorer.run.judging.backward_bytes import PieceLayers, _gathered, _given_back, backward_bytes
from explorer.run.judging.calibrate import uncalibrated
from explorer.run.judging.compare import predicted_step
from explorer.run.judging.cost_check import (
    PROCESSOR,
    WALL,
    action_seconds,
    clock_of,
    layer_seconds,
    measured_collectives,
    measured_compute,
    predicted_collectives,
    predicted_compute,
    priced_by,
    unfit,
)
from explorer.run.judging.held_bytes import predicted_bytes
from explorer.run.lane_layout import LaneLayout
from explorer.run.model import (
    CONV,
    EMBED,
    HEAD,
    MLP,
    ModelSpec,
    Unit,
    forward_flops,
    model_graph,
    transformer,
)
from explorer.run.own.own_scale import own_scaled
from explorer.run.ranks.allocated import bytes_of, counted, highest
from explorer.run.ranks.held_weights import HeldWeights
from explorer.run.ranks.modules import initial_weights, sample_tokens, unit_forward
from explorer.run.ranks.optimizers import Optimizer
from explorer.strategy import JobStrategy
from explorer.workload import Job
from tests.run.own.own_cases import RESNET
from tests.run.own.test_own_scale import plan as resnet
from tests.run.programs import stages_of
from tests.run.sharded.plans import CASES, plan

BRANCHED = ModelSpec(
    units=(
        Unit(name="embed", kind=EMBED),
        Unit(name="a", kind=MLP, ffn=48, reads=(0,)),
        Unit(name="b", kind=CONV, ffn=40, reads=(0,)),
        Unit(name="head", kind=HEAD, reads=(1, 2)),
    )
)
MODELS = [transformer(2), transformer(1, tied=True), transformer(2, d_model=24, heads=3, ffn=40), BRANCHED]


def machine(ranks: int = 2, **fields: Any) -> Cluster:
    """A machine of so many ranks, with other numbers for its devices."""
    plain = uncalibrated(ranks)
    kind = replace(plain.device_kinds[0], name="cpu", **fields)
    nodes = tuple(replace(group, device_kind=kind.name) for group in plain.nodes)
    return Cluster(name="mine", device_kinds=(kind,), nodes=nodes, levels=plain.levels)


def lane_rows(run: Prepared, compute_s: float, inside_s: float) -> list[list[dict[str, Any]]]:
    """Records of every lane whose tasks all take so long, a part of it in collectives."""
    return [
        [
            {
                "stamps": [
                    [task, 0.0, 1.0, 1.0 + compute_s + inside_s, 0.9 * compute_s + 0.1 * inside_s]
                    for task in tasks.tolist()
                ],
                "inside": [[task, inside_s, 0.1 * inside_s] for task in tasks.tolist()],
            }
        ]
        for tasks in run.program.programs
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["tensor", "pipeline x sequence", "data x tensor zero 3", "zero 2"])
def test_collectives_inside_lanes_are_no_compute(name: str) -> None:
    made = plan(next(item for item in CASES if item.name == name)._replace(dtype="fp32"))
    # a GPU's collectives go on while its host issues layers as small as these
    run = priced_by(made, made.prices.pricer.graph, made.strategy, uncalibrated(8))
    inside = predicted_collectives(run)
    assert (inside > 0) == (run.case.lane_ranks > 1)
    tasks = [task for tasks in run.program.programs for task in tasks.tolist()]
    count = len(run.program.programs) * run.program.order.steps
    whole = sum(float(run.prices.seconds[run.program.slot[task]]) for task in tasks) / count
    assert predicted_compute(run) + inside == pytest.approx(whole)
    rows = lane_rows(run, 0.5, 0.25)
    each = len(tasks) / count
    assert measured_compute(run, rows, WALL) == pytest.approx(0.5 * each)
    assert measured_compute(run, rows, PROCESSOR) == pytest.approx(0.45 * each)
    assert measured_collectives(run, rows) == pytest.approx(0.25 * each)
    found = action_seconds(run, rows, PROCESSOR)
    stages = range(1 + max(section.stage for section in run.program.skeleton.sections))
    assert {(item.stage, item.action) for item in found} == {(s, a) for s in stages for a in "FBU"}
    for item in found:
        assert item.measured_s == (pytest.approx(0.45), 0.25)
        if run.case.lane_ranks > 1 and item.action != "U":
            assert min(item.predicted_s) > 0
    free = replace(run, prices=replace(run.prices, comm_s=0 * run.prices.comm_s))
    assert predicted_compute(free) == pytest.approx(whole)


def test_operators_are_cut_by_the_names_that_the_layout_has() -> None:
    """A capture calls dimensions otherwise than a plan; what a profile prices is cut as what runs."""
    layout = (("out_channels", "tensor"), ("channels", "tensor"), ("vocab", "tensor"))
    lane = LaneLayout(layout=layout, axes=(("tensor", 2),))
    scaled, _ = own_scaled(resnet(*RESNET, microbatches=4), ranks=1, lane=lane)
    assert scaled.eager is not None
    run = short_case("profile", scaled, scaled.strategy, uncalibrated(2))
    priced = priced_by(run, scaled.eager, scaled.strategy, uncalibrated(2))
    assert priced.prices.lane_bytes.tolist() == run.prices.lane_bytes.tolist()
    assert priced.prices.lane_bytes.sum() > 0


@pytest.mark.parametrize("model", MODELS)
def test_the_operators_of_a_unit_are_its_work_and_its_weights(model: ModelSpec) -> None:
    fine, coarse = operator_graph(model), model_graph(model)
    assert {p.name: p.elements for p in fine.parameters} == {p.name: p.elements for p in coarse.parameters}
    for unit in model.units:
        own = [layer for layer in fine.layers if layer.block == unit.name]
        assert sum(layer.forward.flops for layer in own) == forward_flops(model, unit)
        used = {use.name for layer in own for use in layer.parameters}
        assert used == {use.name for use in coarse.layer[unit.name].parameters}


@pytest.mark.parametrize("model", MODELS)
def test_what_autograd_keeps_is_what_the_operators_save(model: ModelSpec) -> None:
    """Saved tensors of a forward, weights apart, in bytes of their storages: those of the graph.

    What norms and attention keep for each row, a number or two, is too little to be in the graph as such.
    """
    samples, device = 3, torch.device("cpu")
    graph = operator_graph(model)
    weights = initial_weights(model, range(len(model.units)), device)
    tokens = sample_tokens(model, 0, samples, device)
    held = {w.untyped_storage().data_ptr() for w in weights.values()} | {tokens.untyped_storage().data_ptr()}
    kept: dict[int, torch.Tensor] = {}

    def pack(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in held and storage.nbytes() >= 4 * samples * model.seq * model.d_model:
            kept[x.untyped_storage().data_ptr()] = x
        return x

    made: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        for unit in model.units:
            x = sum((made[i] for i in unit.reads[1:]), made[unit.reads[0]]) if unit.reads else None
            own = {
                name.removeprefix(f"{unit.name}."): w
                for name, w in weights.items()
                if name.startswith(f"{unit.name}.")
            }
            if unit.tied:
                own["table"] = weights["embed.table"]
            made.append(unit_forward(model, unit, own, x, tokens))
    saved = {name for layer in graph.layers for name in layer.saves}
    expected = sum(
        4 * samples * math.prod(tensor.shape)
        for tensor in graph.tensors
        if tensor.name in saved and len(tensor.shape) > 1 and tensor.dtype != "int64"
        and not tensor.name.endswith("statistics")
    )  # fmt: skip
    assert bytes_of(kept.values()) == pytest.approx(expected)


def prepared(stages: int, replicas: int, *, optimizer: str = "sgd") -> tuple[Any, Any, Any]:
    model = transformer(2)
    graph = model_graph(model)
    job = Job(global_batch=16, precision="fp32", optimizer=optimizer)
    names = [layer.name for layer in graph.layers]
    strategy = JobStrategy(stages=stages_of(names, stages, replicas, size=4 * replicas), schedule="1f1b")
    ranks = uncalibrated(stages * replicas)
    run = prepare("x", graph, ranks, job, strategy, steps=2, model=model)
    return model, strategy, run


@pytest.mark.parametrize(("stages", "replicas"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_a_profile_prices_the_very_program_that_runs(stages: int, replicas: int) -> None:
    """On a device without overheads a step is its FLOPs over the peak, and half as long at twice the peak."""
    model, strategy, run = prepared(stages, replicas)
    graph = operator_graph(model)
    steps = []
    for peak in (1e6, 2e6):  # so slow that links and memory take nothing
        fast = machine(stages * replicas, peak_flops_per_s=(("fp32", peak),), launch_overhead_s=0.0)
        priced = priced_by(run, graph, by_operator(strategy, graph), fast)
        assert priced.program is run.program
        steps.append(predicted_step(priced))
        alone = 3 * sum(forward_flops(model, unit) for unit in model.units) * 16 / peak
        assert predicted_compute(priced) == pytest.approx(alone / (stages * replicas), rel=0.03)
    assert steps[0] == pytest.approx(2 * steps[1], rel=0.03)


def test_the_operators_of_another_model_are_refused() -> None:
    _, strategy, run = prepared(2, 1)
    other = operator_graph(transformer(2, tied=True))
    with pytest.raises(InputError, match="another program"):
        priced_by(run, other, by_operator(strategy, other), machine())


def test_seconds_of_layers_are_those_of_their_operators() -> None:
    model, _, _ = prepared(2, 1)
    graph, here = operator_graph(model), machine()
    timed = [{"4": [(n + 1.0, 10.0 * (n + 1)) for n in range(4)]}] * 3
    found = layer_seconds(graph, here, [u.name for u in model.units], timed, precision="fp32")
    assert [item.layer for item in found] == ["embed", "layers.0", "layers.1", "head"]
    assert found[2].measured_s == (3.0, 30.0)
    costs = layer_costs(graph, here.device_kinds[0], samples=4, precision="fp32").seconds
    assert sum(item.predicted_s[0] for item in found) == pytest.approx(float(costs[0].sum()))
    assert sum(item.predicted_s[1] for item in found) == pytest.approx(float(costs[1:].sum()))


@pytest.mark.parametrize(("clock", "expected"), [(PROCESSOR, 0.5), (WALL, 2.0)])
def test_compute_is_told_by_the_clock_of_the_device(clock: str, expected: float) -> None:
    _, _, run = prepared(1, 1)
    count = len(run.program.programs[0])
    stamps = [[task, 0.0, 0.0, 2.0 * 2 / count, 0.5 * 2 / count] for task in range(count)]
    assert measured_compute(run, [[{"stamps": stamps}]], clock) == pytest.approx(expected)
    assert (clock_of("cpu"), clock_of("NVIDIA A100-SXM4-80GB")) == (PROCESSOR, WALL)


@pytest.mark.parametrize(
    ("profile", "device", "said"),
    [
        (None, "cpu", "explorer profile"),
        (machine(1), "cpu", "was made with 1 ranks, 2 ran"),
        (machine(2), "NVIDIA A100-SXM4-80GB", "is of cpu, the ranks ran on NVIDIA"),
    ],
)
def test_a_profile_of_something_else_says_nothing(profile: Cluster | None, device: str, said: str) -> None:
    if profile is not None:
        assert unfit(profile, ranks=profile.device_count, device="cpu") == ""
    assert said in unfit(profile, ranks=2, device=device)


def test_a_profile_without_rates_of_the_precision_says_nothing() -> None:
    both = machine(2, peak_flops_per_s=(("fp32", 1e11), ("bf16", 3e11)))
    assert unfit(both, ranks=2, device="cpu", precision="bf16") == ""
    said = unfit(machine(2), ranks=2, device="cpu", precision="bf16")
    assert said.endswith("has no rates of bf16: `explorer profile` measures them")


def test_counted_are_all_tensors_that_are_alive_together() -> None:
    size = 1 << 20
    held = torch.ones(size)
    with counted(torch.device("cpu"), [held, held.view(2, -1)]) as found:
        one = held + 1
        two = one + 1
        del one
        three = two + 1
        del two, three
    assert found.peak == pytest.approx(4 * size * 3, rel=0.01)
    assert highest([]) == 0
    with counted(torch.device("cpu"), []) as nothing:
        pass
    assert nothing.peak == 0


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_update_holds_no_copies(optimizer: str) -> None:
    """Without activations to speak of, the peak is weights, gradients and states."""
    model, strategy, run = prepared(1, 1, optimizer=optimizer)
    graph = operator_graph(model)
    priced = priced_by(run, graph, by_operator(strategy, graph), machine(1))
    weights = 4 * sum(p.elements for p in graph.parameters)
    assert predicted_bytes(priced)[0] >= weights * {"sgd": 2, "adam": 4}[optimizer]
    held = {p.name: torch.zeros(round(p.elements)) for p in graph.parameters}
    rule = Optimizer(optimizer, 0.1)
    rule.step(held, held)
    with counted(torch.device("cpu"), [*held.values(), *rule.first.values(), *rule.second.values()]) as found:
        given = {name: torch.ones_like(w) for name, w in held.items()}
        rule.step(held, HeldWeights._mean(given, (0, 2)))
    assert found.peak == pytest.approx(weights * {"sgd": 2, "adam": 4}[optimizer], rel=0.01)
    assert all(bool((g == 0.5).all()) for g in given.values())


@pytest.mark.parametrize("samples", [1, 8])
def test_gradients_gather_while_activations_go(samples: int) -> None:
    """Against a backward that is played layer by layer, with what each saves and which weights it has."""
    graph = operator_graph(transformer(2))
    held = {}
    for name in (name for layer in graph.layers for name in layer.saves):
        saved = graph.tensor[name]
        width = 4 if saved.dtype == COMPUTE else dtype_bytes(saved.dtype)
        held[name] = samples * width * math.prod(saved.shape)
    start, given, most = sum(held.values()), 0.0, -math.inf
    met: set[str] = set()
    for number in reversed(range(len(graph.layers))):
        for use in graph.layers[number].parameters:
            if use.name not in met:
                met.add(use.name)
                given += 4 * graph.parameter[use.name].elements
        most = max(most, given + sum(held.values()) - start)
        before = {name for layer in graph.layers[:number] for name in layer.saves}
        held = {name: size for name, size in held.items() if name in before}
    layers = tuple(range(len(graph.layers)))
    piece = PieceLayers(graph=graph, layers=layers, samples=samples, element_bytes=4.0)
    found = float((_gathered(piece) - _given_back(piece)[1:]).max())
    assert found == pytest.approx(most, rel=1e-3)
    assert backward_bytes(piece) >= found
