"""Cluster profiles: YAML or JSON files that describe a cluster, bundled by name or anywhere by path.

A profile is data: the fields of `explorer.cluster.Cluster`, quantities as numbers or text with a unit,
together with ``schema: explorer.cluster/1`` and, optionally, ``extends: NAME`` or a list of names. The named
profiles (bundled, or next to the file) are read first and this file's keys override theirs; device kinds are
merged by name, every other list is replaced as a whole. A device kind may itself say ``extends: KIND``: it
takes that kind's numbers with their sources and overrides them with its own (an A100 with less memory). Kinds
that a profile has only because of what it extends are left out if no node has them.

Software costs of a kind are those of the framework it names (``framework: megatron-2021``), overridden by
what the kind itself states (``host_issue_s``, ...); or those under ``software``, which is complete in itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from explorer.base.caching import interned
from explorer.base.errors import InputError
from explorer.base.plain_data import read_document, to_fields, to_plain, validate, write_document
from explorer.base.sample_files import extended_file, merged_sources, named_file, sample_names
from explorer.cluster import Cluster, Curve, DeviceKind, Level, Software
from explorer.cluster.links import PROTOCOL_OPERATIONS
from explorer.cluster.product_times import faster_than_peak
from explorer.framework import MOST_BAND, MOST_ISSUE
from explorer.framework_files import framework_names, load_framework

SCHEMA = "explorer.cluster/1"
"""Format name and version, written in every file."""

LINK_KINDS = (
    "nvlink", "nvswitch", "fabric", "pcie", "infiniband", "ethernet", "internet", "shared_memory"
)  # fmt: skip
"""Kinds of link for which views have a colour and a word."""

HOWS = ("datasheet", "measured", "fitted", "derived", "assumed")
"""Ways in which a number can be known."""

OPERATIONS = (
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "parameter_server",
)  # fmt: skip
"""Collectives whose efficiency a level may state separately."""

MOST_FACTOR = 10.0
"""Largest factor of the seconds that one model's kernels take longer or less long than those of others."""
MOST_EXPOSED = 4.0
"""Largest `exposed_memory` of a device kind: a core that fetches first is at 1, odd layouts cost more."""
_EVENT_KINDS = ("fail", "leave", "join")
_SPOT_CHECKS = 64  # devices between which a profile without an all-joining level is checked, pair by pair


def cluster_names() -> list[str]:
    """List the bundled cluster profiles by name, sorted."""
    return list(sample_names("clusters"))


@interned(64, key_of=lambda cluster: cluster)
def load_cluster(reference: str | Path) -> Cluster:
    """Load a bundled profile by name, or the profile in a YAML or JSON file; the same object as long as that
    says the same.

    >>> load_cluster("dgx-a100").device_count
    8

    Raises:
        InputError: no such name or file, or a wrong file: one line with file, key, value and what is allowed.
    """
    path = named_file(reference, "clusters")
    raw, own = _resolved(path, ())
    raw.pop("schema")
    try:
        if isinstance(kinds := raw.get("device_kinds"), list):
            raw["device_kinds"] = [_with_software(kind, f"device_kinds[{i}]") for i, kind in enumerate(kinds)]
        cluster = validate(to_fields(raw, Cluster), Cluster)
        _check(cluster)
        cluster = _without_strays(cluster, own)
    except InputError as error:
        raise error.within(file=str(path)) from None
    return cluster


def save_cluster(cluster: Cluster, path: str | Path) -> None:
    """Write a cluster so that `load_cluster` gives an equal one back.

    Raises:
        InputError: the file cannot be written, or its suffix is neither YAML's nor JSON's.
    """
    write_document({"schema": SCHEMA, **to_plain(cluster)}, Path(path))


def _resolved(path: Path, below: tuple[Path, ...]) -> tuple[dict[str, Any], frozenset[str]]:
    """Merge the profiles that a profile extends into its plain data, and name its own device kinds.

    `below` lists the files that led here.
    """
    raw, file = read_document(path), str(path)
    if not isinstance(raw, Mapping):
        raise InputError(
            "a profile must be a mapping of keys", file=file, found=raw, allowed=f"schema: {SCHEMA}"
        )
    if raw.get("schema") != SCHEMA:
        found = raw.get("schema")
        message = "missing" if found is None else f"unknown schema {found!r}"
        raise InputError(message, file=file, key="schema", found=found, allowed=SCHEMA)
    own = dict(raw)
    bases = own.pop("extends", [])
    merged: dict[str, Any] = {}
    for name in [bases] if isinstance(bases, str) else bases if isinstance(bases, list) else [None]:
        base = extended_file(name, path, "clusters", below)
        merged = _merged(merged, _resolved(base, (*below, path))[0])
    kinds = own.get("device_kinds")
    names = (
        {str(kind.get("name")) for kind in kinds if isinstance(kind, Mapping)}
        if isinstance(kinds, list)
        else ()
    )
    try:
        return _merged(merged, own), frozenset(names)
    except InputError as error:
        raise error.within(file=file) from None


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = {**base, **over}
    ours, theirs = over.get("device_kinds"), base.get("device_kinds", [])
    if isinstance(ours, list) and isinstance(theirs, list) and all(isinstance(k, Mapping) for k in ours):
        kinds: dict[Any, dict[str, Any]] = {
            kind["name"]: dict(kind)
            for kind in theirs
            if isinstance(kind, Mapping) and isinstance(kind.get("name"), str)
        }
        for i, kind in enumerate(ours):
            name = kind["name"] if isinstance(kind.get("name"), str) else i
            kinds[name] = _over(kinds.get(name, {}), _inherited(kind, kinds, f"device_kinds[{i}]"))
        result["device_kinds"] = list(kinds.values())
    elif ours is None and theirs:
        result["device_kinds"] = theirs
    return result


def _inherited(kind: Mapping[str, Any], known: Mapping[Any, Any], key: str) -> dict[str, Any]:
    """Merge a device kind with the one it extends; of two sources for a field its own stays.

    Raises:
        InputError: no profile above it has such a kind.
    """
    own = dict(kind)
    if "extends" not in own:
        return own
    parent = own.pop("extends")
    if not isinstance(parent, str) or parent not in known or parent == own.get("name"):
        raise InputError(
            f"cannot extend the device kind {parent!r}",
            key=f"{key}.extends",
            found=parent,
            allowed=f"a kind above it or of a profile extended: {', '.join(map(str, known)) or 'none'}",
        )
    base = _one_way({key: value for key, value in known[parent].items() if key not in _OWN}, own)
    told = base.get("sources", [])
    if isinstance(told, list):
        base = {**base, "sources": [item for item in told if not _is_of(item, _OWN)]}
    result = _over(base, own)
    result["like"] = [parent, *_parents(base)]
    result["sources"] = merged_sources(base.get("sources", []), own.get("sources", []))
    return result


def _one_way(base: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a kind for another over it that says in another way what products reach: by kernels of each
    precision, or by tiles and a curve as profiles did before.
    """
    curves = base.get("efficiency"), own.get("efficiency")
    mine = {"sustained"} & set(curves[1]) if isinstance(curves[1], Mapping) else set()
    left_out: tuple[str, ...] = _KERNELS
    if "product_kernels" in own:
        left_out = _TILES
        if isinstance(curves[0], Mapping):
            kept = {name: curve for name, curve in curves[0].items() if name != "sustained"}
            base = {**base, "efficiency": kept}
    elif not mine and not own.keys() & set(_TILES):
        return base
    told = base.get("sources", [])
    if isinstance(told, list):
        kept_sources = [item for item in told if not _is_of(item, left_out)]
        base = {**base, "sources": kept_sources} if kept_sources != told else base
    return {key: value for key, value in base.items() if key not in left_out}


def _is_of(source: Any, keys: tuple[str, ...]) -> bool:
    return isinstance(source, Mapping) and source.get("key") in keys


_OWN = ("measured_products",)
"""What was measured on one kind and holds for no other."""
_KERNELS = ("product_kernels", "settled_fraction")
_TILES = ("tiles", "tiles.small", "tile_depth", "efficiency.sustained")
"""What products reach, said in one way and in the other, and the keys of its sources."""
_COSTS = (
    "host_issue_s", "backward_issue", "action_overhead_s", "cached_fraction", "expert_issue_s", "cast_bytes",
    "memory_band",
)  # fmt: skip
"""Numbers of software that a device kind may state as its own."""


def _over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Override a kind's keys by its own; a kind that names software takes no software number of the other."""
    if "software" in own or "framework" in own:
        base = {key: value for key, value in base.items() if key not in ("software", "framework", *_COSTS)}
    return {**_one_way(base, own), **own}


def _with_software(kind: Any, key: str) -> Any:
    """Gather everything a device kind says of software, and its sources, in one place.

    Raises:
        InputError: an unknown framework, or `software` that is not a mapping.
    """
    if not isinstance(kind, Mapping) or not kind.keys() & {"framework", *_COSTS}:
        return kind
    own = dict(kind)
    name, stated = own.pop("framework", ""), own.pop("software", {})
    if name not in ("", *framework_names()):
        _refuse(f"{key}.framework", name, ", ".join(framework_names()))
    if not isinstance(stated, Mapping):
        _refuse(f"{key}.software", stated, "what software costs: framework, host_issue_s, ...")
    numbers = {number: own.pop(number) for number in _COSTS if number in own}
    names = [str(item) for item in (own.get("name"), *_parents(own))]
    usual = to_plain(load_framework(name).software_on(*names)) if name else {}
    given = own.get("sources", [])
    told = [source for source in given if isinstance(source, Mapping)] if isinstance(given, list) else []
    moved = [source for source in told if source.get("key") in _COSTS]
    if moved:
        own["sources"] = [source for source in given if source not in moved]
    usual_sources = [source for source in usual.get("sources", []) if source["key"] not in numbers]
    sources = merged_sources(usual_sources, stated.get("sources", []), moved)
    return {**own, "software": {**usual, **stated, **numbers, "sources": sources}}


def _parents(kind: Mapping[str, Any]) -> list[Any]:
    """List the kinds that a kind extends; anything but a list is left for its reader to refuse."""
    found = kind.get("like", [])
    return found if isinstance(found, list) else []


def _without_strays(cluster: Cluster, own: frozenset[str]) -> Cluster:
    """Drop device kinds that no node has, except those that the profile's own file lists."""
    wanted = own | {group.device_kind for group in cluster.nodes}
    kept = tuple(kind for kind in cluster.device_kinds if kind.name in wanted)
    return cluster if len(kept) == len(cluster.device_kinds) else replace(cluster, device_kinds=kept)


def _check(cluster: Cluster) -> None:
    """Check what no single part can check for itself.

    Raises:
        InputError: the first error found.
    """
    _check_names(cluster)
    for i, kind in enumerate(cluster.device_kinds):
        _check_kind(kind, f"device_kinds[{i}]")
        _check_attention(kind, f"device_kinds[{i}]")
    for i, group in enumerate(cluster.nodes):
        if group.max_count and group.max_count < group.count:
            _refuse(f"nodes[{i}].max_count", group.max_count, f"0, or at least count = {group.count}")
    for i, level in enumerate(cluster.levels):
        _check_level(level, f"levels[{i}]")
    _check_links(cluster)
    _check_connected(cluster)


def _refuse(key: str, found: object, allowed: str) -> None:
    raise InputError(f"{found!r} is not valid", key=key, found=found, allowed=allowed)


def _check_names(cluster: Cluster) -> None:
    for key, names in (
        ("device_kinds", [kind.name for kind in cluster.device_kinds]),
        ("levels", [level.name for level in cluster.levels]),
        ("shared", [name for name, _ in cluster.shared]),
    ):
        repeated = [name for i, name in enumerate(names) if name in names[:i]]
        if repeated:
            raise InputError(
                f"the name {repeated[0]!r} stands twice", key=key, found=repeated[0], allowed="each name once"
            )
    parts = (
        ("sources", cluster.sources),
        *((f"device_kinds[{i}].sources", kind.sources) for i, kind in enumerate(cluster.device_kinds)),
        *(
            (f"device_kinds[{i}].software.sources", kind.software.sources)
            for i, kind in enumerate(cluster.device_kinds)
        ),
        *(
            (f"device_kinds[{i}].attention_kernels[{j}].sources", kernel.sources)
            for i, kind in enumerate(cluster.device_kinds)
            for j, kernel in enumerate(kind.attention_kernels)
        ),
        *((f"levels[{i}].sources", level.sources) for i, level in enumerate(cluster.levels)),
    )
    for key, sources in parts:
        for j, source in enumerate(sources):
            if source.how not in HOWS:
                _refuse(f"{key}[{j}].how", source.how, ", ".join(HOWS))
            if source.fitted_on and source.prior is None:
                _refuse(f"{key}[{j}].prior", source.prior, "what was believed before it was fitted on rows")


def _check_kind(kind: DeviceKind, key: str) -> None:
    for name, curve in kind.efficiency:
        _check_curve(curve, f"{key}.efficiency.{name}")
        if name == "sustained":
            _check_sustained(curve, f"{key}.efficiency.{name}")
    if kind.compute_units < 0:
        _refuse(f"{key}.compute_units", kind.compute_units, "0 (unknown) or more")
    for name in ("unaligned_fraction", "settled_fraction", "fp8_gradient_fraction"):
        if not 0 < getattr(kind, name) <= 1:
            _refuse(f"{key}.{name}", getattr(kind, name), "a fraction in (0, 1]")
    _check_software(kind.software, key)
    if kind.exposed_memory > MOST_EXPOSED:
        _refuse(f"{key}.exposed_memory", kind.exposed_memory, f"0 to {MOST_EXPOSED:g}")
    for name in ("overlap_slowdown", "busy_slowdown", "device_spread"):
        if getattr(kind, name) > 1:
            _refuse(f"{key}.{name}", getattr(kind, name), "0 to 1: 0.05 is 5 %")
    _check_models(kind, key)
    _check_products(kind, key)
    for precision, times in kind.measured_products:
        found = faster_than_peak(times, kind.peak(precision))
        if found is not None:
            _refuse(
                f"{key}.measured_products.{precision}", found,
                f"seconds of 2 m n k FLOPs at the peak of {kind.peak(precision):.4g} FLOP/s or more",
            )  # fmt: skip


def _check_products(kind: DeviceKind, key: str) -> None:
    if kind.product_kernels and (kind.tiles or kind.tile_depth or "sustained" in dict(kind.efficiency)):
        _refuse(
            f"{key}.product_kernels", "tiles, tile_depth or a sustained curve beside them",
            "one or the other: product_kernels stand for all of these",
        )  # fmt: skip
    if kind.product_kernels and not kind.compute_units:
        _refuse(f"{key}.compute_units", kind.compute_units, "1 or more: tiles are dealt to compute units")
    if kind.settled_fraction < 1 and not kind.product_kernels:
        _refuse(f"{key}.settled_fraction", kind.settled_fraction, "1 without product_kernels")
    if kind.tiles and not kind.compute_units:
        _refuse(f"{key}.compute_units", kind.compute_units, "1 or more: tiles are dealt to compute units")
    shapes = [(tile.rows, tile.columns) for tile in kind.tiles]
    for i, shape in enumerate(shapes):
        if shape in shapes[:i]:
            _refuse(f"{key}.tiles[{i}]", f"{shape[0]} x {shape[1]}", "each shape of a tile once")


def _check_attention(kind: DeviceKind, key: str) -> None:
    if kind.attention_kernels and not kind.compute_units:
        _refuse(
            f"{key}.compute_units", kind.compute_units, "1 or more: blocks of attention are dealt to them"
        )
    names = [kernel.name for kernel in kind.attention_kernels]
    for i, name in enumerate(names):
        if name in names[:i]:
            _refuse(f"{key}.attention_kernels[{i}].name", name, "each kernel once")


def _check_models(kind: DeviceKind, key: str) -> None:
    for model, factor in kind.model_seconds:
        if not 1 / MOST_FACTOR <= factor <= MOST_FACTOR:
            _refuse(f"{key}.model_seconds.{model}", factor, f"1/{MOST_FACTOR:g} to {MOST_FACTOR:g}")


def _check_software(software: Software, key: str) -> None:
    for name, value, most in (
        ("cached_fraction", software.cached_fraction, 1.0),
        ("memory_band", software.memory_band, MOST_BAND),
        ("backward_issue", software.backward_issue, MOST_ISSUE),
    ):
        if value > most:
            _refuse(f"{key}.{name}", value, f"a fraction, 0 to {most:g}")


def _check_sustained(curve: Curve, key: str) -> None:
    """Check that clocks fall as products go on; if they rose, more work could take less time."""
    fractions = [fraction for _, fraction in curve.points]
    if any(before < after for before, after in pairwise(fractions)):
        _refuse(f"{key}.points", fractions, "fractions that do not rise")


def _check_curve(curve: Curve, key: str) -> None:
    sizes = [size for size, _ in curve.points]
    if sizes[0] <= 0 or any(low >= high for low, high in pairwise(sizes)):
        _refuse(f"{key}.points", sizes, "sizes above 0, each larger than the one before")


def _check_level(level: Level, key: str) -> None:
    if level.kind not in LINK_KINDS:
        _refuse(f"{key}.kind", level.kind, ", ".join(LINK_KINDS))
    if not 0 < level.collective_efficiency <= 1:
        _refuse(f"{key}.collective_efficiency", level.collective_efficiency, "a fraction in (0, 1]")
    for name, fraction in level.operation_efficiency:
        if name not in OPERATIONS:
            _refuse(f"{key}.operation_efficiency.{name}", name, ", ".join(OPERATIONS))
        if not 0 < fraction <= 1:
            _refuse(f"{key}.operation_efficiency.{name}", fraction, "a fraction in (0, 1]")
    usual = [item for item in level.protocols if not item.in_switch]  # a switch adds up below itself alone
    for name in PROTOCOL_OPERATIONS if level.protocols else ():
        if not any(item.does(name) for item in usual):
            names = ", ".join(item.name for item in level.protocols)
            _refuse(f"{key}.protocols", names, f"a protocol outside of the switch that does {name}")


def _check_links(cluster: Cluster) -> None:
    shared = dict(cluster.shared)
    names = ", ".join(shared) or "none given"
    for i, link in enumerate(cluster.links):
        if link.kind not in LINK_KINDS:
            _refuse(f"links[{i}].kind", link.kind, ", ".join(LINK_KINDS))
        if link.bandwidth_bytes_per_s <= 0:
            _refuse(f"links[{i}].bandwidth_bytes_per_s", link.bandwidth_bytes_per_s, "> 0")
        if link.shared and link.shared not in shared:
            _refuse(f"links[{i}].shared", link.shared, f"a name in shared: {names}")
        if not 0 < link.collective_efficiency <= 1:
            _refuse(f"links[{i}].collective_efficiency", link.collective_efficiency, "a fraction in (0, 1]")
    for name, capacity in cluster.shared:
        if capacity <= 0:
            _refuse(f"shared.{name}", capacity, "> 0 bytes/s")
    for i, event in enumerate(cluster.events):
        if event.kind not in _EVENT_KINDS:
            _refuse(f"events[{i}].kind", event.kind, ", ".join(_EVENT_KINDS))
        if not 0 <= event.device < cluster.device_count:
            _refuse(f"events[{i}].device", event.device, f"0 to {cluster.device_count - 1}")


def _check_connected(cluster: Cluster) -> None:
    if cluster.device_count == 1 or any(level.scope == "all" for level in cluster.levels):
        return
    some = range(min(cluster.device_count, _SPOT_CHECKS))
    for source in some:
        for target in some:
            cluster.path(source, target)
    cluster.path(0, cluster.device_count - 1)
