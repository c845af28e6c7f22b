"""The torchrun folder: a script that bash takes, a specification that the worker reads, and a run of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from explorer.base.errors import InputError, PlanError
from explorer.cli.main import main
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.export import export, preview
from explorer.export._script import nodes_of
from explorer.plan import Resolved, load_plan, save_plan
from explorer.run.instruments import make_experiment
from explorer.run.judging.results import ROUNDS, exported, read_results, validate_results
from explorer.run.spec import mark_of
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
    assert spec.ranks == sum(map(len, lanes)), "one for each device of the plan"
    case = next(case for case in spec.cases if case.name == "strategy")
    assert len(case.lowered().programs) * case.lane_ranks == spec.ranks
    assert case.lane_ranks == len(next(iter(lanes)))
    assert mark_of(spec) == mark_of(exported(plan).spec), "what ranks leave is known again"


def test_one_node_starts_alone(tmp_path: Path) -> None:
    done = dry(written(uniform("3d"), tmp_path))
    assert done.returncode == 0, done.stderr
    visible, _, call = done.stdout.strip().partition("|")
    assert visible == ""  # all of its devices
    assert "-m torch.distributed.run --standalone --nproc-per-node 8 --max-restarts 0" in call
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


def test_nodes_may_meet_in_any_order(tmp_path: Path) -> None:
    plan = resolved(cluster="dgx-a100-4", stages=4, replicas=8, microbatches=8)
    script = written(plan, tmp_path)
    for node in (0, 2):
        done = dry(script, NODE_RANK=str(node), MASTER_ADDR="first", RDZV="c10d", LOCAL_ADDR="10.0.0.7")
        assert "--nnodes 4 --rdzv-backend c10d --rdzv-id explorer --rdzv-endpoint first:29500" in done.stdout
        assert f"--rdzv-conf is_host={int(node == 0)} --local-addr 10.0.0.7" in done.stdout
        assert "--node-rank" not in done.stdout
    uneven = written(resolved(cluster="dgx-a100-4", stages=12, microbatches=16), tmp_path / "uneven")
    done = dry(uneven, NODE_RANK="0", MASTER_ADDR="first", RDZV="c10d")
    assert (done.returncode, "leave RDZV unset" in done.stderr) == (2, True)


def test_slurm_starts_the_script_once_on_every_node(tmp_path: Path) -> None:
    plan = resolved(cluster="dgx-a100-4", stages=4, replicas=8, microbatches=8)
    export(plan, "torchrun", tmp_path, launcher="slurm")
    job = tmp_path / "job.sbatch"
    asked = [line for line in job.read_text().splitlines() if line.startswith("#SBATCH")]
    assert {"#SBATCH --nodes=4", "#SBATCH --ntasks-per-node=1", "#SBATCH --gpus-per-node=8"} <= set(asked)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (
        ("python3", 'if [ "$1" != -c ]; then echo "$*"; fi'),
        ("scontrol", "echo first; seq 100000"),  # more than a pipe holds: who reads one line only ends it
        ("srun", 'shift; for n in 0 1 2 3; do SLURM_NODEID=$n "$@"; done'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    given = {key: value for key, value in environment().items() if key != "PYTHON"}
    given |= {"PATH": f"{tools}:{given['PATH']}", "SLURM_SUBMIT_DIR": str(tmp_path)}
    given |= {"SLURM_JOB_ID": "40001", "SLURM_JOB_NODELIST": "first,second"}
    done = subprocess.run(["bash", str(job)], env=given, capture_output=True, text=True, check=True)
    calls = done.stdout.splitlines()
    assert len(calls) == 4
    for node, call in enumerate(calls):
        assert f"--nnodes 4 --node-rank {node} --master-addr first --master-port 20001 " in call


def test_a_launcher_that_a_target_does_not_have() -> None:
    with pytest.raises(InputError, match=r"writes no job for 'pbs'.*slurm"):
        preview(uniform("1f1b"), "torchrun", launcher="pbs")
    with pytest.raises(InputError, match=r"plan writes no job for 'slurm'.*none"):
        preview(uniform("1f1b"), "plan", launcher="slurm")


# -------------------------------------------------------------------------------------------- results


def claim(of: Any, folder: Path, **fields: Any) -> None:
    """Leave what ranks would leave, without anything measured."""
    spec = exported(of).spec
    for rank in range(spec.ranks):
        place = folder / f"node{rank % 2}"
        place.mkdir(parents=True, exist_ok=True)
        result = {"cases": {}, "plan": spec.plan, "spec": mark_of(spec), **fields}
        (place / f"result-{rank}.json").write_text(json.dumps(result))
        (place / "events").write_text(json.dumps({"event": "ready", "rank": rank, "name": "cpu"}) + "\n")


def test_results_are_found_in_the_folder_or_above_it(tmp_path: Path) -> None:
    plan = uniform("1f1b")
    claim(plan, tmp_path / "out")
    experiment = exported(plan)
    for folder in (tmp_path, tmp_path / "out"):
        found = read_results(folder, experiment)
        assert len(found.ranks) == experiment.spec.ranks
        assert found.events[0]["name"] == "cpu"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"plan": "0" * 16}, "is the result of another plan"),
        ({"spec": "0" * 16}, "another version of the package exported it"),
        ({"cases": 3}, "is not the result of a rank"),
    ],
)
def test_results_of_something_else_are_refused_in_one_line(
    fields: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = uniform("1f1b")
    claim(plan, tmp_path / "out", **fields)
    save_plan(plan.plan, plan.graphs, tmp_path / "plan.yaml")
    assert main(["validate", str(tmp_path / "plan.yaml"), "--from", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_results_that_are_not_all_there_are_refused(tmp_path: Path) -> None:
    plan = uniform("1f1b")
    with pytest.raises(InputError, match="no such folder"):
        validate_results(plan, tmp_path / "none")
    claim(plan, tmp_path)
    next(tmp_path.glob("*/result-1.json")).unlink()
    with pytest.raises(InputError, match="rank 1 of 4 ranks left no result"):
        validate_results(plan, tmp_path)


def test_a_run_elsewhere_keeps_the_settings_it_was_exported_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = uniform("1f1b")
    save_plan(plan.plan, plan.graphs, tmp_path / "plan.yaml")
    assert main(["validate", str(tmp_path / "plan.yaml"), "--from", str(tmp_path), "--steps", "3"]) == 2
    assert "--steps was chosen when the folder was exported" in capsys.readouterr().err


GPT2 = {
    "model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 16, "vocab_size": 64,
    "architectures": ["GPT2LMHeadModel"],
}  # fmt: skip


def of_a_file(folder: Path, **options: Any) -> Resolved:
    """A plan for a Hugging Face configuration in a folder, on the two cores of a machine."""
    home = folder / "tiny-gpt2"
    home.mkdir(parents=True)
    (home / "config.json").write_text(json.dumps(GPT2))
    return resolved(model=f"hf:{home}", cluster="cpu-2", **options)


def on_two_cores(**options: Any) -> Resolved:
    """A plan for a model of the zoo there."""
    return resolved(model="gpt2-small", cluster="cpu-2", **options)


def test_a_configuration_travels_with_the_folder_and_its_own_layers_run(tmp_path: Path) -> None:
    plan = of_a_file(tmp_path / "here", stages=2, microbatches=2)
    written(plan, tmp_path / "there")
    text = (tmp_path / "there" / "spec.json").read_text()
    assert '"reference": "hf:tiny-gpt2"' in text
    assert str(tmp_path) not in text
    assert json.loads((tmp_path / "there" / "tiny-gpt2" / "config.json").read_text()) == GPT2
    script = (tmp_path / "there" / "run.sh").read_text()
    assert "with its model's own layers" in script
    assert "Needs torch, strategy-explorer, transformers on every node" in script
    moved = load_plan(tmp_path / "there" / "plan.yaml")
    assert mark_of(exported(moved).spec) == mark_of(exported(plan).spec), "it reads what came back"


def test_code_of_the_users_stays_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    plan = resolved(model="benchmarks.user_modules:skip", cluster="cpu-2", stages=2, microbatches=1)
    script = preview(plan, "torchrun")["run.sh"]
    assert "with small stand-ins (the code of 'benchmarks.user_modules:skip' is not carried along)" in script


def test_what_is_exported_does_not_depend_on_the_memory_that_is_free_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = resolved(model="gpt2-small", stages=2, microbatches=2)
    before = mark_of(exported(plan).spec)
    monkeypatch.setattr("explorer.run.own.own_scale._free_bytes", lambda: 1e6)
    assert mark_of(exported(plan).spec) == before
    with pytest.raises(InputError, match="its own layers need"):
        make_experiment(plan, engine="layers")


def run_on_two_nodes(script: Path, rendezvous: str) -> None:
    """Start two agents with one rank each, and wait for them."""
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    agents = [
        subprocess.Popen(
            ["bash", str(script)],
            env=environment(
                NNODES="2", NPROC="1", NODE_RANK=str(node), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                RDZV=rendezvous, LOCAL_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo",
            ),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for node in range(2)
    ]  # fmt: skip
    said = [agent.communicate(timeout=500)[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], "\n".join(text[-1500:] for text in said)


@pytest.mark.slow
@pytest.mark.parametrize("rendezvous", ["static", "c10d"])
def test_two_agents_on_one_host_stand_for_two_nodes(
    rendezvous: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each starts one rank as on a node of its own; what both leave is compared as if it had run here."""
    from explorer.run.cases.likeness import SMALL

    small = partial(make_experiment, size=SMALL, warmup_rounds=0)
    monkeypatch.setattr("explorer.run.judging.results.make_experiment", small)
    plan = resolved(stages=2, microbatches=2)
    script = written(plan, tmp_path)
    run_on_two_nodes(script, rendezvous)
    assert all((tmp_path / "out" / f"node{node}").is_dir() for node in range(2))
    found = validate_results(plan, tmp_path / "out")
    assert found.numerics_ok is True
    assert found.baseline == "single"
    early = found.rounds < ROUNDS and found.verdict == "too noisy"
    assert early or found.rounds == ROUNDS
    assert [item.rank for item in found.memory] == [0, 1]
    with pytest.raises(InputError, match="another plan"):
        validate_results(resolved(stages=2, microbatches=4), tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{"stages": 2, "microbatches": 2}, {"tensor": 2, "microbatches": 1}])
def test_two_nodes_run_own_layers_and_lanes_of_several_ranks(shape: dict[str, int], tmp_path: Path) -> None:
    plan = of_a_file(tmp_path / "here", **shape) if "stages" in shape else on_two_cores(**shape)
    script = written(plan, tmp_path / "there")
    run_on_two_nodes(script, "static")
    found = validate_results(load_plan(tmp_path / "there" / "plan.yaml"), tmp_path / "there")
    assert found.engine == "layers"
    assert found.numerics_ok is True
    assert bool(found.sent) == ("tensor" in shape)
    assert all(item.equal for item in found.sent)
    assert found.baseline == "single"


@pytest.mark.slow
def test_two_ranks_run_it(tmp_path: Path) -> None:
    from explorer.run.cases.likeness import SMALL
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
