"""The cache of captured graphs: equal to a cold read, without torch, and harmless when broken."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.files import cache_folder
from explorer.models import _cache, hf

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.models.hf_configs import SMALL, small_graph

ROOT = Path(__file__).parents[2]

READ = """
import sys, json
from explorer.models import hf
graph = hf.load(sys.argv[1], sequence_length=32)
print(json.dumps([graph.parameter_count, len(graph.layers), "torch" in sys.modules]))
"""


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "small.json"
    file.write_text(json.dumps(SMALL["llama"]))
    return file


def test_a_new_process_reads_and_a_second_finds_it_without_torch(config: Path) -> None:
    def run() -> list[object]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", READ, str(config)],
            capture_output=True, check=False, cwd=ROOT, env=dict(os.environ),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        found: list[object] = json.loads(done.stdout)
        return found

    cold = run()
    (file,) = (config.parent / "cache").glob("*.json.gz")
    written = file.stat().st_mtime_ns
    expected = small_graph("llama")
    assert run() == cold == [expected.parameter_count, len(expected.layers), False]
    assert file.stat().st_mtime_ns == written
    from_cache = _cache.load(file.name.removesuffix(".json.gz"))
    assert from_cache is not None
    assert from_cache.layers == expected.layers
    assert from_cache.tensors == expected.tensors
    assert from_cache.parameters == expected.parameters
    assert from_cache.defaults == expected.defaults


def test_a_hit_does_not_read_the_model_again(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf, "_capture", lambda _: _cache.encode(small_graph("llama")))
    cold = hf.load(config, sequence_length=32)
    monkeypatch.setattr(hf, "_capture", lambda _: pytest.fail("read again"))
    assert hf.load(config, sequence_length=32) == cold


def test_another_length_content_or_version_is_another_entry(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [_cache.key({"data": {"a": 1}}), _cache.key({"data": {"a": 2}})]
    monkeypatch.setattr(hf, "_capture", lambda _: _cache.encode(small_graph("llama")))
    assert hf.load(config, sequence_length=32).name == "llama"
    monkeypatch.setattr(hf, "_capture", lambda _: _cache.encode(small_graph("gpt2")))
    assert hf.load(config, sequence_length=33).name == "gpt2"
    monkeypatch.setattr(hf, "_versions", lambda: {"torch": "other", "transformers": "other"})
    assert hf.load(config, sequence_length=32).name == "gpt2"
    assert len(set(keys)) == 2


@pytest.mark.parametrize(
    "data",
    # no time of day in them: processes that share the tests must name them alike
    [b"", b"no gzip", *(gzip.compress(text, mtime=0) for text in (b"{", b"[]", b"{}"))],
)
def test_a_broken_file_is_ignored_and_written_anew(
    config: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    encoded = _cache.encode(small_graph("llama"))
    monkeypatch.setattr(hf, "_capture", lambda _: encoded)
    cold = hf.load(config, sequence_length=32)
    (file,) = (config.parent / "cache").glob("*.json.gz")
    file.write_bytes(data)
    assert hf.load(config, sequence_length=32) == cold
    assert file.read_bytes() == encoded


def test_a_cache_that_cannot_be_written_is_no_error(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = config.parent / "a file"
    blocker.write_text("")
    monkeypatch.setenv("EXPLORER_CACHE", str(blocker / "cache"))
    monkeypatch.setattr(hf, "_capture", lambda _: _cache.encode(small_graph("llama")))
    assert hf.load(config, sequence_length=32) == small_graph("llama")


@pytest.mark.parametrize("family", SMALL)
def test_what_is_written_is_what_is_read(family: str) -> None:
    graph = small_graph(family)
    assert _cache.decode(_cache.encode(graph)) == graph


@settings(max_examples=50)
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_never_raises(where: float, bit: int) -> None:
    data = bytearray(_cache.encode(small_graph("llama")))
    data[int(where * len(data))] ^= 1 << bit
    try:
        found = _cache.decode(bytes(data))
    except _cache.UNREADABLE:
        found = None
    # Bytes of the header that gzip does not check (the time, the system) may change nothing.
    assert found is None or found == small_graph("llama")


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EXPLORER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "strategy-explorer"
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
