"""Layers on pieces make everything on the device of their rank, with the other ranks of its lane imagined."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from explorer.base.errors import InputError
from explorer.run.sharded.execution import ShardedExecution, mesh_axes
from explorer.run.sharded.mesh import imagined_mesh
from tests.run.pretended import DEVICE, Pretended, Pretending, made_here_first
from tests.run.sharded.blocks import BLOCKS
from tests.run.sharded.check_layouts import SAMPLES, layouts, values


@pytest.mark.parametrize("name", BLOCKS)
def test_every_layout_computes_on_its_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward; a tensor of the host among them would be refused."""
    monkeypatch.setattr(torch, "tensor", made_here_first)
    block = BLOCKS[name]()
    inputs, weights, gradient = values(block, torch.float64)
    ran = 0
    for request in layouts(block.graph, 2):
        mesh = imagined_mesh(mesh_axes(block.graph, request), DEVICE)
        with Pretending(), sdpa_kernel(SDPBackend.MATH):
            try:
                run = ShardedExecution(block.graph, request, mesh, samples=SAMPLES)
                local = {
                    key: run.cut_weight(key, w).to(DEVICE).clone().requires_grad_()
                    for key, w in weights.items()
                }
                given = {key: run.cut_input(key, x.to(DEVICE)) for key, x in inputs.items()}
                made = run.forward(given, local)[block.output]
            except InputError:  # a layout that no rank can run
                continue
            back = run.boxer(block.output).cut(gradient.to(DEVICE), made.gradient)
            found = torch.autograd.grad(made.value, list(local.values()), back, allow_unused=True)
        assert isinstance(made.value, Pretended)
        assert all(g is None or isinstance(g, Pretended) for g in found)
        ran += 1
    assert ran > 1
