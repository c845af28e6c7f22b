"""`module.path:factory`: runs the user's code, says so, and captures what it returns."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from explorer.base.errors import InputError
from explorer.models import factory

HERE = "tests.models.torch_factories"


def test_a_module_with_inputs() -> None:
    graph = factory.load(f"{HERE}:residual")
    assert graph.name == "residual"
    assert graph.parameter_count == 3 * 8 * 9 + 8 + 8 * 8 * 9 + 8 + 16 + 90
    convolutions = 2 * 256 * (8 * 3 * 9 + 8 * 8 * 9)
    assert graph.flops_per_sample == convolutions + 2 * 80
    (skip,) = (readers for readers in graph.consumers.values() if len(readers) == 2)
    assert [graph.layer[name].kind for name in skip] == ["conv", "elementwise"]


def test_real_and_meta_parameters_give_one_graph() -> None:
    real, meta = factory.load(f"{HERE}:residual"), factory.load(f"{HERE}:residual_on_meta")
    assert (real.layers, real.tensors, real.parameters) == (meta.layers, meta.tensors, meta.parameters)


def test_a_graph_is_taken_as_it_is() -> None:
    assert [layer.name for layer in factory.load(f"{HERE}:graph").layers] == ["only"]


def test_the_sequence_length_is_passed_on() -> None:
    graph = factory.load(f"{HERE}:encoder", sequence_length=24)
    assert graph.tensor["src"].shape == (24, 32)
    assert graph.defaults.sequence_length == 24
    with pytest.raises(InputError, match="takes no 'sequence_length'"):
        factory.load(f"{HERE}:residual", sequence_length=24)
    with pytest.raises(InputError, match="takes no 'colour'"):
        factory.load(f"{HERE}:residual", settings={"colour": "red"})


def test_running_code_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="explorer.models.factory"):
        factory.load(f"{HERE}:graph")
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert f"running the code of {HERE}:graph" in caplog.text


def test_modules_of_the_working_directory_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a_model_that_stands_here"
    (tmp_path / f"{name}.py").write_text(
        "from explorer.graph import Layer, LayerGraph\n"
        "def make():\n    return LayerGraph(name='here', layers=(Layer(name='only'),))\n"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert factory.load(f"{name}:make").name == "here"
    assert sys.path == before


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no.such.module:make", "importing it raised ModuleNotFoundError"),
        (f"{HERE}:missing", "importing it raised AttributeError"),
        (f"{HERE}:NUMBER", "is no function"),
        (f"{HERE}:failing", "calling it raised RuntimeError: no luck"),
        (f"{HERE}:nothing", "returned NoneType"),
        (f"{HERE}:two_samples", "has 2 samples"),
        (f"{HERE}:wrong_shape", "cannot be captured"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(reference: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        factory.load(reference)
    assert caught.value.allowed
    assert "\n" not in str(caught.value)
