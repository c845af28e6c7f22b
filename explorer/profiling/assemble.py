"""Assembly of a cluster profile from the ranks' measurements, every number with its source and band."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from explorer.base.units import dtype_bytes
from explorer.calibrate.operator_times import measured_kind
from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup, Software, Source
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.costs.graph_work import BACKWARD_PRODUCTS, HALF
from explorer.framework import OURS
from explorer.profiling import curve_fits
from explorer.profiling.curve_fits import Key, MedianSeconds
from explorer.profiling.machine import Host
from explorer.run.judging.profile_correction import same_device
from explorer.workload import OPTIMIZERS

PCIE_MOST = 64e9
"""Bytes/s in one direction that no PCIe 5.0 x16 slot reaches: faster links are NVLink."""
_SAME_MEMORY = 0.1  # a card reports a few per cent less memory than its data sheet

_BACKWARD = ("attention_backward", "conv_backward")

Found = Mapping[Key, MedianSeconds]


def assemble(
    name: str, host: Host, machines: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> Cluster:
    """Assemble the profile of one machine.

    Args:
        name: name of the profile.
        host: the system's own description.
        machines: each rank's description of its device.
        rows: timings of all ranks and rounds: `what`, `precision`, `size` and `seconds`.
    """
    found = curve_fits.timings(rows)
    first, ranks = machines[0], len(machines)
    where = _where(host, first, ranks)
    kind = _kind(first, ranks, found, where)
    levels = _levels(first, ranks, kind, found, where)
    group = NodeGroup(count=1, device_kind=kind.name, devices_per_node=ranks)
    cores = f"{host.cores} cores" + (f" in {host.memory_nodes} memory nodes" if host.memory_nodes > 1 else "")
    return Cluster(
        name=name,
        title=f"{ranks} x {first['name']} of one machine with {cores}",
        device_kinds=(kind,),
        nodes=(group,),
        levels=levels,
        sources=(Source(key="*", how="measured", reference=f"{where}: what the system tells"),),
    )


def _where(host: Host, first: Mapping[str, Any], ranks: int) -> str:
    device = host.processor if first["name"] == "cpu" else first["name"]
    machine = f"{device} of a machine with {host.cores} cores"
    return f"explorer profile, {ranks} ranks on {machine}, torch {first['torch']}"


# -- device ---------------------------------------------------------------------------------------------


def _kind(first: Mapping[str, Any], ranks: int, found: Found, where: str) -> DeviceKind:
    base = _base(first, ranks, found, where)
    on_cpu = first["name"] == "cpu"
    launch = found.get(Key("operator", "", ())) or found[Key("issue" if on_cpu else "launch", "", ())]
    kind = replace(
        base,
        software=_software(found, where, on_cpu=on_cpu),
        launch_overhead_s=_short(launch.seconds),
        reserved_bytes=float(first["reserved_bytes"]),
    )
    how = [
        _measured("launch_overhead_s", where, launch, _launched(found)),
        _measured("reserved_bytes", where, None, "memory of a rank before its first tensor"),
    ]
    if not on_cpu:
        kind, more = _host_copies(kind, found, where)
        how += more
    kind, more = _overlap(kind, found, where)
    how += more
    kind, more = _efficiency(kind, found, where)
    return _with_sources(kind, (*how, *more))


def _launched(found: Found) -> str:
    if Key("operator", "", ()) in found:
        return "operators of a block on a few elements, their code no longer in the caches"
    return "a chain of operators on one element"


def _software(found: Found, where: str, *, on_cpu: bool) -> Software:
    """Return the costs of this package's own runtime; a processor issues kernels to nobody."""
    issue, action = found[Key("issue", "", ())], found[Key("action", "", ())]
    sources = [_measured("action_overhead_s", where, action, "a backward call beside its kernels")]
    if not on_cpu:
        what = "host seconds of an operator on one element"
        sources.append(_measured("host_issue_s", where, issue, what))
    return Software(
        framework=OURS,
        host_issue_s=0.0 if on_cpu else _short(issue.seconds),
        action_overhead_s=_short(action.seconds),
        sources=tuple(sources),
    )


def _base(first: Mapping[str, Any], ranks: int, found: Found, where: str) -> DeviceKind:
    """Make the kind with its peaks: a known card's from its data sheet, else the fastest reached."""
    if known := _known_kind(first):
        plain = replace(
            known,
            efficiency=(),
            tiles=(),
            tile_depth=0.0,
            product_kernels=(),
            settled_fraction=1.0,
            measured_products=(),
        )
        return replace(plain, memory_bytes=float(first["memory_bytes"]))
    overhead = _overhead(first, found)
    precisions = _precisions(found)
    room = _headroom(found, precisions[0], overhead)
    peaks = {
        precision: room * curve_fits.best_rate(_flops_seconds(found, "product", precision), overhead)
        for precision in precisions
    }
    shared = ranks if first["name"] == "cpu" else 1
    measured = (
        Source(key="*", how="measured", reference=f"{where}: what the system tells"),
        _measured(
            "peak_flops_per_s",
            where,
            None,
            "the fastest product of each precision, or what is faster",
            _band(found, "product"),
        ),
        _measured(
            "memory_bandwidth_bytes_per_s",
            where,
            None,
            "the fastest size of x + 1, or of a step of Adam",
            _band(found, "memory"),
        ),
    )
    return DeviceKind(
        name=kind_name(str(first["name"])),
        memory_bytes=float(first["memory_bytes"]) / shared,
        memory_bandwidth_bytes_per_s=_short(
            max(
                curve_fits.best_rate(work, overhead)
                for what in ("memory", "update")
                if (work := _moved_seconds(found, what))
            )
        ),
        peak_flops_per_s=tuple((precision, _short(peak)) for precision, peak in peaks.items()),
        compute_units=int(first.get("compute_units", 0)),
        sources=measured,
    )


def _headroom(found: Found, precision: str, overhead: float) -> float:
    """Return how much faster than products the fastest class is: convolutions may skip counted FLOPs."""
    products = curve_fits.best_rate(_flops_seconds(found, "product", precision), overhead)
    others = [work for what in ("attention", "conv") if (work := _flops_seconds(found, what, precision))]
    return max([1.0, *(curve_fits.best_rate(work, overhead) / products for work in others)])


def kind_name(device: str) -> str:
    """Name a device kind after what torch calls the device.

    >>> kind_name("NVIDIA GeForce RTX 4090"), kind_name("NVIDIA A100-SXM4-80GB"), kind_name("cpu")
    ('rtx-4090', 'a100-sxm4-80gb', 'cpu')
    """
    plain = re.sub(r"\b(nvidia|geforce|tesla|quadro)\b", " ", device.lower())
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "device"


def _known_kind(first: Mapping[str, Any]) -> DeviceKind | None:
    """Return the bundled kind of a card whose name, compute units and memory agree; None if there is none."""
    if first["name"] == "cpu":
        return None
    for name in cluster_names():
        for kind in load_cluster(name).device_kinds:
            alike = abs(kind.memory_bytes / float(first["memory_bytes"]) - 1) < _SAME_MEMORY
            if (
                alike
                and kind.compute_units == first["compute_units"]
                and same_device(kind.name, first["name"])
            ):
                return kind
    return None


def _efficiency(kind: DeviceKind, found: Found, where: str) -> tuple[DeviceKind, list[Source]]:
    """Fit curves of all classes, and tiles if the device has compute units."""
    precision = _precisions(found)[0]
    peak, overhead = kind.peak(precision), _loop_overhead(kind, found)
    curves = {"matmul": curve_fits.curve(_flops_seconds(found, "product", precision), peak, overhead)}
    for name in ("memory", "update"):
        if work := _moved_seconds(found, name):
            curves[name] = curve_fits.curve(work, kind.memory_bandwidth_bytes_per_s, overhead)
    kind = replace(kind, efficiency=tuple(curves.items()))
    exposure: list[Source] = []
    if not kind.compute_units:
        kind, exposure = _exposed(kind, found, where)
    for what in ("attention", "conv", *_BACKWARD):
        if work := _flops_seconds(found, what, precision, kind):
            curves[what] = curve_fits.curve(work, peak, overhead)
    kind = replace(kind, efficiency=tuple(curves.items()))
    spread = _band(found, "product", "attention", "conv", *_BACKWARD, "memory", "update")
    what = f"products, attention and convolutions in {precision}, copies, updates, by size"
    how = [_measured("efficiency", where, None, what, spread), *exposure]
    if not kind.compute_units:
        return kind, how
    products = {
        (key.size[0], key.size[1], key.size[2]): timing.seconds
        for key, timing in found.items()
        if key.what == "product" and key.precision == precision
    }
    kind, error = curve_fits.fit_tiles(kind, precision, products, overhead)
    text = f"at which {len(products)} products in {precision} come out within {error:.1%} in the mean"
    width = round(max(error, spread), 3)
    kind = measured_kind(kind, _products_by_shape(kind, found), f"{where}: products by shape")
    return kind, [*how, *(_measured(key, where, None, text, width) for key in ("tiles", "tile_depth"))]


def _products_by_shape(kind: DeviceKind, found: Found) -> dict[str, dict[tuple[float, float, float], float]]:
    """Return seconds of measured products by precision and (rows, columns, depth).

    Cards that boost above the clock of their data sheet may be faster than its peak: these are left out.
    """
    times: dict[str, dict[tuple[float, float, float], float]] = {}
    for key, timing in found.items():
        if key.what != "product":
            continue
        seconds = _short(timing.seconds)
        if seconds >= flops_of("product", key.size) / kind.peak(key.precision):
            rows, columns, depth = map(float, key.size[:3])
            times.setdefault(key.precision, {})[rows, columns, depth] = seconds
    return times


def _exposed(kind: DeviceKind, found: Found, where: str) -> tuple[DeviceKind, list[Source]]:
    """Fit what a core takes to fetch weights besides computing, to linear layers of few rows."""
    thin = {key: timing for key, timing in found.items() if key.what == "thin"}
    if not thin:
        return kind, []
    precision = next(iter(thin)).precision
    share = curve_fits.exposed_share(
        kind, precision, {key.size: t.seconds for key, t in thin.items() if key.precision == precision}
    )
    what = "linear layers of few rows, forward and backward"
    return replace(kind, exposed_memory=_short(share)), [
        _measured("exposed_memory", where, None, what, curve_fits.mean_band(thin.values()))
    ]


def _host_copies(kind: DeviceKind, found: Found, where: str) -> tuple[DeviceKind, list[Source]]:
    copies = {key.size[0]: timing for key, timing in found.items() if key.what == "host_copy"}
    if not copies:
        return kind, []
    largest = max(copies)
    made = replace(kind, host_bandwidth_bytes_per_s=_short(largest / copies[largest].seconds))
    what = "a copy from pinned memory to the device"
    return made, [_measured("host_bandwidth_bytes_per_s", where, copies[largest], what)]


def _overlap(kind: DeviceKind, found: Found, where: str) -> tuple[DeviceKind, list[Source]]:
    ratios = [timing for key, timing in found.items() if key.what == "overlap"]
    if not ratios:
        return replace(kind, overlap_slowdown=0.0), []
    what = "matrix products beside an all-reduce"
    slower = replace(kind, overlap_slowdown=_short(max(0.0, ratios[0].seconds - 1)))
    return slower, [_measured("overlap_slowdown", where, ratios[0], what)]


# -- links ----------------------------------------------------------------------------------------------


def _levels(
    first: Mapping[str, Any], ranks: int, kind: DeviceKind, found: Found, where: str
) -> tuple[Level, ...]:
    if ranks == 1:
        return ()
    messages = {key.size[0]: timing for key, timing in found.items() if key.what == "message"}
    reduces = {key.size[0]: timing for key, timing in found.items() if key.what == "reduce"}
    latency, bandwidth = map(
        _short, curve_fits.line({size: timing.seconds for size, timing in messages.items()})
    )
    name, link = _link(first, bandwidth)
    level = Level(name=name, kind=link, scope="all", latency_s=latency, bandwidth_bytes_per_s=bandwidth)
    group = NodeGroup(count=1, device_kind=kind.name, devices_per_node=ranks)
    bare = Cluster(name=name, device_kinds=(kind,), nodes=(group,), levels=(level,))
    overhead, share = curve_fits.collective_line(
        bare, {size: timing.seconds for size, timing in reduces.items()}
    )
    level = replace(level, collective_overhead_s=_short(overhead), collective_efficiency=_short(share))
    sent, reduced = curve_fits.mean_band(messages.values()), curve_fits.mean_band(reduces.values())
    sources = (
        _measured("*", where, None, "messages between neighbours, one way", sent),
        _measured("collective_efficiency", where, None, "all-reduces over all ranks, by size", reduced),
        _measured("collective_overhead_s", where, None, "all-reduces over all ranks, by size", reduced),
    )
    return (replace(level, sources=sources),)


def _link(first: Mapping[str, Any], bandwidth: float) -> tuple[str, str]:
    """Return the name and kind of the links between devices."""
    if first["name"] == "cpu":
        return "host", "shared_memory"
    if first.get("peer_access") and bandwidth > PCIE_MOST:
        return "nvlink", "nvlink"
    return "pcie", "pcie"


# -- timings --------------------------------------------------------------------------------------------


def _precisions(found: Found) -> list[str]:
    return list(dict.fromkeys(key.precision for key in found if key.what == "product"))


def _overhead(first: Mapping[str, Any], found: Found) -> float:
    what = "issue" if first["name"] == "cpu" else "launch"
    return found[Key(what, "", ())].seconds


def _loop_overhead(kind: DeviceKind, found: Found) -> float:
    """Return what a kernel costs besides its work where it was timed: in a loop of its own."""
    return found[Key("issue", "", ())].seconds if Key("operator", "", ()) in found else kind.launch_overhead_s


def _flops_seconds(
    found: Found, what: str, precision: str, kind: DeviceKind | None = None
) -> dict[float, float]:
    """Return seconds by FLOPs. `kind`: the device, whose memory is taken off again where it adds to them."""
    halves = 2.0 if what == "conv_backward" else 1.0  # each of its two gradients is priced by itself
    pairs = [
        (flops_of(what, key.size), _without_memory(kind, what, key, timing.seconds / halves))
        for key, timing in found.items()
        if key.what == what and key.precision == precision
    ]
    return curve_fits.by_size(pairs)


def _without_memory(kind: DeviceKind | None, what: str, key: Key, seconds: float) -> float:
    """Return the seconds of a convolution that the costs leave to its compute."""
    if kind is None or not what.startswith("conv"):
        return seconds
    samples, channels, edge, kernel = (*key.size, 3)[:4]
    elements = 2 * samples * channels * edge**2 + (channels * kernel) ** 2
    return curve_fits.without_memory(kind, dtype_bytes(key.precision) * elements, seconds)


def _moved_seconds(found: Found, what: str = "memory") -> dict[float, float]:
    """Return seconds by bytes of what only moves memory; `memory` states bytes, `update` scalars."""
    each = OPTIMIZERS["adam"].moved_bytes if what == "update" else 1.0
    return curve_fits.by_size(
        (each * key.size[0], timing.seconds) for key, timing in found.items() if key.what == what
    )


def flops_of(what: str, size: tuple[int, ...]) -> float:
    """Count FLOPs: 2 m n k for a product, half of 4 h t^2 w for causal attention, 2 k^2 s c^2 e^2 for a conv.

    The backward of an attention has five products where the forward has two; of the two gradients of a
    convolution each is one.
    """
    a, b, c, *more = size
    if what == "attention_backward":
        return 2 * BACKWARD_PRODUCTS * flops_of("attention", size)
    if what == "product":
        return 2.0 * a * b * c
    kernel = more[0] if more else 3
    return HALF * 4.0 * a * b * b * c if what == "attention" else 2.0 * kernel**2 * a * b * b * c * c


def _short(number: float) -> float:
    """Round to four digits: more digits of a measurement mean nothing."""
    return float(f"{number:.4g}")


def _band(found: Found, *whats: str) -> float:
    return curve_fits.mean_band(timing for key, timing in found.items() if key.what in whats)


def _measured(key: str, where: str, timing: MedianSeconds | None, what: str, band: float = 0.0) -> Source:
    width = round(timing.band, 3) if timing is not None else band
    return Source(key=key, how="measured", reference=f"{where}: {what}", band=width)


def _with_sources(kind: DeviceKind, sources: Sequence[Source]) -> DeviceKind:
    """Put new sources before those that the kind has for the same key."""
    keys = {source.key for source in sources}
    kept = tuple(source for source in kind.sources if source.key not in keys)
    return replace(kind, sources=(*kept, *sources))
