"""Steps with DeepSpeed's engine: `deepspeed_step.py --deepspeed --deepspeed_config FILE`, by `run.sh`."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist

HERE = Path(__file__).parent


def load(path: Path) -> object:
    """Return the module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Print the loss of each step on the last rank."""
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    options = parser.parse_args()
    own = load(HERE / "own_decoder.py")
    # its own transport between processors of one machine would be compiled here; gloo's does
    deepspeed.comm.torch.build_shm_op = lambda: None
    deepspeed.init_distributed("gloo")
    torch.manual_seed(0)
    model = own.model()
    pipeline = Path(options.deepspeed_config).with_name("pipeline.py")
    made = load(pipeline).pipeline_module(model.get_submodule, own.loss) if pipeline.is_file() else model
    parameters = [p for p in made.parameters() if p.requires_grad]
    engine, *_ = deepspeed.initialize(args=options, model=made, model_parameters=parameters)
    batches = own.batches(engine.train_batch_size())
    size, passes = engine.train_micro_batch_size_per_gpu(), engine.gradient_accumulation_steps()
    replica = dist.get_rank() if made is model else 0
    for step in range(1, 3):
        inputs, targets = next(batches)
        mine = slice(replica * size * passes, (replica + 1) * size * passes)
        pieces = list(zip(inputs[mine].split(size), targets[mine].split(size), strict=True))
        if made is model:
            loss = torch.zeros(())
            for x, y in pieces:
                piece = own.loss(engine(x), y)
                engine.backward(piece)
                engine.step()
                loss = loss + piece.detach() / passes
            dist.all_reduce(loss)
            loss = loss / dist.get_world_size()
        else:
            loss = engine.train_batch(iter(pieces))
        if dist.get_rank() == dist.get_world_size() - 1:
            print(f"step {step} loss {float(loss):.8f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
