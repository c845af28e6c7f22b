"""torchtitan itself can load a config here, without a GPU and without Triton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.slow
@pytest.mark.slow
def test_torchtitan_loads_its_own_config(load_titan_config: Callable[..., dict[str, Any]]) -> None:
    override = ("--parallelism.tensor_parallel_degree", "2")
    config = load_titan_config("llama3", "llama3_debugmodel", *override)
    assert config["parallelism"]["tensor_parallel_degree"] == 2
    assert config["model_spec"]["name"] == "llama3"
