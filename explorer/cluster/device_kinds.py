"""Device kinds: what one type of accelerator can do, at which share of its peak, and what software adds."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace

from explorer.base.errors import InputError
from explorer.cluster.attention_kernels import AttentionKernel
from explorer.cluster.product_kernels import ProductKernels, Tile
from explorer.cluster.product_times import ProductTimes
from explorer.cluster.sources import Source

LIKELY, SURELY = "likely", "surely"
MARGINS = (LIKELY, SURELY)
"""Plans that a device takes: those that may fit as well, or only those that fit for sure."""


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
class Software:
    """What a framework costs on one device kind besides the work of its kernels.

    The numbers come from a `explorer.framework.Framework`, or were measured on this very machine.
    """

    framework: str = ""
    """Name of the framework that states them; empty if unknown."""
    host_issue_s: float = 0.0
    """Seconds the host takes to issue one kernel: a block takes the longer of device and host."""
    backward_issue: float = 0.75
    """What an operation of the backward takes of the host, relative to `host_issue_s`: its launch is the
    same, but autograd calls it without the user's Python and records nothing (docs/profiles.md)."""
    action_overhead_s: float = 0.0
    """Seconds of host work and waiting for each forward or backward call of a stage."""
    cached_fraction: float = 0.0
    """Share of activations and buffers that the allocator keeps beyond the tensors at the peak: freed blocks
    that nothing fits in. It gives them back before it fails."""
    expert_issue_s: float = 0.0
    """Seconds the host takes for the product of one expert, where one call issues those of all
    (`explorer.routing.STREAMS`)."""
    cast_bytes: float = 5.0
    """Bytes moved for each element that is cast to fp8 for a product: its largest magnitude is found (2), it
    is read again (2) and written (1); less if the cast itself finds the magnitude for the next step."""
    memory_band: float = 0.0
    """Relative half-width of the 80 % band of predicted bytes of tensors: what kernels keep, and what the
    allocator cannot use. 0: taken as exact."""
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
    maker: str = ""
    """Company that makes it: `NVIDIA`; empty if unknown."""
    generation: str = ""
    """Its maker's name of the architecture: `Ampere`; empty if unknown."""
    efficiency: tuple[tuple[str, Curve], ...] = ()
    """By operation class (`matmul`, `attention`, `conv`, `memory`, `update`, `permutation`): fraction of
    peak over FLOPs, or over bytes."""
    compute_units: int = 0
    """Streaming multiprocessors (cores) among which a matrix product's tiles are dealt; 0 if unknown."""
    tiles: tuple[Tile, ...] = ()
    """Tilings that its matrix library chooses from in every precision; () prices products by their
    `product_kernels`, else by the `matmul` curve alone."""
    tile_depth: float = 0.0
    """Cost of a tile's start and end, in steps along the contracted dimension."""
    product_kernels: tuple[tuple[str, ProductKernels], ...] = ()
    """By precision, what matrix products reach, in place of `tiles`, `tile_depth` and the curve `sustained`;
    precisions that are not listed take those of the first."""
    measured_products: tuple[tuple[str, ProductTimes], ...] = ()
    """By precision, products measured on this kind by shape: they correct what the law says of shapes nearby
    (`explorer.costs.measured_products`). A kind that extends it was not measured."""
    unaligned_fraction: float = 1.0
    """Share of a product's speed left if a size does not fill 16 bytes (a vocabulary of 50,257)."""
    attention_kernels: tuple[AttentionKernel, ...] = ()
    """Kernels of fused attention that it has, the usual one first; () prices it by the `attention` curve."""
    settled_fraction: float = 1.0
    """Share of the speed of `product_kernels` that stays where products follow each other for long, as in
    training: a power limit lowers the clocks that a single product on an idle device has."""
    fp8_gradient_fraction: float = 1.0
    """Speed of fp8 products of the backward over those of the forward: below 1 where the tensor cores keep
    few bits of a sum, so that software has the gradients summed outside of them."""
    launch_overhead_s: float = 0.0
    """Seconds every kernel takes on the device besides its work: start and drain."""
    exposed_memory: float = 0.0
    """Share of the shorter of compute and memory that an operator takes besides the longer: 0 where threads
    wait in turn for both, 1 where a core fetches first and computes then."""
    busy_slowdown: float = 0.0
    """How much longer kernels take in a training step than repeated alone on an idle device: clocks fall
    under a power limit, and all devices of a node draw on it. 0.05 is 5 %."""
    model_seconds: tuple[tuple[str, float], ...] = ()
    """(model as `explorer.costs.model_key` names it, seconds of its kernels over what all other numbers say):
    shapes that libraries do worse or better than others, as measured steps of it tell. 1.05 is 5 % longer."""
    overlap_slowdown: float = 0.0
    """How much longer compute takes while the device communicates: 0.05 is 5 %."""
    device_spread: float = 0.0
    """Relative spread of speed among devices of this kind (a standard deviation): those that meet wait for
    the slowest (`explorer.costs.stragglers`)."""
    lockstep_wait: float = 0.0
    """How much longer than one device the slowest of a lane takes besides, however many they are; profiles
    from before `device_spread` state it."""
    reserved_bytes: float = 0.0
    """Memory a process loses before its first tensor (context, communication buffers)."""
    memory_margin: str = LIKELY
    """Whether plans that may fit are taken (`likely`), or only those that fit for sure (`surely`)."""
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

        if self.memory_margin not in MARGINS:
            raise InputError(
                f"unknown memory margin {self.memory_margin!r}",
                key="memory_margin",
                found=self.memory_margin,
                allowed=" or ".join(MARGINS),
            )

    def running(self, model: str) -> DeviceKind:
        """Return the kind as it runs a model: what its kernels take longer is part of `busy_slowdown`."""
        own = dict(self.model_seconds).get(model, 1.0)
        return replace(self, busy_slowdown=(1 + self.busy_slowdown) * own - 1) if own != 1 else self

    @property
    def makes_tiles(self) -> bool:
        """Whether products of known sizes are priced by tiles rather than by a curve over FLOPs."""
        return bool((self.tiles or self.product_kernels) and self.compute_units)

    @property
    def prices_shapes(self) -> bool:
        """Whether products are priced by their sizes: by tiles, or by what was measured of such sizes."""
        return self.makes_tiles or bool(self.measured_products)

    def kernels_of(self, precision: str) -> ProductKernels | None:
        """Return the kernels of matrix products of a precision; None if `tiles` or a curve stand for them."""
        if not self.product_kernels:
            return None
        return dict(self.product_kernels).get(precision) or self.product_kernels[0][1]

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
