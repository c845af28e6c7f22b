"""Own layers at their models' widths: pipelines and replicas have the gradients of one process."""

from __future__ import annotations

import pytest

from tests.run.own.own_cases import case, cut, full_width
from tests.run.threads import on_threads, worst

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
BOUND = {"fp64": 1e-10, "fp32": 1e-5}
WAYS = ((2, 1), (4, 1), (1, 2), (2, 2))
"""Stages and replicas."""


# 124 million scalars take long in fp64, and norms by channel double the roundings of fp32
MODELS = [
    ("gpt2-small", "fp32"), ("llama", "fp64"), ("llama", "fp32"), ("resnet50", "fp64"), ("skip", "fp64"),
    ("skip", "fp32"), ("t5", "fp64"), ("t5", "fp32"), ("mixtral", "fp32"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), MODELS)
@pytest.mark.parametrize(("pipeline", "replicas"), WAYS)
def test_gradients_at_full_width(name: str, dtype: str, pipeline: int, replicas: int) -> None:
    own = full_width(name, dtype)
    records = on_threads(case(own, cut(own, pipeline, replicas, size=2), "1f1b", batch=4))
    assert worst(records) <= BOUND[dtype]
    assert sum(record["numerics"]["compared"] for record in records) >= 2 * len(own.graph.parameters)
