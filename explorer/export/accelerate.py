"""Accelerate: its launch configuration, Hugging Face's `TrainingArguments`, for cut layers a `tp_plan`.

ZeRO 2 and 3 are FSDP2, ZeRO 1 and states in the host are DeepSpeed's (with the configuration that the target
`deepspeed` writes), plain replicas DistributedDataParallel; on processors it has these only. Ranks: replicas
outermost, tensor innermost.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.base.formats import json_text, yaml_blocks
from explorer.base.units import MIB
from explorer.calibrate.devices import same_device
from explorer.export import EXPORTERS, notes
from explorer.export._accelerate_script import launch_script
from explorer.export._nesting import nested
from explorer.export._pipeline_grid import grid_of
from explorer.export._references import references
from explorer.export._script import nodes_of
from explorer.export._support import Capabilities, nearly, no, yes
from explorer.export._trainers import TRAINER
from explorer.export._weight_cuts import weight_cuts
from explorer.export.deepspeed import FILE as DEEPSPEED
from explorer.export.deepspeed import problems as deepspeed_problems
from explorer.export.deepspeed import settings as deepspeed_settings
from explorer.export.spec import STAGES, Exporter, Setting
from explorer.importing._references import references_line
from explorer.plan import Resolved
from explorer.strategies.model_axes import CONTEXT, TENSOR

FILE, ARGUMENTS, TP_PLAN = "accelerate.yaml", "training_arguments.json", "tp_plan.json"
DOCUMENTATION = "https://huggingface.co/docs/accelerate/usage_guides/fsdp"
ONE_BUCKET = 2**20
"""Buckets of so many MiB hold all gradients: they are reduced at the end."""
_OPTIMIZERS = {"adamw": "adamw_torch", "sgd": "sgd"}
_PLAIN = "accelerate trains with one stage; use the export torch or torchtitan"

CAPABILITIES: Capabilities = {
    **TRAINER,
    "inference": no("it trains here; use the export `plan`"),
    "stage_dag": no(_PLAIN),
    "uneven_stages": no(_PLAIN),
    "virtual_stages": no(_PLAIN),
    "overlapping_groups": no(_PLAIN),
    "mesh_shapes": no(_PLAIN),
    "copies": no(_PLAIN),
    "uneven_shares": no("all ranks get equal batches; drop the shares"),
    "microbatch_sizes": no("one per_device_train_batch_size; give all stages one size"),
    "slices": no(_PLAIN),
    "split_blocks": no(_PLAIN),
    "tied_over_stages": no(_PLAIN),
    "layer_meshes": no("all modules share one mesh; drop the exceptions"),
    "layer_layouts": no("a tp_plan cuts all blocks alike; drop the exceptions"),
    "tensor_parallel": yes("parallelism_config_tp_size, with the modules of tp_plan.json"),
    "sequence_parallel": no("a tp_plan of linear layers keeps norms whole; turn it off"),
    "context_parallel": nearly("parallelism_config_cp_size; weights are sharded over its ranks too"),
    "context_exchange": no("its context parallelism gathers keys and values; use context_exchange gather"),
    "expert_parallel": no("use ZeRO 3"),
    "other_layout": no("it knows tensor and context parallelism only"),
    "mixed_layout": no(_PLAIN),
    "zero_1": yes("deepspeed_config_file"),
    "zero_2": yes("FSDP2 with fsdp_reshard_after_forward: false"),
    "zero_3": yes("FSDP2 with fsdp_reshard_after_forward: true"),
    "mixed_zero": no(_PLAIN),
    "hybrid_zero": yes("parallelism_config_dp_replicate_size and dp_shard_size"),
    "reshard": no("FSDP2 gathers block by block; leave reshard empty"),
    "offload": yes("DeepSpeed's offload_optimizer"),
    "recompute_selective": no("it has no policy by operator: use full or none"),
    "recompute_full": yes("fsdp_activation_checkpointing, or gradient_checkpointing of TrainingArguments"),
    "mixed_recompute": no(_PLAIN),
    "torch_schedule": yes("with one stage every schedule is the same"),
    "other_schedule": yes("with one stage every schedule is the same"),
    "custom_order": no("it runs microbatches one after the other; use 1f1b"),
    "blocking": yes("there are no transfers between stages"),
    "uneven_nodes": no("it starts as many ranks on every node; use as many devices of each"),
    "device_order": no("ranks are numbered node by node; renumber devices so that they ascend"),
    "buckets": nearly(
        "ddp_bucket_cap_mb of plain replicas, reduce_bucket_size of ZeRO 1; FSDP2 goes block by block"
    ),
    "best_transfers": yes("there are no transfers between stages"),
    "compression": no("drop codecs"),
    "checkpoints": no("set save_steps in TrainingArguments; drop checkpoint_period_s"),
    "optimizer": yes(f"optim; allowed: {', '.join(_OPTIMIZERS)}", only=tuple(_OPTIMIZERS)),
    "precision": yes("mixed_precision; allowed: bf16, fp16, fp32", only=("bf16", "fp16")),
    "gradient_precision": nearly("FSDP2 reduces in the precision of the weights, plain replicas in fp32"),
}


def problems(resolved: Resolved) -> list[str]:
    """Return the problems that no capability row states: pipelines and combinations that it refuses."""
    strategy = resolved.plan.strategy.job
    if len(strategy.stages) > 1:
        return [f"accelerate cannot express {len(strategy.stages)} stages: {_PLAIN}"]
    stage = strategy.stages[0]
    mesh, mode = stage.meshes[0], mode_of(resolved)
    processors = on_processors(resolved)
    cut = mesh.size(TENSOR) * mesh.size(CONTEXT) > 1
    checks = (
        (
            cut and mesh.replicas > 1 and stage.zero < 2,
            "cut layers without ZeRO 2 or 3: use one of them",
        ),
        (cut and bool(stage.offload), "cut layers with states in the host: drop offload"),
        (bool(stage.zero_replicas) and mode != FSDP, "ZeRO in groups without FSDP2: use ZeRO 2 or 3"),
        (
            mesh.size(TENSOR) > 1 and bool(weight_cuts(resolved.graph)[1]),
            "tensor parallelism of a matrix of several projections: split it",
        ),
        (
            processors and mode in (FSDP, DEEPSPEED_MODE),
            "ZeRO, offload or cut layers on processors: drop them, or export to torch",
        ),
        (processors and resolved.plan.workload.job.precision == "fp16", "fp16 on processors: use bf16"),
    )
    found = [f"accelerate cannot express {text}" for wrong, text in checks if wrong]
    if mode == DEEPSPEED_MODE:
        found += [text.replace("deepspeed", "accelerate", 1) for text in deepspeed_problems(resolved)]
    return found


FSDP, DEEPSPEED_MODE, MULTI, PROCESSORS, ONE = "FSDP", "DEEPSPEED", "MULTI_GPU", "MULTI_CPU", "NO"


def on_processors(resolved: Resolved) -> bool:
    """Tell whether the ranks of a plan run on processors: a device kind called `cpu`."""
    first = resolved.plan.strategy.job.devices[0]
    return same_device(resolved.cluster.kind_of(first).name, "cpu")


def mode_of(resolved: Resolved) -> str:
    """Return the `distributed_type` of a plan with one stage."""
    stage = resolved.plan.strategy.job.stages[0]
    mesh = stage.meshes[0]
    if stage.offload or stage.zero == 1:
        return DEEPSPEED_MODE
    if stage.zero or mesh.size(TENSOR) * mesh.size(CONTEXT) > 1:
        return FSDP
    replicas = PROCESSORS if on_processors(resolved) else MULTI
    return replicas if mesh.replicas > 1 else ONE


def settings(resolved: Resolved) -> Mapping[str, Setting]:
    """Return what the launch configuration and `training_arguments.json` say of a plan, by dotted key."""
    found = dict(_launch_settings(resolved))
    found |= {f"training_arguments.{key}": value for key, value in _arguments(resolved).items()}
    if mode_of(resolved) == DEEPSPEED_MODE:
        found |= {f"{DEEPSPEED}.{key}": value for key, value in deepspeed_settings(resolved).items()}
    return found


def _launch_settings(resolved: Resolved) -> dict[str, Setting]:
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    stage, mode = strategy.stages[0], mode_of(resolved)
    devices = grid_of(strategy).devices
    nodes = {resolved.cluster.node_of(device) for device in devices}
    found: dict[str, Setting] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": mode,
        "num_machines": len(nodes),
        "num_processes": len(devices),
        "machine_rank": 0,
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": on_processors(resolved),
    }
    if mode == DEEPSPEED_MODE:
        return found | {
            "deepspeed_config.deepspeed_config_file": DEEPSPEED,
            "deepspeed_config.zero3_init_flag": stage.zero == 3,
        }
    found["mixed_precision"] = "no" if job.precision == "fp32" else job.precision
    return found | (_of_fsdp(resolved) if mode == FSDP else {})


def _of_fsdp(resolved: Resolved) -> dict[str, Setting]:
    stage = resolved.plan.strategy.job.stages[0]
    mesh = stage.meshes[0]
    found: dict[str, Setting] = {
        "fsdp_config.fsdp_version": 2,
        "fsdp_config.fsdp_reshard_after_forward": stage.zero != 2,
        "fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_config.fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_config.fsdp_activation_checkpointing": stage.recompute == "full",
    }
    tensor, context = mesh.size(TENSOR), mesh.size(CONTEXT)
    if tensor * context == 1 and not stage.zero_replicas:
        return found
    groups = mesh.replicas // (stage.zero_replicas or mesh.replicas)
    sizes = {
        "dp_replicate_size": groups,
        "dp_shard_size": mesh.replicas // groups,
        "tp_size": tensor,
        "cp_size": context,
    }
    if not stage.zero:
        del sizes["dp_shard_size"]  # nothing is sharded but what the axes cut
    return found | {f"parallelism_config.parallelism_config_{key}": value for key, value in sizes.items()}


def _arguments(resolved: Resolved) -> dict[str, Setting]:
    """Return the fields of `TrainingArguments`."""
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    stage, mode = strategy.stages[0], mode_of(resolved)
    replicas = stage.meshes[0].replicas
    buckets = max((sync.bucket_bytes for sync in strategy.sync), default=0.0)
    found: dict[str, Setting] = {
        "output_dir": "out",
        "per_device_train_batch_size": stage.microbatch_samples // replicas,
        "gradient_accumulation_steps": job.global_batch // stage.microbatch_samples,
        "optim": _OPTIMIZERS[job.optimizer],
    }
    if job.precision != "fp32":
        found[job.precision] = True
    if stage.recompute == "full" and mode != FSDP:
        found["gradient_checkpointing"] = True
    if mode in (MULTI, PROCESSORS):
        found["ddp_bucket_cap_mb"] = max(1, round(buckets / MIB)) if buckets else ONE_BUCKET
    return found


@EXPORTERS.add(
    Exporter(
        name="accelerate",
        title=f"Accelerate: {FILE} (FSDP2 or DeepSpeed), {ARGUMENTS} and a start script",
        capabilities=CAPABILITIES,
        problems=problems,
        main=FILE,
        keeps=STAGES,
        settings=settings,
        documentation=DOCUMENTATION,
        client="accelerate 1.15",
    )
)
def write(resolved: Resolved) -> dict[str, str]:
    """Write `accelerate.yaml`, `training_arguments.json`, `run.sh`, and what these refer to."""
    strategy = resolved.plan.strategy.job
    said, files = references(resolved)
    lines = [f"# {references_line(said)}"]
    lines += [f"# not the same as in the plan: {text}" for text in notes(resolved, "accelerate")]
    launch = "\n".join(lines) + "\n" + yaml_blocks(nested(_launch_settings(resolved)))
    nodes = nodes_of(resolved.cluster, grid_of(strategy).devices)
    written = {
        FILE: launch,
        ARGUMENTS: json_text(_arguments(resolved)) + "\n",
        "run.sh": launch_script(
            nodes, config=FILE, arguments=ARGUMENTS, starts_ranks=mode_of(resolved) != PROCESSORS
        ),
        **files,
    }
    if mode_of(resolved) == DEEPSPEED_MODE:
        written[DEEPSPEED] = json_text(nested(deepspeed_settings(resolved))) + "\n"
    if strategy.stages[0].meshes[0].size(TENSOR) > 1:
        written[TP_PLAN] = json_text(_tp_plan(resolved)) + "\n"
    return written


_STYLES = {
    "column": "colwise",
    "row": "rowwise",
    "vocab": "embedding_rowwise",
    "head": "colwise_gather_output",
}


def _tp_plan(resolved: Resolved) -> dict[str, str]:
    """Return module pattern -> how its weight is cut, in the words of `tp_plan` of transformers."""
    cuts, _ = weight_cuts(resolved.graph)
    return {name: _STYLES[how] for name, how in cuts.items()}
