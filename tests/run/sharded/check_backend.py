"""Run on every rank: plans of own layers in the interpreter, against one process."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import torch
import torch.distributed as dist

from explorer.run.ranks.interpreter import Hooks, Interpreter
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.optimizers import Optimizer
from explorer.run.ranks.transport import Transport
from explorer.run.sharded.backend import ShardedBackend, ShardedModel
from explorer.run.sharded.execution import ShardedExecution
from explorer.run.sharded.lanes import LaneTransport, open_lanes
from explorer.run.sharded.mesh import Meter, RankMesh
from explorer.run.sharded.requests import request_of
from explorer.sharding.stage import Request
from tests.run.sharded.plans import BATCH, CASES, GRAPH, TIED, Case, plan, sample, weight

CPU, STEPS = torch.device("cpu"), 2
HOOKS = Hooks(status=lambda *_: None, before=lambda _: None, step=lambda _: None)


@cache
def dense(tied: bool, optimizer: str) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Weights after all steps in one process, and the loss of each."""
    graph = TIED if tied else GRAPH
    alone = RankMesh(axes=(), place=(), lines=(), meter=Meter(), device=CPU)
    run = ShardedExecution(graph, Request((), (), ()), alone, samples=BATCH)
    held = {name: weight(name).requires_grad_() for name in run.uses}
    rule, losses = Optimizer(optimizer, 0.05), []
    for step in range(STEPS):
        inputs = {name: sample(name, step * BATCH, (step + 1) * BATCH) for name in ("tokens", "targets")}
        loss = run.forward(inputs, held)["loss"].value.sum()
        losses.append(float(loss.detach()))
        found = torch.autograd.grad(loss, list(held.values()))
        rule.step(held, {name: g / BATCH for name, g in zip(held, found, strict=True)})
    return {name: w.detach() for name, w in held.items()}, losses


def check() -> list[dict[str, Any]]:
    ranks = dist.get_world_size()
    return [one(case) for case in CASES if case.ranks == ranks]


def one(case: Case) -> dict[str, Any]:
    prepared = plan(case, steps=STEPS)
    lanes = RankLanes(prepared.program)
    where = open_lanes(case.axes, len(prepared.program.programs))
    offload = range(len(prepared.placement.layers)) if "offload" in case.fields else ()
    model = ShardedModel(
        graph=TIED if "tied" in case.name else GRAPH,
        placement=prepared.placement,
        request=request_of(prepared.strategy),
        weight=weight, sample=sample, dtype="fp64", optimizer=case.optimizer, options={},
        offload=frozenset(offload),
    )  # fmt: skip
    backend = ShardedBackend(model, lanes, where)
    base = Transport(rank=dist.get_rank(), ranks=dist.get_world_size(), device=CPU, timeout_s=60.0)
    transport: Any = LaneTransport(base, where)
    transport.open(lanes.wires, lanes.groups)
    backend.reset()
    where.mesh.meter.clear()
    Interpreter(lanes.plan(where.lane), backend, transport, HOOKS).run(time.perf_counter())
    gathers = {str(g): flat.gathers for g, flat in backend.zero.items()}
    reductions = {str(g): flat.reductions for g, flat in backend.zero.items()}
    sent = sum(where.mesh.meter.sent.values())
    emptied = [flat.held_bytes for flat in backend.zero.values() if flat.level == 3]
    wanted, losses = dense("tied" in case.name, case.optimizer)
    for flat in backend.zero.values():
        flat.begin_gather().wait()
    errors = {}
    for piece in backend.pieces:
        run = backend._execution(piece.section, 1)
        for name in backend.parameters[piece.section]:
            error = (backend.weights[name].detach() - run.cut_weight(name, wanted[name])).abs().max()
            errors[name] = float(error)
    moved = max(float((wanted[name] - weight(name)).abs().max()) for name in wanted)
    left = backend.forwards.size + backend.backwards.size + backend.outbox.size + len(backend.saved)
    return {
        "name": case.name, "error": max(errors.values()), "worst": max(errors, key=lambda n: errors[n]),
        "moved": moved, "losses": sum(backend.losses), "wanted": sum(losses), "left": left,
        "gathers": gathers, "reductions": reductions, "kept": emptied,
        "sent": sent,
    }  # fmt: skip
