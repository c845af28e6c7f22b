"""Runs: what `explorer validate --json` says of a profile.

A short run times its own machine while it runs (`machine`): the layers of its likeness, an optimizer step,
messages and all-reduces by size. These are compared with the profile's predictions of the very same. The
run's predicted and measured parts say nothing about the profile, as they were predicted from that timing.

A run that was predicted from the profile itself only has its parts to tell. They bound a mean: seconds of
compute shift all classes of operation alike, as far as their bands let them; overhead shifts the overhead of
an action.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.base.errors import InputError
from explorer.base.plain_data import to_fields, validate
from explorer.calibrate.devices import RANK_KIND, same_device, used_kinds
from explorer.calibrate.estimate import MODEL_SD, Evidence, Observation
from explorer.calibrate.numbers import CLASSES, numbers_of
from explorer.calibrate.operators import Operator, kind_named
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds, transfer_seconds
from explorer.costs.graph_work import CLASSES as CLASSES_OF
from explorer.costs.update_time import update_seconds
from explorer.graph import Work

SCHEMA = "explorer.validate/1"
"""Schema of the files."""
_SELF_TIMED = ("layers", "likeness", "torch", "interpreter")
_UNUSABLE = {
    "too noisy": "the machine was too busy; run it again when the machine is less busy",
    "wrong numbers": "it computed wrong numbers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """Seconds of one layer's forward and backward in a run."""

    name: str
    """Name of the layer."""
    kind: str
    """Kind of the layer, as the cost model classes it."""
    works: tuple[Work, ...]
    """Work of one sample: forward, gradient of inputs, gradient of weights."""
    samples: float
    """Samples that went through at once."""
    seconds: float
    """Seconds of forward and backward together."""
    parameter_elements: float = 0.0
    """Elements of its weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTimes:
    """The times that a run measured of its own machine."""

    device: str
    """Name of the device that its ranks ran on, as the ranks give it."""
    ranks: int
    """Number of ranks."""
    layers: tuple[LayerTime, ...] = ()
    """Times of the layers."""
    update_elements: float = 0.0
    """Elements that one optimizer step updated."""
    update_s: float = 0.0
    """Seconds of that optimizer step; 0 if none was timed."""
    optimizer: str = "sgd"
    """Name of the optimizer."""
    precision: str = "fp32"
    """Precision in which the layers computed."""
    messages: tuple[tuple[str, float], ...] = ()
    """Seconds of a message to the next rank, by its bytes."""
    reduces: tuple[tuple[str, float], ...] = ()
    """Seconds of an all-reduce over all ranks, by its bytes."""


def run_evidence(data: Mapping[str, Any], cluster: Cluster, *, name: str) -> Evidence:
    """Read what a run says of a cluster.

    Raises:
        InputError: a run without a verdict, of other devices, or one that timed nothing of the profile.
    """
    if (verdict := str(data.get("verdict", ""))) in _UNUSABLE:
        raise InputError(
            f"nothing is calibrated by this run: {_UNUSABLE[verdict]}", key="verdict", found=verdict
        )
    if data.get("machine"):
        machine = validate(to_fields(data["machine"], MachineTimes, "machine"), MachineTimes)
        return machine_evidence(machine, cluster, name=name)
    engine = str(data.get("engine", ""))
    if engine == "dry" or engine in _SELF_TIMED:
        words = "nothing was computed" if engine == "dry" else "its file does not hold what it timed"
        raise InputError(
            f"nothing of the profile was timed: {words}", key="machine", found=engine,
            allowed="`explorer validate --json` of this version",
        )  # fmt: skip
    return _parts_evidence(data, cluster, name=name)


def machine_evidence(machine: MachineTimes, cluster: Cluster, *, name: str, compute: bool = True) -> Evidence:
    """Read what a run's timing of its own machine says of a cluster; `compute` counts its layers.

    Raises:
        InputError: the run used devices other than the cluster's.
    """
    kinds = [kind.name for kind in used_kinds(cluster)]
    if not all(same_device(kind, machine.device) for kind in kinds):
        raise InputError(
            f"the run was on {machine.device}, the profile {cluster.name} is of {', '.join(kinds)}: seconds"
            " of the one say nothing about the other",
            key="machine.device", found=machine.device, allowed="a run on the profile's devices",
        )  # fmt: skip
    found, remarks = _links(machine, cluster, name)
    for kind in kinds:
        if machine.device != "cpu":
            remarks.append(f"compute of {kind}: the likeness is far too small to fill it")
        elif kind == RANK_KIND:
            remarks.append(f"compute of {kind}: measured already")
        else:
            found += _update(machine, kind, name)
            found += [
                _layer(item, kind, name, machine.precision)
                for item in machine.layers
                if compute and _is_product(item)
            ]
    return Evidence(name=name, observations=tuple(found), remarks=tuple(remarks))


def _update(machine: MachineTimes, kind: str, name: str) -> list[Observation]:
    if not machine.update_s:
        return []

    def predict(cluster: Cluster) -> float:
        return update_seconds(
            kind_named(cluster, kind), elements=machine.update_elements, optimizer=machine.optimizer,
            precision=machine.precision,
        )  # fmt: skip

    return [_observation(f"optimizer step in {name}", predict, machine.update_s)]


def _is_product(item: LayerTime) -> bool:
    """Tell whether a layer is mostly matrix products; the likeness says too little of lookups or losses."""
    return item.seconds > 0 and CLASSES_OF.get(item.kind, "memory") != "memory"


def _layer(item: LayerTime, kind: str, name: str, precision: str) -> Observation:
    """Observe a layer of the likeness; an attention block counts as the products that it mostly is."""
    operator = Operator(
        kind="linear" if item.kind == "attention" else item.kind, precision=precision, works=item.works,
        samples=item.samples, parameter_elements=item.parameter_elements,
    )  # fmt: skip
    return _observation(
        f"{item.name} of {item.samples:g} samples in {name}",
        lambda cluster: operator.seconds(cluster, kind),
        item.seconds,
    )


def _links(machine: MachineTimes, cluster: Cluster, name: str) -> tuple[list[Observation], list[str]]:
    """Observe messages and all-reduces on the innermost level, which joins the ranks of one machine."""
    remarks = [f"{level.name}: the run stayed within one machine" for level in cluster.levels[1:]]
    if cluster.links:
        return [], ["links that are listed one by one: the run does not tell them apart", *remarks]
    if not cluster.levels or machine.ranks < 2:
        return [], ["links: a single rank sends nothing", *remarks]
    if cluster.nodes[0].devices_per_node < machine.ranks:
        where = f"a node of {cluster.nodes[0].devices_per_node}"
        return [], [f"links: the run had {machine.ranks} ranks, the profile has {where}", *remarks]
    devices = tuple(range(machine.ranks))
    found = [
        _observation(
            f"message of {size} bytes in {name}",
            lambda cluster, size=int(size): transfer_seconds(cluster.path(0, 1), size),  # type: ignore[misc]
            seconds,
        )
        for size, seconds in _sizes(machine.messages, "messages")
    ]
    found += [
        _observation(
            f"all-reduce of {size} bytes in {name}",
            lambda cluster, size=int(size): collective_seconds(  # type: ignore[misc]
                cluster, "all_reduce", devices, size, algorithm="ring"
            ),
            seconds,
        )
        for size, seconds in _sizes(machine.reduces, "reduces")
    ]
    return found, remarks


def _sizes(times: Sequence[tuple[str, float]], key: str) -> list[tuple[str, float]]:
    """Read sizes with seconds above 0.

    Raises:
        InputError: a size that is not a whole number.
    """
    for size, _ in times:
        if not size.isdecimal():
            raise InputError(f"{size!r} is no size", key=f"machine.{key}", found=size, allowed="bytes")
    return [(size, seconds) for size, seconds in times if seconds > 0]


def _observation(name: str, predict: Callable[[Cluster], float], seconds: float) -> Observation:
    return Observation(name=name, predict=predict, measured_s=seconds, sd=MODEL_SD)


# -- runs that were predicted from the profile ----------------------------------------------------------


def _parts_evidence(data: Mapping[str, Any], cluster: Cluster, *, name: str) -> Evidence:
    keys = {
        "compute": [n.key for n in numbers_of(cluster) if n.name in CLASSES],
        "communication": [n.key for n in numbers_of(cluster) if n.name == "bandwidth_bytes_per_s"],
        "overhead": [n.key for n in numbers_of(cluster) if n.name == "action_overhead_s"],
    }
    predicted, measured = (_seconds(data, which) for which in ("predicted", "measured"))
    found, remarks = [], []
    for part, numbers in keys.items():
        guess, seen = predicted.get(part, 0.0), measured.get(part, 0.0)
        if guess > 0 and seen > 0 and numbers:
            found.append(_mean_shift(part, numbers, cluster, guess, seen, name))
        elif seen > 0:
            remarks.append(f"{name}: {part} of {seen:.3g} s, of which the profile predicts nothing")
    return Evidence(name=name, observations=tuple(found), remarks=tuple(remarks))


def _mean_shift(
    part: str, numbers: Sequence[str], cluster: Cluster, guess: float, seen: float, name: str
) -> Observation:
    """Observe a part that follows some numbers' geometric mean: down with rates, up with overheads."""
    way = 1.0 if part == "overhead" else -1.0
    before = {item.key: item.value for item in numbers_of(cluster)}

    def predict(other: Cluster) -> float:
        now = {item.key: item.value for item in numbers_of(other)}
        shift = sum(math.log(now[key] / before[key]) for key in numbers) / len(numbers)
        return guess * math.exp(way * shift)

    return _observation(f"{part} of a step in {name}", predict, seen)


def _seconds(data: Mapping[str, Any], which: str) -> dict[str, float]:
    """Read seconds by part.

    Raises:
        InputError: they are missing or not seconds.
    """
    parts = data.get("parts")
    found = parts.get(which) if isinstance(parts, Mapping) else None
    if not isinstance(found, Mapping):
        raise InputError("a run without parts", key=f"parts.{which}", found=found, allowed="seconds by part")
    for part, value in found.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise InputError(
                f"{value!r} is no duration", key=f"parts.{which}.{part}", found=value, allowed="seconds >= 0"
            )
    return {str(part): float(value) for part, value in found.items()}
