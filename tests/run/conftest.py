"""What tests of real runs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from explorer.run.cases import mixed_precision


@pytest.fixture(autouse=True)
def without_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are in fp32 on every machine, also where the processor has bf16, unless a test says otherwise."""
    monkeypatch.setattr(mixed_precision, "device_without", lambda _: "this processor has no bf16 in tests")


@pytest.fixture
def with_bf16(monkeypatch: pytest.MonkeyPatch, without_bf16: None) -> None:
    """Runs of plans in bf16 are in bf16, on every machine: without its instructions torch computes slowly."""
    monkeypatch.setattr(mixed_precision, "device_without", lambda _: "")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads, and wait for them where the machine is busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
