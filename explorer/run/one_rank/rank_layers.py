"""The layers of one rank with their weights, gradients and states, run and timed with nobody beside them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

import torch

from explorer.actions import Action
from explorer.base.errors import InputError
from explorer.models.captured_program import CapturedProgram, Capturing, per_sample
from explorer.run.one_rank.faked_peers import FakedPeers
from explorer.run.one_rank.fitting import zero_ranks
from explorer.run.one_rank.stage_layers import StageLayers
from explorer.run.own.layer_modules import LABELS, TOTAL, LayerModule, layer_module
from explorer.run.own.placed import with_index
from explorer.run.ranks.allocated import bytes_of, counted
from explorer.run.ranks.optimizers import Optimizer
from explorer.strategy import Stage

REPEATS = 3
"""Timings of every layer by itself; the median counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerAlone:
    """What one layer took and kept, by itself."""

    layer: str
    """Its name."""
    forward_s: float
    """Seconds of its forward."""
    backward_s: float
    """Seconds of its backward."""
    saved_bytes: float
    """Bytes that its forward keeps for its backward, weights left out."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread, as ranks do and profiles are measured."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Layers(Protocol):
    """Some layers of a rank, with the names of what they read, use and write."""

    @property
    def reads(self) -> Sequence[str]:
        """Names of what they read of others."""

    @property
    def parameters(self) -> Sequence[str]:
        """Names of the parameters that they use."""

    @property
    def writes(self) -> Sequence[str]:
        """Names of what they write."""

    def __call__(
        self, tensors: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor], peers: FakedPeers
    ) -> dict[str, torch.Tensor]:
        """Run the layers."""


class OneLayer:
    """One layer, whole."""

    def __init__(self, module: LayerModule) -> None:
        self.module = module
        self.reads, self.parameters, self.writes = module.reads, module.parameters, module.writes

    def __call__(
        self, tensors: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor], peers: FakedPeers
    ) -> dict[str, torch.Tensor]:
        """Run the layer."""
        del peers
        return self.module(tensors, parameters)


class RankLayers:
    """The layers of one rank with their weights, gradients and states."""

    def __init__(
        self,
        program: CapturedProgram,
        source: Capturing,
        stages: Mapping[int, Stage],
        optimizer: str,
        device: str,
    ) -> None:
        self.program, self.stages = program, stages
        self.device = with_index(torch.device(device))
        self.name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
        self.samples = program.samples
        self.values = {node.name: node.meta.get("val") for node in program.module.graph.nodes}
        known = program.graph.index
        missing = [name for stage in stages.values() for name in stage.layers if name not in known]
        if missing:
            raise InputError(
                f"the module has no layer {missing[0]!r}", key="model", found=missing[0],
                allowed="a plan of the graph that was captured from this module",
            )  # fmt: skip
        self.shapes = {name: item.shape for name, item in source.module.named_parameters()}
        self.modules = {s: self._stage(stage) for s, stage in stages.items()}
        self.weights: dict[str, torch.Tensor] = {}
        for module in self.modules.values():
            self.weights |= self._drawn(module, [n for n in module.parameters if n not in self.weights])
        self.optimizer = Optimizer(optimizer, 1e-4)
        self.peers = FakedPeers(
            self.weights,
            {
                name: (stages[s].zero, zero_ranks(stages[s]))
                for s, module in self.modules.items() for name in module.parameters
            },
            self._now,
        )  # fmt: skip

    def _stage(self, stage: Stage) -> Layers:
        """Return the layers of a stage."""
        return StageLayers(self.program, stage, self.device)

    def _layer(self, name: str) -> Layers:
        """Return one layer."""
        return OneLayer(layer_module(self.program, (name,), device=self.device))

    def _drawn(self, module: Layers, names: Sequence[str]) -> dict[str, torch.Tensor]:
        """Draw some weights of a stage."""
        del module
        return {name: self._weight(self.shapes[name]) for name in names}

    def _weight(self, shape: Any) -> torch.Tensor:
        made = torch.ones(shape) if len(shape) == 1 else torch.randn(shape).mul_(0.02)
        return made.to(self.device).requires_grad_()

    def _given(self, module: Layers, *, gradients: bool) -> dict[str, torch.Tensor]:
        """Make what others would send, in their sizes."""
        found = {}
        for name in module.reads:
            if name in self.program.inputs:
                example = self.program.inputs[name]
                more = (self.samples, *[1] * (example.dim() - 1)) if per_sample(example) else ()
                found[name] = (example.repeat(more) if more else example).to(self.device)
            elif name == LABELS:
                shape = tuple(map(round, self.program.graph.tensor[LABELS].shape))
                found[name] = torch.zeros(self.samples, *shape, dtype=torch.long, device=self.device)
            else:
                like = self.values[self.program.made_at[name]]
                made = torch.zeros(tuple(map(int, like.shape)), dtype=like.dtype, device=self.device)
                if made.dtype.is_floating_point:
                    made.normal_()
                    made.requires_grad_(gradients and self.program.graph.tensor[name].backward)
                found[name] = made
        return found

    def _roots(
        self, made: Mapping[str, torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
        """Return the outputs to differentiate, and gradients as the next stages would send them."""
        roots = [(name, item) for name, item in made.items() if item.requires_grad]
        came = [None if name == TOTAL else torch.ones_like(item) for name, item in roots]
        return [item for _, item in roots], came

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return time.perf_counter()
        return time.thread_time()

    def _worked_s(self) -> float:
        """Return the seconds so far without those of making what others would have sent."""
        return self._now() - self.peers.spent_s

    def alone(self) -> list[LayerAlone]:
        """Time every layer by itself, and count what it keeps."""
        found = []
        for name in (name for stage in self.stages.values() for name in stage.layers):
            module = self._layer(name)
            if module.writes:
                self.peers.gather(module.parameters)
                found.append(self._alone(name, module))
                self.peers.release(module.parameters)
        return found

    def _alone(self, name: str, module: Layers) -> LayerAlone:
        pairs = []
        for _ in range(REPEATS + 1):
            given = self._given(module, gradients=True)
            begin = self._worked_s()
            made = module(given, self.weights, self.peers)
            forward = self._worked_s() - begin
            roots, came = self._roots(made)
            wanted = [x for x in given.values() if x.requires_grad]
            wanted += [self.weights[p] for p in module.parameters]
            begin = self._worked_s()
            if roots and wanted:
                torch.autograd.grad(roots, wanted, came, allow_unused=True)
            pairs.append((forward, self._worked_s() - begin))
        return LayerAlone(
            layer=name,
            forward_s=median(pair[0] for pair in pairs[1:]),
            backward_s=median(pair[1] for pair in pairs[1:]),
            saved_bytes=self._saved_bytes(module),
        )

    def _saved_bytes(self, module: Layers) -> float:
        saved: list[torch.Tensor] = []

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            saved.append(tensor)
            return tensor

        given = self._given(module, gradients=True)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            made = module(given, self.weights, self.peers)
        weights = {self.weights[name].untyped_storage().data_ptr() for name in module.parameters}
        kept = bytes_of(item for item in saved if item.untyped_storage().data_ptr() not in weights)
        del made
        return kept

    def play(self, order: Sequence[Action]) -> dict[str, list[float]]:
        """Run actions in order; return the seconds of each, by kind and stage."""
        waiting: dict[tuple[int, int, int], Any] = {}
        times: dict[str, list[float]] = defaultdict(list)
        for action in order:
            key = (action.stage, action.first_microbatch, action.copy)
            given = self._given(self.modules[action.stage], gradients=True) if action.op == "F" else {}
            begin = self._worked_s()
            if action.op == "F":
                waiting[key] = self._roots(self.modules[action.stage](given, self.weights, self.peers))
            elif action.op == "B":
                roots, came = waiting.pop(key)
                torch.autograd.backward(roots, came)
                del roots, came
            else:
                self._update(self.modules[action.stage])
            times[f"{action.op}{action.stage}"].append(self._worked_s() - begin)
        return dict(times)

    def _update(self, module: Layers) -> None:
        self.optimizer.step(self.peers.own(module.parameters), self.peers.gradients(module.parameters))
        for name in module.parameters:
            self.weights[name].grad = None

    def counted(self, order: Sequence[Action]) -> float:
        """Return the peak bytes of tensors while actions run."""
        states = [*self.optimizer.first.values(), *self.optimizer.second.values()]
        with counted(self.device, [*self.weights.values(), *self.peers.held, *states]) as found:
            self.play(order)
        return found.peak
