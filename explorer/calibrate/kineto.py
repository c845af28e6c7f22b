"""Kineto: durations of operators from a trace written by torch.profiler (Chrome trace events, JSON).

On an accelerator the kernels count: those of one operator are added up by their `External id`, and the
operator's `Input Dims` (recorded with `record_shapes=True`) say what work they did. A trace without kernels
is of a processor, and the operators' own durations count. Equal operators are one observation, the median of
their durations.

See Kineto's documentation of its trace format (github.com/pytorch/kineto) and PyTorch's profiler tutorial.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from explorer.base.errors import InputError
from explorer.calibrate.collective_kernels import collective_observations, is_collective
from explorer.calibrate.devices import same_device, used_kinds
from explorer.calibrate.estimate import MODEL_SD, Evidence, Observation
from explorer.calibrate.operators import Operator, kind_named
from explorer.calibrate.posterior import centre
from explorer.calibrate.torch_operators import operator_of
from explorer.cluster import Cluster, DeviceKind

FEWEST_LAUNCHES = 50
"""Kernels that the host must have issued for its seconds per kernel to be believed."""
_LAUNCHES = frozenset(
    {"cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel"}
)


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """A span of a trace."""

    name: str
    category: str
    start_us: float
    duration_us: float
    track: tuple[str, str]
    """Process and thread."""
    args: Mapping[str, Any]

    @property
    def external_id(self) -> int | str | None:
        """Id that joins an operator and its kernels."""
        found = self.args.get("External id", self.args.get("external id"))
        return found if isinstance(found, (int, str)) else None


def trace_evidence(data: Any, cluster: Cluster, *, name: str) -> Evidence:
    """Read what a trace says of a cluster.

    Raises:
        InputError: not a trace, or one of devices that the cluster lacks.
    """
    raw = data.get("traceEvents") if isinstance(data, Mapping) else data
    if not isinstance(raw, list):
        raise InputError("no list of events", key="traceEvents", found=type(raw).__name__, allowed="a list")
    events, broken = _events(raw)
    kernels = [item for item in events if item.category == "kernel"]
    kind, remarks = _kind(data, cluster, kernels)
    if broken:
        remarks.append(f"{name}: {broken} events are not spans with a name and a duration")
    timed, unknown = _timed(events, kernels)
    if unknown:
        most = ", ".join(f"{key} ({count})" for key, count in unknown.most_common(3))
        remarks.append(f"{name}: {sum(unknown.values())} operators of unknown work left out: {most}")
    found = []
    for operator, spans in timed.items():
        try:
            operator.device_seconds(cluster, kind.name)
        except InputError as error:  # a precision without a peak in the device kind
            remarks.append(f"{name}: {operator.title}: {error.message}")
            continue
        found.append(_observation(operator, spans, kind, name))
    found += _host(events, kind, name)
    more, left = collective_observations(
        [(item.name, item.duration_us * 1e-6, item.args) for item in kernels], cluster, name=name
    )
    return Evidence(name=name, observations=tuple(found + more), remarks=(*remarks, *left))


def _events(raw: Sequence[Any]) -> tuple[list[TraceEvent], int]:
    """Return the complete events, and how many are broken."""
    found, broken = [], 0
    for item in raw:
        if isinstance(item, Mapping) and item.get("ph") != "X":
            continue
        try:
            start, duration = float(item["ts"]), float(item["dur"])
            args = item.get("args", {})
            if not (isinstance(item["name"], str) and duration >= 0 and math.isfinite(duration + start)):
                raise ValueError
            if not isinstance(args, Mapping):
                raise TypeError
        except (KeyError, TypeError, ValueError, AttributeError):
            broken += 1
            continue
        track = (str(item.get("pid", "")), str(item.get("tid", "")))
        category = str(item.get("cat", "")).lower()
        found.append(TraceEvent(item["name"], category, start, duration, track, args))
    return found, broken


def _kind(data: Any, cluster: Cluster, kernels: Sequence[TraceEvent]) -> tuple[DeviceKind, list[str]]:
    """Return the device kind of the cluster that the trace is of.

    Raises:
        InputError: it is of none, or it does not say which of several.
    """
    used = used_kinds(cluster)
    listed = data.get("deviceProperties") if isinstance(data, Mapping) else None
    names = {
        str(item["name"])
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, Mapping) and "name" in item
    }
    if not kernels:
        names = {"cpu"}
    fits = [kind for kind in used if any(same_device(kind.name, name) for name in names)]
    if not names and len(used) == 1 and not same_device(used[0].name, "cpu"):
        return used[0], [f"the trace does not name its device; taken for {used[0].name}"]
    if len(fits) == 1:
        return fits[0], [f"{kind.name}: not what the trace was taken on" for kind in used if kind != fits[0]]
    raise InputError(
        f"the trace is of {', '.join(sorted(names)) or 'an unnamed device'}, the profile {cluster.name} of"
        f" {', '.join(kind.name for kind in used)}: seconds of the one say nothing about the other",
        key="deviceProperties", found=", ".join(sorted(names)), allowed="a trace of the profile's devices",
    )  # fmt: skip


def _timed(
    events: Iterable[TraceEvent], kernels: Sequence[TraceEvent]
) -> tuple[dict[Operator, list[float]], Counter[str]]:
    """Collect seconds of every call by operator, and operators that took time for unknown work."""
    on_device: dict[object, float] = defaultdict(float)
    names: dict[object, str] = {}
    for kernel in kernels:
        if kernel.external_id is not None and not is_collective(kernel.name):
            on_device[kernel.external_id] += kernel.duration_us
            names[kernel.external_id] = kernel.name
    timed: dict[Operator, list[float]] = defaultdict(list)
    unknown: Counter[str] = Counter()
    for event in events:
        if event.category != "cpu_op":
            continue
        duration = on_device.get(event.external_id, 0.0) if kernels else event.duration_us
        if duration <= 0:
            continue
        operator = operator_of(event.name, event.args, kernel=names.get(event.external_id, ""))
        if operator is not None:
            timed[operator].append(duration * 1e-6)
        elif kernels:
            unknown[event.name] += 1
    return timed, unknown


def _observation(operator: Operator, spans: Sequence[float], kind: DeviceKind, name: str) -> Observation:
    middle = centre([math.log(seconds) for seconds in spans])
    return Observation(
        name=f"{operator.title} in {name}",
        predict=lambda cluster: operator.device_seconds(cluster, kind.name),
        measured_s=math.exp(middle.mean),
        sd=math.hypot(middle.sd, MODEL_SD),
    )


def _host(events: Iterable[TraceEvent], kind: DeviceKind, name: str) -> list[Observation]:
    """Measure the host's seconds per kernel: the time between two launches of one thread."""
    gaps = list(_gaps(item for item in events if item.name in _LAUNCHES))
    if len(gaps) < FEWEST_LAUNCHES:
        return []
    middle = centre([math.log(gap) for gap in gaps])
    return [
        Observation(
            name=f"issue of a kernel in {name}",
            predict=lambda cluster: kind_named(cluster, kind.name).software.host_issue_s,
            measured_s=math.exp(middle.mean),
            sd=math.hypot(middle.sd, MODEL_SD),
            about=f"{kind.name}.host_issue_s",
        )
    ]


def _gaps(launches: Iterable[TraceEvent]) -> Iterator[float]:
    by_thread: dict[tuple[str, str], list[float]] = defaultdict(list)
    for item in launches:
        by_thread[item.track].append(item.start_us)
    for starts in by_thread.values():
        for first, second in pairwise(sorted(starts)):
            if second > first:
                yield (second - first) * 1e-6
