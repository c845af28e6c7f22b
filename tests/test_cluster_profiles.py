"""Cluster profiles: every bundled one, exact round trips, inheritance, and one clear line for bad files."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.base.formats import LEAST_NUMBER
from explorer.base.plain_data import parse_document, to_plain
from explorer.base.sample_files import sample_folder
from explorer.cluster import (
    AttentionKernel,
    Cluster,
    Curve,
    DeviceKind,
    Event,
    HeadSpeed,
    Level,
    Link,
    NodeGroup,
    ProductKernels,
    ProductTimes,
    Protocol,
    Quantising,
    Software,
    Source,
    Tile,
)  # fmt: skip
from explorer.cluster.calibration import Calibration, MeasuredStep
from explorer.cluster_profiles import (
    LINK_KINDS,
    OPERATIONS,
    SCHEMA,
    cluster_names,
    load_cluster,
    save_cluster,
)
from explorer.costs.collectives import ALGORITHMS

SIZES = {
    "dgx-1-v100": (1, 8), "dgx-1-v100-32": (32, 256),
    "dgx-a100": (1, 8), "dgx-a100-4": (4, 32), "dgx-a100-128": (128, 1024),
    "hgx-h100": (1, 8), "hgx-h100-16": (16, 128), "hgx-h100-2048": (2048, 16384),
    "rtx4090-pcie-4": (1, 4), "ethernet-10g-4x4": (4, 16), "mixed-v100-a100": (3, 16),
    "a100-800g-64": (64, 512), "dgx-a100-40gb": (1, 8), "a100-pcie": (1, 8),
    "h200": (1, 8), "h200-2": (2, 16), "torchtitan-h100": (1, 8), "torchtitan-h100-64": (64, 512),
    "gh200-4": (1, 4), "gh200-4x8": (8, 32), "gh200-4x32": (32, 128),
    "b200": (1, 8), "gb200-nvl72": (18, 72), "mixed-rtx": (6, 48), "cpu-2": (1, 2),
    "pipedream-a": (4, 16), "pipedream-b": (2, 16), "dapple-a": (2, 16), "dapple-b": (16, 16),
    "dapple-c": (16, 16),
}  # fmt: skip

SMALL = """\
schema: explorer.cluster/1
name: small
device_kinds:
  - name: box
    memory_bytes: 16 GiB
    memory_bandwidth_bytes_per_s: 900 GB/s
    peak_flops_per_s: {fp16: 125 TFLOP/s}
    efficiency: {matmul: {points: [[1e6, 0.1], [1e9, 0.8]]}}
nodes:
  - {count: 2, device_kind: box, devices_per_node: 2}
levels:
  - {name: bus, kind: pcie, scope: node, latency_s: 5 us, bandwidth_bytes_per_s: 10 GB/s}
  - {name: net, kind: ethernet, scope: all, latency_s: 30 us, bandwidth_bytes_per_s: 10 Gbit/s}
"""


def write(folder: Path, text: str, name: str = "small.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------------------ bundled


def test_bundled_names_and_sizes() -> None:
    assert {name: (load_cluster(name).node_count, load_cluster(name).device_count) for name in SIZES} == SIZES
    assert set(SIZES) <= set(cluster_names())


@pytest.mark.parametrize("name", cluster_names())
def test_bundled_profile(name: str, tmp_path: Path) -> None:
    cluster = load_cluster(name)
    assert cluster.name == name
    assert cluster.title
    for suffix in ("yaml", "json"):
        save_cluster(cluster, tmp_path / f"copy.{suffix}")
        assert load_cluster(tmp_path / f"copy.{suffix}") == cluster


@pytest.mark.parametrize("name", cluster_names())
def test_bundled_profile_is_connected(name: str) -> None:
    cluster = load_cluster(name)
    last = cluster.device_count - 1
    first_of_nodes = [
        d for d in range(min(64, last + 1)) if d == 0 or cluster.node_of(d) != cluster.node_of(d - 1)
    ]
    for source in (*range(min(16, last + 1)), *first_of_nodes, last):
        for target in (*range(min(16, last + 1)), last):
            path = cluster.path(source, target)
            assert path.bandwidth_bytes_per_s > 0
            # one transfer alone must fit the shared resources it meets
            assert all(capacity >= path.bandwidth_bytes_per_s for _, capacity in path.resources)


def unsourced(part: Any, sources: tuple[Source, ...]) -> list[str]:
    """Numbers of a part that are given and have no source, neither by name nor by `*`."""
    known = {source.key for source in sources}
    return [
        item.name
        for item in fields(part)
        if isinstance(getattr(part, item.name), (int, float, tuple))
        and item.name != "sources"
        and getattr(part, item.name) not in (item.default, ())
        and not {item.name, "*"} & known
    ]


@pytest.mark.parametrize("name", cluster_names())
def test_every_number_has_a_source(name: str) -> None:
    cluster = load_cluster(name)
    software = [kind.software for kind in cluster.device_kinds]
    for costs in software:
        own = {source.key for source in costs.sources}
        assert costs.framework
        for field in ("host_issue_s", "action_overhead_s", "cached_fraction"):
            assert not getattr(costs, field) or field in own, f"{costs.framework}.{field}"
    parts = [*cluster.device_kinds, *cluster.levels]
    for part in parts:
        assert not unsourced(part, part.sources), part.name
        # what no data sheet says must say where else it is from
        own = {source.key for source in part.sources}
        for field in (
            "efficiency",
            "tiles",
            "tile_depth",
            "unaligned_fraction",
            "launch_overhead_s",
            "overlap_slowdown",
            "exposed_memory",
            "busy_slowdown",
            "price_per_hour",
            "reserved_bytes",
            "collective_efficiency",
            "operation_efficiency",
            "collective_overhead_s",
            "protocols",
            "crossing_slowdown",
        ):
            if hasattr(part, field) and getattr(part, field) not in ((), 0.0, 1.0):
                assert field in own, f"{part.name}.{field}"
    assert any(source.key == "*" for source in cluster.sources)
    for source in (s for part in (*parts, *software, cluster) for s in part.sources):
        assert len(source.reference) > 15
        assert source.how != "assumed" or source.band or source.key == "*"


def test_unsourced_finds_one() -> None:
    level = Level(name="x", kind="pcie", scope="all", latency_s=1e-6, bandwidth_bytes_per_s=1.0)
    assert unsourced(level, ()) == ["latency_s", "bandwidth_bytes_per_s"]


def test_published_figures() -> None:
    a100 = load_cluster("dgx-a100")
    kind = a100.device_kinds[0]
    assert (kind.memory_bytes, kind.peak("bf16")) == (80 * 2**30, 312e12)
    assert a100.path(0, 7).bandwidth_bytes_per_s == 300e9
    network = load_cluster("dgx-a100-4").path(0, 31)
    assert network.bandwidth_bytes_per_s == 25e9
    assert {capacity for _, capacity in network.resources} == {200e9}
    cube = load_cluster("dgx-1-v100")
    assert [sum(link.bandwidth_bytes_per_s for link in cube.links if link.source == d) for d in range(8)] == [
        150e9
    ] * 8
    assert {(link.source, link.target) for link in cube.links} == {
        (link.target, link.source) for link in cube.links
    }


def test_larger_variants_share_the_smaller_ones_numbers() -> None:
    small, large = load_cluster("hgx-h100"), load_cluster("hgx-h100-2048")
    assert (small.device_kinds, small.levels) == (large.device_kinds, large.levels)


def test_mixed_profile_has_two_kinds_and_uneven_nodes() -> None:
    cluster = load_cluster("mixed-v100-a100")
    assert {cluster.kind_of(0).name, cluster.kind_of(15).name} == {"v100-sxm2-16gb", "a100-sxm-80gb"}
    assert {group.devices_per_node for group in cluster.nodes} == {4, 8}
    assert cluster.path(0, 1).kind == "nvlink"
    assert cluster.path(8, 9).kind == "nvswitch"


# ------------------------------------------------------------------------------------------- round trips


def test_every_field_survives_a_file(tmp_path: Path) -> None:
    source = Source(key="*", how="measured", reference="a run, 2024", band=0.1)
    kind = DeviceKind(
        name="k", memory_bytes=1e10 / 3, memory_bandwidth_bytes_per_s=1e12 / 7,
        peak_flops_per_s=(("bf16", 1e14 / 3), ("fp32", 1e13)),
        efficiency=(("matmul", Curve(points=((1.0, 0.1), (1e9 / 7, 1 / 3)))),),
        maker="Maker", generation="First",
        compute_units=4, tiles=(Tile(rows=64, columns=32, fraction=1 / 3),), tile_depth=1.5,
        attention_kernels=(
            AttentionKernel(
                name="flash-1", heads=(HeadSpeed(head=64, forward=1 / 3, backward=0.2),), rows=64, columns=32,
                imbalance=1 / 7, exposed=0.3, start_s=1e-5 / 3, sustained=0.1, sources=(source,),
            ),
        ),
        measured_products=(("bf16", ProductTimes(points=((4.0, 5.0, 6.0, 1 / 7),))),),
        unaligned_fraction=0.25, fp8_gradient_fraction=0.5, overlap_slowdown=0.1,
        busy_slowdown=0.3, exposed_memory=0.7,
        model_seconds=(("gpt", 1 / 3),),
        launch_overhead_s=1e-6, device_spread=0.01, lockstep_wait=0.2, reserved_bytes=3.0,
        memory_margin="surely", host_bandwidth_bytes_per_s=5.0,
        software=Software(framework="made", host_issue_s=2e-6, action_overhead_s=3e-6, cached_fraction=0.3,
                              memory_band=0.1, cast_bytes=6.0, backward_issue=0.7,
                          sources=(source,)),
        compute_lanes=2, like=("m", "n"),
        price_per_hour=0.1, idle_watts=1.0, busy_watts=2.0, sources=(source,),
    )  # fmt: skip
    heads = (HeadSpeed(head=64, forward=0.3, backward=0.2),)
    by_kernels = replace(
        kind, name="k2", tiles=(), tile_depth=0.0, settled_fraction=0.9,
        attention_kernels=(AttentionKernel(name="flash-2", heads=heads, rows=128, columns=64),),
        product_kernels=(("bf16", ProductKernels(
            tiles=kind.tiles, splits=(1, 3), tile_depth=7.0, partial_wave=0.5, memory_fraction=0.7,
            exposed_memory=0.1, sustained=((1e-6, 1.0), (1e-3, 0.8)), uneven_rows_fraction=0.9, start_s=1e-6,
            quantising=Quantising(depth_s=1e-9, row_s=1 / 3e9, element_bytes=7.5),
        )),),
    )  # fmt: skip
    cluster = Cluster(
        name="all", device_kinds=(kind, by_kernels), title="1: yes",
        nodes=(NodeGroup(count=1, device_kind="k", devices_per_node=4, max_count=3),),
        levels=(
            Level(name="a", kind="pcie", scope=2, latency_s=1 / 3, bandwidth_bytes_per_s=7.0,
                  device_bytes_per_s=8.0, collective_efficiency=0.5, collective_overhead_s=1 / 7,
                  crossing_slowdown=0.2,
                  operation_efficiency=(("all_gather", 0.25), ("all_to_all", 1 / 3)), sources=(source,),
                  protocols=(Protocol(name="flags", overhead_s=1 / 7, step_s=1 / 9, slice_s=1 / 11,
                                      shares=(("all_reduce", 1 / 3),), own_copy=(("all_reduce", 1 / 7),),
                                      in_switch=True),
                             Protocol(name="plain"))),
            Level(name="b", kind="ethernet", scope="all", latency_s=0.0, bandwidth_bytes_per_s=1.0,
                  uplink_bytes_per_s=2.0),
        ),
        links=(
            Link(source=0, target=1, kind="nvlink", latency_s=0.1, bandwidth_bytes_per_s=2.0, shared="s"),
        ),
        shared=(("s", 12.5),), events=(Event(time_s=1.5, device=3, kind="leave"),), sources=(source,),
        calibration=Calibration(
            priors=(("k.compute", 1 / 3),),
            steps=(MeasuredStep(name="a", step_time_s=1.5, sd=0.05, slopes=(("k.compute", 1 / 7),)),),
        ),
    )  # fmt: skip
    kernels = by_kernels.product_kernels[0][1]
    one_way = {"tiles", "tile_depth"}, {"product_kernels", "settled_fraction", "attention_kernels"}
    for part, others in (
        (cluster, set()), (kind, one_way[1]), (by_kernels, one_way[0]), (cluster.levels[0], set()),
        (kernels, set()), (kernels.quantising, set()),
    ):  # fmt: skip
        same = {f.name for f in fields(part) if f.init and getattr(part, f.name) == f.default}
        assert same <= {"uplink_bytes_per_s"} | others, "this test must set every field"
    for name in ("a.yaml", "a.yml", "a.json"):
        save_cluster(cluster, tmp_path / name)
        assert load_cluster(tmp_path / name) == cluster


@given(
    st.floats(min_value=LEAST_NUMBER, max_value=1e30),
    st.just(0.0) | st.floats(min_value=LEAST_NUMBER, max_value=1e3),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12),
)
def test_numbers_and_names_survive_text(size: float, latency: float, name: str) -> None:
    level = Level(name=name, kind="pcie", scope="all", latency_s=latency, bandwidth_bytes_per_s=size)
    assert json.loads(json.dumps(to_plain(level)))["bandwidth_bytes_per_s"] == size
    import yaml

    assert parse_document(yaml.safe_dump(to_plain(level))) == to_plain(level)


def test_quantities_with_units(tmp_path: Path) -> None:
    cluster = load_cluster(write(tmp_path, SMALL))
    assert cluster.device_kinds[0].memory_bytes == 16 * 2**30
    assert cluster.path(0, 2).bandwidth_bytes_per_s == 1.25e9
    assert cluster.path(0, 1).latency_s == pytest.approx(5e-6)
    assert cluster.device_kinds[0].efficiency[0][1].at(1e9) == 0.8


# ------------------------------------------------------------------------------------------- inheritance


def test_extends_a_bundled_profile_and_a_sibling(tmp_path: Path) -> None:
    head = f"schema: {SCHEMA}\n"
    write(tmp_path, f"{head}extends: dgx-a100\nname: base\ntitle: mine\n", "base.yaml")
    text = f"{head}extends: base\nname: top\ndevice_kinds: [{{name: a100-sxm-80gb, price_per_hour: 1}}]\n"
    top = load_cluster(write(tmp_path, text, "top.yaml"))
    bundled = load_cluster("dgx-a100")
    assert top.title == "mine"
    assert top.levels == bundled.levels
    assert top.device_kinds == (replace(bundled.device_kinds[0], price_per_hour=1.0),)


def test_extends_several_merges_kinds_by_name(tmp_path: Path) -> None:
    text = (
        f"schema: {SCHEMA}\nextends: [dgx-a100, hgx-h100]\nname: both\n"
        "nodes: [{count: 1, device_kind: a100-sxm-80gb, devices_per_node: 2},"
        " {count: 1, device_kind: h100-sxm-80gb, devices_per_node: 2}]\n"
    )
    cluster = load_cluster(write(tmp_path, text))
    assert [kind.name for kind in cluster.device_kinds] == ["a100-sxm-80gb", "h100-sxm-80gb"]
    assert cluster.levels == load_cluster("hgx-h100").levels


def test_a_device_kind_extends_another_with_its_sources(tmp_path: Path) -> None:
    text = (
        f"schema: {SCHEMA}\nextends: dgx-a100\nname: smaller\n"
        "device_kinds: [{name: half, extends: a100-sxm-80gb, memory_bytes: 40 GiB,"
        " sources: [{key: memory_bytes, how: assumed, reference: half of it}]}]\n"
        "nodes: [{count: 1, device_kind: half, devices_per_node: 2}]\n"
    )
    parent = load_cluster("dgx-a100").device_kinds[0]
    (kind,) = load_cluster(write(tmp_path, text)).device_kinds  # the other is nobody's
    own = Source(key="memory_bytes", how="assumed", reference="half of it")
    assert kind == replace(
        parent, name="half", memory_bytes=40 * 2**30, sources=(*parent.sources, own), like=(parent.name,)
    )


def test_an_own_source_goes_before_that_of_the_kind_extended(tmp_path: Path) -> None:
    kind = load_cluster("a100-pcie").device_kinds[0]
    keys = [source.key for source in kind.sources]
    assert len(keys) == len(set(keys))
    assert {s.reference for s in kind.sources if s.key == "*"} == {
        "NVIDIA A100 80GB PCIe product brief, 2021"
    }
    assert kind.efficiency == load_cluster("dgx-a100").device_kinds[0].efficiency


def test_a_kind_that_the_file_lists_stays_though_no_node_has_it(tmp_path: Path) -> None:
    spare = "  - {name: spare, extends: box, memory_bytes: 1 GiB}\nnodes:"
    cluster = load_cluster(write(tmp_path, SMALL.replace("nodes:", spare, 1)))
    assert [kind.name for kind in cluster.device_kinds] == ["box", "spare"]
    save_cluster(cluster, tmp_path / "again.yaml")
    assert load_cluster(tmp_path / "again.yaml") == cluster


def test_operations_are_those_that_collectives_know() -> None:
    assert set(OPERATIONS) == set(ALGORITHMS)


# --------------------------------------------------------------------------------------------- bad files

LEVELS = "levels:"


def link(ends: str, bandwidth: int) -> str:
    """An explicit link before the levels."""
    return (
        f"links: [{{source: {ends}, kind: pcie, latency_s: 0, bandwidth_bytes_per_s: {bandwidth}}}]\nlevels:"
    )


TILE = "{rows: 8, columns: 8, fraction: 0.5}"

BAD = {
    "unknown key": ("name: small", "nmae: small", "nmae", "did you mean 'name'"),
    "unknown key inside": ("kind: pcie,", "knid: pcie,", "levels[0].knid", "kind"),
    "missing key": ("    memory_bytes: 16 GiB\n", "", "device_kinds[0].memory_bytes", "missing"),
    "wrong unit": ("16 GiB", "16 GB/s", "device_kinds[0].memory_bytes", "16 GB/s"),
    "no number": ("900 GB/s", "fast", "device_kinds[0].memory_bandwidth_bytes_per_s", "fast"),
    "negative": ("5 us", "-5 us", "levels[0].latency_s", "-5 us"),
    "not finite": ("5 us", ".inf", "levels[0].latency_s", "inf"),
    "not a number": ("5 us", ".nan", "levels[0].latency_s", "nan"),
    "a truth for a number": ("5 us", "true", "levels[0].latency_s", "True"),
    "a truth for a count": ("count: 2", "count: true", "nodes[0].count", "True"),
    "text for a count": ("count: 2", "count: two", "nodes[0].count", "two"),
    "half a node": ("count: 2", "count: 2.5", "nodes[0].count", "2.5"),
    "no node": ("count: 2", "count: 0", "nodes[0].nodes", ">= 1"),
    "unknown device kind": ("device_kind: box", "device_kind: bax", "nodes[0].device_kind", "bax"),
    "unknown link kind": ("kind: pcie", "kind: string", "levels[0].kind", "string"),
    "wrong scope": ("scope: node", "scope: rack", "levels[0].scope", "rack"),
    "no bandwidth": ("10 GB/s", "0", "levels[0].bandwidth_bytes_per_s", "> 0"),
    "not joined": ("scope: all", "scope: 2", "levels", "not connected"),
    "level twice": ("name: net", "name: bus", "levels", "'bus' stands twice"),
    "no peak": ("{fp16: 125 TFLOP/s}", "{}", "device_kinds[0].peak_flops_per_s", "peak above 0"),
    "peak is no mapping": ("{fp16: 125 TFLOP/s}", "[1, 2]", "device_kinds[0].peak_flops_per_s", "a mapping"),
    "curve above peak": ("[1e9, 0.8]", "[1e9, 1.8]", "device_kinds[0].efficiency.matmul.points", "(0, 1]"),
    "curve descends": ("[1e6, 0.1]", "[1e10, 0.1]", "device_kinds[0].efficiency.matmul.points", "ascending"),
    "curve doubles": ("[1e6, 0.1]", "[1e9, 0.1]", "device_kinds[0].efficiency.matmul.points", "larger"),
    "curve is no list": ("[1e6, 0.1]", "5", "device_kinds[0].efficiency.matmul.points", "[[size, fraction]"),
    "list for a mapping": (
        "{count: 2, device_kind: box, devices_per_node: 2}", "[2]", "nodes[0]", "a mapping"
    ),
    "mapping for a list": ("  - {count: 2,", "  {count: 2,", "nodes", "a list"),
    "key twice": ("name: small\n", "name: small\nname: other\n", "name", "given twice"),
    "wrong version": ("cluster/1", "cluster/9", "schema", SCHEMA),
    "no version": ("schema: explorer.cluster/1\n", "", "schema", SCHEMA),
    "unknown base": ("name: small\n", "name: small\nextends: nowhere\n", "extends", "nowhere"),
    "base outside": ("name: small\n", "name: small\nextends: ../small\n", "extends", "../small"),
    "base is itself": ("name: small\n", "name: small\nextends: small\n", "extends", "small -> small"),
    "base is a number": ("name: small\n", "name: small\nextends: 3\n", "extends", "None"),
    "syntax": ("name: small", "name: [small", "", "line"),
    "runs code": ("name: small", "name: !!python/object/apply:os.getcwd []", "", "plain YAML"),
    "pool smaller than count": ("count: 2,", "count: 2, max_count: 1,", "nodes[0].max_count", "count = 2"),
    "link to nowhere": (LEVELS, link("0, target: 9", 1), "links[0]", "0 to 3"),
    "link through nothing": (LEVELS, link("0, target: 1, shared: hub", 1), "links[0].shared", "hub"),
    "slow link": (LEVELS, link("0, target: 1", 0), "links[0].bandwidth_bytes_per_s", "> 0"),
    "unknown event": (
        LEVELS, "events: [{time_s: 1, device: 0, kind: nap}]\nlevels:", "events[0].kind", "nap"
    ),
    "kind extends nobody": (
        "memory_bytes: 16 GiB", "extends: bax\n    memory_bytes: 16 GiB", "device_kinds[0].extends", "bax"
    ),
    "kind extends itself": (
        "memory_bytes: 16 GiB", "extends: box\n    memory_bytes: 16 GiB", "device_kinds[0].extends", "box"
    ),
    "tiles without units": (
        "efficiency:", "tiles: [{rows: 8, columns: 8, fraction: 1}]\n    efficiency:",
        "device_kinds[0].compute_units", "1 or more",
    ),
    "tile twice": (
        "efficiency:",
        f"compute_units: 4\n    tiles: [{TILE}, {TILE}]\n    efficiency:",
        "device_kinds[0].tiles[1]", "8 x 8",
    ),
    "tile above peak": (
        "efficiency:", "compute_units: 4\n    tiles: [{rows: 8, columns: 8, fraction: 2}]\n    efficiency:",
        "device_kinds[0].tiles[0].tiles", "(0, 1]",
    ),
    "less than no units": (
        "efficiency:", "compute_units: -4\n    efficiency:", "device_kinds[0].compute_units", "-4"
    ),
    "no speed left": (
        "efficiency:", "unaligned_fraction: 0\n    efficiency:",
        "device_kinds[0].unaligned_fraction", "allowed",
    ),
    "slower than nothing": (
        "efficiency:", "overlap_slowdown: 5\n    efficiency:", "device_kinds[0].overlap_slowdown", "0 to 1"
    ),
    "clocks that rise": (
        "efficiency: {", "efficiency: {sustained: {points: [[1, 0.5], [2, 0.6]]}, ",
        "device_kinds[0].efficiency.sustained.points", "do not rise",
    ),
    "unknown operation": (
        "kind: pcie,", "kind: pcie, operation_efficiency: {all_reduced: 0.5},",
        "levels[0].operation_efficiency.all_reduced", "all_reduce",
    ),
    "operation above the link": (
        "kind: pcie,", "kind: pcie, operation_efficiency: {all_reduce: 1.5},",
        "levels[0].operation_efficiency.all_reduce", "(0, 1]",
    ),
    "unknown how": (
        LEVELS, "sources: [{key: '*', how: heard, reference: x}]\nlevels:", "sources[0].how", "heard"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
def test_bad_file_gives_one_line(fault: str, tmp_path: Path) -> None:
    old, new, key, says = BAD[fault]
    assert old in SMALL
    path = write(tmp_path, SMALL.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        load_cluster(path)
    error = caught.value
    assert error.file == str(path)
    assert (error.key or "") == key
    assert says in str(error)
    assert error.allowed or "ascending" in str(error) or "peak above" in str(error) or key == "extends"
    assert "\n" not in str(error)
    assert len(str(error)) < 600


def test_good_file_is_good(tmp_path: Path) -> None:
    assert load_cluster(write(tmp_path, SMALL)).device_count == 4


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", '{"schema": 1, "schema": 2}', "given twice"),
        ("a.json", "{", "not JSON"),
        ("a.yaml", "", "a mapping"),
        ("a.yaml", "- 1", "a mapping"),
        ("a.toml", "a = 1", "unknown kind of file"),
        ("a.yaml", "a: \x07", "plain YAML"),
        ("a.yaml", "[" * 5000, "plain YAML"),
    ],
)
def test_bad_document(name: str, text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says) as caught:
        load_cluster(write(tmp_path, text, name))
    assert caught.value.file == str(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_missing_file_and_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_cluster(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="unknown cluster 'dgx-b100'") as caught:
        load_cluster("dgx-b100")
    assert "dgx-a100" in str(caught.value.allowed)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        load_cluster(tmp_path / "binary.yaml")
    with pytest.raises(InputError, match="cannot write"):
        save_cluster(load_cluster("dgx-a100"), tmp_path / "none" / "a.yaml")


def test_long_values_are_cut_short(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL.replace("count: 2,", "count: [" + "1, " * 10000 + "],", 1))
    with pytest.raises(InputError) as caught:
        load_cluster(path)
    assert len(str(caught.value)) < 600


def test_link_kinds_are_those_of_the_profiles() -> None:
    used = {level.kind for name in cluster_names() for level in load_cluster(name).levels}
    assert used <= set(LINK_KINDS)


def test_samples_are_found() -> None:
    assert (sample_folder("clusters") / "dgx-a100.yaml").is_file()
    assert math.isfinite(
        load_cluster(sample_folder("clusters") / "dgx-a100.yaml").device_kinds[0].memory_bytes
    )


def test_a_profile_is_the_same_object_until_its_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    save_cluster(load_cluster("dgx-a100"), path)
    first = load_cluster(path)
    assert load_cluster(path) is first
    save_cluster(replace(first, name="renamed"), path)
    assert load_cluster(path).name == "renamed"
