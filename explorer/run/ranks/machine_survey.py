"""Surveyor: what one rank measures of its machine for a cluster profile, while all the others do the same.

Device work is repeated until the clock can resolve it, on GPUs inside a CUDA graph, so that the host's own
pace, which is measured separately, is not included. On processors a timing during which the system gave the
core to others is discarded, and weights and inputs come from memory, not from the cache of the core: a
training step last touched them a microbatch ago.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

import psutil
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from explorer.run.launching.status import WAITING
from explorer.run.ranks.lane import Wire
from explorer.run.ranks.transport import Transport
from explorer.run.spec import Survey

SAMPLES = 3
"""Timings of everything in one round."""
LINK_SAMPLES = 15
"""The same for messages and collectives. The fastest counts: one that waits for a rank whose core the system
gave to others measures those others, not the link.
"""
SHORTEST_S = 0.002
"""Seconds that repeated device work lasts at least."""
LONGEST_S = 0.5
"""Seconds above which a thing is timed only once in a round."""
COLD_BYTES = 1 << 26
"""Bytes of copies of an operand that a processor reads in turn, so that none of them waits in its cache."""
ISSUED = 200
"""Small kernels in one timing of the host."""
WHOLE_SHARE = 0.95
"""Share of a core below which others had some of it."""
_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

Timed = Callable[[], object]


class _Item(NamedTuple):
    """One thing to measure."""

    what: str
    precision: str
    size: tuple[int, ...]


class Surveyor:
    """Measures everything once per call of `measure`."""

    def __init__(
        self, asked: Survey, transport: Transport, status: Callable[[int, str, float], None] | None = None
    ) -> None:
        self.asked, self.transport, self.device = asked, transport, transport.device
        self._status = status or (lambda _state, _text, _predicted_s: None)
        self._repeats: dict[_Item, int] = {}
        n = transport.ranks
        self.everyone = tuple(range(n))
        self.pairs = [(rank, rank + 1) for rank in range(n - 1)]
        wires: list[Wire] = [("wire", *ends) for a, b in self.pairs for ends in ((a, b), (b, a))]
        self._held_bytes = _held_bytes(self.device)
        transport.open(wires, [self.everyone])

    def machine(self) -> dict[str, Any]:
        """Return what the system reports about this rank's device."""
        facts: dict[str, Any] = {"torch": torch.__version__, "reserved_bytes": self._held_bytes}
        if self.device.type != "cuda":
            return {**facts, "name": "cpu", "memory_bytes": psutil.virtual_memory().total}
        known = torch.cuda.get_device_properties(self.device)
        own = self.device.index
        peers = [i for i in range(torch.cuda.device_count()) if i != own]
        return {
            **facts,
            "name": known.name,
            "memory_bytes": known.total_memory,
            "compute_units": known.multi_processor_count,
            "peer_access": all(torch.cuda.can_device_access_peer(own, i) for i in peers),
        }

    def measure(self) -> list[dict[str, Any]]:
        """Return rows of `what`, `precision`, `size` and `seconds`."""
        rows = []
        for item, measured in itertools.chain(self._device_items(), self._host_items(), self._link_items()):
            self._status(WAITING, f"measuring {item.what} {item.precision}".strip(), 0.0)
            seconds = measured()
            if seconds is not None:
                rows.append({"what": item.what, "precision": item.precision, "size": list(item.size),
                             "seconds": seconds})  # fmt: skip
        return rows

    # -- work of the device ----------------------------------------------------------------------------

    def _device_items(self) -> Iterator[tuple[_Item, Callable[[], float | None]]]:
        for precision in self.asked.precisions:
            for what, sizes, make in (
                ("product", self.asked.products, self._product),
                ("attention", self.asked.attentions, self._attention),
                ("conv", self.asked.convolutions, self._convolution),
                *self._backward_kinds(),
            ):
                for size in sizes:
                    item = _Item(what, precision, size)
                    yield item, lambda item=item, make=make: self._timed(item, make)  # type: ignore[misc]
        for moved in self.asked.moved_bytes:
            item = _Item("memory", "", (moved,))
            yield item, lambda item=item: self._timed(item, self._move)  # type: ignore[misc]
        if self.device.type == "cuda":
            yield _Item("launch", "", ()), self._launch
            largest = max(self.asked.moved_bytes, default=1 << 24) // 2
            yield _Item("host_copy", "", (largest,)), lambda: self._host_copy(largest)

    def _backward_kinds(self) -> list[tuple[str, tuple[tuple[int, int, int], ...], Callable[[_Item], Timed]]]:
        """Return backwards that are not products of the forward's kind; on GPUs those are not measured."""
        if self.device.type == "cuda":
            return []
        return [
            ("attention_backward", self.asked.attentions, self._attention_backward),
            ("conv_backward", self.asked.convolutions, self._convolution_backward),
        ]

    def _timed(self, item: _Item, make: Callable[[_Item], Timed]) -> float:
        """Return the seconds of one repetition, the median of a few."""
        tf32 = item.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
        work = make(item)
        with torch.no_grad():
            if self.device.type == "cuda":
                return self._graphed(item, work)
            if item not in self._repeats:
                work()
                self._repeats[item] = _repeats(_wall(work))
            return _steady(work, self._repeats[item])

    def _graphed(self, item: _Item, work: Timed) -> float:
        """Return device seconds: the repetitions are recorded once and replayed, so the host issues
        nothing.
        """
        if item not in self._repeats:
            work()
            self._sync()
            begin = time.perf_counter()
            work()
            self._sync()
            self._repeats[item] = _repeats(time.perf_counter() - begin)
        count = self._repeats[item]
        graph = torch.cuda.CUDAGraph()
        # NCCL's own thread may continue to query its events meanwhile
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(count):
                work()
        times = []
        for _ in range(SAMPLES + 1):
            self._sync()
            begin = time.perf_counter()
            graph.replay()
            self._sync()
            times.append((time.perf_counter() - begin) / count)
        return median(times[1:])

    def _sync(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _random(self, item: _Item, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device).to(_DTYPES[item.precision])

    def _product(self, item: _Item) -> Timed:
        rows, columns, depth = item.size
        left = self._random(item, rows, depth)
        made = torch.empty(rows, columns, device=self.device, dtype=left.dtype)
        weights = self._cold(lambda: self._random(item, columns, depth))
        return lambda: torch.mm(left, next(weights).t(), out=made)  # a linear layer's are (columns, depth)

    def _cold(self, make: Callable[[], torch.Tensor]) -> Iterator[torch.Tensor]:
        """Return copies of an operand in turn, on GPUs the one again and again."""
        first = make()
        size = first.numel() * first.element_size()
        copies = 1 if self.device.type == "cuda" else max(1, COLD_BYTES // size)
        return itertools.cycle([first, *(make() for _ in range(copies - 1))])

    def _attention(self, item: _Item) -> Timed:
        heads, tokens, width = item.size
        q, k, v = (self._random(item, 1, heads, tokens, width) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def _attention_backward(self, item: _Item) -> Timed:
        heads, tokens, width = item.size
        given = [self._random(item, 1, heads, tokens, width).requires_grad_() for _ in range(3)]
        with torch.enable_grad():
            made = F.scaled_dot_product_attention(given[0], given[1], given[2], is_causal=True)
        came = torch.ones_like(made)
        return lambda: torch.autograd.grad(made, given, came, retain_graph=True)

    def _convolution_backward(self, item: _Item) -> Timed:
        samples, channels, edge = item.size
        given = [
            self._random(item, *shape).requires_grad_()
            for shape in ((samples, channels, edge, edge), (channels, channels, 3, 3))
        ]
        with torch.enable_grad():
            made = F.conv2d(given[0], given[1], padding=1)
        came = torch.ones_like(made)
        return lambda: torch.autograd.grad(made, given, came, retain_graph=True)

    def _convolution(self, item: _Item) -> Timed:
        samples, channels, edge = item.size
        image = self._random(item, samples, channels, edge, edge)
        weight = self._random(item, channels, channels, 3, 3)
        return lambda: F.conv2d(image, weight, padding=1)

    def _move(self, item: _Item) -> Timed:
        reads = self._cold(lambda: torch.zeros(max(1, item.size[0] // 8), device=self.device))
        written = torch.empty_like(next(reads))
        return lambda: torch.add(next(reads), 1.0, out=written)

    def _launch(self) -> float:
        """Return the device seconds of an empty kernel."""
        tiny = torch.zeros(1, device=self.device)
        item = _Item("launch", "", ())
        self._repeats[item] = ISSUED
        return self._graphed(item, lambda: tiny.add_(1.0))

    def _host_copy(self, size: int) -> float:
        """Return the seconds to copy so many bytes from the host's memory, pinned, to the device."""
        host = torch.zeros(size // 4).pin_memory()
        held = torch.empty(size // 4, device=self.device)
        times = []
        for _ in range(SAMPLES + 1):
            self._sync()
            begin = time.perf_counter()
            held.copy_(host, non_blocking=True)
            self._sync()
            times.append(time.perf_counter() - begin)
        return median(times[1:])

    # -- work of the host ------------------------------------------------------------------------------

    def _host_items(self) -> Iterator[tuple[_Item, Callable[[], float | None]]]:
        yield _Item("issue", "", ()), self._issue
        yield _Item("action", "", ()), self._action

    def _issue(self) -> float:
        """Return the host seconds for each of many small kernels, autograd included."""
        weight = torch.ones(1, device=self.device, requires_grad=True)

        def chain() -> None:
            made = weight
            for _ in range(ISSUED):
                made = made * weight

        chain()
        self._sync()
        return _steady(chain, 1, after=self._sync) / ISSUED

    def _action(self) -> float:
        """Return the host seconds of a backward call besides its kernels: entering and leaving autograd."""
        weight = torch.ones(1, device=self.device, requires_grad=True)

        def call(length: int) -> Timed:
            def work() -> None:
                made = weight
                for _ in range(length):
                    made = made * weight
                torch.autograd.grad(made, [weight])
                self._sync()

            return work

        call(1)()
        one, two = (_steady(call(length), 20) for length in (1, 2))
        return max(0.0, 2 * one - two)  # the seconds of a call without any kernel

    # -- links -----------------------------------------------------------------------------------------

    def _link_items(self) -> Iterator[tuple[_Item, Callable[[], float | None]]]:
        if self.transport.ranks == 1:
            return
        for size in self.asked.message_bytes:
            yield _Item("message", "", (size,)), lambda size=size: self._message(size)  # type: ignore[misc]
        for size in self.asked.reduce_bytes:
            yield _Item("reduce", "", (size,)), lambda size=size: self._reduce(size)  # type: ignore[misc]
        if self.asked.reduce_bytes and self.asked.products:
            largest = max(self.asked.reduce_bytes)
            yield _Item("overlap", "", (largest,)), lambda: self._overlap(largest)

    def _message(self, size: int) -> float | None:
        """Return one-way seconds, from round trips between neighbours, one pair after the other; None on
        ranks that answer.
        """
        buffer = torch.zeros(max(1, size // 4), device=self.device)
        fastest = []
        for first, second in self.pairs:
            times = []
            there: Wire = ("wire", first, second)
            back: Wire = ("wire", second, first)
            self.transport.barrier()
            for repeat in range(LINK_SAMPLES + 1):
                self._sync()
                begin = time.perf_counter()
                if self.transport.rank == first:
                    self.transport.send(there, buffer)
                    self.transport.receive(back, buffer).wait()
                elif self.transport.rank == second:
                    self.transport.receive(there, buffer).wait()
                    self.transport.send(back, buffer)
                self._sync()
                if self.transport.rank == first and repeat:
                    times.append((time.perf_counter() - begin) / 2)
            self.transport.finish_sends()
            fastest += [min(times)] if times else []
        return median(fastest) if fastest else None

    def _reduce(self, size: int) -> float:
        rows = torch.zeros(max(1, size // 4), device=self.device)
        times = []
        for _ in range(LINK_SAMPLES + 1):
            self.transport.barrier()
            self._sync()
            begin = time.perf_counter()
            self.transport.reduce(self.everyone, rows).wait()
            self._sync()
            times.append(time.perf_counter() - begin)
        return min(times[1:])

    def _overlap(self, size: int) -> float | None:
        """Return how many times as long a product takes during an all-reduce; None if that was over too
        soon.
        """
        precision = self.asked.precisions[0]
        sizes = sorted(self.asked.products, key=math.prod)
        work = self._product(_Item("product", precision, sizes[len(sizes) // 2]))
        rows = torch.zeros(max(1, size // 4), device=self.device)
        count = max(1, min(self._repeats.get(_Item("product", precision, sizes[len(sizes) // 2]), 1), 20))
        alone, beside = [], []
        for _ in range(SAMPLES):
            self.transport.barrier()
            alone.append(self._several(work, count))
            self.transport.barrier()
            going = self.transport.reduce(self.everyone, rows)
            seconds = self._several(work, count)
            if not going.is_completed():
                beside.append(seconds)
            going.wait()
            self._sync()
        return min(beside) / min(alone) if beside else None

    def _several(self, work: Timed, count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            work()
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        return time.perf_counter() - begin


def _held_bytes(device: torch.device) -> int:
    """Return the memory that the process has lost to the framework before its first large tensor."""
    if device.type == "cuda":
        torch.zeros(1, device=device)
        free, total = torch.cuda.mem_get_info(device)
        return int(total - free)
    return int(psutil.Process().memory_info().rss)


def _wall(work: Timed) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _repeats(once_s: float) -> int:
    """Return the repetitions of one timing."""
    return max(1, math.ceil(SHORTEST_S / max(once_s, 1e-9))) if once_s < LONGEST_S else 1


def _steady(work: Timed, repeats: int, after: Timed | None = None) -> float:
    """Return the median seconds of a repetition over the timings in which this rank had its core to itself.

    If there is none, return the seconds that the core worked for it: it computes in one thread.
    """
    whole, worked = [], []
    for _ in range(SAMPLES):
        cpu, begin = time.thread_time(), time.perf_counter()
        for _ in range(repeats):
            work()
        wall, spent = time.perf_counter() - begin, time.thread_time() - cpu
        worked.append(spent / repeats)
        if spent >= WHOLE_SHARE * wall:
            whole.append(wall / repeats)
        if after is not None:
            after()
    return median(whole or worked)
