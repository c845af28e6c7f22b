"""Jobs of schedulers around every target that has a `run.sh`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from explorer.base.errors import InputError
from explorer.export import EXPORTERS, export, preview, refusals
from explorer.export._launchers import LARGEST_BYTES, LAUNCHERS, MANIFEST, RUN, job_files
from explorer.plan import Resolved
from tests.export.samples import resolved, uniform

STARTED = [name for name in EXPORTERS.names() if RUN in preview(uniform("zero 2"), name)]


def four_nodes() -> Resolved:
    return resolved(cluster="dgx-a100-4", replicas=32, microbatches=4, zero=2)


def manifest(files: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    config, job = yaml.safe_load_all(files[MANIFEST])
    return config, job


def test_the_targets_with_a_script_are_known() -> None:
    assert {"accelerate", "deepspeed", "torch", "torchrun", "torchtitan"} <= set(STARTED)


@pytest.mark.parametrize("name", STARTED)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_wraps_every_script(name: str, launcher: str) -> None:
    plan = four_nodes()
    assert refusals(plan, name) == []
    plain, files = preview(plan, name), preview(plan, name, launcher=launcher)
    assert {key: files[key] for key in plain} == plain
    added = set(files) - set(plain)
    assert added == {"torchrun": set(), "slurm": {"job.sbatch"}, "kubernetes": {MANIFEST}}[launcher]


@pytest.mark.parametrize("name", STARTED)
def test_a_manifest_holds_the_files_and_starts_them_on_every_node(name: str, tmp_path: Path) -> None:
    plan = four_nodes()
    files = preview(plan, name, launcher="kubernetes")
    config, job = manifest(files)
    pods = job["spec"]["pytorchReplicaSpecs"]
    assert [(kind, spec["replicas"]) for kind, spec in pods.items()] == [("Master", 1), ("Worker", 3)]
    for spec in pods.values():
        pod = spec["template"]["spec"]
        container = pod["containers"][0]
        assert container["name"] == "pytorch"
        assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
        volume = next(item for item in pod["volumes"] if item["name"] == "plan")
        assert volume["configMap"]["name"] == config["metadata"]["name"]
        mounted = {item["path"]: config["data"][item["key"]] for item in volume["configMap"]["items"]}
        assert mounted == {key: text for key, text in files.items() if key != MANIFEST}
        assert job["kind"] == "PyTorchJob"


@pytest.mark.parametrize(
    ("cluster", "resource"),
    [
        ("dgx-a100", "nvidia.com/gpu"),
        ("mi300x", "amd.com/gpu"),
        ("tpu-v5e", "google.com/tpu"),
        ("trainium2", "aws.amazon.com/neuron"),
    ],
)
def test_a_pod_asks_for_devices_of_their_maker(cluster: str, resource: str) -> None:
    plan = resolved(cluster=cluster, replicas=4, microbatches=4)
    _, job = manifest(preview(plan, "torch", launcher="kubernetes"))
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {resource: 4}


def test_a_pod_of_the_job_starts_its_node(tmp_path: Path) -> None:
    """The pod's own command, with RANK and MASTER_ADDR as the operator gives them."""
    export(four_nodes(), "torch", tmp_path, launcher="kubernetes")
    _, job = manifest({MANIFEST: (tmp_path / MANIFEST).read_text()})
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    command = [part.replace("/plan/", f"{tmp_path}/") for part in container["command"]]
    (tmp_path / "python").write_text('#!/bin/sh\necho "$*"\n')
    (tmp_path / "python").chmod(0o755)
    given = {"PATH": os.environ["PATH"], "RANK": "2", "MASTER_ADDR": "explorer-torch-master-0"}
    given |= {item["name"]: item["value"] for item in container["env"]} | {"PYTHON": str(tmp_path / "python")}
    done = subprocess.run([*command, "my_model"], env=given, capture_output=True, text=True, check=True)
    assert "--nnodes 4 --node-rank 2 --master-addr explorer-torch-master-0" in done.stdout
    assert done.stdout.rstrip().endswith(f"{tmp_path}/train.py my_model")


def test_one_node_and_processors() -> None:
    plan = resolved(cluster="cpu-2", replicas=2, microbatches=8, zero=2, model="gpt2-small")
    _, job = manifest(preview(plan, "deepspeed", launcher="kubernetes"))
    assert list(job["spec"]["pytorchReplicaSpecs"]) == ["Master"]
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"cpu": 2}
    assert "--cpus-per-task=2" in preview(plan, "deepspeed", launcher="slurm")["job.sbatch"]


def test_arguments_reach_the_script() -> None:
    for name in STARTED:
        assert (
            preview(four_nodes(), name, launcher="slurm")["job.sbatch"].rstrip().endswith('bash run.sh "$@"')
        )


def test_files_that_no_config_map_holds_are_refused() -> None:
    large = {RUN: "", "schedule.csv": "0F0," * (LARGEST_BYTES // 4 + 1)}
    with pytest.raises(InputError, match="too many for a ConfigMap") as caught:
        job_files(uniform("1f1b"), "torch", "kubernetes", large)
    assert "slurm" in str(caught.value.allowed)


def test_what_is_written_is_the_same_each_time() -> None:
    plan = four_nodes()
    first, again = (preview(plan, "torch", launcher="kubernetes") for _ in range(2))
    assert json.dumps(first) == json.dumps(again)
