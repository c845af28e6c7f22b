"""Jobs of schedulers that start `run.sh` once on every node: Slurm's batch script, Kubernetes' PyTorchJob.

They ask nothing of a target but its `run.sh`, which takes its node from NODE_RANK, node 0 from MASTER_ADDR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.base.errors import InputError
from explorer.base.formats import yaml_blocks
from explorer.calibrate.devices import same_device
from explorer.plan import Resolved

RUN = "run.sh"
TORCHRUN, SLURM, KUBERNETES = "torchrun", "slurm", "kubernetes"
SBATCH, MANIFEST = "job.sbatch", "pytorchjob.yaml"
RESOURCES = {
    "NVIDIA": "nvidia.com/gpu",
    "AMD": "amd.com/gpu",
    "Google": "google.com/tpu",
    "AWS": "aws.amazon.com/neuron",
}
"""Name under which a maker's Kubernetes device plugin offers its accelerators."""
LARGEST_BYTES = 900_000
"""Files of a job that a ConfigMap holds (1 MiB at most, names and the manifest's own text included)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNodes:
    """What a job asks of its nodes."""

    count: int
    """Nodes."""
    devices: int
    """Devices of each, up to the last one that is used; processor cores where a plan runs on processors."""
    on_gpus: bool
    """Whether the devices are accelerators."""
    maker: str = ""
    """Company that makes the accelerators; empty if unknown."""


def job_files(resolved: Resolved, target: str, launcher: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return the files that a launcher needs beside those of a target; none for `torchrun`.

    Raises:
        InputError: the launcher is unknown, the target has no `run.sh`, or its files are too large.
    """
    if launcher not in LAUNCHERS or RUN not in files:
        known = ", ".join(LAUNCHERS) if RUN in files else "none: start its files yourself"
        raise InputError(
            f"{target} writes no job for {launcher!r}", key="--launcher", found=launcher, allowed=known
        )
    return LAUNCHERS[launcher](job_nodes(resolved), target, files)


def job_nodes(resolved: Resolved) -> JobNodes:
    """Return what a plan's job asks of its nodes."""
    cluster, devices = resolved.cluster, resolved.plan.strategy.job.devices
    nodes: dict[int, list[int]] = {}
    for device in devices:
        nodes.setdefault(cluster.node_of(device), []).append(device)
    on_gpus = not same_device(cluster.kind_of(devices[0]).name, "cpu")
    firsts = {node: _first(resolved, found[0]) for node, found in nodes.items()}
    most = max(max(found) - firsts[node] + 1 if on_gpus else len(found) for node, found in nodes.items())
    maker = cluster.kind_of(devices[0]).maker
    return JobNodes(count=len(nodes), devices=most, on_gpus=on_gpus, maker=maker)


def _first(resolved: Resolved, device: int) -> int:
    node = resolved.cluster.node_of(device)
    while device and resolved.cluster.node_of(device - 1) == node:
        device -= 1
    return device


def _torchrun(nodes: JobNodes, target: str, files: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG001
    return {}


def _slurm(nodes: JobNodes, target: str, files: Mapping[str, str]) -> dict[str, str]:  # noqa: ARG001
    what = "gpus-per-node" if nodes.on_gpus else "cpus-per-task"
    return {SBATCH: _SBATCH.format(target=target, nodes=nodes.count, what=what, most=nodes.devices)}


def _kubernetes(nodes: JobNodes, target: str, files: Mapping[str, str]) -> dict[str, str]:
    size = sum(len(text.encode()) for text in files.values())
    if size > LARGEST_BYTES:
        raise InputError(
            f"the files of {target} are {size:,} bytes, too many for a ConfigMap",
            key="--launcher", found=KUBERNETES,
            allowed=f"at most {LARGEST_BYTES:,} bytes; or slurm, with the folder on a shared file system",
        )  # fmt: skip
    name = f"explorer-{target.replace('_', '-')}"
    keys = {path: path.replace("/", "__") for path in files}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {keys[path]: text for path, text in files.items()},
    }
    pods = {"Master": _pods(1, nodes, name, keys)}
    if nodes.count > 1:
        pods["Worker"] = _pods(nodes.count - 1, nodes, name, keys)
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": pods},
    }
    texts = [yaml_blocks(part) for part in (config, job)]
    return {MANIFEST: _MANIFEST + "---\n".join(texts)}


def _pods(count: int, nodes: JobNodes, name: str, keys: Mapping[str, str]) -> dict[str, Any]:
    kind = RESOURCES.get(nodes.maker, RESOURCES["NVIDIA"]) if nodes.on_gpus else "cpu"
    container = {
        "name": "pytorch",  # the operator looks for a container of this name
        "image": "REPLACE-BY-YOUR-IMAGE",
        # the operator gives every pod its number as RANK, and the master's address
        "command": ["bash", "-c", 'NODE_RANK="$RANK" OUT=/tmp/out exec bash /plan/run.sh "$@"', RUN],
        "args": [],
        "env": [{"name": "NNODES", "value": str(nodes.count)}],
        "resources": {"limits": {kind: nodes.devices}},
        "volumeMounts": [{"name": "plan", "mountPath": "/plan"}, {"name": "shm", "mountPath": "/dev/shm"}],
    }
    items = [{"key": key, "path": path} for path, key in keys.items()]
    volumes = [
        {"name": "plan", "configMap": {"name": name, "items": items}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    spec = {"containers": [container], "volumes": volumes}
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": spec}}


LAUNCHERS: dict[str, Callable[[JobNodes, str, Mapping[str, str]], dict[str, str]]] = {
    TORCHRUN: _torchrun,
    SLURM: _slurm,
    KUBERNETES: _kubernetes,
}
"""Launchers by name, each with what it writes beside `run.sh`."""

_MANIFEST = """\
# kubectl apply -f pytorchjob.yaml      (Kubeflow's training operator; put your image in, and into `args` what
# run.sh takes: your script and its arguments, which the image must have)
"""

_SBATCH = """\
#!/usr/bin/env bash
# usage, in this folder, which all nodes must see:   sbatch job.sbatch ARGUMENTS OF run.sh
# Options given to sbatch go before those below; its environment reaches run.sh (PYTHON, MASTER_PORT, RDZV).
#SBATCH --job-name=explorer-{target}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --{what}={most}
#SBATCH --time=00:20:00
#SBATCH --output=slurm-%j.out
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
MASTER_ADDR="${{MASTER_ADDR:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)}}"
MASTER_PORT="${{MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}}"
export MASTER_ADDR MASTER_PORT
exec srun --kill-on-bad-exit=1 bash run.sh "$@"
"""
