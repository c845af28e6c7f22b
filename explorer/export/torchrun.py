"""A folder that validates the plan with our own worker under `torchrun`, on any cluster with torch.

What runs is what `explorer validate` would run there: the model's own layers where their code travels (a
model of the zoo, a configuration that the folder carries), else small stand-ins; lanes of several ranks by
the kinds of their layers. On every node of the plan: `bash run.sh`; `--launcher slurm` writes a job for it.
Each rank leaves its stamps and numerics in `out/nodeN/result-RANK.json`, which
`explorer validate plan.yaml --from out` compares with the prediction (`explorer.run.judging.results`).
"""

from __future__ import annotations

import json

from explorer.export import EXPORTERS, notes
from explorer.export._carried import HF
from explorer.export._script import nodes_of, torchrun_script
from explorer.export._support import Capabilities, nearly, no, yes
from explorer.export.features import FEATURES
from explorer.export.plan import FILE as PLAN
from explorer.export.plan import plan_files, read_plan
from explorer.export.spec import Exporter
from explorer.importing._source import SourceText
from explorer.plan import Resolved

SPEC = "spec.json"

_SAME = "the worker runs the order that the simulator lowers"
_LANE = "lanes run by the kinds of their layers, smaller; as one rank each where ranks cannot compute them so"
_ZERO = "run as in the plan; as plain replicas where the run merges them"
_BLOCKS = "as own layers; stand-ins make again what their stage does"
_OTHERS = {
    "several_jobs": no("the worker runs one job; export a plan with one job for each"),
    "inference": no("the worker trains; use the export `plan`"),
    "dispatch": no("the worker runs a fixed order; use pipedream or 1f1b"),
    "sweeps": no("the worker runs every sample once a step; use 1f1b"),
    "slices": nearly("as own layers; stand-ins have whole layers"),
    "split_blocks": nearly("as own layers; stand-ins have the ratio of the stages' times"),
    "tied_over_stages": nearly("as own layers; stand-ins have no tied parameters"),
    "layer_meshes": nearly("experts over lanes run so; every other layer on all ranks of its stage"),
    "layer_layouts": nearly(_LANE),
    "tensor_parallel": nearly(_LANE),
    "sequence_parallel": nearly(_LANE),
    "context_parallel": nearly(_LANE),
    "context_exchange": nearly(_LANE),
    "expert_parallel": nearly(_LANE),
    "other_layout": nearly(_LANE),
    "mixed_layout": nearly(_LANE),
    "zero_1": nearly(_ZERO),
    "zero_2": nearly(_ZERO),
    "zero_3": nearly(_ZERO),
    "mixed_zero": nearly(_ZERO),
    "hybrid_zero": nearly(_ZERO),
    "reshard": nearly(_ZERO),
    "beside_work": nearly(_LANE),
    "sparse_states": nearly("run with all weights", instead="sparse_states"),
    "offload": nearly("activations leave for the host, states do not"),
    "blocking": nearly("the worker sends beside its work", instead="blocking"),
    "recompute_selective": nearly("run without recomputation", instead="recompute_none"),
    "recompute_first": nearly(_BLOCKS),
    "recompute_groups": nearly("every block that is made again as a whole keeps its own input"),
    "recompute_blocks": nearly(_BLOCKS),
    "recompute_layers": nearly("only whole blocks are made again", instead="recompute_layers"),
    "offload_layers": nearly("single layers stay on the device", instead="offload_layers"),
    "device_order": yes("ranks are numbered by stage; run.sh starts each on its node"),
    "uneven_nodes": yes("run.sh starts as many ranks on each node as it gives devices"),
    "parameter_server": nearly("run with all-reduce", instead="parameter_server"),
    "update_rule": nearly("a period of more than 2 updates is run as 2"),
    "buckets": nearly("reduced behind the last backward", instead="buckets"),
    "best_transfers": nearly("sent directly", instead="best_transfers"),
    "compression": nearly("sent uncompressed", instead="compression"),
    "checkpoints": nearly("no checkpoints are written", instead="checkpoints"),
    "precision": nearly("run in fp32", instead="fp32"),
    "gradient_precision": nearly("reduced in fp32", instead="gradient_precision"),
}
CAPABILITIES: Capabilities = {feature.name: _OTHERS.get(feature.name, yes(_SAME)) for feature in FEATURES}


def read(source: SourceText) -> Resolved:
    """Read the plan that lies in the folder.

    Raises:
        InputError: there is none, or it is wrong.
    """
    return read_plan(source)


@EXPORTERS.add(
    Exporter(
        name="torchrun",
        title="A script and specification that run the plan with our worker, on any cluster",
        capabilities=CAPABILITIES,
        read=read,
        main=PLAN,
    )
)
def write(resolved: Resolved) -> dict[str, str]:
    """Write `run.sh`, `spec.json` and `plan.yaml`.

    Raises:
        InputError: the shape cannot be run.
        PlanError: stages go back and forth between nodes.
    """
    from explorer.run.judging.results import devices_of, exported
    from explorer.run.launching.status import PAGE_BYTES
    from explorer.run.spec import to_data

    experiment = exported(resolved)
    spec = experiment.spec
    devices = devices_of(resolved, spec.ranks)
    nodes = nodes_of(resolved.cluster, devices)
    hub = any(item.reference.startswith(HF) for _, item in resolved.plan.models)
    needed = ["torch", "strategy-explorer", *["transformers"] * (hub and experiment.engine == "layers")]
    runs = f"small stand-ins ({experiment.stand_ins})" if experiment.stand_ins else "its model's own layers"
    said = [f"not the same as in the plan: {text}" for text in notes(resolved, "torchrun")]
    script = torchrun_script(
        nodes,
        comments=(
            f"Validates {PLAN} on {spec.ranks} ranks, with {runs}.",
            f"Needs {', '.join(needed)} on every node; results: out/nodeN/result-RANK.json.",
            f"Afterwards, with all nodes' results in one folder: explorer validate {PLAN} --from out",
            *said,
        ),
        prepare=_PREPARE.format(page=PAGE_BYTES, needed=", ".join(["explorer.run.spec", *needed[2:]])),
        program=f'-m explorer.run.worker "$OUT/{SPEC}"',
    )
    return {"run.sh": script, SPEC: json.dumps(to_data(spec)) + "\n", **plan_files(resolved)}


# The worker reports into the folder of its specification: one for each node, so a shared file system
# does no harm. The status pages are made beforehand, so that no two ranks make them at once.
_PREPARE = """
cd "$HERE"  # models that lie here are named from here
"$PYTHON" -c "import {needed}" 2>/dev/null || {{
  echo "run.sh: $PYTHON has no strategy-explorer (import {needed}); install it there, or set PYTHON" >&2
  exit 2
}}
OUT="${{OUT:-$HERE/out}}/node$NODE_RANK"
mkdir -p "$OUT"
rm -f "$OUT"/events "$OUT"/result-*.json
cp "$HERE/spec.json" "$OUT/"
head -c $((RANKS * {page})) /dev/zero > "$OUT/status"
if [ "$NNODES" -eq 1 ] && [ -e /sys/class/net/lo ]; then
  export GLOO_SOCKET_IFNAME="${{GLOO_SOCKET_IFNAME:-lo}}"  # the host's own name need not resolve
fi
echo "run.sh: node $NODE_RANK reports to $OUT" >&2
"""
