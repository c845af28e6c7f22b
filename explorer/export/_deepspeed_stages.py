"""The `PipelineModule` of a plan's stages as a module of Python text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

PIPELINE = "pipeline.py"


def stages_text(stages: Sequence[Sequence[str]], *, recompute: bool) -> str:
    """Write `pipeline.py`: the modules of each stage, and the function that makes the pipeline of them."""
    rows = "".join(_row(stage) for stage in stages)
    return _TEXT.format(rows=rows, stages=len(stages), recompute=recompute)


def _row(stage: Sequence[str]) -> str:
    text = ", ".join(f'"{name}"' for name in stage)
    if len(text) <= 100:
        return f"    [{text}],\n"
    pad = " " * 8
    body = textwrap.fill(
        text, 110, initial_indent=pad, subsequent_indent=pad, break_long_words=False, break_on_hyphens=False
    )
    return f"    [\n{body},\n    ],\n"


_TEXT = '''\
"""The pipeline of a plan for DeepSpeed, cut into its {stages} stages. Written by strategy-explorer.

    import deepspeed
    from pipeline import pipeline_module

    engine, *_ = deepspeed.initialize(args, model=pipeline_module(make, loss))
    engine.train_batch(data)                # one step: all microbatches through all stages

`make(name)` returns the module of that name of your model; called one after the other they are its forward.
"""

from deepspeed.pipe import LayerSpec, PipelineModule
from torch import nn
from torch.utils.checkpoint import checkpoint

STAGES = [
{rows}]
RECOMPUTE = {recompute}  # keep only the inputs of blocks


class Stage(nn.Module):
    """The modules of one stage, called one after the other."""

    def __init__(self, names, make):
        super().__init__()
        self.parts = nn.ModuleDict({{name.replace(".", "_"): make(name) for name in names}})

    def forward(self, x):
        for name, part in self.parts.items():
            block = name.rpartition("_")[2].isdigit()
            again = RECOMPUTE and block and self.training and x.is_floating_point()
            x = checkpoint(part, x, use_reentrant=False) if again else part(x)
        return x


def pipeline_module(make, loss):
    """Return the pipeline: one LayerSpec for each stage, so `uniform` puts each on a rank of its own."""
    specs = [LayerSpec(Stage, names, make) for names in STAGES]
    return PipelineModule(layers=specs, num_stages=len(STAGES), loss_fn=loss, partition_method="uniform")
'''
