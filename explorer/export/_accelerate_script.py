"""The shell script that starts `accelerate launch` on the nodes of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.export._script import Node


def launch_script(nodes: Sequence[Node], *, config: str, arguments: str, starts_ranks: bool = True) -> str:
    """Write a bash script that is to be started once on every node; nodes give equally many devices.

    Args:
        nodes: the nodes, in the order of the ranks.
        config: file name of the launch configuration.
        arguments: file name of the fields of `TrainingArguments`.
        starts_ranks: whether `accelerate launch` starts the ranks of a node; on processors it starts one
            process (or MPI), so torchrun starts as many of it.
    """
    node = nodes[0]
    visible = ""
    if node.devices != tuple(range(node.ranks)):
        listed = ",".join(map(str, node.devices))
        visible = f'export CUDA_VISIBLE_DEVICES="${{CUDA_VISIBLE_DEVICES:-{listed}}}"\n'
    count, ranks = len(nodes), sum(item.ranks for item in nodes)
    launcher = "" if starts_ranks else _RANKS.format(ranks=ranks)
    return _SCRIPT.format(
        count=count, ranks=ranks, visible=visible, config=config, arguments=arguments, launcher=launcher
    )


_SCRIPT = """\
#!/usr/bin/env bash
# Starts your script with {config}; its first argument is {arguments}, for HfArgumentParser.
#
# usage, on each of the {count} node(s):   MASTER_ADDR=first-node NODE_RANK=0 bash run.sh my_train.py
#   NNODES       nodes (default {count}); they share the {ranks} ranks evenly
#   NODE_RANK    this node, counted from 0 (default: SLURM_NODEID, else 0)
#   MASTER_ADDR  address of node 0; needed with several nodes
#   MASTER_PORT  a free port there (default 29500)
#   PYTHON       interpreter (default python3)
set -euo pipefail
HERE="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"
NNODES="${{NNODES:-{count}}}"
NODE_RANK="${{NODE_RANK:-${{SLURM_NODEID:-0}}}}"
PYTHON="${{PYTHON:-python3}}"
if [ "$#" -lt 1 ]; then echo "run.sh: name your training script" >&2; exit 2; fi
WHERE=(--num_machines "$NNODES" --machine_rank "$NODE_RANK" --main_process_port "${{MASTER_PORT:-29500}}")
if [ "$NNODES" -gt 1 ]; then
  WHERE+=(--main_process_ip "${{MASTER_ADDR:?run.sh: set MASTER_ADDR to the address of node 0}}")
fi
{visible}export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-1}}"
SCRIPT="$1"; shift
cd "$HERE"  # the configuration names files beside it
exec "$PYTHON" {launcher}-m accelerate.commands.launch --config_file "$HERE/{config}" "${{WHERE[@]}}" \\
  "$SCRIPT" "$HERE/{arguments}" "$@"
"""

_RANKS = """\
-m torch.distributed.run --max-restarts 0 --nnodes "$NNODES" --node-rank "$NODE_RANK" \\
  --master-addr "${{MASTER_ADDR:-127.0.0.1}}" --master-port "${{MASTER_PORT:-29500}}" \\
  --nproc-per-node "$(({ranks} / NNODES))" \\
  """
