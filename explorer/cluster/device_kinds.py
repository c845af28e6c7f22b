"""Device kinds: what one type of accelerator can do, at which share of its peak, and what software adds."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.cluster.sources import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A fraction of peak as a function of size, piecewise linear in log(size), flat outside."""

    points: tuple[tuple[float, float], ...]
    """(size, fraction), sizes ascending; fractions in (0, 1]."""

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.points]
        if not sizes or sizes != sorted(sizes) or any(not 0 < f <= 1 for _, f in self.points):
            raise InputError(
                "a curve needs ascending sizes and fractions in (0, 1]", key="points", found=self.points
            )

    def at(self, size: float) -> float:
        """Return the fraction at `size`."""
        sizes = [point for point, _ in self.points]
        i = bisect_right(sizes, size)
        if i in (0, len(sizes)):
            return self.points[0 if i == 0 else -1][1]
        (x0, y0), (x1, y1) = self.points[i - 1], self.points[i]
        return y0 + (y1 - y0) * math.log(size / x0) / math.log(x1 / x0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One tiling of a matrix product: each compute unit makes tiles of rows x columns of the result."""

    rows: int
    """Rows of the result that a unit makes at once."""
    columns: int
    """Columns of the result that a unit makes at once."""
    fraction: float
    """Share of its peak that a unit reaches on a deep product, 0 < fraction <= 1."""

    def __post_init__(self) -> None:
        if self.rows < 1 or self.columns < 1 or not 0 < self.fraction <= 1:
            raise InputError(
                f"a tile of {self.rows} x {self.columns} at {self.fraction} of peak",
                key="tiles",
                found=(self.rows, self.columns, self.fraction),
                allowed="sizes of 1 or more, a fraction in (0, 1]",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What a framework costs on one device kind besides the work of its kernels.

    The numbers come from a `explorer.framework.Framework`, or were measured on this very machine.
    """

    framework: str = ""
    """Name of the framework that states them; empty if unknown."""
    host_issue_s: float = 0.0
    """Seconds the host takes to issue one kernel: a block takes the longer of device and host."""
    action_overhead_s: float = 0.0
    """Seconds of host work and waiting for each forward or backward call of a stage."""
    cached_fraction: float = 0.0
    """Share of activations and buffers that the allocator keeps beyond the tensors at the peak: freed blocks
    that nothing fits in. It gives them back before it fails."""
    sources: tuple[Source, ...] = ()
    """Where the numbers come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """One type of accelerator (or a CPU core)."""

    name: str
    """a100-sxm-80gb, v100-sxm2-16gb, cpu, ..."""
    memory_bytes: float
    """Memory of one device."""
    memory_bandwidth_bytes_per_s: float
    """Peak bandwidth of that memory."""
    peak_flops_per_s: tuple[tuple[str, float], ...]
    """Dense peak by precision: (("bf16", 312e12), ("fp32", 19.5e12))."""
    efficiency: tuple[tuple[str, Curve], ...] = ()
    """By operation class (`matmul`, `attention`, `conv`, `memory`, `update`): fraction of peak over FLOPs, or
    over bytes."""
    compute_units: int = 0
    """Streaming multiprocessors (cores) among which a matrix product's tiles are dealt; 0 if unknown."""
    tiles: tuple[Tile, ...] = ()
    """Tilings that its matrix library chooses from; () prices products by the `matmul` curve alone."""
    tile_depth: float = 0.0
    """Cost of a tile's start and end, in steps along the contracted dimension."""
    unaligned_fraction: float = 1.0
    """Share of a product's speed left if a size does not fill 16 bytes (a vocabulary of 50,257)."""
    launch_overhead_s: float = 0.0
    """Seconds every kernel takes on the device besides its work: start and drain."""
    exposed_memory: float = 0.0
    """Share of the shorter of compute and memory that an operator takes besides the longer: 0 where threads
    wait in turn for both, 1 where a core fetches first and computes then."""
    overlap_slowdown: float = 0.0
    """How much longer compute takes while the device communicates: 0.05 is 5 %."""
    lockstep_wait: float = 0.0
    """How much longer than one device the slowest of a lane takes between two collectives: clocks under a
    power limit wander apart, and all wait for the last."""
    reserved_bytes: float = 0.0
    """Memory a process loses before its first tensor (context, communication buffers)."""
    host_bandwidth_bytes_per_s: float = 0.0
    """To and from host memory, each way; 0 if unknown."""
    compute_lanes: int = 1
    """Independent streams of compute."""
    price_per_hour: float = 0.0
    """Dollars per device hour; 0 if unknown."""
    idle_watts: float = 0.0
    """Power when idle."""
    busy_watts: float = 0.0
    """Power when computing."""
    like: tuple[str, ...] = ()
    """Kinds that it extends, nearest first: a framework that does not list it may list those."""
    software: Software = Software()
    """Cost of the framework that its users run, unless another is chosen (`Job.framework`)."""
    sources: tuple[Source, ...] = ()
    """Where the numbers come from."""

    def __post_init__(self) -> None:
        if self.memory_bytes <= 0 or self.memory_bandwidth_bytes_per_s <= 0:
            raise InputError(
                f"device kind {self.name!r} needs memory and bandwidth above 0", found=self.memory_bytes
            )
        if not self.peak_flops_per_s or any(peak <= 0 for _, peak in self.peak_flops_per_s):
            raise InputError(
                f"device kind {self.name!r} needs a peak above 0 for one precision or more",
                key="peak_flops_per_s",
                found=self.peak_flops_per_s,
            )

    def peak(self, precision: str) -> float:
        """Return the peak FLOP/s at `precision`; if it is not listed, at the next wider one listed.

        Raises:
            InputError: neither it nor a wider one is listed.
        """
        peaks = dict(self.peak_flops_per_s)
        for name in (precision, *_WIDER.get(precision, ())):
            if name in peaks:
                return peaks[name]
        raise InputError(
            f"device kind {self.name!r} has no peak for {precision!r}",
            key="peak_flops_per_s",
            found=precision,
            allowed=", ".join(peaks),
        )


_WIDER = {
    "fp8": ("bf16", "fp16", "tf32", "fp32"),
    "int8": ("fp8", "bf16", "fp16", "fp32"),
    "bf16": ("fp16", "tf32", "fp32"),
    "fp16": ("bf16", "tf32", "fp32"),
    "tf32": ("fp32",),
    "fp32": (),
}
