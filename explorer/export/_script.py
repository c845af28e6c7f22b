"""The shell script that starts `torchrun` on the nodes of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.base.errors import PlanError
from explorer.cluster import Cluster
from explorer.plan import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How the ranks of a target are started, whatever starts them."""

    program: str
    """What torchrun is given behind its own options: a script or `-m MODULE`, with arguments."""
    devices: tuple[int, ...]
    """Device of every rank, in the order of the ranks."""
    prepare: str = ""
    """Shell lines before the start; `$HERE` is the folder of the files, `$RANKS` the number of ranks."""
    comments: tuple[str, ...] = ()
    """Lines that say what is run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node with the devices that it gives."""

    ranks: int
    """Processes on it."""
    devices: tuple[int, ...]
    """Devices of the processes, counted inside the node."""


def nodes_of(cluster: Cluster, devices: Sequence[int]) -> list[Node]:
    """Return the nodes for ranks 0, 1, ... that run on `devices`, in the order of the ranks.

    Raises:
        PlanError: the ranks go back and forth between nodes, which torchrun cannot number.
    """
    runs: list[tuple[int, list[int]]] = []
    for device in devices:
        node = cluster.node_of(device)
        if not runs or runs[-1][0] != node:
            runs.append((node, []))
        runs[-1][1].append(device)
    seen = [node for node, _ in runs]
    if len(set(seen)) != len(seen):
        problem = f"torchrun numbers ranks node by node; stages go back and forth between nodes {seen[:6]}"
        raise PlanError([f"{problem}; put stages that follow each other on one node"])
    return [
        Node(ranks=len(found), devices=tuple(device - _first(cluster, found[0]) for device in found))
        for _, found in runs
    ]


def run_script(resolved: Resolved, start: Start) -> str:
    """Write `run.sh`, which starts the ranks of a target on the nodes of a plan.

    Raises:
        PlanError: the ranks go back and forth between nodes, which torchrun cannot number.
    """
    return torchrun_script(
        nodes_of(resolved.cluster, start.devices),
        comments=start.comments, prepare=start.prepare, program=start.program,
    )  # fmt: skip


def _first(cluster: Cluster, device: int) -> int:
    """Return the first device of the node of a device."""
    node = cluster.node_of(device)
    while device and cluster.node_of(device - 1) == node:
        device -= 1
    return device


def torchrun_script(nodes: Sequence[Node], *, comments: Sequence[str], prepare: str, program: str) -> str:
    """Write a bash script that is to be started once on every node.

    Args:
        nodes: the nodes, in the order of the ranks.
        comments: lines that say what is run.
        prepare: shell lines before the start; `$HERE` is the script's folder, `$RANKS` the number of ranks.
        program: the program that torchrun runs, with its arguments.
    """
    ranks = sum(node.ranks for node in nodes)
    count = len(nodes)
    equal = len(set(nodes)) == 1
    lines = ["#!/usr/bin/env bash", *(f"# {line}".rstrip() for line in comments), _USAGE.format(count=count)]
    lines += ["set -euo pipefail", 'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"', f"RANKS={ranks}"]
    lines += [f'NNODES="${{NNODES:-{count}}}"', 'NODE_RANK="${NODE_RANK:-${SLURM_NODEID:-0}}"']
    if equal:
        lines += _of_node(nodes[0])
    else:
        lines += ['case "$NODE_RANK" in']
        lines += [f"  {i}) {'; '.join(_of_node(node))} ;;" for i, node in enumerate(nodes)]
        lines += ['  *) echo "run.sh: the plan has no node $NODE_RANK" >&2; exit 2 ;;', "esac"]
    lines += [_CHECK if equal else _ORDERED]
    lines += [_RENDEZVOUS, prepare.strip(), _START.format(program=program)]
    return "\n".join(line for line in lines if line) + "\n"


def _of_node(node: Node) -> list[str]:
    lines = [f'NPROC="${{NPROC:-{node.ranks}}}"']
    if node.devices != tuple(range(node.ranks)):
        listed = ",".join(map(str, node.devices))
        lines.append(f'export CUDA_VISIBLE_DEVICES="${{CUDA_VISIBLE_DEVICES:-{listed}}}"')
    return lines


_USAGE = """#
# usage, on each of the {count} node(s):   MASTER_ADDR=first-node NODE_RANK=0 bash run.sh
#   NNODES       nodes (default {count}); NNODES x NPROC must be the number of ranks
#   NODE_RANK    this node, counted from 0 (default: SLURM_NODEID, else 0)
#   NPROC        ranks on this node, one for each of its devices that are used
#   MASTER_ADDR  address of node 0; needed with several nodes
#   MASTER_PORT  a free port there (default 29500)
#   RDZV         static (default): nodes are NODE_RANK; c10d: they meet there in any order, all alike
#   LOCAL_ADDR   with c10d, the address by which others reach this node, if its name does not resolve
#   PYTHON       interpreter (default python3)"""

_CHECK = """if [ $((NNODES * NPROC)) -ne "$RANKS" ]; then
  echo "run.sh: $NNODES nodes x $NPROC ranks are not the $RANKS ranks of the plan; set NNODES and NPROC" >&2
  exit 2
fi"""

_ORDERED = """if [ "${RDZV:-static}" = c10d ]; then
  echo "run.sh: c10d numbers nodes as it likes, and those of this plan differ; leave RDZV unset" >&2
  exit 2
fi"""

_RENDEZVOUS = """if [ "$NNODES" -eq 1 ]; then
  RENDEZVOUS=(--standalone)
elif [ "${RDZV:-static}" = c10d ]; then
  : "${MASTER_ADDR:?run.sh: set MASTER_ADDR to the address of node 0}"
  RENDEZVOUS=(--nnodes "$NNODES" --rdzv-backend c10d --rdzv-id "${RDZV_ID:-explorer}")
  RENDEZVOUS+=(--rdzv-endpoint "$MASTER_ADDR:${MASTER_PORT:-29500}")
  if [ "$NODE_RANK" -eq 0 ]; then RENDEZVOUS+=(--rdzv-conf is_host=1)
  else RENDEZVOUS+=(--rdzv-conf is_host=0); fi
  if [ -n "${LOCAL_ADDR:-}" ]; then RENDEZVOUS+=(--local-addr "$LOCAL_ADDR"); fi
else
  : "${MASTER_ADDR:?run.sh: set MASTER_ADDR to the address of node 0}"
  RENDEZVOUS=(--nnodes "$NNODES" --node-rank "$NODE_RANK")
  RENDEZVOUS+=(--master-addr "$MASTER_ADDR" --master-port "${MASTER_PORT:-29500}")
fi
PYTHON="${PYTHON:-python3}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}\""""

_START = """exec "$PYTHON" -m torch.distributed.run "${{RENDEZVOUS[@]}}" --nproc-per-node "$NPROC" \\
  --max-restarts 0 {program}"""
