"""What a user may call a model, and what is said where it is none."""

from __future__ import annotations

import io
import sys
import types
from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.models import load_model, load_model_and_cluster, saved
from explorer.models.synthetic import chain

PROFILE = (
    "node1 -- Linear(4, 4) -- forward_compute_time=1.0, backward_compute_time=2.0, "
    "activation_size=8.0, parameter_size=16.0\n"
)


def refused(reference: str, **given: object) -> InputError:
    with pytest.raises(InputError) as caught:
        load_model(reference, **given)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return caught.value


def test_near_miss_is_guessed() -> None:
    assert "did you mean 'gpt2-small'?" in str(refused("gpt2-smal"))


@pytest.mark.parametrize("reference", ["", "nothing-like-it", "a b", "Ünïcode"])
def test_unknown_names_the_alternatives(reference: str) -> None:
    assert "hf:PATH" in str(refused(reference)) or "folder" in str(refused(reference))


def test_missing_file() -> None:
    error = refused("nowhere/profile.graph.txt")
    assert error.file == "nowhere/profile.graph.txt"
    assert "no such file" in str(error)


def test_setting_of_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "a.graph.txt"
    path.write_text(PROFILE)
    graph = load_model(str(path), settings={"samples_per_microbatch": "4"})
    assert graph.layers[0].measured[0].batch == 4
    assert graph.tensors[0].shape == (2.0,)


@pytest.mark.parametrize(
    ("key", "value"),
    [("samples_per_microbatch", "0"), ("samples_per_microbatch", "x"), ("inputs", "maybe"), ("speed", "1")],
)
def test_wrong_setting_of_a_profile(tmp_path: Path, key: str, value: str) -> None:
    path = tmp_path / "a.graph.txt"
    path.write_text(PROFILE)
    error = refused(str(path), settings={key: value})
    assert (error.file, error.key) == (str(path), key)
    assert error.allowed


def test_wrong_setting_of_the_zoo() -> None:
    assert refused("vgg16", settings={"speed": "1"}).key == "speed"


def test_wrong_setting_of_a_json_model(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    saved.save(chain([1.0]), path)
    assert refused(str(path), settings={"speed": "1"}).key == "speed"


def test_sequence_length_of_a_file_is_fixed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    saved.save(load_model("gpt2-small", sequence_length=64), path)
    assert load_model(str(path), sequence_length=64).defaults.sequence_length == 64
    assert refused(str(path), sequence_length=128).allowed == "64"


@pytest.mark.parametrize("length", [0, -1])
def test_sequence_length_is_positive(length: int) -> None:
    assert refused("gpt2-small", sequence_length=length).key == "sequence_length"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(saved.to_json(chain([1.0, 2.0]))))
    assert load_model("-") == chain([1.0, 2.0])


def test_folder_with_a_configuration_is_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert f"hf:{tmp_path}" in str(refused(str(tmp_path)))
    assert "hf:" in str(refused(str(tmp_path / "config.json")))


@pytest.mark.parametrize(
    "content", ["", "hello", "{", "[]", "{}", '{"a": 1, "a": 2}', '{"nodes": 1}', "[" * 100_000, "3", "\x00"]
)
def test_files_that_are_no_model(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    error = refused(str(path))
    assert error.file == str(path)
    assert error.allowed


def test_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert refused(str(path)).file == str(path)


@pytest.mark.parametrize(
    ("reference", "module", "passed"),
    [("hf:some/config.json", "hf", "some/config.json"), ("my.models:build", "factory", "my.models:build")],
)
def test_other_readers_get_what_was_asked(
    monkeypatch: pytest.MonkeyPatch, reference: str, module: str, passed: str
) -> None:
    asked: list[object] = []
    reader = types.ModuleType(module)
    reader.load = lambda *args, **given: asked.append((args, given)) or chain([1.0])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"explorer.models.{module}", reader)
    assert load_model(reference, sequence_length=8, settings={"a": "b"}) == chain([1.0])
    assert asked == [((passed,), {"sequence_length": 8, "settings": {"a": "b"}})]


def test_only_a_partitioning_carries_devices(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"nodes": [{"id": 1, "fpgaLatency": 1, "cpuLatency": 2}], "edges": [], "maxFPGAs": 2}')
    graph, cluster = load_model_and_cluster(str(path))
    assert len(graph.layers) == 1
    assert cluster is not None
    assert cluster.device_count == 2
    assert load_model_and_cluster("vgg16")[1] is None
