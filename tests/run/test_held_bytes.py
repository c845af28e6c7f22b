"""Peak bytes of ranks: what is predicted of their order against what is counted, on small models."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import nn

from explorer.models.captured_program import Capturing, capture_program
from explorer.run.cases.build import Prepared
from explorer.run.judging.backward_bytes import PieceLayers, _copies
from explorer.run.judging.calibrate import uncalibrated
from explorer.run.judging.cost_check import priced_by
from explorer.run.judging.held_bytes import predicted_bytes
from explorer.run.own.own_source import OwnSource, own_source
from explorer.run.ranks import allocated
from explorer.run.ranks.allocated import bytes_of, counted
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.lane import RankLanes
from tests.run.own.own_cases import case, configuration, cut, source
from tests.run.threads import peak_on_threads

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")
LLAMA = {"layers": "3", "embed": "64", "heads": "4", "kv_heads": "2", "ffn": "176", "vocab": "1000"}
GPT = {"layers": "2", "embed": "64", "heads": "4", "vocab": "1000"}
RESNET = {"image": "64", "width": "16", "classes": "10"}
KEEP = tuple((f"stage{i + 1}", count, (0,)) for i, count in enumerate((3, 4, 6, 3)))


@dataclass(frozen=True, slots=True)
class Shape:
    """A small model and how it runs."""

    reference: str
    settings: dict[str, str]
    tokens: int | None
    schedule: str
    stages: int = 2
    replicas: int = 1
    batch: int = 8
    optimizer: str = "adam"
    recompute: str = "none"


SHAPES = {
    "activations of GPipe": Shape("llama", LLAMA, 64, "gpipe"),
    "one in flight": Shape("llama", LLAMA, 64, "1f1b"),
    "versions": Shape("llama", LLAMA, 16, "pipedream_2bw"),
    "weights made for reads": Shape("llama", LLAMA, 64, "spectrain"),
    "weights along a velocity": Shape("llama", LLAMA, 64, "spectrain", optimizer="momentum"),
    "split backward": Shape("llama", LLAMA, 64, "zb_h1"),
    "exchange": Shape("llama", LLAMA, 64, "1f1b", stages=1, replicas=2),
    "tied": Shape("gpt", GPT, 16, "gpipe", stages=1, replicas=2),
    "scores as operators": Shape("t5", {}, 16, "gpipe"),
    "made again": Shape("llama", LLAMA, 64, "1f1b", recompute="full"),
    "made again in GPipe": Shape("llama", LLAMA, 64, "gpipe", recompute="full"),
    "convolutions made again": Shape("resnet50", RESNET, None, "1f1b", recompute="full"),
    "convolutions": Shape("resnet50", RESNET, None, "gpipe"),
}


def opened(shape: Shape) -> OwnSource:
    if shape.reference == "resnet50":
        return own_source("resnet50", settings=RESNET, keep=KEEP, dtype="fp32")
    reference = configuration("t5") if shape.reference == "t5" else shape.reference
    return source(reference, shape.settings, shape.tokens, "fp32")


def made(shape: Shape) -> tuple[Prepared, OwnSource]:
    own = opened(shape)
    size = shape.batch // 8 * shape.replicas
    cuts = cut(own, shape.stages, shape.replicas, size=size)
    stages = tuple(replace(stage, recompute=shape.recompute) for stage in cuts)
    plain = case(own, stages, shape.schedule, batch=shape.batch, optimizer=shape.optimizer)
    return replace(plain, case=replace(plain.case, check=False)), own


def predicted(prepared: Prepared, own: OwnSource) -> list[float]:
    ranks = uncalibrated(len(prepared.program.programs))
    return predicted_bytes(priced_by(prepared, own.eager, prepared.strategy, ranks), own.eager)


@pytest.mark.parametrize("name", SHAPES)
def test_the_peak_is_what_the_order_holds(name: str) -> None:
    prepared, own = made(SHAPES[name])
    for rank, expected in enumerate(predicted(prepared, own)):
        assert expected == pytest.approx(peak_on_threads(prepared, rank), rel=0.03), rank


def test_what_a_count_starts_with_may_go() -> None:
    """As old versions of weights do: nothing of it is held by who counts."""
    size = 1 << 20
    held = [torch.ones(size)]
    with counted(CPU, [*held]) as found:
        held[0] = held[0] + 1
        held[0] = held[0] + 1
    assert found.peak == pytest.approx(2 * 4 * size, rel=0.01)


def test_a_tensor_that_somebody_keeps_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """As autograd keeps what a product saves."""
    monkeypatch.setattr(allocated, "LET_GO_S", 0.01)
    kept, leaf = torch.ones(3), torch.ones(3, requires_grad=True)
    before = kept._use_count()
    with allocated.until_let_go(kept):
        product = kept * leaf
    assert kept._use_count() > before
    assert product.grad_fn is not None


def test_who_lets_go_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a thread of gloo does after an all-reduce."""
    monkeypatch.setattr(allocated, "LET_GO_S", 60.0)
    total, leaf = torch.ones(3), torch.ones(3, requires_grad=True)
    holders = [total * leaf]
    later = threading.Timer(0.05, holders.clear)
    later.start()
    allocated.wait_until_let_go(total)
    assert not holders
    assert total._use_count() == 1


def test_outputs_that_were_sent_do_not_stay() -> None:
    """A backward begins at their places in the graph: microbatches in flight have none of their values."""
    prepared, _ = made(SHAPES["activations of GPipe"])
    seen: list[Any] = []
    lanes = RankLanes(prepared.case.lowered())
    run = Compute(prepared.case, lanes, 0, CPU)
    (piece,) = run.pieces
    for number in range(3):
        run._forward(piece, number)
        seen.append(run.saved[piece, number][1])
    assert all(ends and not any(isinstance(end, torch.Tensor) for end in ends.values()) for ends in seen)


CONVOLUTIONS = [(64, 64, 3, 1, 1), (128, 128, 3, 2, 1), (256, 512, 1, 2, 2), (256, 128, 1, 1, 2)]
"""Channels read and written, kernel, stride, samples."""


@pytest.mark.parametrize(("read", "write", "kernel", "stride", "samples"), CONVOLUTIONS)
def test_a_convolution_copies_into_the_layout_of_its_library(
    read: int, write: int, kernel: int, stride: int, samples: int
) -> None:
    module = nn.Sequential(
        nn.Conv2d(3, read, 1), nn.Conv2d(read, write, kernel, stride=stride, padding=kernel // 2)
    )
    inputs = {"input": torch.zeros(1, 3, 28, 28)}
    graph = capture_program(Capturing(module=module, kwargs=inputs, name="two", by_module=True)).graph
    piece = PieceLayers(graph=graph, layers=(0, 1), samples=samples, element_bytes=4.0)
    x = torch.randn(samples, read, 28, 28, requires_grad=True)
    w = torch.randn(write, read, kernel, kernel, requires_grad=True)
    y = torch.nn.functional.conv2d(x, w, stride=stride, padding=kernel // 2)
    came = torch.randn_like(y)
    with counted(CPU, []) as found:
        results = torch.autograd.grad(y, [x, w], came)
    copied = found.peak - bytes_of(results)
    assert _copies(piece)[1] == pytest.approx(copied, rel=0.25, abs=0.02 * bytes_of(results))


def test_a_weight_of_two_readers_has_its_gradients_beside_each_other() -> None:
    """A table's are added up in place; a product's first, which is a transposed view, is not."""
    rows, width, places = 400, 32, 4
    table = torch.randn(rows, width, requires_grad=True)
    where = torch.arange(places)

    def product(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, table).square().sum()

    def peak(loss: torch.Tensor) -> float:
        with counted(CPU, []) as found:
            torch.autograd.grad(loss, [table])
        return found.peak / bytes_of([table])

    twice = peak(
        (torch.nn.functional.embedding(where, table) * torch.nn.functional.embedding(where, table)).sum()
    )
    tied = peak(product(torch.nn.functional.embedding(where, table)))
    graph = source("gpt", GPT, 16, "fp32").graph
    layers = tuple(range(len(graph.layers)))
    piece = PieceLayers(graph=graph, layers=layers, samples=1, element_bytes=4.0)
    tables = 4 * graph.parameter[graph.layers[0].parameters[0].name].elements
    assert 1 + _copies(piece).max() / tables == pytest.approx(tied, abs=0.2) == pytest.approx(3, abs=0.2)
    assert twice == pytest.approx(2, abs=0.1)
