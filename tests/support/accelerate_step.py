"""Two steps with Accelerate: `accelerate_step.py training_arguments.json`, started by `run.sh`."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate import Accelerator

HERE = Path(__file__).parent


def main() -> None:
    """Print the loss of each step, and the sharding of the first weight."""
    arguments = json.loads(Path(sys.argv[1]).read_text())
    spec = importlib.util.spec_from_file_location("own_decoder", HERE / "own_decoder.py")
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    passes, size = arguments["gradient_accumulation_steps"], arguments["per_device_train_batch_size"]
    accelerator = Accelerator(gradient_accumulation_steps=passes)
    plugin = accelerator.state.fsdp_plugin
    if plugin is not None:
        plugin.transformer_cls_names_to_wrap = ["Block"]
    torch.manual_seed(0)
    model = own.model()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    ranks = accelerator.num_processes
    batches = own.batches(size * passes * ranks)
    for step in range(1, 3):
        inputs, targets = next(batches)
        mine = slice(
            accelerator.process_index * size * passes, (accelerator.process_index + 1) * size * passes
        )
        total = torch.zeros(())
        for x, y in zip(inputs[mine].split(size), targets[mine].split(size), strict=True):
            with accelerator.accumulate(model):
                loss = own.loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            total = total + loss.detach() / passes
        dist.all_reduce(total)
        if accelerator.is_main_process:
            print(f"step {step} loss {float(total) / ranks:.8f}", flush=True)
    weight = next(iter(model.parameters()))
    if accelerator.is_main_process:
        print(f"weights {type(weight).__name__} {accelerator.distributed_type.value}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
