"""The torchrun folder: a script that bash takes, a specification that the worker reads, and a run of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import PlanError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.export import export, preview
from explorer.export._script import nodes_of
from tests.export.samples import UNIFORM, resolved, uniform


def written(plan: Any, folder: Path) -> Path:
    export(plan, "torchrun", folder)
    return folder / "run.sh"


def environment(**values: str) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("NNODES", "NPROC", "NODE_RANK")}
    return {**clean, "PYTHON": sys.executable, **values}


def dry(script: Path, **values: str) -> subprocess.CompletedProcess[str]:
    """Run the script with an interpreter that only prints how it is called."""
    fake = script.parent / "python"
    fake.write_text('#!/bin/sh\n[ "$1" = -c ] || echo "$CUDA_VISIBLE_DEVICES|$*"\n')
    fake.chmod(0o755)
    return subprocess.run(
        ["bash", str(script)],
        env=environment(PYTHON=str(fake), **values),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("sample", UNIFORM)
@pytest.mark.parametrize("name", ["torchrun", "torchtitan"])
def test_bash_takes_the_script(sample: str, name: str, tmp_path: Path) -> None:
    export(uniform(sample), name, tmp_path)
    subprocess.run(["bash", "-n", str(tmp_path / "run.sh")], check=True)


@pytest.mark.parametrize("sample", UNIFORM)
def test_worker_reads_the_specification(sample: str, tmp_path: Path) -> None:
    from explorer.run.spec import read_spec

    plan = uniform(sample)
    written(plan, tmp_path)
    spec = read_spec(tmp_path / "spec.json")
    strategy = plan.plan.strategy.job
    lanes = {row for stage in strategy.stages for mesh in stage.meshes for row in mesh.rows}
    assert spec.ranks == len(lanes)
    case = next(case for case in spec.cases if case.name == "strategy")
    assert len(case.lowered().programs) == spec.ranks


def test_one_node_starts_alone(tmp_path: Path) -> None:
    done = dry(written(uniform("3d"), tmp_path))
    assert done.returncode == 0, done.stderr
    visible, _, call = done.stdout.strip().partition("|")
    assert visible == "0,2,4,6"  # one rank for each tensor-parallel lane
    assert "-m torch.distributed.run --standalone --nproc-per-node 4 --max-restarts 0" in call
    assert call.endswith(f"-m explorer.run.worker {tmp_path}/out/node0/spec.json")


def test_four_nodes_meet_at_the_first(tmp_path: Path) -> None:
    plan = resolved(cluster="dgx-a100-4", stages=4, replicas=8, microbatches=8)
    script = written(plan, tmp_path)
    done = dry(script, NODE_RANK="3", MASTER_ADDR="first")
    assert "--nnodes 4 --node-rank 3 --master-addr first --master-port 29500" in done.stdout
    assert "--nproc-per-node 8" in done.stdout
    alone = dry(script)
    assert alone.returncode != 0
    assert "set MASTER_ADDR" in alone.stderr
    wrong = dry(script, NNODES="3", MASTER_ADDR="first")
    assert wrong.returncode == 2
    assert "3 nodes x 8 ranks are not the 32 ranks" in wrong.stderr
    assert "--nproc-per-node 16" in dry(script, NNODES="2", NPROC="16", MASTER_ADDR="first").stdout


def test_nodes_with_different_numbers_of_ranks(tmp_path: Path) -> None:
    plan = resolved(cluster="dgx-a100-4", stages=12, microbatches=16)
    script = written(plan, tmp_path)
    for node, ranks in ((0, 8), (1, 4)):
        done = dry(script, NODE_RANK=str(node), MASTER_ADDR="first")
        assert f"--nnodes 2 --node-rank {node} " in done.stdout
        assert f"--nproc-per-node {ranks} " in done.stdout
    assert dry(script, NODE_RANK="2", MASTER_ADDR="first").returncode == 2


def test_a_missing_package_is_said(tmp_path: Path) -> None:
    script = written(uniform("1f1b"), tmp_path)
    fake = tmp_path / "none"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    done = subprocess.run(
        ["bash", str(script)], env=environment(PYTHON=str(fake)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "has no strategy-explorer" in done.stderr


@pytest.fixture(scope="module")
def four_nodes() -> Cluster:
    return load_cluster("dgx-a100-4")


def test_ranks_are_numbered_node_by_node(four_nodes: Cluster) -> None:
    nodes = nodes_of(four_nodes, [9, 10, 0, 1, 2])
    assert [(node.ranks, node.devices) for node in nodes] == [(2, (1, 2)), (3, (0, 1, 2))]
    with pytest.raises(PlanError, match="back and forth between nodes"):
        nodes_of(four_nodes, [0, 8, 1])


@pytest.mark.slow
def test_two_ranks_run_it(tmp_path: Path) -> None:
    from explorer.run.instruments import make_experiment
    from explorer.run.likeness import SMALL
    from explorer.run.spec import write_spec

    plan = resolved(stages=2, microbatches=2)
    script = written(plan, tmp_path)
    # The same specification with a model so small that only starting the ranks takes time.
    spec = make_experiment(plan, rounds=1, ranks=2, baseline="single", size=SMALL).spec
    write_spec(replace(spec, warmup_rounds=0, pin=False, group_timeout_s=600.0), tmp_path / "spec.json")
    done = subprocess.run(
        ["bash", str(script)], env=environment(), capture_output=True, text=True, timeout=800, check=False
    )
    folder = tmp_path / "out" / "node0"
    events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
    assert sorted(e["rank"] for e in events if e["event"] == "done") == [0, 1], done.stderr[-2000:]
    for rank in range(2):
        result = json.loads((folder / f"result-{rank}.json").read_text())
        assert {len(records) for records in result["cases"].values()} <= {0, 1}
        assert result["cases"]["strategy"][0]["stamps"]


def test_the_files(tmp_path: Path) -> None:
    assert list(preview(uniform("1f1b"), "torchrun")) == ["run.sh", "spec.json", "plan.yaml"]
