"""Which precision a plan runs in here, and why it is another one than the plan's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from explorer.cli.running import comparison_text
from explorer.plan import Resolved
from explorer.run import make_experiment, validate
from explorer.run.cases import exact_numbers
from explorer.run.cases.exact_numbers import in_fp64
from explorer.run.cases.likeness import SMALL, scale
from explorer.run.cases.mixed_precision import device_without, in_plan_precision
from explorer.run.cases.sharded_likeness import own_on_lanes
from explorer.run.cases.short_cases import short_case
from explorer.run.judging.calibrate import uncalibrated
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_scale import own_scaled
from explorer.run.spec import from_data, to_data
from explorer.strategy import Slice, UpdateChoice
from explorer.tasks.program import TRANSFER
from tests.run.own.own_cases import FACTORIES, GPT
from tests.run.own.test_mixed_precision import scaled_plan
from tests.run.own.test_own_scale import plan
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.usefixtures("with_bf16")
def test_a_plan_in_bf16_runs_in_bf16_and_says_so() -> None:
    scaled = scaled_plan(GPT, "fp32", stages=2)
    model = scaled.model
    assert isinstance(model, OwnModel)
    assert (model.dtype, model.gradient_dtype, model.element_bytes) == ("bf16", "fp32", 2)
    assert (scaled.job.precision, scaled.job.gradient_precision) == ("bf16", "fp32")
    assert {tensor.dtype for tensor in model.tensors} == {"bfloat16"}
    assert not [text for text in scaled.not_validated if text.startswith("precision")]
    assert (
        "precision bf16: main weights and states of the optimizer in fp32, gradients in fp32"
        in scaled.validated
    )
    spec = make_experiment(plan(*GPT, microbatches=4, stages=2), ranks=2, rounds=1, engine="layers").spec
    dtypes = {item.name: item.model.dtype for item in spec.cases if item.model}
    assert dtypes.pop("numerics") == "fp64"
    assert set(dtypes.values()) == {"bf16"}
    assert from_data(to_data(spec)).calibration == spec.calibration


def said(resolved: Resolved, **job: Any) -> str:
    scaled = own_scaled(resolved, ranks=2)[0]
    found = in_plan_precision(scaled, replace(resolved.plan.workload.job, **job))
    assert found.model.dtype == found.job.precision == "fp32"
    (text,) = [text for text in found.not_validated if text.startswith("precision: ")]
    return text


def test_a_device_without_bf16_stays_in_fp32_and_says_why() -> None:
    assert said(plan(*GPT, microbatches=4, stages=2)) == (
        "precision: bf16 in the plan, fp32 here: this processor has no bf16 in tests"
    )


@pytest.mark.usefixtures("with_bf16")
def test_what_runs_in_fp32_on_any_device_says_why() -> None:
    resolved = plan(*GPT, microbatches=4, stages=2)
    scaled, job = own_scaled(resolved, ranks=2)[0], resolved.plan.workload.job
    updates = (UpdateChoice(rule="local_sgd"),)
    first, *rest = scaled.strategy.stages
    part = Slice(layer=first.layers[-1], dim="seq", start=0, stop=0.5)
    sliced = scaled.strategy.with_stages([replace(first, slices=(part,)), *rest])
    for run_, job_, options, why in (
        (scaled, replace(job, precision="fp16"), {}, "no run scales its loss"),
        (scaled, replace(job, precision="fp8"), {}, "no run multiplies in fp8"),
        (scaled, replace(job, gradient_precision="fp16"), {}, "gradients in fp16"),
        (scaled, job, {"asked": "fp32"}, "fp32 was asked for"),
        (scaled, job, {"here": False}, "a run elsewhere"),
        (replace(scaled, strategy=replace(scaled.strategy, updates=updates)), job, {}, "rule local_sgd"),
        (replace(scaled, strategy=sliced), job, {}, "layers cut into slices"),
    ):
        found = in_plan_precision(run_, job_, **options)  # type: ignore[arg-type]
        assert found.model == scaled.model
        assert any(text.startswith("precision: ") and why in text for text in found.not_validated)
    assert in_plan_precision(scaled, replace(job, precision="fp32")) == scaled


@pytest.mark.usefixtures("with_bf16")
def test_stand_ins_and_wide_lanes_run_in_fp32() -> None:
    wide = plan(*GPT, microbatches=4, tensor=2)
    job, strategy = wide.plan.workload.job, wide.plan.strategy.job
    for scaled, why in (
        (scale(wide.graph, wide.cluster, job, strategy, ranks=2, size=SMALL), "stand-ins compute in fp32"),
        (own_on_lanes(wide, ranks=2, most_s=math.inf)[0], "lanes of several ranks compute in fp32"),
    ):
        found = in_plan_precision(scaled, job)
        assert found == replace(scaled, not_validated=found.not_validated)
        (text,) = [text for text in found.not_validated if text.startswith("precision: ")]
        assert text.endswith(why)


@pytest.mark.usefixtures("with_bf16")
def test_casts_of_a_module_stay_and_are_sent_as_they_are(sent: dict[str, list[torch.Tensor]]) -> None:
    """Sines in fp32 between two stages: four bytes a scalar forward and back, and so predicted."""
    resolved = plan(f"{FACTORIES}:lifting", microbatches=4, stages=2)
    lifted = next(layer.name for layer in resolved.graph.layers if "sin" in layer.name)
    scaled = own_scaled(resolved, ranks=2)[0]
    names = [layer.name for layer in scaled.graph.layers]
    cut = names.index(lifted) + 1
    parts = (tuple(names[:cut]), tuple(names[cut:]))
    stages = [replace(s, layers=x) for s, x in zip(scaled.strategy.stages, parts, strict=True)]
    scaled = replace(scaled, strategy=scaled.strategy.with_stages(stages))
    found = in_plan_precision(scaled, resolved.plan.workload.job)
    assert isinstance(found.model, OwnModel)
    assert {tensor.name: tensor.dtype for tensor in found.model.tensors}[lifted] == "float32"
    ready = short_case("lifted", found, found.strategy, uncalibrated(2), check=True)
    assert worst(on_threads(ready)) == 0
    assert {x.dtype for x in sent["send"]} == {torch.float32}
    program = ready.program
    slots = [slot for slot in program.slot.tolist() if slot and program.slots[slot].kind == TRANSFER]
    counted = sum(x.numel() * x.element_size() for x in sent["send"])
    assert counted == sum(float(ready.prices.bytes[slot]) for slot in slots)


@pytest.mark.usefixtures("with_bf16")
def test_a_module_that_is_in_fp32_by_its_own_casts_says_so() -> None:
    """Its layer is tried on zeros: a capture alone lets it pass."""
    text = said(plan(f"{FACTORIES}:single", microbatches=4))
    assert text == (
        "precision: bf16 in the plan, fp32 here: mat1 and mat2 must have the same dtype, but got Float and"
        " BFloat16"
    )


def test_a_processor_is_asked_for_its_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    flags: dict[str, Any] = {"avx512_f": True, "avx512_bf16": False, "amx_bf16": False}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags, raising=False)
    assert device_without(2) == "this processor has no instructions for bf16"
    flags["amx_bf16"] = True
    assert device_without(2) == ""
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert device_without(2) == "this processor has no instructions for bf16"


@pytest.mark.parametrize("has", [True, False])
def test_a_gpu_is_asked_where_every_rank_has_one(monkeypatch: pytest.MonkeyPatch, has: bool) -> None:
    asked: list[bool] = []

    def supported(*, including_emulation: bool) -> bool:
        asked.append(including_emulation)
        return has

    monkeypatch.setattr("explorer.run.cases.mixed_precision.count_gpus", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla V100")
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
    assert device_without(2) == ("" if has else "Tesla V100 computes in no bf16 of its own")
    assert asked == [False]
    assert device_without(3).startswith("this processor")


@pytest.mark.usefixtures("with_bf16")
def test_numbers_are_compared_in_fp32_where_fp64_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = scaled_plan(GPT, stages=2)
    model = scaled.model
    assert isinstance(model, OwnModel)
    needed = 30 * 2 * model.elements
    for room, dtype, why in (
        (9 * needed, "fp64", ""), (5 * needed, "fp32", "fp64 needs"), (3 * needed, "bf16", "fp64 needs")
    ):  # fmt: skip
        monkeypatch.setattr(exact_numbers, "room_bytes", lambda *_, room=room: room)
        found, reason = in_fp64(scaled)
        assert found.model.dtype == dtype
        assert reason.startswith(why)
        assert bool(reason) == bool(why)


@pytest.mark.slow
@pytest.mark.usefixtures("with_bf16")
def test_a_verdict_names_both_precisions() -> None:
    found = validate(plan(*GPT, microbatches=4, stages=2), engine="layers", ranks=2, steps=1)
    assert (found.precision, found.numerics_precision, found.numerics_ok) == ("bf16", "fp64", True)
    assert found.machine["precision"] == "bf16"
    text = comparison_text(found)
    assert "runs           the model's own layers, in bf16" in text
    assert "equal, compared in fp64" in text
    plain = validate(
        plan(*GPT, microbatches=4, stages=2), engine="layers", ranks=2, steps=1, precision="fp32"
    )
    assert (plain.precision, plain.machine.get("precision", "fp32")) == ("fp32", "fp32")
    assert any(text.endswith("fp32 here: fp32 was asked for") for text in plain.not_validated)
