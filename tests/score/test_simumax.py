"""SimuMax's rows: what a name says, what is refused, and how near the published ones are predicted."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.score.rows import SETS, ReadRows
from explorer.score.sets._simumax_rows import elements, setting_of
from explorer.score.sets.simumax import read, read_pcie
from explorer.sharding.layouts import megatron_layout, ulysses_layout
from explorer.simulation.simulate import simulate

TINY = {
    "model_type": "dense", "hidden_size": 256, "head_num": 8, "kv_head_num": 8, "head_size": 32,
    "intermediate_size": 512, "layer_num": 4, "vocab_size": 1000,
}  # fmt: skip
MIXED = {
    "model_type": "moe", "attention_type": "mla", "hidden_size": 256, "head_num": 8, "kv_head_num": 8,
    "head_size": 32, "intermediate_size": 512, "moe_ffn_hidden_size": 64, "dense_layers": 1,
    "moe_shared_expert_intermediate_size": 64, "expert_num": 16, "topk": 2, "q_lora_rank": 64,
    "kv_lora_rank": 32, "qk_head_dim": 32, "qk_pos_emb_head_dim": 16, "v_head_dim": 32, "vocab_size": 1000,
}  # fmt: skip


def row(case: str = "tiny_l4_tp2_pp1_dp4_mbc3_cef", **changes: Any) -> dict[str, Any]:
    made = {
        "case": case, "model": "tiny", "parallel": "tp2pp1", "layer_num": 4, "mbc": 3, "real_ms": 10.0,
        "real_alloc_gib": 1.5,
    } | changes  # fmt: skip
    return {key: value for key, value in made.items() if value is not None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model_tiny.json").write_text(json.dumps(TINY))
    (tmp_path / "model_mixed_16.json").write_text(json.dumps(MIXED))
    return tmp_path


def read_text(folder: Path, text: str | bytes) -> ReadRows:
    path = folder / "b200.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path)


def read_one(folder: Path, **changes: Any) -> ReadRows:
    return read_text(folder, json.dumps([row(**changes)]))


def test_a_row_is_a_whole_problem(folder: Path) -> None:
    found = read_one(folder).rows[0]
    graph, cluster, workload, strategy = found.case
    assert (found.measured, found.measured_memory_bytes, found.line) == (0.01, 1.5 * 2**30, 1)
    assert found.tensors_only
    assert len({item.block for item in graph.layers if item.block}) == 4
    assert graph.parameter["embed.weight"].shape[0] == 1024  # padded to a multiple of 128 x 2
    assert (workload.job.global_batch, workload.job.gradient_precision) == (12, "fp32")
    stage = strategy.job.stages[0]
    assert stage.meshes[0].axes == (("replica", 4), ("tensor", 2))
    assert (stage.microbatch_samples, stage.zero) == (4, 1)
    assert stage.layout == megatron_layout(sequence_parallel=True)
    assert cluster.device_count == 8
    assert simulate(*found.case).step_time_s > 0


def test_context_parallel_ranks_lie_between_tensor_and_data(folder: Path) -> None:
    case = "tiny_l4_tp2_cp2_pp1_dp2_seq1024_mbc3"
    stage = read_one(folder, case=case, parallel="tp2cp2pp1").rows[0].case.strategy.job.stages[0]
    assert stage.meshes[0].axes == (("replica", 2), ("context", 2), ("tensor", 2))
    assert stage.meshes[0].rows == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert stage.layout == (*ulysses_layout(), *megatron_layout(sequence_parallel=True))


def test_without_cef_the_loss_keeps_its_softmax(folder: Path) -> None:
    graphs = [
        read_one(folder, case=case).rows[0].case.graph
        for case in ("tiny_l4_tp2_pp1_dp4_mbc3_cef", "tiny_l4_tp2_pp1_dp4_mbc3")
    ]
    kept = [graph.layer["loss"].saves for graph in graphs]
    assert kept == [("targets",), ("loss.log_softmax", "targets")]


def test_experts_are_spread_over_the_data_parallel_ranks(folder: Path) -> None:
    case = "mixed_l4_tp1_ep4_pp2_dp4_mbc3_cef"
    graph, _, _, strategy = read_one(folder, case=case, model="mixed", parallel="tp1ep4pp2").rows[0].case
    assert sum(item.kind == "experts" for item in graph.layers) == 3  # the first of four blocks is dense
    stages = strategy.job.stages
    assert simulate(*read_one(folder, case=case, model="mixed", parallel="").rows[0].case).step_time_s > 0
    assert [stage.meshes[0].devices for stage in stages] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    (sharding,) = stages[1].shardings
    assert sharding.meshes[0].axes == (("replica", 1), ("expert", 4))
    assert {layer.split(".")[1] for layer in stages[1].layers if layer.startswith("layers")} == {"2", "3"}
    case = "mixed_l2_tp1_ep4_pp2_dp4_mbc3_cef"  # the first of two stages has no experts
    found = read_one(folder, case=case, model="mixed", parallel="", layer_num=2).rows[0].case
    assert [len(stage.shardings) for stage in found.strategy.job.stages] == [0, 1]
    assert simulate(*found).step_time_s > 0


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"case": None}, "case"),
        ({"case": 7}, "case"),
        ({"model": ""}, "model"),
        ({"model": "unheard-of"}, "model"),
        ({"model": "../tiny"}, "model"),
        ({"layer_num": None}, "layer_num"),
        ({"layer_num": "four"}, "layer_num"),
        ({"layer_num": 5}, "layer_num"),  # the name says 4
        ({"mbc": 2}, "mbc"),
        ({"mbc": 0}, "mbc"),
        ({"parallel": "tp4pp1"}, "parallel"),
        ({"real_ms": None}, "real_ms"),
        ({"real_ms": -1.0}, "real_ms"),
        ({"real_ms": "fast"}, "real_ms"),
        ({"real_ms": float("nan")}, "real_ms"),
        ({"real_alloc_gib": 0}, "real_alloc_gib"),
        ({"real_alloc_gib": None}, "real_alloc_gib"),
        ({"case": "tiny_l4_tp2_pp1_dp2_mbc3"}, "case"),  # 4 GPUs
        ({"case": "tiny_l4_tp2_tp4_pp1_dp4_mbc3", "parallel": ""}, "case"),
        ({"case": "tiny_l4_tp0_pp1_dp4_mbc3", "parallel": ""}, "case"),
        ({"case": "tiny_l3_tp1_pp2_dp4_mbc3", "parallel": "", "layer_num": 3}, "case"),
        ({"case": "tiny_l4_tp2_ep3_pp1_dp4_mbc3"}, "case"),
        ({"case": "tiny_l4_tp2_cp4_pp1_dp1_seq1023_mbc3", "parallel": ""}, "case"),
        ({"case": "mixed_l4_tp1_ep8_pp1_dp8_seq99999999_mbc3", "model": "mixed", "parallel": ""}, "case"),
    ],
)
def test_wrong_rows_are_named_and_skipped(folder: Path, changes: dict[str, Any], key: str) -> None:
    found = read_text(folder, json.dumps([row(), row(**changes), row()]))
    assert [item.line for item in found.rows] == [1, 3]
    (problem,) = found.problems
    assert (problem.file, problem.line) == ("b200.json", 2)
    assert key in problem.message


@pytest.mark.parametrize(
    "broken", ['{"case": "x", "real_ms": }', "{'case': 1}", '{"case": "x"', "nothing", "7"]
)
def test_a_broken_element_costs_only_itself(folder: Path, broken: str) -> None:
    good = json.dumps(row())
    found = read_text(folder, f"[\n {good},\n {broken},\n {good}\n]")
    assert [item.line for item in found.rows] == [1, 3]
    assert [item.line for item in found.problems] == [2]


@pytest.mark.parametrize("end", ["", ",", " , ", "] more", "] ["])
def test_a_list_that_does_not_end_with_the_file_is_told(folder: Path, end: str) -> None:
    found = read_text(folder, f"[{json.dumps(row())}{end}")
    assert len(found.rows) == 1
    assert [problem.line for problem in found.problems] == [2]
    assert "does not end" in found.problems[0].message


def test_marks_and_line_ends_are_no_faults(folder: Path) -> None:
    text = "\ufeff" + json.dumps([row(), row()], indent=1).replace("\n", "\r\n")
    assert len(read_text(folder, text).rows) == 2
    assert len(read_text(folder, json.dumps([row(), row()])[:-40]).rows) == 1  # cut off
    wrong = json.dumps([row(case="caf\u00e9_" + row()["case"]), row()], ensure_ascii=False).encode("latin-1")
    assert [item.line for item in read_text(folder, wrong).rows] == [2]


@pytest.mark.parametrize("text", ["", "{}", "no rows"])
def test_a_file_without_a_list_is_an_error(folder: Path, text: str) -> None:
    with pytest.raises(InputError, match="no list"):
        read_text(folder, text)


@given(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=3, max_size=3), st.integers(1, 99))
def test_a_name_gives_back_its_degrees(degrees: list[int], microbatches: int) -> None:
    tensor, context, data = degrees
    product = tensor * context * data
    case = f"some-7b_l4_tp{tensor}_cp{context}_pp1_dp{data}_seq4096_mbc{microbatches}_cef"
    value = row(case=case, parallel=f"tp{tensor}cp{context}pp1", mbc=microbatches)
    setting = setting_of(value, product)
    assert (setting.tensor, setting.context, setting.data, setting.pipeline) == (tensor, context, data, 1)
    assert (setting.microbatches, setting.sequence, setting.fused_loss) == (microbatches, 4096, True)
    with pytest.raises(InputError, match="GPUs"):
        setting_of(value, product + 1)


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)))
def test_any_list_of_objects_is_read_element_by_element(tmp_path_factory: Any, values: list[Any]) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.json"
    path.write_text(json.dumps(values, indent=1))
    assert [(item.number, item.value) for item in elements(path)] == list(enumerate(values, 1))


def test_published_rows_are_predicted(reference_dir: Path) -> None:
    """Golden: time within 4 % on average, allocated memory within 1.5 % in every row."""
    found = read(reference_dir / "measured" / "simumax" / "b200.json")
    assert not found.problems
    assert len(found.rows) == 15
    reports = [simulate(*item.case) for item in found.rows]
    seconds = [abs(r.step_time_s / item.measured - 1) for r, item in zip(reports, found.rows, strict=True)]
    memory = [
        abs(max(r.allocated_memory_bytes) / (item.measured_memory_bytes or 0.0) - 1)
        for r, item in zip(reports, found.rows, strict=True)
    ]
    assert fmean(seconds) < 0.04
    assert max(memory) < 0.015


def test_pcie_rows_may_leave_memory_out(folder: Path) -> None:
    rows = [row(real_alloc_gib=None), row(real_alloc_gib=2.5)]
    path = folder / "a100_pcie.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    found = read_pcie(folder)
    assert not found.problems
    assert [item.measured_memory_bytes for item in found.rows] == [None, 2.5 * 2**30]
    assert {kind.name for item in found.rows for kind in item.kinds} == {"a100-pcie-80gb"}


def test_published_pcie_rows_are_read(reference_dir: Path) -> None:
    found = SETS.get("simumax_pcie").read(reference_dir / "measured" / "simumax" / "a100_pcie.json")
    assert len(found.rows) == 7
    assert not found.problems
