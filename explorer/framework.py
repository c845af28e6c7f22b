"""Framework: what the software that runs a strategy costs and decides, as opposed to the hardware.

A framework costs time and memory besides its kernels (`Software`, in general and by device kind), and decides
what a model and a strategy leave open: how kernels are fused, how gradients are summed and reduced, whether
sends block. The user chooses one by name (`Job.framework`); without one a device kind keeps the numbers of
the software that its profile names, and everything else is as `USUAL` says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from explorer.base.errors import InputError
from explorer.cluster import Cluster, DeviceKind, Software, Source
from explorer.cluster.attention_kernels import KERNELS, kernel_named
from explorer.routing import DISPATCHES, EXPERT_KERNELS

CACHING, EXPANDABLE = "caching", "expandable"
"""Segments of an allocator: of the size that was asked for first, or growing."""

CHOICES: dict[str, tuple[str, ...]] = {
    "kernels": ("", "fused", "eager"),
    "softmax": ("", "fused", "plain"),
    "attention": ("", "plain", *KERNELS),
    "loss": ("", "kernel", "plain"),
    "accumulation": ("", "fused", "separate", "flat"),
    "updates": ("", "fused", "separate"),
    "checkpoints": ("", "whole", "needed"),
    "exchanges": ("", "units"),
    "selective": ("", "attention", "operators", "blocks"),
    "dispatch": ("", *DISPATCHES),
    "expert_kernels": ("", *EXPERT_KERNELS),
    "allocator": ("", CACHING, EXPANDABLE),
    "transfers": ("", "direct", "gather", "broadcast", "ordered", "best"),
    "buckets": ("always", "without_pipeline"),
}
"""Allowed values by field of a framework; the empty text keeps the choice made without a framework."""

MOST_BAND = 0.5
"""Largest `memory_band` that software may have: bytes that are half as many again, or half."""

MOST_ISSUE = 2.0
"""Largest `backward_issue` that software may have."""

NO_COSTS = Software()
"""No known costs of software."""

UNITS = "units"
"""Exchanges by units: blocks, and all that is outside of them."""

MODEL_SETTINGS = (
    "kernels", "softmax", "attention", "loss", "accumulation", "selective", "dispatch", "expert_kernels",
)  # fmt: skip
"""Fields that are settings of models: `explorer.models.load_model` uses them unless others are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """What one version of a training framework costs and does.

    Raises:
        InputError: a value that is not in `CHOICES`, or a name that cannot be part of a key.
    """

    name: str
    """Software and year: `megatron-2021`; empty for what is usual."""
    title: str = ""
    """One line for people."""
    software: str = ""
    """Name of the software for people: `Megatron-LM`."""
    year: int = 0
    """Year of the version; 0 if it is no particular one."""
    costs: Software = NO_COSTS
    """Its costs on device kinds that `by_kind` does not cover."""
    by_kind: tuple[tuple[str, Software], ...] = ()
    """(shell pattern of device kinds, costs there); the first that matches applies."""
    kernels: str = ""
    """Kernels of norm, rotation, activation and loss: one `fused` kernel each, or those of `eager`
    PyTorch.
    """
    softmax: str = ""
    """Softmax of an unfused attention: `fused` with scale and mask, or `plain`."""
    attention: str = ""
    """Kernel of attention: `plain`, with its scores in memory, or a fused one (`flash-2`). On a device kind
    that lacks it the newest older one runs; empty for the kind's usual one.
    """
    loss: str = ""
    """Cross entropy: one `kernel`, or Megatron-LM's operators in fp32 (`plain`)."""
    accumulation: str = ""
    """Whether products sum the gradients of microbatches (`fused`), separate kernels do (`separate`), or
    gradients are copied into a flat buffer, widened and divided there for each microbatch (`flat`).
    """
    checkpoints: str = ""
    """What full recomputation makes of a block again: the `whole` of it (the default), or what is `needed`,
    up to the last tensor that its backward reads.
    """
    updates: str = ""
    """Whether an optimizer's step is one `fused` kernel, or one for each of its operations (`separate`)."""
    clipping: bool = False
    """Whether gradients are clipped by their norm: read once for it, read and written again to scale them."""
    allocator: str = ""
    """How device memory is kept for later tensors: in `caching` segments of their first size (the default),
    or in `expandable` ones that grow, so that no freed block is too small for what comes: nothing stays
    cached (`Software.cached_fraction`), and replays reserve less.
    """
    exchanges: str = ""
    """`units`: sharded states (ZeRO 2 and 3) are exchanged by units, each block and all that is outside of
    blocks; every microbatch waits for its first gathers and its last reductions. Empty: blocks are alike,
    and those of the next microbatch come while the device works on the one before.
    """
    dispatch: str = ""
    """How tokens reach the devices of their experts: a name in `explorer.routing.DISPATCHES`."""
    expert_kernels: str = ""
    """How the products of experts run: a name in `explorer.routing.EXPERT_KERNELS`."""
    selective: str = ""
    """What selective recomputation makes again: a name in `explorer.models.POLICIES`."""
    dummy_gradients: bool = False
    """Whether the backward of a product writes a placeholder gradient in the precision of the weights while
    the gradient itself is added up in a wider one (Transformer Engine).
    """
    blocking: bool = False
    """Whether stages wait for what they send and receive, if a schedule supports both."""
    bucket_bytes: float = 0.0
    """Size of the buckets in which gradients are reduced during the last backward; 0: after it."""
    buckets: str = "always"
    """When gradients are reduced in buckets: `always`, or `without_pipeline` (with one, once at the end)."""
    transfers: str = ""
    """How tensors cross between stages: a name in `explorer.strategy.TRANSFERS`."""
    sources: tuple[Source, ...] = ()
    """Sources of the choices; sources of numbers stand with them."""

    def __post_init__(self) -> None:
        if "." in self.name:
            raise InputError(
                f"a framework called {self.name!r}",
                key="name",
                found=self.name,
                allowed="a name without a dot",
            )
        for key, allowed in CHOICES.items():
            if (value := getattr(self, key)) not in allowed:
                raise InputError(
                    f"unknown {key} {value!r}", key=key, found=value, allowed=", ".join(filter(None, allowed))
                )
        for pattern, software in (("costs", self.costs), *self.by_kind):
            if software.cached_fraction > 1:
                raise InputError(
                    f"a cached share of {software.cached_fraction}", key=f"{pattern}.cached_fraction",
                    found=software.cached_fraction, allowed="a fraction, 0 to 1",
                )  # fmt: skip
            if not 0 < software.backward_issue <= MOST_ISSUE:
                raise InputError(
                    f"a share of {software.backward_issue}", key=f"{pattern}.backward_issue",
                    found=software.backward_issue, allowed=f"above 0, {MOST_ISSUE:g} at most",
                )  # fmt: skip
            if software.memory_band > MOST_BAND:
                raise InputError(
                    f"a memory band of {software.memory_band}", key=f"{pattern}.memory_band",
                    found=software.memory_band, allowed=f"a fraction, 0 to {MOST_BAND:g}",
                )  # fmt: skip

    @property
    def model_settings(self) -> dict[str, str]:
        """Settings of models that it decides, by name (`MODEL_SETTINGS`)."""
        found = {name: getattr(self, name) for name in MODEL_SETTINGS}
        if self.attention:
            found["attention"] = "unfused" if self.attention == "plain" else "fused"
        return {name: value for name, value in found.items() if value}

    def software_on(self, *kinds: str) -> Software:
        """Return its costs on the first of some device kinds about which it says anything.

        >>> fast = Software(framework="made-2020", host_issue_s=1e-6)
        >>> Framework(name="made-2020", by_kind=(("a100-*", fast),)).software_on("a100-sxm-80gb").host_issue_s
        1e-06
        """
        said = (costs for kind in kinds for pattern, costs in self.by_kind if fnmatchcase(kind, pattern))
        found = next(said, self.costs)
        return replace(found, cached_fraction=0.0) if self.allocator == EXPANDABLE else found


OURS = "ours"
"""Name of the framework that is this package's own runtime."""

USUAL = Framework(name="", dummy_gradients=True)
"""What applies if no framework is chosen."""


def cluster_under(cluster: Cluster, framework: Framework) -> Cluster:
    """Return the cluster whose device kinds have the costs of a framework.

    A kind whose numbers are that framework's already keeps them: they may have been measured on this machine.
    The same cluster and framework give the same object, and a cluster that changes nothing is returned as it
    is, since caches know clusters by their identity.
    """
    if not framework.name:
        return cluster
    return cluster.memo(("under", framework), lambda: _under(cluster, framework))


def _under(cluster: Cluster, framework: Framework) -> Cluster:
    kinds = tuple(
        _with_attention(_kind_under(kind, framework.software_on(kind.name, *kind.like)), framework.attention)
        for kind in cluster.device_kinds
    )
    return cluster if kinds == cluster.device_kinds else replace(cluster, device_kinds=kinds)


def _kind_under(kind: DeviceKind, software: Software) -> DeviceKind:
    return kind if kind.software.framework == software.framework else replace(kind, software=software)


def _with_attention(kind: DeviceKind, name: str) -> DeviceKind:
    """Return a kind whose usual kernel of attention is the one that software asks for."""
    chosen = kernel_named(kind.attention_kernels, "" if name == "plain" else name)
    if chosen is None or chosen == kind.attention_kernels[0]:
        return kind
    others = (kernel for kernel in kind.attention_kernels if kernel != chosen)
    return replace(kind, attention_kernels=(chosen, *others))
