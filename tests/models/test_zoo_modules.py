"""Images, recurrent nets and recommenders against torch modules: parameters, FLOPs, wiring, touched rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.models import load_model
from explorer.models._tables import touched_share
from explorer.models.dlrm import ROWS
from tests.models.test_zoo_flops import agree, count

torch = pytest.importorskip("torch")
from tests.models import torch_zoo as zoo  # noqa: E402 - it needs torch

BUILT: dict[str, Callable[[], Any]] = {
    "alexnet": zoo.alexnet, "inception-v3": zoo.inception, "unet-3d": zoo.unet, "awd-lm": zoo.awd_lm,
    "biglstm": zoo.biglstm, "gnmt-8": lambda: zoo.gnmt(4), "gnmt-16": lambda: zoo.gnmt(8),
    "dlrm": lambda: zoo.dlrm(ROWS),
}  # fmt: skip
STEPS = {"awd-lm": 32, "biglstm": 24, "gnmt-8": 32}
"""Of the modules. (The first step's state is no variable, so that torch does not count its gradient.)"""


@pytest.mark.parametrize("name", BUILT)
def test_parameters(name: str) -> None:
    with torch.device("meta"):
        model, _ = BUILT[name]()
    # torch gives the two LSTMs of the big one a second bias of 4 x 8192.
    extra = 2 * 4 * 8192 if name == "biglstm" else 0
    assert sum(p.numel() for p in model.parameters()) == load_model(name).parameter_count + extra


@pytest.mark.parametrize("name", [name for name in BUILT if name != "gnmt-16"])
def test_flops(name: str) -> None:
    samples = 2 if name == "inception-v3" else 1
    forward, backward = (flops / samples for flops in count(BUILT[name]))
    agree(load_model(name, sequence_length=STEPS.get(name)), forward, backward)


@pytest.mark.reference
def test_parameters_are_those_of_pipedreams_profiles(reference_dir: Path) -> None:
    for name, profile in (("alexnet", "alexnet"), ("inception-v3", "inception_v3"), ("gnmt-8", "gnmt")):
        published = load_model(str(reference_dir / "pipedream" / f"{profile}.graph.txt"))
        assert load_model(name).parameter_count == published.parameter_count


def test_variants_with_published_counts() -> None:
    plain = load_model("inception-v3", settings={"aux": "false"})
    assert plain.parameter_count == 23_834_568
    assert [layer.name for layer in plain.layers if layer.kind == "loss"] == ["loss"]
    shared = load_model("gnmt-8", settings={"shared_embedding": "true"})
    assert shared.parameter_count == 160_670_272
    assert len([p for p in shared.parameters if p.shape == (32_320, 1024)]) == 2


def test_both_losses_of_inception_are_added() -> None:
    graph = load_model("inception-v3")
    assert [use.name for use in graph.layers[-1].reads] == ["loss", "aux.loss"]
    assert graph.layers[-1].name == "total"


def test_unet_shrinks_as_its_figure_says() -> None:
    graph = load_model("unet-3d")
    assert graph.tensor["head"].shape == (3, 44, 44, 28)
    assert graph.tensor["down.3.relu2"].shape == (512, 9, 9, 7)
    assert graph.tensor["up.0.concat"].shape == (768, 18, 18, 14)
    assert not graph.parameter.keys() & {"down.0.bn1.weight"}


def test_gnmt_is_wired_as_its_figure() -> None:
    """States of the first decoder layer ask; all later ones get what was found; residuals from the third."""
    graph = load_model("gnmt-8")
    reads = {layer.name: [use.name for use in layer.reads] for layer in graph.layers}
    assert reads["decoder.0.attention.q"] == ["decoder.0.lstm.cell"]
    assert reads["decoder.0.attention.k"] == ["encoder.3.add"]
    for i, before in ((1, "decoder.0.lstm.cell"), (2, "decoder.1.lstm.cell"), (3, "decoder.2.add")):
        assert reads[f"decoder.{i}.concat"] == [before, "decoder.0.attention.context"]
    assert [name for name in reads if name.endswith(".add")] == [
        "encoder.2.add", "encoder.3.add", "decoder.2.add", "decoder.3.add",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["dlrm", "biglstm"])
def test_gradients_of_tables_are_sparse(name: str) -> None:
    """A larger step touches more rows, never more than it looks up or draws, and of small tables all."""
    small, large = (load_model(name, settings={"samples_per_step": n}) for n in ("128", "65536"))
    for before, after in zip(small.parameters, large.parameters, strict=True):
        assert 0 < before.density <= after.density <= 1
    table = small.parameter["tables.0.weight" if name == "dlrm" else "embed.weight"]
    lookups = 128 if name == "dlrm" else 128 * 20
    assert table.density * table.shape[0] == pytest.approx(lookups, rel=0.01)
    assert table.density * table.shape[0] < lookups
    if name == "dlrm":
        assert large.parameter["tables.5.weight"].density == 1
        assert small.parameter["top.1.weight"].density == 1
    else:
        drawn = small.parameter["head.weight"]
        assert drawn.density * drawn.shape[0] == pytest.approx(8192 + lookups, rel=0.02)
    with pytest.raises(InputError, match="0 samples"):
        load_model(name, settings={"samples_per_step": "0"})


@given(rows=st.integers(1, 10**8), lookups=st.integers(1, 10**6))
def test_touched_share(rows: int, lookups: int) -> None:
    """At least what one lookup touches, at most every lookup's own row, and all rows in the limit."""
    share = touched_share(rows, lookups)
    assert 1 / rows <= share * (1 + 1e-9)
    assert share <= min(1.0, lookups / rows) * (1 + 1e-9)
    assert touched_share(rows, 50 * rows) == pytest.approx(1, abs=1e-9)


def test_touched_share_is_the_mean_of_draws() -> None:
    draws = np.random.default_rng(0).integers(100, size=(2000, 60))
    distinct = np.mean([len(np.unique(row)) for row in draws])
    assert touched_share(100, 60) * 100 == pytest.approx(distinct, rel=0.01)
