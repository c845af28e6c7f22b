"""Seconds of whole models for many sizes at once are those that tables sum for one size after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.strategies.degrees import EXCHANGES, RECOMPUTE
from explorer.tables import StageChoice, StageTable
from explorer.tables.whole_model import WholeSeconds
from explorer.workload import default_workload

GPT = {"layers": "5", "embed": "128", "heads": "8", "vocab": "512", "positions": "64"}
DEEPSEEK = {
    "layers": "4", "embed": "64", "heads": "4", "vocab": "256", "experts": "8", "active": "2",
    "dense_layers": "1",
}  # fmt: skip
SIZES = (1, 2, 3, 8, 64)
PAIRS = (
    ("gpt", GPT, "dgx-a100"), ("gpt", GPT, "ethernet-10g-4x4"), ("deepseek", DEEPSEEK, "hgx-h100-16"),
    ("resnet50", {}, "dgx-1-v100"), ("gnmt-16", {}, "pipedream-a"),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    pair=st.sampled_from(PAIRS),
    tensor=st.sampled_from((1, 2, 4)),
    context=st.sampled_from((1, 2)),
    exchange=st.sampled_from(tuple(EXCHANGES)),
    expert=st.sampled_from((1, 2, 4)),
    sequence=st.booleans(),
    recompute=st.sampled_from(RECOMPUTE),
)
def test_all_sizes_at_once_are_each_by_itself(
    pair: tuple[str, dict[str, str], str],
    tensor: int,
    context: int,
    exchange: str,
    expert: int,
    sequence: bool,
    recompute: str,
) -> None:
    name, options, cluster = pair
    of_decoders = name in ("gpt", "deepseek")
    if not of_decoders and (tensor > 1 or context > 1):
        tensor, context = (tensor if name == "gnmt-16" else 1), 1
    if name != "deepseek":
        expert = 1
    graph = load_model(name, settings=options) if options else load_model(name)
    table = StageTable(graph, load_cluster(cluster), default_workload(graph).job)
    choice = StageChoice(
        tensor=tensor, context=context, expert=expert, replicas=4 if expert > 1 else 1,
        sequence_parallel=sequence and tensor > 1, context_exchange=exchange if context > 1 else "gather",
        recompute=recompute,
    )  # fmt: skip
    found = table.whole(choice, SIZES)
    assert found is not None
    ends = np.array([0]), np.array([len(graph.layers)])
    for i, size in enumerate(SIZES):
        each = table.seconds(replace(choice, microbatch_size=size), *ends)
        comm = each.forward_comm_s + each.backward_comm_s
        wanted = WholeSeconds(
            each.forward_s, each.input_grad_s, each.weight_grad_s, comm, each.behind_weight_s,
            each.recompute_s, each.recompute_comm_s,
        )  # fmt: skip
        for one, other in zip(found, wanted, strict=True):
            assert one[i] == pytest.approx(float(other[0]), rel=1e-9, abs=1e-12 * float(each.forward_s[0]))


@pytest.mark.parametrize("cluster", ["mixed-v100-a100"])
def test_rows_of_several_kinds_are_left_to_the_sums(cluster: str) -> None:
    graph = load_model("gpt", settings=GPT)
    devices = load_cluster(cluster)
    kinds = [devices.kind_of(device).name for device in devices.order]
    other = next(i for i, kind in enumerate(kinds) if kind != kinds[0])
    table = StageTable(graph, devices, default_workload(graph).job, devices=(devices.order[0], other))
    assert table.whole(StageChoice(tensor=2), SIZES) is None
    assert table.whole(StageChoice(), SIZES) is not None
