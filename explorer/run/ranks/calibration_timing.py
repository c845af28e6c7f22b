"""Stopwatch: the timings that one rank takes for a calibration, while all the others take theirs.

Units are timed inside the whole model, in order, so that caches are as cold as in a real step, and so are the
sections of each case; messages go round the ring of all ranks; the all-reduce includes flattening, as the
interpreter does it. Exchanges of flat weights are timed by the code that makes them.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from explorer.run.model import ModelSpec, parameter_names
from explorer.run.own.layer_timing import LayerSeconds, time_layers
from explorer.run.ranks.clocks import worked_s
from explorer.run.ranks.lane import Wire
from explorer.run.ranks.mixed import gradient_type
from explorer.run.ranks.modules import Weights, sample_tokens, unit_forward
from explorer.run.ranks.optimizers import Optimizer
from explorer.run.ranks.transport import Transport
from explorer.run.ranks.units import units_of
from explorer.run.sharded.exchange_timing import flat_weights, open_lines, time_exchanges
from explorer.run.sharded.flat_weights import ShardLines
from explorer.run.spec import Calibration, Cut, FlatGroup

REPEATS, LARGE_BYTES = 3, 1 << 25
"""Messages and collectives of one size in one round, and the size from which one collective is enough."""

Pair = tuple[float, float]


def _since(begin: Pair, end: Pair) -> Pair:
    return end[0] - begin[0], end[1] - begin[1]


def _own_weights(model: ModelSpec, weights: Weights) -> list[Weights]:
    """Return the weights of every unit by its own names."""
    return [
        {own: weights[full] for own, full in parameter_names(model, unit).items()} for unit in model.units
    ]


class Stopwatch:
    """Timer of everything requested, once per call of `measure`."""

    def __init__(self, asked: Calibration, transport: Transport) -> None:
        self.asked, self.transport = asked, transport
        self.model, self.device = asked.model, transport.device
        units = range(len(self.model.units))
        self.layers: Any = units_of(self.model)
        self.weights = self.layers.weights(units, self.device)
        self.own = _own_weights(self.model, self.weights) if isinstance(self.model, ModelSpec) else []
        self.sums = [[torch.zeros_like(w) for w in own.values()] for own in self.own]
        self.everyone = tuple(range(transport.ranks))
        n = transport.ranks
        pairs = sorted({(r, (r + 1) % n) for r in range(n)} | {((r + 1) % n, r) for r in range(n)})
        self.wires: list[Wire] = [("wire", a, b) for a, b in pairs if a != b]
        transport.open(self.wires, [self.everyone])
        self.lines = [open_lines(group, transport.ranks) for group in asked.flat_groups]

    def measure(self) -> dict[str, Any]:
        """Time everything requested, and return the seconds and the share of a core that this rank got."""
        self.transport.barrier()  # what a rank waits for others is no sign of a busy core
        cpu, wall = worked_s(self.device), time.perf_counter()
        both = {str(samples): self._units(samples) for samples in self.asked.samples}
        cuts = [self._sections(cut) for cut in self.asked.cuts]
        update = self._update()
        share = (worked_s(self.device) - cpu) / max(time.perf_counter() - wall, 1e-9)
        return {
            "units": {samples: timed.first for samples, timed in both.items()},
            "worked": {samples: timed.second for samples, timed in both.items()},
            "sums": next((timed.sums for timed in reversed(both.values())), []),
            "cuts": cuts,
            "update_s": update,
            "cpu_share": share,
            "messages": {str(size): self._message(size) for size in self.asked.message_bytes},
            "reduces": {str(size): self._reduce(size) for size in self.asked.reduce_bytes},
            "exchanges": [
                self._exchanges(group, lines)
                for group, lines in zip(self.asked.flat_groups, self.lines, strict=True)
            ],
        }

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _clocks(self) -> Pair:
        """Return the seconds of the wall, and those that the core has worked for this thread (GPU: the
        wall's).
        """
        return self._now(), worked_s(self.device)

    def _all_threads(self) -> Pair:
        """Return the seconds of the wall, and those of the core for all threads of this rank (GPU: none)."""
        return self._now(), 0.0 if self.device.type == "cuda" else time.process_time()

    def _exchanges(self, group: FlatGroup, lines: ShardLines | None) -> dict[str, float]:
        """Return the seconds of exchanges of flat weights of a size; {} on a rank that has no part."""
        self.transport.barrier()
        if lines is None:
            return {}
        like = next(iter(self.weights.values())).detach()
        flat = flat_weights(group, lines, like=like, gradient_dtype=gradient_type(self.model))
        return time_exchanges(flat, self._all_threads)

    def _units(self, samples: int) -> LayerSeconds:
        """Return the (forward, backward) seconds of every unit: of the wall, and those the core worked."""
        if not isinstance(self.model, ModelSpec):
            return time_layers(self.layers, self.weights, samples, self._clocks)
        tokens = sample_tokens(self.model, 0, samples, self.device)
        inputs: list[torch.Tensor | None] = []
        outputs: list[torch.Tensor] = []
        forward: list[Pair] = []
        for unit, own in zip(self.model.units, self.own, strict=True):
            x: torch.Tensor | None = None
            for source in unit.reads:
                value = outputs[source].detach()
                x = value if x is None else x + value
            if x is not None:
                x = x.detach().requires_grad_()
            begin = self._clocks()
            made = unit_forward(self.model, unit, own, x, tokens)
            forward.append(_since(begin, self._clocks()))
            inputs.append(x)
            outputs.append(made)
        backward: list[Pair] = [(0.0, 0.0)] * len(outputs)
        for i in reversed(range(len(outputs))):
            x = inputs[i]
            wanted = [*(() if x is None else (x,)), *self.own[i].values()]
            came = None if outputs[i].dim() == 0 else torch.ones_like(outputs[i])
            begin = self._clocks()
            found = torch.autograd.grad(outputs[i], wanted, came)
            # a microbatch adds its gradients to those of earlier ones
            torch._foreach_add_(self.sums[i], found[len(wanted) - len(self.sums[i]) :])
            backward[i] = _since(begin, self._clocks())
        pairs = list(zip(forward, backward, strict=True))
        return LayerSeconds([(f[0], b[0]) for f, b in pairs], [(f[1], b[1]) for f, b in pairs], [])

    def _sections(self, cut: Cut) -> list[tuple[float, ...]]:
        """Return the seconds of every section of a cut: (forward, backward), or with both halves of that."""
        timed = time_layers(self.layers, self.weights, cut.samples, self._clocks, cut.sections, cut.split)
        return timed.first

    def _update(self) -> float:
        """Return the seconds of an update of all weights, whose states are there."""
        held = {name: w.detach().clone() for name, w in self.weights.items()}
        optimizer = Optimizer(self.asked.optimizer, 1e-3)
        wide = gradient_type(self.model)
        given = {name: torch.full_like(w, 1e-3, dtype=wide or w.dtype) for name, w in held.items()}
        optimizer.step(held, given)
        begin = self._now()
        optimizer.step(held, given, 2)
        return self._now() - begin

    def _message(self, size: int) -> float:
        """Return the one-way seconds of a message, from a round trip between neighbours of the ring."""
        if self.transport.ranks == 1:
            return 0.0
        rank, n = self.transport.rank, self.transport.ranks
        times = []
        buffer = torch.zeros(max(1, size // 4), device=self.device)
        for repeat in range(REPEATS + 1):
            for first in range(0, n - 1, 2):
                there: Wire = ("wire", first, first + 1)
                back: Wire = ("wire", first + 1, first)
                begin = self._now()
                if rank == first:
                    self.transport.send(there, buffer)
                    self.transport.receive(back, buffer).wait()
                elif rank == first + 1:
                    self.transport.receive(there, buffer).wait()
                    self.transport.send(back, buffer)
                if rank == first and repeat:
                    times.append((self._now() - begin) / 2)
            self.transport.finish_sends()
        return sorted(times)[len(times) // 2] if times else 0.0

    def _reduce(self, size: int) -> float:
        if self.transport.ranks == 1:
            return 0.0
        times = []
        rows = torch.ones(max(1, size // 4), device=self.device)
        for _ in range(REPEATS if size < LARGE_BYTES else 1):
            self.transport.barrier()
            begin = self._now()
            work = self.transport.reduce(self.everyone, torch.cat([rows.reshape(-1)]))
            work.wait()
            times.append(self._now() - begin)
        return sorted(times)[len(times) // 2]
