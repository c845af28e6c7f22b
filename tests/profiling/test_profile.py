"""`explorer profile`: synthetic ranks give their numbers back, a short real run a profile that loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.base.errors import InputError
from explorer.cli.main import main
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.costs.collectives import transfer_seconds
from explorer.costs.products import alone_seconds
from explorer.costs.update_time import update_seconds
from explorer.profiling import keep_profile, kept_path, kept_profile, profile_machine
from explorer.profiling.assemble import assemble, flops_of, kind_name
from explorer.profiling.machine import Host, chosen, gpu_precisions, this_host
from explorer.profiling.sizes import survey_of
from explorer.run.judging.calibrate import Calibrated, uncalibrated
from explorer.run.judging.profile_correction import correct, same_device
from explorer.run.model import model_graph, transformer
from explorer.run.spec import RunSpec, Survey, from_data, to_data
from explorer.run.survey.host_work import block_kernels
from explorer.workload import Job

HOST = Host(cores=8, memory_nodes=1, processor="Some Processor")
CPU = {"name": "cpu", "torch": "2.0", "memory_bytes": 16e9, "reserved_bytes": 2e8}
CARD = {"name": "NVIDIA Nonesuch 9-20GB", "torch": "2.0", "memory_bytes": 20e9, "reserved_bytes": 1e9,
        "compute_units": 50, "peer_access": True}  # fmt: skip


def rows(peak: float, bandwidth: float, link: float, launch: float) -> list[dict[str, Any]]:
    """What a machine with these numbers takes: products at half of the peak, the largest at all of it."""
    made: list[dict[str, Any]] = []

    def add(what: str, size: tuple[int, ...], seconds: float, precision: str = "") -> None:
        made.append({"what": what, "precision": precision, "size": list(size), "seconds": seconds})

    for n in (256, 512, 1024):
        share = 1.0 if n == 1024 else 0.5
        add("product", (n, n, n), flops_of("product", (n, n, n)) / (peak * share) + launch, "fp32")
    for size in (10**6, 10**8):
        add("memory", (size,), size / bandwidth + launch)
    for size in (10**3, 10**8):
        add("message", (size,), 1e-5 + size / link)
        add("reduce", (size,), 3e-5 + 1e-5 * 2 + size / (0.5 * link))
    add("issue", (), launch)
    add("launch", (), launch)
    add("action", (), 7e-5)
    add("overlap", (10**8,), 1.25)
    add("host_copy", (10**8,), 1e8 / 2.5e10)
    return made


def test_a_cpu_gives_its_numbers_back() -> None:
    cluster = assemble("mine", HOST, [CPU, CPU], rows(1e11, 2e10, 4e9, 1e-6))
    kind, level = cluster.device_kinds[0], cluster.levels[0]
    assert (cluster.name, cluster.device_count, kind.name) == ("mine", 2, "cpu")
    assert kind.peak("fp32") == pytest.approx(1e11)
    assert kind.memory_bandwidth_bytes_per_s == pytest.approx(2e10)
    assert dict(kind.efficiency)["matmul"].at(2.0 * 256**3) == pytest.approx(0.5)
    assert kind.launch_overhead_s == 1e-6
    costs = kind.software
    assert (costs.framework, costs.host_issue_s, costs.action_overhead_s) == ("ours", 0.0, 7e-5)
    assert kind.overlap_slowdown == pytest.approx(0.25)
    assert kind.memory_bytes == 8e9  # of the machine's, for each rank
    assert (level.kind, level.latency_s) == ("shared_memory", pytest.approx(1e-5))
    assert transfer_seconds(cluster.path(0, 1), 1e8) == pytest.approx(1e-5 + 1e8 / 4e9)
    assert level.collective_overhead_s == pytest.approx(3e-5, rel=1e-2)
    assert level.collective_efficiency == pytest.approx(0.5, rel=1e-2)
    assert not kind.tiles


def test_an_unknown_card_has_tiles_and_what_it_reached() -> None:
    cluster = assemble("mine", HOST, [CARD, CARD], rows(4e13, 1e12, 2e11, 2e-6))
    kind = cluster.device_kinds[0]
    assert same_device(kind.name, str(CARD["name"]))
    assert (kind.compute_units, kind.memory_bytes) == (50, 20e9)
    assert kind.tiles
    assert kind.software.host_issue_s == kind.launch_overhead_s == 2e-6
    assert kind.host_bandwidth_bytes_per_s == pytest.approx(2.5e10)
    assert cluster.levels[0].kind == "nvlink"  # no PCIe slot is as fast


def test_a_known_card_keeps_the_peaks_of_its_data_sheet() -> None:
    known = load_cluster("dgx-a100").device_kinds[0]
    card = {**CARD, "name": "NVIDIA A100-SXM4-80GB", "memory_bytes": 85.1e9, "compute_units": 108}
    cluster = assemble("mine", HOST, [card], rows(1e13, 1.5e12, 2e10, 2e-6))
    kind = cluster.device_kinds[0]
    assert (kind.name, kind.peak_flops_per_s) == (known.name, known.peak_flops_per_s)
    assert cluster.levels == ()
    sources = {source.key: source.how for source in kind.sources}
    assert (sources["*"], sources["efficiency"], sources["tiles"]) == ("datasheet", "measured", "measured")


@pytest.mark.parametrize(("rate", "kept"), [(1e13, 3), (1e15, 1)])
def test_products_by_shape_are_kept_unless_faster_than_the_data_sheet(rate: float, kept: int) -> None:
    card = {**CARD, "name": "NVIDIA A100-SXM4-80GB", "memory_bytes": 85.1e9, "compute_units": 108}
    (kind,) = assemble("mine", HOST, [card], rows(rate, 1.5e12, 2e10, 2e-6)).device_kinds
    assert sum(len(times.points) for _, times in kind.measured_products) == kept
    for precision, times in kind.measured_products:
        *sizes, seconds = np.array(times.points).T
        assert alone_seconds(kind, precision, *sizes) == pytest.approx(seconds)


@pytest.mark.parametrize("machines", [[CPU, CPU], [CARD, CARD], [CARD]])
def test_a_profile_loads_and_says_where_every_number_is_from(machines: list[Any], tmp_path: Path) -> None:
    cluster = assemble("mine", HOST, machines, rows(1e12, 1e11, 1e10, 2e-6))
    save_cluster(cluster, tmp_path / "mine.yaml")
    assert load_cluster(tmp_path / "mine.yaml") == cluster
    for part in (*cluster.device_kinds, *cluster.levels):
        assert any(source.key == "*" for source in part.sources)
        assert all(source.how == "measured" for source in part.sources)
        named = {source.key for source in part.sources}
        assert named - {"*"} <= set(type(part).__dataclass_fields__)


def test_flops_of_what_is_timed() -> None:
    assert flops_of("product", (2, 3, 5)) == 60
    assert flops_of("attention", (2, 10, 4)) == 0.5 * (2 * 2 * 10 * 10 * 4 * 2)
    assert flops_of("conv", (2, 3, 5)) == 2 * (2 * 3 * 3 * 9) * 25
    assert flops_of("conv", (2, 3, 5, 1)) == 2 * (2 * 3 * 3) * 25
    assert flops_of("conv_backward", (2, 3, 5)) == flops_of("conv", (2, 3, 5))
    assert flops_of("attention_backward", (2, 10, 4)) == 2.5 * flops_of("attention", (2, 10, 4))


def test_backwards_that_were_timed_are_priced_as_timed() -> None:
    """Seconds of a backward by its own curve: attention in one, convolutions in two."""
    size = (4, 64, 32)
    more = [
        {"what": what, "precision": "fp32", "size": list(size), "seconds": flops_of(what, size) / rate}
        for what, rate in (
            ("attention", 5e10), ("attention_backward", 2e10), ("conv", 8e10), ("conv_backward", 2.5e10),
        )
    ]  # fmt: skip
    kind = assemble("mine", HOST, [CPU], [*rows(1e11, 2e10, 4e9, 1e-9), *more]).device_kinds[0]
    curves = dict(kind.efficiency)
    assert curves["attention_backward"].at(flops_of("attention_backward", size)) == pytest.approx(
        0.2, rel=1e-3
    )
    assert curves["conv_backward"].at(flops_of("conv", size)) == pytest.approx(0.5, rel=1e-3)


def test_updates_that_were_timed_are_priced_as_timed() -> None:
    """An update writes in place, so it may reach more than an addition that writes elsewhere."""
    update = {"what": "update", "precision": "", "size": [10**6], "seconds": 28e6 / 3e10}
    old, new = (
        assemble("mine", HOST, [CPU], [*rows(1e11, 2e10, 4e9, 1e-12), *more]).device_kinds[0]
        for more in ([], [update])
    )
    assert new.memory_bandwidth_bytes_per_s == pytest.approx(3e10, rel=1e-3)
    assert dict(new.efficiency)["memory"].at(1e8) == pytest.approx(2 / 3, rel=1e-3)
    for kind, rate in ((old, 2e10), (new, 3e10)):
        taken = update_seconds(kind, elements=1e6, optimizer="adam", precision="fp32")
        assert taken == pytest.approx(28e6 / rate, rel=1e-3)


def test_operators_cost_what_they_cost_in_a_step_and_curves_what_was_timed_in_a_loop() -> None:
    operator = {"what": "operator", "precision": "", "size": [], "seconds": 9e-6}
    plain, taught = (
        assemble("mine", HOST, [CPU], [*rows(1e11, 2e10, 4e9, 1e-6), *more]).device_kinds[0]
        for more in ([], [operator])
    )
    assert (plain.launch_overhead_s, taught.launch_overhead_s) == (1e-6, 9e-6)
    assert taught.efficiency == plain.efficiency
    assert block_kernels() == 34 + 65


def test_a_convolution_leaves_out_what_the_costs_add_for_its_memory() -> None:
    """Seconds by size come back, whatever share of memory linear layers expose."""
    size, thin = (1, 512, 7, 3), (8, 4096, 1024)
    elements = 2 * 512 * 7**2 + (512 * 3) ** 2
    timed = flops_of("conv", size) / 5e10 + 4 * elements / 2e10
    more = [
        {"what": "conv", "precision": "fp32", "size": list(size), "seconds": timed},
        {"what": "thin", "precision": "fp32", "size": list(thin), "seconds": 3 * (
            4 * (8 * 1024 + 4096 * 1024 + 8 * 4096) / 2e10 + flops_of("product", thin) / 5e10 + 1e-9
        )},
    ]  # fmt: skip
    kind = assemble("mine", HOST, [CPU], [*rows(1e11, 2e10, 4e9, 1e-9), *more]).device_kinds[0]
    assert kind.exposed_memory == pytest.approx(1.0, rel=1e-2)
    assert dict(kind.efficiency)["conv"].at(flops_of("conv", size)) == pytest.approx(0.5, rel=1e-2)


def test_names_of_device_kinds() -> None:
    names = ("NVIDIA H200", "Tesla V100-SXM2-16GB", "NVIDIA GeForce RTX 3090", "NVIDIA TITAN RTX", "cpu")
    assert [kind_name(name) for name in names] == ["h200", "v100-sxm2-16gb", "rtx-3090", "titan-rtx", "cpu"]
    assert all(same_device(kind_name(name), name) for name in names)


def test_a_survey_travels_in_a_specification() -> None:
    spec = RunSpec(ranks=2, survey=survey_of("cuda", ("bf16", "fp32")))
    assert from_data(json.loads(json.dumps(to_data(spec)))) == spec


def test_quick_measures_a_few_sizes_between_smallest_and_largest() -> None:
    for device in ("cpu", "cuda"):
        whole, quick = survey_of(device, ("fp32", "bf16")), survey_of(device, ("fp32", "bf16"), quick=True)
        assert set(quick.products) < set(whole.products)
        assert (quick.reduce_bytes[0], quick.reduce_bytes[-1]) == (
            whole.reduce_bytes[0], whole.reduce_bytes[-1]
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------- real runs

TINY = Survey(
    precisions=("fp32",),
    products=((32, 32, 32), (128, 128, 128)),
    convolutions=((1, 16, 16, 3), (1, 16, 16, 1)),
    moved_bytes=(4096, 1 << 20),
    updated=(4096,),
    message_bytes=(256, 1 << 16),
    reduce_bytes=(256, 1 << 16),
)


@pytest.mark.slow
def test_two_ranks_measure_this_machine(tmp_path: Path) -> None:
    if this_host().cores < 2:
        pytest.skip("needs two cores")
    told: list[str] = []
    cluster = profile_machine(
        "here", devices="cpu", ranks=2, quick=True, survey=TINY, on_event=lambda e: told.append(e["event"])
    )
    assert told.count("survey") == 2 * 4  # a warm-up and three rounds on each rank
    kind, level = cluster.device_kinds[0], cluster.levels[0]
    assert 1e8 < kind.peak("fp32") < 1e13
    assert 1e8 < kind.memory_bandwidth_bytes_per_s < 1e13
    assert 1e-8 < kind.launch_overhead_s < 1e-2
    assert level.latency_s > 0
    assert 0 < level.collective_efficiency <= 1
    save_cluster(cluster, tmp_path / "here.yaml")
    assert load_cluster(tmp_path / "here.yaml").device_count == 2


# ------------------------------------------------------------------------------------------------ kept


def test_a_kept_profile_is_found_again_on_this_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path))
    made = assemble("this-machine", HOST, [CPU, CPU], rows(1e11, 2e10, 4e9, 1e-6))
    assert kept_profile("cpu") is None
    assert keep_profile(made, "cpu") == kept_path("cpu")
    assert kept_profile("cpu") == made
    assert kept_profile("cuda") is None
    with monkeypatch.context() as other:
        other.setattr("explorer.profiling.kept._torch_version", lambda: "0.0")
        assert kept_profile("cpu") is None
    kept_path("cpu").write_text("no profile")
    assert kept_profile("cpu") is None


@pytest.mark.parametrize(("output", "kept"), [([], True), (["-o", "mine.yaml"], False)])
def test_a_profile_is_kept_unless_a_file_is_named(
    output: list[str], kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    made = assemble("made", HOST, [CPU], rows(1e11, 2e10, 4e9, 1e-6))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXPLORER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("explorer.profiling.profile_machine", lambda _name, **_: made)
    assert main(["profile", "--devices", "cpu", *output]) == 0
    assert (kept_profile("cpu") == made) is kept
    assert (tmp_path / "mine.yaml").exists() is not kept
    assert "written to" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------ bad arguments


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["-o", "x.txt"], ".txt"),
        (["-o", "nowhere/x.yaml"], "no such folder"),
        (["-o", "x.yaml", "--ranks", "0", "--devices", "cpu"], "0 ranks"),
        (["-o", "x.yaml", "--ranks", "100000", "--devices", "cpu"], "100000 ranks"),
        (["-o", "x.yaml", "--devices", "tpu"], "tpu"),
    ],
)
def test_bad_arguments_are_one_line_before_anything_is_measured(
    flags: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["profile", *flags]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_cuda_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.profiling.machine.count_gpus", lambda: 0)
    with pytest.raises(InputError, match="no CUDA device"):
        chosen("cuda", None)
    monkeypatch.setattr("explorer.profiling.machine.count_gpus", lambda: 4)
    assert chosen("auto", None) == ("cuda", 4)
    with pytest.raises(InputError, match="5 ranks on 4 GPUs"):
        chosen("auto", 5)


@pytest.mark.parametrize(
    ("capability", "precisions"),
    [((9, 0), ("bf16", "fp16", "tf32", "fp32")), ((8, 0), ("bf16", "fp16", "tf32", "fp32")),
     ((7, 5), ("fp16", "fp32")), ((7, 0), ("fp16", "fp32"))],
)  # fmt: skip
def test_precisions_are_those_that_a_gpu_has(
    capability: tuple[int, int], precisions: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions in bf16 fail on older ones, and the data sheets of those have no rate of it."""
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: capability)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda _: "one")
    assert gpu_precisions(2) == precisions
    monkeypatch.setattr("torch.cuda.get_device_name", lambda i: ("one", "another")[i])
    assert gpu_precisions(1) == precisions
    with pytest.raises(InputError, match="GPUs of several kinds: one, another"):
        gpu_precisions(2)


# ----------------------------------------------------------------------------------------- the CPU cluster


def test_a_run_on_processors_can_correct_the_cpu_cluster() -> None:
    cluster = load_cluster("cpu-2")
    known = Calibrated(
        graph=model_graph(transformer(2)), cluster=uncalibrated(2), cpu_share=1.0, seconds={}, optimizer="sgd"
    )
    found = correct(cluster, Job(global_batch=8), known, device="cpu")
    assert not found.refusal
    assert found.cluster is not None
    refused = correct(load_cluster("dgx-a100"), Job(global_batch=8), known, device="cpu")
    assert refused.cluster is None
    assert "a100" in refused.refusal
