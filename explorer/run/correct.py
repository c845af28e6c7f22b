"""Correct: from what a run measured of its own machine to the numbers of a cluster profile, or a refusal.

A run on this machine can tell of this machine only. So a profile is corrected where its devices are what
the ranks ran on, number by number, and every number that stays is named with the reason. Nothing is
carried over from a processor to an accelerator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from explorer.cluster import Cluster, Curve, DeviceKind, Level, Source
from explorer.costs.compute import layer_times, update_seconds
from explorer.graph import LayerGraph
from explorer.run.calibrate import RANK_KIND, Calibrated
from explorer.workload import Job

MATRIX = ("matmul", "attention", "conv")
"""Classes of operation that the likeness times together."""
SUFFIX = " calibrated"
"""Of a corrected cluster's name."""
_SOURCE = "the calibration of a run"
_LEAST, _MOST = 1e-6, 1e6  # between which a factor is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One number that is corrected."""

    what: str
    """Link or class of operation, and which of its numbers."""
    before: float
    """In the profile."""
    after: float
    """As measured."""
    quantity: str
    """`bytes_per_s`, `seconds` or `fraction`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What a run would change in a cluster."""

    cluster: Cluster | None
    """The corrected cluster; None where nothing can be said of it."""
    changes: tuple[Change, ...] = ()
    """In what."""
    kept: tuple[str, ...] = ()
    """What stays as it is, and why."""
    refusal: str = ""
    """Why nothing can be said, with the way out; empty where something can."""


def correct(cluster: Cluster, job: Job, known: Calibrated, *, device: str) -> Correction:
    """The cluster with every number corrected that the run can speak for.

    Args:
        cluster: the profile of the plan.
        job: its workload.
        known: what the run measured.
        device: what the ranks ran on, as they name it (`cpu`, `NVIDIA A100-SXM4-80GB`).
    """
    foreign = [kind.name for kind in used_kinds(cluster) if not same_device(kind.name, device)]
    if foreign:
        what = "processors" if device == "cpu" else device
        return Correction(
            cluster=None,
            refusal=(
                f"The ranks ran on {what} of this machine, not on {', '.join(foreign)}: seconds and"
                f" bandwidths of the one say nothing of the other, so {cluster.name} stays as it is. What"
                " carries over is what is listed as validated. To calibrate, run this workbench on those"
                " devices."
            ),
        )
    level, changes, kept = _links(cluster, known)
    kinds = []
    for kind in cluster.device_kinds:
        made, more, left = _compute(kind, job, known, device)
        kinds.append(made)
        changes, kept = changes + more, kept + [text for text in left if text not in kept]
    levels = tuple(level if level and item.name == level.name else item for item in cluster.levels)
    name = cluster.name if cluster.name.endswith(SUFFIX) else cluster.name + SUFFIX
    title = cluster.title if cluster.title.endswith(SUFFIX) or not cluster.title else cluster.title + SUFFIX
    made_of = replace(cluster, name=name, title=title, device_kinds=tuple(kinds), levels=levels)
    return Correction(cluster=made_of, changes=tuple(changes), kept=tuple(kept))


def used_kinds(cluster: Cluster) -> tuple[DeviceKind, ...]:
    """Device kinds that some node has."""
    used = {group.device_kind for group in cluster.nodes}
    return tuple(kind for kind in cluster.device_kinds if kind.name in used)


def same_device(kind: str, device: str) -> bool:
    """Whether a device kind of a profile is what ranks say they ran on.

    >>> same_device("cpu", "cpu"), same_device("a100-sxm-80gb", "cpu")
    (True, False)
    >>> same_device("a100-sxm-80gb", "NVIDIA A100-SXM4-80GB")
    True
    """
    first = kind.lower().replace("_", "-").split("-")[0]
    if device == "cpu":
        return first in ("cpu", RANK_KIND)
    return first in device.lower().replace("-", " ").split()


def _links(cluster: Cluster, known: Calibrated) -> tuple[Level | None, list[Change], list[str]]:
    """The innermost level, which joins the ranks of one machine."""
    kept = [f"{level.name}: the run stayed within one machine" for level in cluster.levels[1:]]
    if cluster.links:
        return None, [], ["links that are listed one by one: the run does not tell them apart", *kept]
    if not cluster.levels or known.cluster.device_count < 2:
        return None, [], ["links: a single rank sends nothing", *kept]
    old, seen = cluster.levels[0], known.cluster.levels[0]
    share = min(1.0, seen.collective_efficiency)
    made = replace(
        old,
        latency_s=seen.latency_s,
        bandwidth_bytes_per_s=seen.bandwidth_bytes_per_s,
        collective_efficiency=share,
        sources=(*_others(old.sources, _LINK_KEYS), *(_measured(key) for key in _LINK_KEYS)),
    )
    changes = [
        Change(what=old.name, before=old.bandwidth_bytes_per_s, after=made.bandwidth_bytes_per_s,
               quantity="bytes_per_s"),
        Change(what=f"{old.name} latency", before=old.latency_s, after=made.latency_s, quantity="seconds"),
        Change(what=f"{old.name} collectives", before=old.collective_efficiency, after=share,
               quantity="fraction"),
    ]  # fmt: skip
    return made, changes, kept


_LINK_KEYS = ("latency_s", "bandwidth_bytes_per_s", "collective_efficiency")


def _compute(
    kind: DeviceKind, job: Job, known: Calibrated, device: str
) -> tuple[DeviceKind, list[Change], list[str]]:
    """Efficiencies of matrix products and of memory, each by one factor over its whole curve."""
    if device != "cpu":
        return kind, [], [f"compute of {kind.name}: the likeness is far too small to fill it"]
    if kind.name == RANK_KIND:
        return kind, [], [f"compute of {kind.name}: measured already"]
    kept: list[str] = []
    factors: dict[str, float] = {}
    made = kind
    if known.seconds.get("update", 0.0) > 0:
        factors["memory"] = _memory_factor(kind, job, known)
        made = _scaled(made, ("memory",), factors["memory"])
    if job.precision == "fp32":  # after memory, which binds some of the layers
        factors["matmul"] = _matrix_factor(made, known)
        made = _scaled(made, MATRIX, factors["matmul"])
    else:
        kept.append(f"compute: the run computes in fp32, the plan in {job.precision}")
    changes = [
        Change(what=name, before=_last(kind, name), after=_last(made, name), quantity="fraction")
        for name in factors
    ]
    kept += [
        f"{name}: measured at more than the profile's peak, which is taken as reached"
        for name, factor in factors.items()
        if factor * _last(kind, name) > 1
    ]
    sources = (*_others(kind.sources, ("efficiency",)), _measured("efficiency"))
    return replace(made, sources=sources if changes else kind.sources), changes, kept


def _matrix_factor(kind: DeviceKind, known: Calibrated) -> float:
    """The factor by which the likeness's own layers come out as measured; products stand for blocks."""
    plain = _as_products(known.graph)
    samples = sorted({row.batch for layer in known.graph.layers for row in layer.measured})
    wanted = sum(float(layer_times(known.graph, kind, samples=n, precision="fp32").sum()) for n in samples)

    def seconds(factor: float) -> float:
        other = _scaled(kind, MATRIX, factor)
        return sum(float(layer_times(plain, other, samples=n, precision="fp32").sum()) for n in samples)

    return _solve(seconds, wanted)


def _as_products(graph: LayerGraph) -> LayerGraph:
    """The layers without what was measured of them; a block counts as the products that it mostly is."""
    layers = tuple(
        replace(layer, measured=(), kind="linear" if layer.kind == "attention" else layer.kind)
        for layer in graph.layers
    )
    return replace(graph, layers=layers)


def _memory_factor(kind: DeviceKind, job: Job, known: Calibrated) -> float:
    elements = sum(item.elements for item in known.graph.parameters)

    def seconds(factor: float) -> float:
        other = _scaled(kind, ("memory",), factor)
        return update_seconds(other, elements=elements, optimizer=job.optimizer, precision="fp32")

    return _solve(seconds, known.seconds["update"])


def _solve(seconds: Callable[[float], float], wanted: float) -> float:
    """The factor at which falling `seconds` are `wanted`, or the end of the range next to it."""
    low, high = _LEAST, _MOST
    for _ in range(56):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if seconds(middle) > wanted else (low, middle)
    return float((low * high) ** 0.5)


def _curve(kind: DeviceKind, name: str) -> Curve:
    return dict(kind.efficiency).get(name, Curve(points=((1.0, 1.0),)))


def _last(kind: DeviceKind, name: str) -> float:
    """The fraction that the largest work reaches."""
    return _curve(kind, name).points[-1][1]


def _scaled(kind: DeviceKind, names: tuple[str, ...], factor: float) -> DeviceKind:
    """The kind with some curves times a factor; no fraction becomes more than 1.

    A class after the first that has no curve of its own follows that of products anyway.
    """
    curves = dict(kind.efficiency)
    for name in names:
        if name != names[0] and name not in curves:
            continue
        points = tuple((size, min(1.0, share * factor)) for size, share in _curve(kind, name).points)
        curves[name] = Curve(points=points)
    return replace(kind, efficiency=tuple(sorted(curves.items())))


def _others(sources: tuple[Source, ...], keys: tuple[str, ...]) -> tuple[Source, ...]:
    return tuple(item for item in sources if item.key not in keys)


def _measured(key: str) -> Source:
    return Source(key=key, how="measured", reference=_SOURCE)
