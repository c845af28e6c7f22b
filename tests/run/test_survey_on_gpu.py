"""What is measured of a GPU, on one that is pretended: where operands lie, what is recorded and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.profiling.assemble import assemble
from explorer.profiling.machine import Host
from explorer.profiling.sizes import CUDA, survey_of
from explorer.run.spec import Survey
from explorer.run.survey.device_work import DeviceWork
from explorer.run.survey.host_work import HostWork
from explorer.run.survey.steady import steady
from explorer.run.survey.surveyor import Surveyor
from tests.run.pretended import Pretending, made_here_first

GPU = torch.device("cuda", 0)
SMALL = Survey(
    precisions=("bf16", "tf32", "fp32"), products=((4, 8, 16), (8, 8, 8)), attentions=((2, 8, 4),),
    convolutions=((1, 2, 4),), moved_bytes=(1 << 8, 1 << 10),
)  # fmt: skip


class Graph:
    """A CUDA graph that only counts."""

    replayed = 0

    def replay(self) -> None:
        """Count."""
        Graph.replayed += 1


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[bool, bool]]]:
    """A GPU; yields whether products and convolutions could be rounded to TF32 at every recording."""
    found = list[tuple[bool, bool]]()

    @contextmanager
    def graph(made: Any, *, capture_error_mode: str) -> Iterator[None]:
        assert isinstance(made, Graph)
        assert capture_error_mode == "thread_local"
        found.append((torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32))
        yield

    monkeypatch.setattr(torch, "tensor", made_here_first)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (6e9, 8e9))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties",
        lambda _: SimpleNamespace(name="NVIDIA Test", total_memory=8e9, multi_processor_count=4),
    )  # fmt: skip
    # torch asks the driver itself in these
    monkeypatch.setattr(DeviceWork, "_host_copy", lambda _, size: size / 1e9)
    monkeypatch.setattr("explorer.run.survey.surveyor._load_libraries", lambda _: None)
    for needs_autograd in ("_issue", "_action"):
        monkeypatch.setattr(HostWork, needs_autograd, lambda _: 1e-5)
    with Pretending(), sdpa_kernel(SDPBackend.MATH):
        yield found


def test_everything_is_measured_on_the_gpu(recorded: list[tuple[bool, bool]]) -> None:
    """Operands lie there, each thing is recorded once and replayed, and only TF32 may be rounded."""
    work = DeviceWork(SMALL, GPU)
    seconds = {item: measured() for item, measured in work.items()}
    assert all(value is not None and value > 0 for value in seconds.values())
    kinds = {(item.what, item.precision) for item in seconds}
    assert {(what, p) for what in ("product", "attention", "conv") for p in SMALL.precisions} < kinds
    assert {("memory", ""), ("launch", ""), ("host_copy", "")} < kinds
    timed = [item for item in seconds if item.what != "host_copy"]
    assert len(recorded) == len(timed)
    for item, allowed in zip(timed, recorded, strict=True):
        assert item.what == "launch" or allowed == (item.precision == "tf32",) * 2


@pytest.mark.usefixtures("recorded")
def test_a_gpu_alone_makes_a_profile(tmp_path: Path) -> None:
    """Without another there are no links; what its libraries take is no room for tensors."""
    alone: Any = SimpleNamespace(rank=0, ranks=1, device=GPU, open=lambda *_: None)
    found = Surveyor(SMALL, alone)
    machine, rows = found.machine(), found.measure()
    assert machine["reserved_bytes"] == 2e9
    cluster = assemble("here", Host(cores=4, memory_nodes=1, processor="x"), [machine], rows)
    assert not cluster.levels
    save_cluster(cluster, tmp_path / "here.yaml")
    assert load_cluster(tmp_path / "here.yaml") == cluster
    (kind,) = cluster.device_kinds
    assert (kind.name, kind.compute_units, kind.reserved_bytes) == ("test", 4, 2e9)
    assert kind.software.host_issue_s == kind.software.action_overhead_s == 1e-5
    assert kind.host_bandwidth_bytes_per_s == 1e9
    assert {precision for precision, _ in kind.peak_flops_per_s} >= set(SMALL.precisions)


def test_calls_are_timed_by_the_clock_of_their_device() -> None:
    """A thread of autograd's works on a GPU: seconds of this thread, which waits for it, are not all."""
    clock = iter([0.0, 1e9, 1e9, 2e9, 2e9, 3e9])
    assert steady(lambda: None, 4, worked=lambda: next(clock)) < 1.0  # a core of its own: the wall's
    idle = steady(lambda: None, 1, worked=lambda: 0.0)
    assert idle == 0.0  # no share of a core: what was worked


def test_quick_profiles_know_what_slices_run_in() -> None:
    assert survey_of(CUDA, ("bf16", "fp16", "tf32", "fp32"), quick=True).precisions == ("bf16", "fp32")
    assert survey_of("cpu", ("fp32", "bf16"), quick=True).precisions == ("fp32",)
