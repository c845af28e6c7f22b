"""Frameworks: what software costs and does, by name, on every device kind, in files old and new."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.base.errors import InputError
from explorer.base.plain_data import to_plain
from explorer.calibrate.estimate import Evidence, Observation, estimate
from explorer.cli.main import main
from explorer.cluster import Cluster
from explorer.cluster_profiles import HOWS, cluster_names, load_cluster, save_cluster
from explorer.framework import CHOICES, USUAL, Framework, cluster_under
from explorer.framework_files import framework_called, framework_names, load_framework
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.plan import fingerprint
from explorer.pricing.section_time import made_again
from explorer.run.cases.likeness import scale
from explorer.search import Problem
from explorer.search.pipedream import _kind
from explorer.strategies.framework_choices import strategy_under
from explorer.strategies.uniform import uniform
from explorer.strategy import JobStrategy, Strategy, Sync
from explorer.sweep.bands import report_bands
from explorer.workload import Workload, default_workload

NUMBERS = ("host_issue_s", "action_overhead_s", "cached_fraction")


def report_of(framework: str = "", *, cluster: str = "dgx-a100", model: str = "llama", **shape: int) -> float:
    """Seconds of a step of a small model under a framework."""
    settings = {"layers": "4", "embed": "1024", "heads": "8", "kv_heads": "8", "head": "128", "ffn": "4096"}
    chosen = load_framework(framework)
    graph = load_model(
        model, sequence_length=512, settings=settings if model == "llama" else {}, framework=chosen
    )
    job = replace(default_workload(graph).job, global_batch=16, framework=framework)
    devices = load_cluster(cluster)
    strategy = uniform(graph, devices, job, microbatch_size=1, **shape)
    return explorer.simulate(graph, devices, Workload(jobs=(job,)), strategy).step_time_s


# ---- Bundled files ------------------------------------------------------------------------------


def test_the_names_that_others_build_upon_are_there() -> None:
    promised = {"megatron-2021", "megatron-core-2025", "torchtitan-2024", "torch-eager", "ours"}
    assert promised <= set(framework_names())


@pytest.mark.parametrize("name", framework_names())
def test_every_number_and_choice_has_a_source(name: str) -> None:
    found = load_framework(name)
    assert (found.name, bool(found.title), bool(found.software)) == (name, True, True)
    assert name.endswith(str(found.year)) or not found.year
    assert any(source.key == "*" for source in found.sources)
    for costs in (found.costs, *(costs for _, costs in found.by_kind)):
        keys = {source.key: source for source in costs.sources}
        assert all(number in keys for number in NUMBERS if getattr(costs, number)), costs
        assert costs.framework in framework_names()
        for source in keys.values():
            assert source.how in HOWS
            assert source.reference
            assert not source.fitted_on or source.prior is not None
    for field, allowed in CHOICES.items():
        assert getattr(found, field) in allowed


def test_who_extends_a_framework_shares_its_numbers_and_their_owner() -> None:
    old, new = load_framework("megatron-2021"), load_framework("megatron-2022")
    assert new.by_kind == old.by_kind
    assert new.software_on("a100-sxm-80gb").framework == "megatron-2021"
    assert (old.accumulation, new.accumulation) == ("separate", "fused")


def test_a_framework_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "schema: explorer.framework/1\nextends: torch-eager\nname: mine-2026\ncosts: {host_issue_s: 9 us}\n"
        'by_kind:\n  "v100-*": {action_overhead_s: 1 ms}\n'
    )
    mine = load_framework(path)
    assert mine.software_on("h100-sxm-80gb").host_issue_s == pytest.approx(9e-6)
    assert mine.software_on("v100-sxm2-16gb").action_overhead_s == pytest.approx(1e-3)
    assert mine.software_on("v100-sxm2-16gb").host_issue_s == pytest.approx(9e-6)
    assert mine.software_on("gh200-96gb") == load_framework("torch-eager").software_on("gh200-96gb")
    assert mine.kernels == "eager"
    assert report_of(str(path)) != report_of("torch-eager")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("schema: explorer.framework/2\nname: a\n", "schema"),
        ("schema: explorer.framework/1\nname: a\nkernels: magic\n", "kernels"),
        ("schema: explorer.framework/1\nname: a.b\n", "name"),
        ("schema: explorer.framework/1\nname: a\nextends: nowhere\n", "extends"),
        ("schema: explorer.framework/1\nname: a\nextends: ../../etc/passwd\n", "extends"),
        ("schema: explorer.framework/1\nname: a\nspeed: 3\n", "speed"),
        ("schema: explorer.framework/1\nname: a\ncosts: 3\n", "costs"),
        ("schema: explorer.framework/1\nname: a\ncosts: {host_issue_s: 3 GiB}\n", "costs.host_issue_s"),
        ("schema: explorer.framework/1\nname: a\nby_kind: [3]\n", "by_kind"),
        ("schema: explorer.framework/1\nname: a\ncosts: {cached_fraction: 3}\n", "costs.cached_fraction"),
    ],
)
def test_a_wrong_file_is_one_line_with_its_key(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_framework(path)
    assert caught.value.key == key
    assert str(path) in str(caught.value)


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(InputError, match=r"unknown framework 'megatorn'.*megatron-2021"):
        load_framework("megatorn")
    with pytest.raises(InputError, match="unknown framework"):
        report_of("megatorn")


def test_a_name_without_its_year_is_the_newest_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    called = {"torchtitan": "torchtitan-2025", "megatron": "megatron-2022", "deepspeed": "deepspeed-2023"}
    assert {name: framework_called(name) for name in called} == called
    for name in (*framework_names(), "ours", "megatorn", "megatron-20", "", "./mine.yaml"):
        assert framework_called(name) == name
    flags = ["simulate", "--model", "gpt2-small", "--cluster", "dgx-a100", "--global-batch", "16", "--json"]
    told = []
    for name in ("deepspeed", "deepspeed-2023"):
        assert main([*flags, "--framework", name]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


# ---- On device kinds ----------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", cluster_names())
@pytest.mark.parametrize("name", framework_names())
def test_a_cluster_under_a_framework_has_its_numbers(cluster: str, name: str) -> None:
    devices, framework = load_cluster(cluster), load_framework(name)
    under = cluster_under(devices, framework)
    for before, kind in zip(devices.device_kinds, under.device_kinds, strict=True):
        own = framework.software_on(kind.name, *kind.like)
        same = before.software.framework == own.framework
        assert kind.software == (before.software if same else own)
        kernels = before.attention_kernels
        assert set(kind.attention_kernels) == set(kernels), "of its kernels another one may be the usual"
        hardware = replace(kind, software=before.software, attention_kernels=kernels)
        assert hardware == before, "hardware stays as it is"
    assert cluster_under(devices, framework) is under
    assert cluster_under(under, framework) is under


def test_without_a_framework_nothing_changes() -> None:
    cluster = load_cluster("b200")
    assert cluster_under(cluster, USUAL) is cluster
    assert load_framework("") is USUAL
    named = {"dgx-a100": "megatron-2021", "b200": "megatron-core-2025", "hgx-h100": "torch-eager"}
    for name, framework in named.items():
        assert load_cluster(name).device_kinds[0].software.framework == framework


def test_what_was_measured_of_a_framework_here_goes_before_what_its_file_says(tmp_path: Path) -> None:
    """A calibrated profile carries numbers of its framework, and another framework does not take them."""
    cluster = load_cluster("dgx-a100")
    kind = cluster.device_kinds[0]
    measured = replace(kind, software=replace(kind.software, host_issue_s=1e-6))
    save_cluster(replace(cluster, device_kinds=(measured,)), tmp_path / "mine.yaml")
    mine = load_cluster(tmp_path / "mine.yaml")
    assert mine.device_kinds[0] == measured
    for name, expected in (("megatron-2022", 1e-6), ("torch-eager", 6e-6)):
        found = cluster_under(mine, load_framework(name)).device_kinds[0].software.host_issue_s
        assert found == pytest.approx(expected)


# ---- Files of before ----------------------------------------------------------------------------

OLD = """
schema: explorer.cluster/1
name: old
device_kinds:
  - name: a100-sxm-80gb
    memory_bytes: 80 GiB
    memory_bandwidth_bytes_per_s: 2039 GB/s
    peak_flops_per_s: {bf16: 312 TFLOP/s}
    host_issue_s: 20 us
    action_overhead_s: 1 ms
    lockstep_wait: 0.05
    cached_fraction: 0.25
    sources:
      - {key: "*", how: datasheet, reference: "a sheet"}
      - {key: host_issue_s, how: fitted, reference: "a fit", prior: 1.0e-5, fitted_on: vtrain, band: 0.2}
nodes: [{count: 1, device_kind: a100-sxm-80gb, devices_per_node: 2}]
levels: [{name: a, kind: nvlink, scope: all, latency_s: 1 us, bandwidth_bytes_per_s: 100 GB/s}]
"""


def loaded(folder: Path, text: str) -> Cluster:
    path = folder / "old.yaml"
    path.write_text(text)
    return load_cluster(path)


def test_a_profile_of_before_keeps_its_numbers_as_its_own(tmp_path: Path) -> None:
    kind = loaded(tmp_path, OLD).device_kinds[0]
    assert [getattr(kind.software, name) for name in NUMBERS] == pytest.approx([2e-5, 1e-3, 0.25])
    assert (kind.software.framework, kind.lockstep_wait) == ("", 0.05)
    assert [source.key for source in kind.software.sources] == ["host_issue_s"]
    assert [source.key for source in kind.sources] == ["*"]


@pytest.mark.parametrize("said", ["{}", "{host_issue_s: 3 us}"])
def test_a_profile_of_before_that_extends_a_bundled_one_says_its_numbers_over_the_framework(
    tmp_path: Path, said: str
) -> None:
    text = (
        "schema: explorer.cluster/1\nextends: dgx-a100\nname: old\ndevice_kinds:\n  - name: a100-sxm-80gb\n"
    )
    text += "".join(f"    {line}\n" for line in said.strip("{}").split(",") if line)
    kind = loaded(tmp_path, text).device_kinds[0]
    usual = load_cluster("dgx-a100").device_kinds[0]
    if said == "{}":
        assert kind == usual
    else:
        assert kind.software.host_issue_s == pytest.approx(3e-6)
        assert kind.software.action_overhead_s == usual.software.action_overhead_s
        assert kind.software.framework == "megatron-2021"
        assert "host_issue_s" not in {source.key for source in kind.software.sources}


def test_a_kind_that_names_another_framework_takes_no_number_of_the_first(tmp_path: Path) -> None:
    text = "schema: explorer.cluster/1\nextends: dgx-a100\nname: new\ndevice_kinds:\n"
    text += "  - {name: a100-sxm-80gb, framework: torch-eager}\n"
    kind = loaded(tmp_path, text).device_kinds[0]
    assert kind.software == load_framework("torch-eager").software_on("a100-sxm-80gb")


@pytest.mark.parametrize(
    ("line", "key"),
    [("framework: nothing", "device_kinds[0].framework"), ("framework: 5", "device_kinds[0].framework"),
     ("software: 5", "device_kinds[0].software"), ("cached_fraction: 2", "device_kinds[0].cached_fraction")],
)  # fmt: skip
def test_wrong_software_of_a_device_kind(tmp_path: Path, line: str, key: str) -> None:
    text = "schema: explorer.cluster/1\nextends: dgx-a100\nname: old\ndevice_kinds:\n"
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, text + f"  - name: a100-sxm-80gb\n    {line}\n")
    assert caught.value.key == key


# ---- What a framework decides -------------------------------------------------------------------


def test_the_framework_of_a_job_changes_its_numbers() -> None:
    assert report_of("megatron-2021") > report_of("torchtitan-2024", stages=1)
    assert report_of() != report_of("torch-eager")


DESCRIPTIVE = {"name", "title", "software", "year", "sources"}
ACTS: dict[str, tuple[str, dict[str, Any]]] = {
    "costs": ("costs: {host_issue_s: 50 us}", {}),
    "by_kind": ('by_kind: {"a100-*": {action_overhead_s: 5 ms}}', {}),
    "kernels": ("kernels: eager", {}),
    "softmax": ("softmax: plain", {"model": "gpt", "attention": "unfused"}),
    "attention": ("attention: plain", {"model": "gpt"}),
    "loss": ("loss: plain", {}),
    "accumulation": ("accumulation: separate", {}),
    "selective": ("selective: operators", {"recompute": "selective"}),
    "dummy_gradients": ("dummy_gradients: true", {"gradients": "fp32"}),
    "blocking": ("blocking: true", {"stages": 4}),
    "bucket_bytes": ("bucket_bytes: 25 MB", {"replicas": 4}),
    "buckets": ("bucket_bytes: 25 MB\nbuckets: without_pipeline", {"replicas": 4, "stages": 2}),
    "checkpoints": ("checkpoints: needed", {"recompute": "full"}),
    "updates": ("updates: separate", {}),
    "clipping": ("clipping: true", {}),
    "exchanges": ("exchanges: units", {"replicas": 4, "zero": 3}),
    "transfers": ("transfers: gather", {"stages": 2, "tensor": 4}),
    "allocator": ("costs: {cached_fraction: 0.3}\nallocator: expandable", {}),
    "dispatch": ("dispatch: all_gather", {"model": "mixtral-8x7b", "replicas": 8, "expert": 8}),
    "expert_kernels": ("expert_kernels: each", {"model": "mixtral-8x7b"}),
}
"""By field of a framework: what a file says of it, and a plan of which it then changes the report."""
BESIDE = {"buckets": "bucket_bytes: 25 MB", "allocator": "costs: {cached_fraction: 0.3}"}
"""What both files say where a field acts only beside another."""


def figures_of(
    file: Path, *, model: str = "llama", attention: str = "", gradients: str = "", **shape: Any
) -> Any:
    """What is predicted of a small model under the framework of a file."""
    framework = load_framework(file)
    settings = {"layers": "4", "embed": "1024", "heads": "8"}
    settings |= {"attention": attention} if attention else {}
    settings |= {"kv_heads": "8", "head": "128", "ffn": "4096"} if model == "llama" else {}
    settings = {} if model == "mixtral-8x7b" else settings
    graph = load_model(model, sequence_length=512, settings=settings, framework=framework)
    job = replace(
        default_workload(graph).job, global_batch=16, framework=str(file), gradient_precision=gradients
    )
    cluster = load_cluster("dgx-a100")
    strategy = uniform(graph, cluster, job, microbatch_size=1, **shape)
    found = explorer.simulate(graph, cluster, Workload(jobs=(job,)), strategy)
    return found.step_time_s, found.memory_parts_bytes, sorted(found.traffic_bytes.items())


def test_every_field_acts_or_describes() -> None:
    assert {item.name for item in fields(Framework)} == DESCRIPTIVE | set(ACTS)


@pytest.mark.parametrize("field", ACTS)
def test_every_choice_acts(field: str, tmp_path: Path) -> None:
    said, shape = ACTS[field]
    found = []
    for name, extra in (("plain", BESIDE.get(field, "")), ("other", said)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"schema: explorer.framework/1\nname: {name}\n{extra}\n")
        found.append(figures_of(path, **shape))
    assert found[0] != found[1]


def test_selective_recomputation_is_as_the_framework_does_it() -> None:
    plain = load_model("gpt2-small")
    torch = load_model("gpt2-small", framework=Framework(name="t", selective="operators"))
    assert not any(layer.selective for layer in plain.layers)
    assert any(layer.selective for layer in torch.layers)
    assert load_model("gpt2-small", framework=Framework(name="u", selective="operators")) is torch


def test_a_checkpoint_that_stops_early_leaves_a_blocks_last_product_out() -> None:
    plain = load_model("gpt2-small")
    torch = load_model("gpt2-small", framework=Framework(name="t", checkpoints="needed"))
    again = made_again(torch, np.arange(len(torch.layers)), "full")
    left = {layer.name for layer, made in zip(torch.layers, again, strict=True) if layer.block and not made}
    assert left == {f"layers.{i}.{name}" for i in range(12) for name in ("mlp.down", "mlp.add")}
    assert not any(layer.once for layer in plain.layers)


def test_a_setting_that_is_given_goes_before_the_framework() -> None:
    eager = Framework(name="e", kernels="eager", softmax="plain")
    given = load_model("llama", settings={"kernels": "fused"}, framework=eager)
    assert given is load_model("llama", settings={"kernels": "fused"})
    assert load_model("llama", framework=eager) is load_model("llama", settings={"kernels": "eager"})


def plain_strategy(**fields: object) -> JobStrategy:
    graph = load_model("gpt2-small")
    cluster = load_cluster("dgx-a100")
    return replace(uniform(graph, cluster, default_workload(graph).job, stages=2).job, **fields)  # type: ignore[arg-type]


def under(strategy: JobStrategy, framework: Framework) -> JobStrategy:
    graph = load_model("gpt2-small")
    return strategy_under(strategy, framework, graph, default_workload(graph).job)


def test_what_a_strategy_says_itself_stands() -> None:
    framework = Framework(name="f", blocking=True, bucket_bytes=1e6, transfers="best")
    found = under(plain_strategy(), framework)
    assert dict(found.options)["blocking"] is True
    assert found.sync == (Sync(parameters=("*",), bucket_bytes=1e6),)
    assert found.transfers == "best"
    said = plain_strategy(options=(("blocking", False),), sync=(Sync(parameters=("*",)),), transfers="direct")
    assert under(said, framework) is said
    assert under(plain_strategy(), USUAL) == plain_strategy()
    unpipelined = replace(framework, buckets="without_pipeline")
    assert not under(plain_strategy(), unpipelined).sync


def test_a_schedule_without_blocking_transfers_is_left_alone() -> None:
    framework = Framework(name="f", blocking=True)
    assert "blocking" not in dict(under(plain_strategy(schedule="gpipe"), framework).options)


# ---- Command line and plans ---------------------------------------------------------------------


def test_list_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "frameworks", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["frameworks"]
    assert [row["name"] for row in rows] == framework_names()


def test_a_flag_chooses_one_and_a_plan_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--model", "gpt2-small", "--cluster", "dgx-a100", "--global-batch", "16"]
    flags += ["--stages", "2", "--microbatch-size", "2"]
    steps = {}
    for name in ("", "torch-eager"):
        assert main(["simulate", *flags, *(["--framework", name] if name else []), "--json"]) == 0
        steps[name] = json.loads(capsys.readouterr().out)["step_time_s"]
    assert steps[""] != steps["torch-eager"]
    framework = load_framework("torch-eager")
    graph, cluster = load_model("gpt2-small", framework=framework), load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=16, framework="torch-eager")
    strategy = uniform(graph, cluster, workload.job, stages=2, microbatch_size=2)
    plan = explorer.make_plan("gpt2-small", graph, "dgx-a100", cluster, workload, strategy)
    explorer.save_plan(plan, {"model": graph}, tmp_path / "plan.yaml")
    resolved = explorer.load_plan(tmp_path / "plan.yaml")
    assert not resolved.mismatches
    assert to_plain(resolved.plan.workload)["jobs"][0]["framework"] == "torch-eager"
    found = explorer.simulate(
        resolved.graph, resolved.cluster, resolved.plan.workload, resolved.plan.strategy
    )
    assert found.step_time_s == pytest.approx(steps["torch-eager"])


def test_calibration_corrects_the_framework_that_is_asked_for(tmp_path: Path) -> None:
    """The corrected profile carries that framework's costs of this machine, with their source."""
    issue = Observation(
        name="issue", predict=lambda c: c.device_kinds[0].software.host_issue_s, measured_s=9e-6, sd=1e-3
    )
    cluster = cluster_under(load_cluster("dgx-a100"), load_framework("torch-eager"))
    found = estimate(cluster, [Evidence(name="a trace", observations=(issue,))]).cluster
    save_cluster(found, tmp_path / "mine.yaml")
    software = load_cluster(tmp_path / "mine.yaml").device_kinds[0].software
    assert (software.framework, software.host_issue_s) == ("torch-eager", pytest.approx(9e-6, rel=1e-3))
    source = next(item for item in software.sources if item.key == "host_issue_s")
    assert source.how == "fitted"
    assert source.reference.startswith("calibrated with a trace; before it assumed")


def test_fingerprints_are_those_of_before_there_were_frameworks(tmp_path: Path) -> None:
    """Plans and sessions of that time still know their clusters, though numbers stand elsewhere now."""
    # bundled profiles gain numbers; those that were saved stay, as does one whose numbers did
    saved = Path(__file__).parent / "compatibility" / "clusters"
    assert fingerprint(load_cluster(saved / "a100.yaml")) == "39fa754ec8e89533"
    assert fingerprint(load_cluster(saved / "h100.json")) == "13390921e9ecc270"
    assert fingerprint(load_cluster("cpu-2")) == "4cb6eeaf9ccd109e"
    cluster = load_cluster("dgx-a100")
    save_cluster(cluster, tmp_path / "saved.yaml")
    assert fingerprint(load_cluster(tmp_path / "saved.yaml")) == fingerprint(cluster)
    kind = cluster.device_kinds[0]
    slower = replace(kind, software=replace(kind.software, host_issue_s=1.0))
    assert fingerprint(replace(cluster, device_kinds=(slower,))) != fingerprint(cluster)


# ---- Whoever asks about a plan ------------------------------------------------------------------


def case_of(framework: str) -> tuple[LayerGraph, Cluster, Workload, Strategy]:
    graph, cluster = load_model("gpt2-small"), load_cluster("dgx-a100")
    kinds = tuple(replace(kind, sources=()) for kind in cluster.device_kinds)  # the software's bands stay
    cluster = replace(cluster, device_kinds=kinds)
    workload = default_workload(graph).with_job(global_batch=16, framework=framework)
    return graph, cluster, workload, uniform(graph, cluster, workload.job, stages=2, microbatch_size=2)


def test_bands_are_those_of_the_framework_that_runs() -> None:
    """Its own numbers are moved, not those of the framework that the device kind names."""
    causes = {
        name: {number.key: number.value for number in report_bands(*case_of(name))["step_time_s"].causes}
        for name in ("", "torch-eager")
    }
    key = "a100-sxm-80gb.action_overhead_s"
    assert causes["torch-eager"][key] == pytest.approx(1e-4)
    assert causes[""][key] == load_framework("megatron-2021").software_on("a100-sxm-80gb").action_overhead_s


def test_a_run_here_does_not_validate_another_framework() -> None:
    graph, cluster, workload, strategy = case_of("megatron-2021")
    likeness = scale(graph, cluster, workload.job, strategy.job, ranks=2)
    assert "framework: megatron-2021 in the plan, this package's own runtime here" in likeness.not_validated
    assert likeness.job.framework == ""
    ours = scale(graph, cluster, replace(workload.job, framework="ours"), strategy.job, ranks=2)
    assert not any(text.startswith("framework") for text in ours.not_validated)


def test_pipedreams_planner_looks_at_seconds_under_the_framework() -> None:
    found = {}
    for name in ("", "torch-eager"):
        graph, cluster, workload, _ = case_of(name)
        problem = Problem(graph=graph, cluster=cluster, workload=workload)
        found[name] = _kind(problem)
    assert found[""] == cluster.device_kinds[0]
    assert found["torch-eager"] is not None
    assert found["torch-eager"].software.framework == "torch-eager"


@pytest.mark.parametrize(("model", "known"), [("llama3-8b", True), ("gpt2-small", False)])
def test_kernels_that_a_model_does_not_know_are_said(
    model: str, known: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--model", model, "--cluster", "hgx-h100", "--global-batch", "8", "--microbatch-size", "1"]
    assert main(["simulate", *flags, "--tp", "8", "--framework", "torchtitan-2024", "--json"]) == 0
    said = capsys.readouterr().err
    assert ("knows no eager kernels" in said) is not known


# ---- Files with anything in any place -----------------------------------------------------------

HOSTILE = [None, 5, -1.0, "", "5 us", True, [], ["a"], [["a"]], {}, {"key": ["a"]}, [{"key": ["a"]}]]
SOURCES = [{"key": "*", "how": "assumed", "reference": "x"}]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of plain data."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Plain data with something else in one place."""
    if not path:
        return new
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = put(made[path[0]], path[1:], new)
    return made


FRAMEWORK_DATA = {
    "schema": "explorer.framework/1", "extends": "torch-eager", "name": "mine", "year": 2026,
    "costs": {"host_issue_s": "9 us", "sources": SOURCES},
    "by_kind": {"a100-*": {"cached_fraction": 0.1, "sources": SOURCES}},
    "kernels": "eager", "blocking": True, "bucket_bytes": "25 MiB",
    "sources": SOURCES,
}  # fmt: skip
CLUSTER_DATA = {
    "schema": "explorer.cluster/1", "extends": "dgx-a100", "name": "mine",
    "device_kinds": [
        {"name": "half", "extends": "a100-sxm-80gb", "framework": "torch-eager", "host_issue_s": "5 us",
         "like": ["a100-sxm-80gb"], "sources": [{"key": "host_issue_s", "how": "assumed", "reference": "x"}]},
        {"name": "a100-sxm-80gb", "software": {"framework": "mine", "host_issue_s": 1e-6, "sources": []}},
    ],
    "nodes": [{"count": 1, "device_kind": "half", "devices_per_node": 2}],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["framework", "cluster"])
def test_anything_in_any_place_is_read_or_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    data, load = {"framework": (FRAMEWORK_DATA, load_framework), "cluster": (CLUSTER_DATA, load_cluster)}[
        kind
    ]
    path = tmp_path / "file.json"
    path.write_text(json.dumps(data))
    load(path)
    for number, place in enumerate(places(data)):
        for i, new in enumerate(HOSTILE):
            path = tmp_path / f"{number}-{i}.json"
            path.write_text(json.dumps(put(data, place, new)))
            with suppress(InputError):  # any other error fails the test
                load(path)
