"""The text of a plain training script: only the parts that a plan needs, no import of ours."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SELECTIVE, FULL = "selective", "full"
FSDP, DDP, BY_HAND = "fsdp", "ddp", "by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptParts:
    """What a script has to say of a plan."""

    title: str
    """First line of its description."""
    notes: Sequence[str]
    """What differs from the plan."""
    mesh: Mapping[str, int]
    """Degrees by axis, outermost first: pipeline, replica, tensor."""
    stages: Sequence[Sequence[str]]
    """Modules of each stage, in the order in which they are called."""
    homes: Sequence[int]
    """Pipeline rank of each stage."""
    schedule: str
    """torch's name of the schedule; empty if `csv` says the order."""
    csv: str
    """File with the order; empty if the schedule has a name."""
    global_batch: int
    """Samples of one step."""
    microbatch: int
    """Samples of one microbatch, for each replica."""
    recompute: Sequence[str]
    """none, selective or full, for each stage."""
    blocks: Mapping[str, str]
    """The same for blocks that differ from their stage, by the name of their module."""
    zero: int
    """0, 2 or 3."""
    bucket_mb: float
    """Size of the buckets in which replicas reduce gradients, in MiB; 0 reduces all at the end."""
    tensor: Mapping[str, str]
    """Module, as its name ends -> column, row, vocab (an embedding by rows) or head."""
    optimizer: str
    """A name in `OPTIMIZERS`."""
    precision: str
    """fp32 or bf16."""

    @property
    def pipeline(self) -> bool:
        """Whether there are several pipeline ranks."""
        return self.mesh["pipeline"] > 1

    @property
    def again(self) -> frozenset[str]:
        """What is recomputed, of any stage or block: selective, full, or neither."""
        return frozenset({*self.recompute, *self.blocks.values()} - {"none"})

    @property
    def sharing(self) -> str:
        """How replicas share gradients: FSDP, DDP, by hand, or empty for a single replica."""
        if self.mesh["replica"] == 1:
            return ""
        if self.zero:
            return FSDP
        return DDP if self.bucket_mb and not self.pipeline and self.mesh["tensor"] == 1 else BY_HAND


OPTIMIZERS = {
    "sgd": "torch.optim.SGD(parameters, lr=lr)",
    "momentum": "torch.optim.SGD(parameters, lr=lr, momentum=0.9)",
    "adam": "torch.optim.Adam(parameters, lr=lr, foreach=False)",
    "adamw": "torch.optim.AdamW(parameters, lr=lr, foreach=False)",
}


def script_text(parts: ScriptParts) -> str:
    """Write `train.py`."""
    pieces = [_head(parts), _imports(parts), _constants(parts), _USER]
    again = bool(parts.again)
    pieces += [_IS_BLOCK] * (again or parts.sharing == FSDP) + [_build(parts)]
    pieces += [_TENSOR] * (parts.mesh["tensor"] > 1)
    pieces += [_recompute(parts)] * again
    pieces += [_FSDP.format(policy=_policy(parts))] * (parts.sharing == FSDP)
    pieces += [_BY_HAND] * (parts.sharing == BY_HAND)
    pieces += [_schedule(parts), _step(parts), _main(parts)]
    return "\n\n\n".join(piece.strip("\n") for piece in pieces) + "\n"


def _head(parts: ScriptParts) -> str:
    ranks = _ranks(parts)
    lines = [f'"""{parts.title}', ""]
    lines += [f"    torchrun --nproc-per-node {ranks} train.py my_model --steps 3", ""]
    lines += _CONTRACT.splitlines()
    if parts.mesh["tensor"] > 1:
        lines += ["", *_LOCAL_HEADS.splitlines()]
    if parts.notes:
        lines += ["", "What differs from the plan:", ""]
        for note in parts.notes:
            lines += textwrap.wrap(note, 104, initial_indent="- ", subsequent_indent="  ")
    return "\n".join([*lines, '"""'])


def _ranks(parts: ScriptParts) -> int:
    sizes = parts.mesh
    return sizes["pipeline"] * sizes["replica"] * sizes["tensor"]


_CONTRACT = """\
`my_model` is a module that can be imported, or a path to its file, with three functions of yours:

    model() -> nn.Module                the modules in STAGES, called one after the other, are its forward
    batches(samples) -> iterator        of (inputs, targets), each a global batch, the same on every rank
    loss(outputs, targets) -> scalar    the mean over the samples"""

_LOCAL_HEADS = """\
Projections are cut by rows and columns, so attention must take its number of heads from the size of what
it is given, and each part of a projection (q, k, v) must be a module of its own."""


def _imports(parts: ScriptParts) -> str:
    how = parts.again
    lines = ["import argparse", "import importlib.util", "import os"]
    lines += ["from functools import partial"] * (SELECTIVE in how)
    lines += ["from pathlib import Path", "", "import torch", "import torch.distributed as dist"]
    lines += ["from torch import nn", "from torch.distributed.device_mesh import init_device_mesh"]
    if how:
        lines.append(
            "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper"
        )
    if parts.sharing == FSDP:
        lines.append("from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard")
    if parts.pipeline:
        lines.append("from torch.distributed.pipelining import PipelineStage")
        name = "_PipelineScheduleRuntime" if parts.csv else "get_schedule_class"
        lines.append(f"from torch.distributed.pipelining.schedules import {name}")
    if parts.mesh["tensor"] > 1:
        lines += [
            "from torch.distributed.tensor import Replicate",
            "from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel",
            "from torch.distributed.tensor.parallel import parallelize_module",
        ]
    if parts.sharing == DDP:
        lines.append("from torch.nn.parallel import DistributedDataParallel")
    if SELECTIVE in how:
        names = "CheckpointPolicy, create_selective_checkpoint_contexts"
        lines.append(f"from torch.utils.checkpoint import {names}")
    torch_lines = sorted(line for line in lines if line.startswith("from torch"))
    rest = [line for line in lines if not line.startswith("from torch")]
    return "\n".join([*rest, *torch_lines])


def _constants(parts: ScriptParts) -> str:
    lines = [
        f"GLOBAL_BATCH = {parts.global_batch}  # samples of a step",
        f"MICROBATCH = {parts.microbatch}  # samples of a microbatch, for each replica",
        f"MESH = {dict(parts.mesh)!r}".replace("'", '"') + "  # ranks, outermost axis first",
        "STAGES = [  # modules, in the order in which they are called",
        *(_row(stage) for stage in parts.stages),
        "]",
    ]
    if parts.pipeline:
        lines.append(f"RANK_OF = {list(parts.homes)!r}  # pipeline rank of each stage")
        if parts.csv:
            lines.append(f'ORDER = Path(__file__).with_name("{parts.csv}")')
        else:
            lines.append(f'SCHEDULE = "{parts.schedule}"')
    if parts.again:
        lines.append(f"RECOMPUTE = {list(parts.recompute)!r}  # of each stage".replace("'", '"'))
    if parts.blocks:
        lines += ["RECOMPUTE_BLOCKS = {  # of blocks that differ from their stage"]
        lines += [f'    "{name}": "{how}",' for name, how in parts.blocks.items()]
        lines += ["}"]
    if parts.sharing == FSDP:
        lines.append(
            f"RESHARD_AFTER_FORWARD = {parts.zero == 3}  # ZeRO {parts.zero}: weights are "
            + ("gathered again for the backward" if parts.zero == 3 else "kept until the backward")
        )
    if parts.mesh["tensor"] > 1:
        lines += ["TENSOR = {  # how the weights of a module are cut, by the end of its name"]
        lines += [f'    "{name}": "{how}",' for name, how in parts.tensor.items()]
        lines += ["}"]
    return "\n".join(lines)


def _row(stage: Sequence[str]) -> str:
    text = ", ".join(f'"{name}"' for name in stage)
    flat = f"    [{text}],"
    if len(flat) <= 110:
        return flat
    body = textwrap.fill(
        text, 110, initial_indent=" " * 8, subsequent_indent=" " * 8, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return f"    [\n{body},\n    ],"


_USER = '''
def load(name):
    """Return the module with the three functions: a file, or a name that can be imported."""
    if not Path(name).is_file():
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
'''

_IS_BLOCK = '''
def is_block(name):
    """Tell whether a module is one of a numbered stack."""
    return name.rpartition(".")[2].isdigit()
'''


def _build(parts: ScriptParts) -> str:
    mine = 'RANK_OF[i] != mesh.get_local_rank("pipeline")' if parts.pipeline else ""
    lines = [
        "def build(user, mesh, device):",
        '    """Return {number: module} of the stages of this rank, cut, sharded and on its device."""',
        "    model, stages = user.model(), {}",
        "    for i, names in enumerate(STAGES):",
    ]
    if mine:
        lines += [f"        if {mine}:", "            continue"]
    lines += [
        "        stage = nn.Sequential()",
        "        for name in names:",
        '            stage.add_module(name.replace(".", "_"), model.get_submodule(name))',
        "        stage = stage.to(device)",
    ]
    if parts.mesh["tensor"] > 1:
        lines.append('        cut_weights(stage, mesh["tensor"])')
    if parts.again:
        lines.append("        recompute_blocks(stage, names, RECOMPUTE[i])")
    if parts.sharing == FSDP:
        lines.append('        shard(stage, names, mesh["replica"])')
    if parts.sharing == DDP:
        lines.append("        # gradients are reduced in buckets beside the last backward")
        lines += [
            '        options = {"process_group": mesh.get_group("replica")}',
            f'        options["bucket_cap_mb"] = {parts.bucket_mb:g}',
            "        stage = DistributedDataParallel(stage, **options)",
        ]
    return "\n".join([*lines, "        stages[i] = stage", "    return stages"])


_TENSOR = '''
def cut_weights(stage, mesh):
    """Give every rank of the tensor axis its part of the projections, as Megatron-LM cuts them."""
    styles = {
        "column": ColwiseParallel(),
        "row": RowwiseParallel(),
        "vocab": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    found = {
        path: styles[how]
        for path, _ in stage.named_modules()
        for end, how in TENSOR.items()
        if f".{path}".endswith(f".{end}")
    }
    parallelize_module(stage, mesh, found)
'''


def _recompute(parts: ScriptParts) -> str:
    given = "usual" if parts.blocks else "how"
    lines = [
        f"def recompute_blocks(stage, names, {given}):",
        '    """Keep only the inputs of blocks (full), or all but the core of attention (selective)."""',
        "    for name in names:",
        *(["        how = RECOMPUTE_BLOCKS.get(name, usual)"] if parts.blocks else []),
        '        if how == "none" or not is_block(name):',
        "            continue",
        '        child = name.replace(".", "_")',
    ]
    if SELECTIVE in parts.again:
        lines += [
            "        contexts = partial(create_selective_checkpoint_contexts, policy)",
            '        more = {"context_fn": contexts} if how == "selective" else {}',
            "        setattr(stage, child, checkpoint_wrapper(getattr(stage, child), **more))",
            "",
            "",
            "def policy(context, operator, *args, **kwargs):",
            '    """Say that attention is computed again and everything else is kept."""',
            "    name = str(operator)",
            '    inner = "attention" in name or "softmax" in name or "bmm" in name',
            "    return CheckpointPolicy.PREFER_RECOMPUTE if inner else CheckpointPolicy.MUST_SAVE",
        ]
    else:
        lines.append("        setattr(stage, child, checkpoint_wrapper(getattr(stage, child)))")
    return "\n".join(lines)


def _policy(parts: ScriptParts) -> str:
    if parts.precision == "bf16":
        return "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)"
    return "MixedPrecisionPolicy()"


_FSDP = '''
def shard(stage, names, mesh):
    """Shard weights, gradients and optimizer states over the replicas, block by block."""
    policy = {policy}
    options = {{"mesh": mesh, "reshard_after_forward": RESHARD_AFTER_FORWARD, "mp_policy": policy}}
    for name in filter(is_block, names):
        fully_shard(getattr(stage, name.replace(".", "_")), **options)
    fully_shard(stage, **options)
'''

_BY_HAND = '''
def average(stages, mesh):
    """Give every replica the mean of all gradients, after the last backward."""
    group = mesh.get_group("replica")
    for stage in stages.values():
        for parameter in stage.parameters():
            gradient = parameter.grad
            gradient = gradient.to_local() if hasattr(gradient, "to_local") else gradient
            dist.all_reduce(gradient, group=group)
            gradient /= MESH["replica"]
'''


def _schedule(parts: ScriptParts) -> str:
    if not parts.pipeline:
        return ""
    lines = [
        "def make_schedule(stages, user, mesh, device):",
        '    """Return the pipeline schedule of the plan over the stages of this rank."""',
        '    group = mesh.get_group("pipeline")',
        "    count = len(STAGES)",
        "    made = [PipelineStage(stage, i, count, device, group=group) for i, stage in stages.items()]",
        '    microbatches = GLOBAL_BATCH // (MICROBATCH * MESH["replica"])',
    ]
    if parts.csv:
        lines += [
            "    schedule = _PipelineScheduleRuntime(made, microbatches, loss_fn=user.loss)",
            "    schedule._load_csv(str(ORDER))",
            "    return schedule",
        ]
    else:
        several = len(parts.stages) > parts.mesh["pipeline"]
        given = "made" if several else "made[0]"
        lines.append(f"    return get_schedule_class(SCHEDULE)({given}, microbatches, loss_fn=user.loss)")
    return "\n".join(lines)


def _step(parts: ScriptParts) -> str:
    cast = parts.precision == "bf16" and parts.sharing != FSDP
    if parts.pipeline:
        body = [
            "def run(schedule, stages, user, inputs, targets):",
            '    """Run forwards and backwards of one step; return the mean loss, or None before the end."""',
            "    losses = []",
            "    given = (inputs,) if 0 in stages else ()",
            "    last = len(STAGES) - 1 in stages",
            *_cast(
                cast,
                ['schedule.step(*given, **({"target": targets, "losses": losses} if last else {}))'],
            ),
            "    return torch.stack(losses).mean().detach() if last else None",
        ]
        return "\n".join(body)
    body = [
        "def run(schedule, stages, user, inputs, targets):",
        '    """Run forwards and backwards of one step, microbatch by microbatch; return the mean loss."""',
        "    model, losses = stages[0], []",
        "    pieces = list(zip(inputs.split(MICROBATCH), targets.split(MICROBATCH)))",
        "    for i, (x, y) in enumerate(pieces):",
    ]
    if parts.sharing == DDP:
        body.append("        model.require_backward_grad_sync = i == len(pieces) - 1")
    body += [f"    {line}" for line in _cast(cast, ["loss = user.loss(model(x), y)"])]
    body += [
        "        (loss / len(pieces)).backward()",
        "        losses.append(loss.detach())",
        "    return torch.stack(losses).mean()",
    ]
    text = "\n".join(body)
    return text if parts.sharing == DDP else text.replace(
        "for i, (x, y) in enumerate(pieces):", "for x, y in pieces:"
    )  # fmt: skip


def _cast(cast: bool, lines: list[str]) -> list[str]:  # noqa: FBT001
    if not cast:
        return [f"    {line}" for line in lines]
    return [
        "    with torch.autocast(inputs.device.type, torch.bfloat16):",
        *(f"        {line}" for line in lines),
    ]


def _main(parts: ScriptParts) -> str:
    average = "        average(stages, mesh)\n" if parts.sharing == BY_HAND else ""
    made = "make_schedule(stages, user, mesh, device)" if parts.pipeline else "None"
    return _MAIN.format(average=average, schedule=made, optimizer=OPTIMIZERS[parts.optimizer])


_MAIN = '''
def main():
    """Train for some steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="folder for the weights of each stage")
    options = parser.parse_args()
    on_gpus = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpus else "gloo")
    mesh = init_device_mesh(device.type, tuple(MESH.values()), mesh_dim_names=tuple(MESH))
    torch.manual_seed(options.seed)  # every rank makes the same model, and takes its stages from it
    user = load(options.module)
    stages = build(user, mesh, device)
    schedule = {schedule}
    lr, parameters = options.lr, [p for stage in stages.values() for p in stage.parameters()]
    optimizer = {optimizer}
    replica, share = mesh.get_local_rank("replica"), GLOBAL_BATCH // MESH["replica"]
    for step, (inputs, targets) in zip(range(1, options.steps + 1), user.batches(GLOBAL_BATCH)):
        mine = slice(replica * share, (replica + 1) * share)
        loss = run(schedule, stages, user, inputs[mine].to(device), targets[mine].to(device))
{average}        optimizer.step()
        optimizer.zero_grad()
        if loss is not None:
            dist.all_reduce(loss, group=mesh.get_group("replica"))
            if replica == 0 and mesh.get_local_rank("tensor") == 0:
                print(f"step {{step}} loss {{loss.item() / MESH['replica']:.8f}}", flush=True)
    if options.save:
        save(stages, options.save)
    finish(mesh)


def save(stages, folder):
    """Write the part of every stage that this rank holds; all ranks need a folder that they share."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, stage in stages.items():
        torch.save(stage.state_dict(), folder / f"stage{{i}}-rank{{dist.get_rank()}}.pt")


def finish(mesh):
    """End together: nobody closes a connection while another rank still uses it."""
    groups = [mesh.get_group(name) for name in MESH]
    dist.barrier()
    for group in groups:
        if group is not dist.group.WORLD:
            dist.destroy_process_group(group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
'''
