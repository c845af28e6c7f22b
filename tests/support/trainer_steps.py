"""Two steps of the small decoder with a trainer's own engine, started by an exported `run.sh`.

`trainer_steps.py training_arguments.json` takes Accelerate, `trainer_steps.py --deepspeed ...` DeepSpeed. The
last rank prints the mean loss of each step over all samples, and who cut what.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

STEPS, LEARNING_RATE = 2, 1e-2


def loaded(path: Path) -> ModuleType:
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OWN = loaded(Path(__file__).with_name("own_decoder.py"))


def pieces(replica: int, replicas: int, size: int, passes: int) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """A replica's microbatches of every step."""
    for _, (inputs, targets) in zip(range(STEPS), OWN.batches(size * passes * replicas), strict=False):
        mine = slice(replica * size * passes, (replica + 1) * size * passes)
        yield list(zip(inputs[mine].split(size), targets[mine].split(size), strict=True))


def say(step: int, loss: Tensor) -> None:
    """Print a step's loss on the last rank."""
    if dist.get_rank() == dist.get_world_size() - 1:
        print(f"step {step} loss {float(loss):.8f}", flush=True)


def mean_of_ranks(loss: Tensor) -> Tensor:
    """The mean over ranks."""
    dist.all_reduce(loss)
    return loss / dist.get_world_size()


def with_accelerate(arguments: Any) -> str:
    """Train as the launch configuration and the arguments say."""
    from accelerate import Accelerator

    passes, size = arguments["gradient_accumulation_steps"], arguments["per_device_train_batch_size"]
    engine = Accelerator(gradient_accumulation_steps=passes)
    torch.manual_seed(0)
    model = OWN.model()
    model, optimizer = engine.prepare(model, torch.optim.SGD(model.parameters(), lr=LEARNING_RATE))
    steps = pieces(engine.process_index, engine.num_processes, size, passes)
    for step, parts in enumerate(steps, 1):
        total = torch.zeros(())
        for inputs, targets in parts:
            with engine.accumulate(model):
                loss = OWN.loss(model(inputs), targets)
                engine.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.detach() / passes
        say(step, mean_of_ranks(total))
    return f"{engine.distributed_type.value} {type(model).__name__} {engine.device.type}"


def with_deepspeed() -> str:
    """Train as `ds_config.json` says."""
    import deepspeed

    # its operators are C++ that it would compile now, with a lock that a killed run leaves behind
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    options = deepspeed.add_config_arguments(argparse.ArgumentParser()).parse_args()
    deepspeed.init_distributed("gloo")
    torch.manual_seed(0)
    model = OWN.model()
    engine, *_ = deepspeed.initialize(args=options, model=model, model_parameters=model.parameters())
    size, passes = engine.train_micro_batch_size_per_gpu(), engine.gradient_accumulation_steps()
    steps = pieces(dist.get_rank(), dist.get_world_size(), size, passes)
    for step, parts in enumerate(steps, 1):
        total = torch.zeros(())
        for inputs, targets in parts:
            loss = OWN.loss(engine(inputs), targets)
            engine.backward(loss)
            engine.step()
            total += loss.detach() / passes
        say(step, mean_of_ranks(total))
    return f"{type(engine).__name__} {engine.zero_optimization_stage()} {engine.device.type}"


def main() -> None:
    """Train, and say what trained."""
    if "--deepspeed" in sys.argv:
        told = with_deepspeed()
    else:
        told = with_accelerate(json.loads(Path(sys.argv[1]).read_text()))
    if dist.get_rank() == dist.get_world_size() - 1:
        print(f"trained by {told}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
