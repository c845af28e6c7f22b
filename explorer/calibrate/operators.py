"""Operators: one kernel or layer call as the cost model sees it, priced on any device kind.

An operator becomes a graph of one layer with the dimensions of its product, so it is priced by the same
function as models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from explorer.base.errors import InputError
from explorer.cluster import Cluster, DeviceKind
from explorer.costs.compute import layer_times
from explorer.graph import Dim, Layer, LayerGraph, Parameter, Tensor, Use, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One call: its work, and for a product its sizes."""

    kind: str
    """Kind of layer: `linear`, `matmul`, `attention`, `conv`, `elementwise`, ..."""
    precision: str
    """Precision: bf16, fp16, fp32, ..."""
    works: tuple[Work, ...] = (Work(),)
    """Work of the calls that were timed together: forward, gradient of inputs, gradient of weights."""
    sizes: tuple[float, float, float, float] | None = None
    """(batch, m, n, k) of products of m x k by k x n."""
    samples: float = 1.0
    """Samples of one call, which multiply its work."""
    causal: bool = False
    """Whether an attention hides half of its scores."""
    parameter_elements: float = 0.0
    """Elements of the weights it reads."""

    def device_seconds(self, cluster: Cluster, kind: str) -> float:
        """Return the seconds of its kernels alone, whatever the host takes to issue them."""
        device = kind_named(cluster, kind)
        return self._seconds(replace(device, software=replace(device.software, host_issue_s=0.0)))

    def seconds(self, cluster: Cluster, kind: str) -> float:
        """Return the seconds on one device of a kind, including the host."""
        return self._seconds(kind_named(cluster, kind))

    def _seconds(self, device: DeviceKind) -> float:
        times = layer_times(graph_of(self), device, samples=self.samples, precision=self.precision)
        return float(times.sum())

    @property
    def title(self) -> str:
        """Readable name: `matmul 1 x 512 x 1024 x 4096, bf16`."""
        sizes = " x ".join(f"{size:g}" for size in self.sizes or ())
        what = sizes or f"of {self.works[0].flops * self.samples:.3g} FLOPs"
        return f"{self.kind} {what}, {self.precision}"


@lru_cache(maxsize=4096)
def graph_of(operator: Operator) -> LayerGraph:
    """Make the operator a model of one layer, behind a layer without work that makes its gradients needed.

    The layer of a product has the product's dimensions.
    """
    forward, input_grad, weight_grad = (*operator.works, Work(), Work())[:3]
    elements = operator.parameter_elements
    tensors = [Tensor(name="x", shape=(1.0,)), Tensor(name="y", shape=(1.0,))]
    reads, writes = [Use(name="x")], Use(name="y")
    dims: tuple[Dim, ...] = ()
    if operator.sizes is not None:
        b, m, n, k = operator.sizes
        dims = tuple(Dim(name=name, size=size) for name, size in zip("bmnk", operator.sizes, strict=True))
        tensors = [
            Tensor(name="x", shape=(b, m, k)), Tensor(name="z", shape=(b, k, n)),
            Tensor(name="y", shape=(b, m, n)),
        ]  # fmt: skip
        reads = [Use(name="x", dims=("b", "m", "k")), Use(name="z", dims=("b", "k", "n"))]
        writes = Use(name="y", dims=("b", "m", "n"))
    layer = Layer(
        name="operator", kind=operator.kind, dims=dims, reads=tuple(reads), writes=(writes,),
        parameters=(Use(name="w"),) if elements else (), forward=forward, input_grad=input_grad,
        weight_grad=weight_grad, causal=operator.causal,
    )  # fmt: skip
    before = Layer(name="before", writes=(Use(name="x"),), parameters=(Use(name="u"),))  # wants a gradient
    parameters = [Parameter(name="u", shape=(1.0,))]
    if elements:
        parameters.append(Parameter(name="w", shape=(elements,)))
    return LayerGraph(
        name="operator", layers=(before, layer), tensors=tuple(tensors), parameters=tuple(parameters)
    )


def product(m: float, n: float, k: float, *, batch: float = 1.0, precision: str) -> Operator:
    """Make a (batched) matrix product: 2 m n k FLOPs each, both factors read and the result written."""
    work = Work(flops=2.0 * batch * m * n * k, moved_elements=batch * (m * k + k * n + m * n))
    sizes = (float(batch), float(m), float(n), float(k))
    return Operator(kind="matmul", precision=precision, works=(work,), sizes=sizes)


def kind_named(cluster: Cluster, name: str) -> DeviceKind:
    """Return a device kind by name.

    Raises:
        InputError: the cluster has none of that name.
    """
    for kind in cluster.device_kinds:
        if kind.name == name:
            return kind
    allowed = ", ".join(kind.name for kind in cluster.device_kinds)
    raise InputError(f"no device kind {name!r} in {cluster.name}", found=name, allowed=allowed)
