"""Work of a device: products, attention, convolutions, memory; on GPUs inside a CUDA graph.

The host's own pace, which is measured separately, is then not included. On processors weights and inputs come
from memory, not from the cache of the core: a training step last touched them a microbatch ago.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from statistics import median

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from explorer.run.ranks.optimizers import Optimizer
from explorer.run.ranks.plain_fp32 import allow_tf32
from explorer.run.spec import Survey
from explorer.run.survey.steady import SAMPLES, Item, Measured, Timed, repeats, steady, wall

COLD_BYTES = 1 << 26
"""Bytes of copies of an operand that a processor reads in turn, so that none of them waits in its cache."""
MOST_COPIES = 1 << 10
"""Most copies of small operands."""
ISSUED = 200
"""Small kernels in one timing of the host."""
_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class DeviceWork:
    """Times what one device computes and moves."""

    def __init__(self, asked: Survey, device: torch.device) -> None:
        self.asked, self.device = asked, device
        self.repeats: dict[Item, int] = {}
        """Repetitions in one timing, by what is timed."""

    def items(self) -> Iterator[tuple[Item, Measured]]:
        """Yield everything to measure of the device, each with what measures it."""
        for precision in self.asked.precisions:
            for what, sizes, make in (
                ("product", self.asked.products, self.product),
                ("thin", self.asked.thin, self._thin),
                ("attention", self.asked.attentions, self._attention),
                ("conv", self.asked.convolutions, self._convolution),
                *self._backward_kinds(),
            ):
                for size in sizes:
                    item = Item(what, precision, size)
                    yield item, lambda item=item, make=make: self._timed(item, make)  # type: ignore[misc]
        for moved in self.asked.moved_bytes:
            item = Item("memory", "", (moved,))
            yield item, lambda item=item: self._timed(item, self._move)  # type: ignore[misc]
        for scalars in self.asked.updated:
            item = Item("update", "", (scalars,))
            yield item, lambda item=item: self._timed(item, self._update)  # type: ignore[misc]
        if self.device.type == "cuda":
            yield Item("launch", "", ()), self._launch
            largest = max(self.asked.moved_bytes, default=1 << 24) // 2
            yield Item("host_copy", "", (largest,)), lambda: self._host_copy(largest)

    def _backward_kinds(self) -> list[tuple[str, tuple[tuple[int, ...], ...], Callable[[Item], Timed]]]:
        """Return backwards that are not products of the forward's kind; on GPUs those are not measured."""
        if self.device.type == "cuda":
            return []
        return [
            ("attention_backward", self.asked.attentions, self._attention_backward),
            ("conv_backward", self.asked.convolutions, self._convolution_backward),
        ]

    def _timed(self, item: Item, make: Callable[[Item], Timed]) -> float:
        """Return the seconds of one repetition, the median of a few."""
        tf32 = item.precision == "tf32"
        allow_tf32(products=tf32, convolutions=tf32)
        work = make(item)
        with torch.no_grad():
            if self.device.type == "cuda":
                return self._graphed(item, work)
            if item not in self.repeats:
                work()
                self.repeats[item] = repeats(wall(work))
            return steady(work, self.repeats[item])

    def _graphed(self, item: Item, work: Timed) -> float:
        """Return device seconds: the repetitions are recorded once and replayed, so the host issues
        nothing.
        """
        if item not in self.repeats:
            work()
            self.sync()
            begin = time.perf_counter()
            work()
            self.sync()
            self.repeats[item] = repeats(time.perf_counter() - begin)
        count = self.repeats[item]
        graph = torch.cuda.CUDAGraph()
        # NCCL's own thread may continue to query its events meanwhile
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(count):
                work()
        times = []
        for _ in range(SAMPLES + 1):
            self.sync()
            begin = time.perf_counter()
            graph.replay()
            self.sync()
            times.append((time.perf_counter() - begin) / count)
        return median(times[1:])

    def sync(self) -> None:
        """Wait until the device has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _random(self, item: Item, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device).to(_DTYPES[item.precision])

    def product(self, item: Item) -> Timed:
        """Return a matrix product of a size: rows, columns and depth."""
        rows, columns, depth = item.size
        left = self._random(item, rows, depth)
        made = torch.empty(rows, columns, device=self.device, dtype=left.dtype)
        weights = self._cold(lambda: self._random(item, columns, depth))
        return lambda: torch.mm(left, next(weights).t(), out=made)  # a linear layer's are (columns, depth)

    def _thin(self, item: Item) -> Timed:
        """Return the three products of a linear layer, on weights and into gradients from memory."""
        rows, columns, depth = item.size
        given, came = self._random(item, rows, depth), self._random(item, rows, columns)
        weights = self._cold(lambda: self._random(item, columns, depth))
        sums = self._cold(lambda: self._random(item, columns, depth))

        def work() -> None:
            weight = next(weights)
            torch.mm(given, weight.t())
            torch.mm(came, weight)
            torch.mm(came.t(), given, out=next(sums))

        return work

    def _cold(self, make: Callable[[], torch.Tensor]) -> Iterator[torch.Tensor]:
        """Return copies of an operand in turn, on GPUs the one again and again."""
        return itertools.cycle([items[0] for items in self._copies(make())])

    def _copies(self, *first: torch.Tensor) -> list[list[torch.Tensor]]:
        """Return enough copies of operands; all are written, as what nobody wrote is one page of zeros."""
        size = sum(item.numel() * item.element_size() for item in first)
        copies = 1 if self.device.type == "cuda" else min(MOST_COPIES, max(1, COLD_BYTES // size))
        return [[item.clone() for item in first] for _ in range(copies)]

    def _attention(self, item: Item) -> Timed:
        heads, tokens, width = item.size
        q, k, v = (self._random(item, 1, heads, tokens, width) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def _attention_backward(self, item: Item) -> Timed:
        heads, tokens, width = item.size
        given = [self._random(item, 1, heads, tokens, width).requires_grad_() for _ in range(3)]
        with torch.enable_grad():
            made = F.scaled_dot_product_attention(given[0], given[1], given[2], is_causal=True)
        came = torch.ones_like(made)
        return lambda: torch.autograd.grad(made, given, came, retain_graph=True)

    def _convolution_backward(self, item: Item) -> Timed:
        image, weight, kernel = self._convolved(item)
        came = torch.ones_like(image)
        graphs = []
        for given in self._copies(image, weight):
            with torch.enable_grad():
                leaves = [item.requires_grad_() for item in given]
                graphs.append((F.conv2d(leaves[0], leaves[1], padding=kernel // 2), leaves))
        cold = itertools.cycle(graphs)

        def work() -> None:
            made, leaves = next(cold)
            torch.autograd.grad(made, leaves, came, retain_graph=True)

        return work

    def _convolution(self, item: Item) -> Timed:
        image, weight, kernel = self._convolved(item)
        weights = self._cold(lambda: weight)
        return lambda: F.conv2d(image, next(weights), padding=kernel // 2)

    def _convolved(self, item: Item) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Return an image, a weight and the kernel's edge."""
        samples, channels, edge, kernel = (*item.size, 3)[:4]
        image = self._random(item, samples, channels, edge, edge)
        return image, self._random(item, channels, channels, kernel, kernel), kernel

    def _move(self, item: Item) -> Timed:
        """Return an addition that reads what was written a while ago, and writes where nothing was lately."""
        size = max(1, item.size[0] // 8)
        cold = itertools.cycle(self._copies(*torch.ones(2, size, device=self.device).unbind()))

        def work() -> None:
            read, written = next(cold)
            torch.add(read, 1.0, out=written)

        return work

    def _update(self, item: Item) -> Timed:
        """Return a step of Adam as ranks take it."""
        cold = itertools.cycle(self._copies(*torch.ones(4, item.size[0], device=self.device).unbind()))
        rules: dict[int, Optimizer] = {}

        def work() -> None:
            weight, gradient, *states = next(cold)
            if id(weight) not in rules:
                rule = rules[id(weight)] = Optimizer("adam", 1e-3)
                rule.first["w"], rule.second["w"] = states
            rules[id(weight)].step({"w": weight}, {"w": gradient})

        return work

    def _launch(self) -> float:
        """Return the device seconds of an empty kernel."""
        tiny = torch.zeros(1, device=self.device)
        item = Item("launch", "", ())
        self.repeats[item] = ISSUED
        return self._graphed(item, lambda: tiny.add_(1.0))

    def _host_copy(self, size: int) -> float:
        """Return the seconds to copy so many bytes from the host's memory, pinned, to the device."""
        host = torch.zeros(size // 4).pin_memory()
        held = torch.empty(size // 4, device=self.device)
        times = []
        for _ in range(SAMPLES + 1):
            self.sync()
            begin = time.perf_counter()
            held.copy_(host, non_blocking=True)
            self.sync()
            times.append(time.perf_counter() - begin)
        return median(times[1:])
