"""Everything that a rank makes lies on its own device, on one that is pretended.

Each case is one that runs on real ranks; here its ranks are threads whose tensors refuse those of the host,
and what they compute is compared with one process on the same device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from explorer.actions import Action
from explorer.models.captured_program import capture_program
from explorer.models.module_source import open_module
from explorer.run.cases.build import Prepared
from explorer.run.one_rank import slice_run
from explorer.run.one_rank.fitting import fit
from explorer.run.one_rank.rank_layers import RankLayers
from explorer.run.own.layer_timing import time_layers
from explorer.run.own.own_layers import own_layers
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_source import OwnSource
from explorer.strategy import Mesh, Stage
from tests.run.own.own_cases import GPT, LLAMA, case, configured, cut, small_resnet, source
from tests.run.own.slice_cases import parts, sliced_stages
from tests.run.pretended import DEVICE, Pretended, Pretending, made_here_first
from tests.run.programs import real
from tests.run.test_slice_run import gpt
from tests.run.threads import on_threads, worst

CASES: dict[str, Callable[[], Prepared]] = {
    "stand-ins, replicas": lambda: real("gpipe", 2, 2),
    "a Llama of a library": lambda: own(configured("library_llama"), "1f1b"),
    "resnet": lambda: own(small_resnet("fp64"), "gpipe"),
    "gpt in slices": lambda: in_slices(source(*GPT)),
}


def own(model: OwnSource, schedule: str, **fields: Any) -> Prepared:
    """A model's own layers on two ranks."""
    return case(model, cut(model, 2), schedule, **fields)


def in_slices(model: OwnSource) -> Prepared:
    """A model with half of a product's width on either rank."""
    cuts = [(f"layers.1.mlp.{name}", "ffn", parts(0.25)) for name in ("up", "gelu", "down")]
    return case(model, sliced_stages(model.graph, ("layers.1.mlp.norm",), *cuts), "1f1b", batch=4)


@pytest.fixture
def pretending(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Attention goes by plain operators, as its kernels are chosen by device."""
    monkeypatch.setattr(torch, "tensor", made_here_first)
    with sdpa_kernel(SDPBackend.MATH):
        yield


@contextmanager
def on_device(_rank: int = 0) -> Iterator[None]:
    """The device exists in this thread."""
    with Pretending(), sdpa_kernel(SDPBackend.MATH):
        yield


def captured(prepared: Prepared) -> None:
    """Capture a case's programs before the device exists: captures are made on the host."""
    model = prepared.case.model
    for samples in (1, 2) if isinstance(model, OwnModel) else ():
        own_layers(model.whole).program(samples)


@pytest.mark.usefixtures("pretending")
@pytest.mark.parametrize("name", CASES)
def test_ranks_compute_on_their_own_device(name: str) -> None:
    prepared: Prepared = CASES[name]()
    captured(prepared)
    with on_device():
        records = on_threads(prepared, device=DEVICE, around=on_device)
    assert worst(records) < 1e-9


@pytest.mark.usefixtures("pretending")
def test_a_slice_runs_on_its_own_device() -> None:
    module = open_module(GPT[0], settings=GPT[1], sequence_length=GPT[2])
    program = capture_program(module, samples=2)
    layers = tuple(layer.name for layer in program.graph.layers)
    stage = Stage(layers=layers, meshes=(Mesh(devices=(0,)),), microbatch_samples=2)
    with on_device():
        run = RankLayers(program, module, {0: stage}, "adam", str(DEVICE))
        assert all(isinstance(weight, Pretended) for weight in run.weights.values())
        assert {item.layer for item in run.alone()} <= set(layers)
        before = {name: weight.detach().cpu().clone() for name, weight in run.weights.items()}
        order = [Action("F", 0, 0), Action("B", 0, 0), Action("U", 0, 0)]
        assert set(run.play(order)) == {"F0", "B0", "U0"}
        changed = [
            name for name, weight in run.weights.items() if not torch.equal(weight.cpu(), before[name])
        ]
    assert set(changed) == set(run.weights)


@pytest.mark.usefixtures("pretending")
@pytest.mark.parametrize("sequence", [False, True])
def test_a_slice_of_a_lane_runs_on_its_own_device(*, sequence: bool) -> None:
    reference, settings = "gpt", {"layers": "2", "embed": "32", "heads": "4", "vocab": "64"}
    asked = gpt(reference, settings, tensor=2, sequence_parallel=sequence)
    module = open_module(reference, settings=settings, sequence_length=64)
    fitted = fit(asked, rank=None, microbatches=2, device="cpu")
    program = capture_program(module, samples=fitted.samples)
    slice_run._runner(asked, fitted, program, module, "cpu")  # captures all that the next one needs
    with on_device():
        run = slice_run._runner(asked, fitted, program, module, str(DEVICE))
        assert run.alone()
        assert set(run.play(fitted.order)) == {"F0", "B0", "U0"}
    assert all(isinstance(weight, Pretended) for weight in run.weights.values())


@pytest.mark.usefixtures("pretending")
def test_layers_are_timed_on_their_own_device() -> None:
    layers = own_layers(source(*LLAMA).model)
    layers.program(2)
    with on_device():
        weights = layers.weights(range(len(layers.model.layers)), DEVICE)
        assert all(isinstance(weight, Pretended) for weight in weights.values())
        wall, worked, _ = time_layers(layers, weights, 2, lambda: (0.0, 0.0))
    assert len(wall) == len(worked) == len(layers.model.layers)
