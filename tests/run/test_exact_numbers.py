"""Numbers are compared in fp64, so that a rounding is told from a fault; seconds are those of fp32."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.plan import Resolved
from explorer.run import make_experiment, validate
from explorer.run.cases import exact_numbers
from explorer.run.cases.exact_numbers import in_fp64
from explorer.run.cases.likeness import SMALL
from explorer.run.judging.compare import CONFIRMED, OFF, TOO_NOISY, gradients_equal, numerics_of
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_scale import own_scaled
from explorer.run.sharded.layout_model import LayoutModel
from tests.run.own.own_cases import FACTORIES, GPT, case, cut, small_resnet
from tests.run.own.test_own_scale import plan
from tests.run.test_mutants import nudged, scaled
from tests.run.threads import on_threads


def made(resolved: Resolved, **fields: object) -> dict[str, str]:
    """The precision of every case of a launch."""
    spec = make_experiment(resolved, ranks=2, rounds=1, **fields).spec  # type: ignore[arg-type]
    return {item.name: item.model.dtype if item.model else "" for item in spec.cases}


@pytest.mark.parametrize("shape", [{"stages": 2}, {"tensor": 2}, {"replicas": 2, "zero": 3}])
@pytest.mark.parametrize("own", [True, False], ids=["layers", "likeness"])
def test_only_numbers_are_in_fp64(shape: dict[str, int], own: bool) -> None:
    fields = {"engine": "layers"} if own else {"engine": "likeness", "size": SMALL}
    found = made(plan(*GPT, microbatches=4, **shape), **fields)
    assert found.pop("numerics") == "fp64"
    assert set(found.values()) == {"fp32"}


def test_what_passes_between_layers_is_in_fp64_too() -> None:
    before, _ = own_scaled(plan(*GPT, stages=2, microbatches=4), ranks=2)
    exact, reason = in_fp64(before)
    assert not reason
    assert isinstance(before.model, OwnModel)
    assert isinstance(exact.model, OwnModel)
    assert {t.dtype for t in before.model.tensors} == {"float32"}
    assert {t.dtype for t in exact.model.tensors} == {"float64"}
    assert exact.model == replace(before.model, dtype="fp64", tensors=exact.model.tensors)


def test_a_module_of_other_layers_in_fp64_is_compared_in_fp32() -> None:
    before, _ = own_scaled(plan(f"{FACTORIES}:particular", microbatches=4), ranks=2)
    found, reason = in_fp64(before)
    assert found == before
    assert reason == "the module has other layers in fp64"


def test_where_memory_is_short_numbers_are_compared_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = own_scaled(plan(*GPT, stages=2, microbatches=4), ranks=2)
    monkeypatch.setattr(exact_numbers, "room_bytes", lambda *_: 1e5)
    found, reason = in_fp64(before)
    assert found == before
    assert reason.startswith("fp64 needs 0.0 GiB, and there is room for")


def test_a_layout_model_changes_its_precision_alone() -> None:
    spec = make_experiment(
        plan(*GPT, microbatches=4, tensor=2), ranks=2, rounds=1, engine="likeness", size=SMALL
    ).spec
    models = {item.name: item.model for item in spec.cases}
    exact = models["numerics"]
    assert isinstance(exact, LayoutModel)
    assert replace(exact, dtype="fp32") == models["bytes"]


@pytest.mark.slow
def test_a_rounding_in_a_small_resnet_is_none_in_fp64_and_a_fault_is_one() -> None:
    """One that turned a ReLU over would change gradients by some 1e-2; so does a gradient 1 % off."""
    source = small_resnet("fp64")
    ready = case(source, cut(source, 2, size=4), "1f1b")
    rounding, fault = (numerics_of([[row] for row in on_threads(ready, c)]) for c in (nudged, scaled))
    assert gradients_equal(rounding) is True
    assert 0 < rounding["gradient"] < 1e-12
    assert gradients_equal(fault) is False
    assert fault["first"] == pytest.approx(0.01, rel=1e-6)


@pytest.mark.slow
def test_a_small_resnet_has_the_numbers_of_one_process() -> None:
    """In fp32 its ReLUs turn over, which looked like wrong numbers."""
    settings = {"image": "72", "width": "4", "classes": "10"}
    resolved = plan("resnet50", settings, stages=2, microbatches=4)
    found = validate(resolved, engine="layers", ranks=2, steps=1)
    assert found.numerics_precision == "fp64"
    assert found.numerics_ok
    assert found.numerics["gradient"] < 1e-9
    assert found.verdict in (CONFIRMED, OFF, TOO_NOISY)
