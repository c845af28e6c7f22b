"""Collectives: the closed forms of alpha-beta, topology by counting, and what must never get faster."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster import LOCAL, Cluster, DeviceKind, Level, Link, NodeGroup, Path
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.costs.collectives import (
    ALGORITHMS,
    collective_seconds,
    collective_wire_bytes,
    transfer_seconds,
)
from explorer.costs.explicit_links import _narrowest_cut
from explorer.costs.group_tiers import span_of

BOX = DeviceKind(
    name="box", memory_bytes=1, memory_bandwidth_bytes_per_s=1, peak_flops_per_s=(("fp32", 1.0),)
)
ALPHA, B = 1e-3, 1e6
PAIRS = [(op, algorithm) for op, names in ALGORITHMS.items() for algorithm in ("auto", *names)]


def flat(n: int, *, alpha: float = ALPHA, bandwidth: float = B) -> Cluster:
    """`n` devices, all links alike."""
    return Cluster(
        name="flat",
        device_kinds=(BOX,),
        nodes=(NodeGroup(count=n, device_kind="box", devices_per_node=1),),
        levels=(
            Level(name="net", kind="ethernet", scope="all", latency_s=alpha, bandwidth_bytes_per_s=bandwidth),
        ),
    )


def nodes(
    *sizes: int,
    fast: float = 100.0,
    slow: float = 10.0,
    uplink: float = 0.0,
    alphas: tuple[float, float] = (0, 0),
) -> Cluster:
    """Nodes of these sizes: `fast` inside, `slow` between pairs outside, `uplink` per node."""
    return Cluster(
        name="nodes",
        device_kinds=(BOX,),
        nodes=tuple(NodeGroup(count=1, device_kind="box", devices_per_node=size) for size in sizes),
        levels=(
            Level(name="in", kind="nvlink", scope="node", latency_s=alphas[0], bandwidth_bytes_per_s=fast),
            Level(
                name="out", kind="ethernet", scope="all", latency_s=alphas[1], bandwidth_bytes_per_s=slow,
                uplink_bytes_per_s=uplink,
            ),
        ),
    )  # fmt: skip


def meshed(edges: dict[tuple[int, int], float], n: int, *, levels: tuple[Level, ...] = ()) -> Cluster:
    """Explicit links both ways."""
    both = {**edges, **{(b, a): rate for (a, b), rate in edges.items()}}
    return Cluster(
        name="mesh",
        device_kinds=(BOX,),
        nodes=(NodeGroup(count=1, device_kind="box", devices_per_node=n),),
        links=tuple(
            Link(source=a, target=b, kind="nvlink", latency_s=0.0, bandwidth_bytes_per_s=rate)
            for (a, b), rate in both.items()
        ),
        levels=levels,
    )


def everyone(cluster: Cluster) -> tuple[int, ...]:
    return tuple(range(cluster.device_count))


# ------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 64])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
def test_alpha_beta_closed_forms(n: int, size: float) -> None:
    cluster, ring, rounds = flat(n), (n - 1) * ALPHA + (n - 1) / n * size / B, math.ceil(math.log2(n))
    tree, halving = rounds * ALPHA + size / B, rounds * ALPHA + (n - 1) / n * size / B
    expected = {
        ("all_reduce", "ring"): 2 * ring,
        ("all_reduce", "tree"): 2 * tree,
        ("all_reduce", "halving"): 2 * halving,
        ("reduce_scatter", "ring"): ring,
        ("all_gather", "ring"): ring,
        ("reduce_scatter", "halving"): halving,
        ("broadcast", "tree"): tree,
        ("reduce", "tree"): tree,
        ("all_to_all", "direct"): ring,
        ("parameter_server", "direct"): 2 * (ALPHA + (n - 1) / n * size / B),
    }
    for (op, algorithm), seconds in expected.items():
        found = collective_seconds(cluster, op, everyone(cluster), size, algorithm=algorithm)
        assert found == pytest.approx(seconds, rel=1e-12), (op, algorithm)


@pytest.mark.parametrize(("n", "size"), [(2, 1e6), (5, 1e6), (9, 1e9), (9, 1.0)])
def test_chain_uses_the_best_number_of_pieces(n: int, size: float) -> None:
    """(hops + K - 1) (alpha + S / (K B)) of AlpaComm, at its minimum over K."""
    cluster, hops = flat(n), n - 1
    found = collective_seconds(cluster, "broadcast", everyone(cluster), size, algorithm="ring")
    by_pieces = [(hops + k - 1) * (ALPHA + size / (k * B)) for k in range(1, 4000)]
    assert found <= min(by_pieces) * (1 + 1e-12)
    assert found == pytest.approx(min(by_pieces), rel=1e-3)


@pytest.mark.parametrize(("g", "count"), [(2, 2), (4, 3), (8, 2)])
def test_hierarchical_is_the_sum_of_its_parts(g: int, count: int) -> None:
    size, a0, a1 = 240.0, 0.5, 2.0
    cluster = nodes(*[g] * count, alphas=(a0, a1))
    found = collective_seconds(cluster, "all_reduce", everyone(cluster), size, algorithm="hierarchical")
    inside = 2 * ((g - 1) * a0 + (g - 1) / g * size / 100)
    across = 2 * ((count - 1) * a1 + (count - 1) / count * (size / g) / 10)
    assert found == pytest.approx(inside + across)


def test_ring_counts_hops_by_tier() -> None:
    cluster = nodes(4, 4, alphas=(1.0, 10.0))
    span = span_of(cluster, everyone(cluster))
    assert [(tier.name, tier.units, tier.hops) for tier in span.tiers] == [("in", 4, 6), ("out", 2, 2)]
    # 7 of the 8 hops: a message never needs the last one, and the cheapest is left out
    assert collective_seconds(
        cluster, "reduce_scatter", everyone(cluster), 0, algorithm="ring"
    ) == pytest.approx(5 * 1.0 + 2 * 10.0)


def test_rings_share_a_node() -> None:
    """Two devices a node make two rings, each over a link of its own, until the uplink is full."""
    free, full = nodes(2, 2, uplink=0.0), nodes(2, 2, uplink=12.0)
    for cluster, rate in ((free, 20.0), (full, 12.0)):
        found = collective_seconds(cluster, "all_gather", everyone(cluster), 1.0, algorithm="ring")
        assert found == pytest.approx(3 / 4 / rate)


def test_concurrent_groups_share_an_uplink() -> None:
    cluster = nodes(4, 4, uplink=20.0)
    alone = [collective_seconds(cluster, "all_gather", (0, 4), 1.0, concurrent=k) for k in (1, 2, 4, 100)]
    assert alone == pytest.approx([0.5 / 10, 0.5 / 10, 0.5 / 5, 0.5 / 5])  # 4 devices: 4 groups at most
    wide = [
        collective_seconds(cluster, "all_gather", (0, 1, 4, 5), 1.0, algorithm="ring", concurrent=k)
        for k in (1, 2)
    ]
    assert wide == pytest.approx([0.75 / 20, 0.75 / 10])
    inside = [collective_seconds(cluster, "all_gather", (0, 1), 1.0, concurrent=k) for k in (1, 2)]
    assert inside == pytest.approx([0.5 / 100] * 2)


def test_device_total_limits_a_mesh_of_pairs() -> None:
    level = Level(
        name="mesh", kind="nvlink", scope="all", latency_s=0.0,
        bandwidth_bytes_per_s=1.0, device_bytes_per_s=2.5,
    )  # fmt: skip
    cluster = replace(flat(4), levels=(level,))
    rates = [(n - 1) / n / collective_seconds(cluster, "all_gather", tuple(range(n)), 1.0) for n in (2, 3, 4)]
    assert rates == pytest.approx([1.0, 2.0, 2.5])


def test_collective_efficiency_spares_transfers() -> None:
    level = replace(flat(2).levels[0], collective_efficiency=0.5)
    cluster = replace(flat(2, alpha=0.0), levels=(replace(level, latency_s=0.0),))
    assert collective_seconds(cluster, "all_gather", (0, 1), 2 * B) == pytest.approx(2.0)
    assert transfer_seconds(cluster.path(0, 1), 3 * B) == pytest.approx(3.0)


OVERHEAD = 20e-6


def tuned(n: int, **fields: object) -> Cluster:
    """`n` devices, all links alike, with what is known of its collectives."""
    return replace(flat(n), levels=(replace(flat(n).levels[0], **fields),))


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
@pytest.mark.parametrize("size", [0.0, 8.0, 1e6])
def test_a_collective_pays_its_overhead_once(op: str, algorithm: str, size: float) -> None:
    if algorithm == "hierarchical":
        size = 0.0
    plain, slow = flat(4), tuned(4, collective_overhead_s=OVERHEAD)
    seconds = [
        collective_seconds(item, op, (0, 1, 2, 3), size, algorithm=algorithm) for item in (plain, slow)
    ]
    assert seconds[1] - seconds[0] == pytest.approx(OVERHEAD)


def test_an_operation_has_an_efficiency_of_its_own() -> None:
    cluster = tuned(
        4, latency_s=0.0, collective_efficiency=0.8,
        operation_efficiency=(("all_to_all", 0.4), ("all_gather", 0.9), ("broadcast", 0.5)),
    )  # fmt: skip
    reached = {"all_to_all": 0.4, "all_gather": 0.9, "reduce_scatter": 0.8, "all_reduce": 0.8}
    for op, fraction in reached.items():
        passes = 2 if op == "all_reduce" else 1
        found = collective_seconds(cluster, op, (0, 1, 2, 3), B, algorithm="auto")
        assert found == pytest.approx(passes * 3 / 4 / fraction), op
    assert collective_seconds(cluster, "broadcast", (0, 1, 2, 3), B) == pytest.approx(1 / 0.5)


def test_a_level_keeps_its_own_efficiencies_and_the_largest_overhead_counts() -> None:
    base = nodes(2, 2)
    inner = replace(base.levels[0], operation_efficiency=(("all_gather", 0.5),), collective_overhead_s=3.0)
    outer = replace(base.levels[1], operation_efficiency=(("all_gather", 0.25),), collective_overhead_s=7.0)
    cluster = replace(base, levels=(inner, outer))
    hierarchy = collective_seconds(cluster, "all_gather", everyone(cluster), 1.0, algorithm="hierarchical")
    # two devices of a node are one unit of the network: twice the rate, half of the buffer crosses it
    assert hierarchy == pytest.approx(7.0 + 1 / 2 / (100 * 0.5) + 1 / 2 / (2 * 10 * 0.25))
    assert collective_seconds(cluster, "all_gather", (0, 1), 1.0) == pytest.approx(3.0 + 1 / 2 / (100 * 0.5))


@given(st.integers(2, 64), st.floats(0, 1e9), st.floats(0, 1e-3))
def test_small_messages_take_a_tree_and_large_ones_a_ring(n: int, size: float, overhead: float) -> None:
    cluster = tuned(n, collective_overhead_s=overhead)
    rounds = math.ceil(math.log2(n))
    ring = 2 * (n - 1) * ALPHA + 2 * (n - 1) / n * size / B
    tree = 2 * rounds * ALPHA + 2 * size / B
    assert collective_seconds(cluster, "all_reduce", everyone(cluster), size) == pytest.approx(
        overhead + min(ring, tree)
    )


def test_all_to_all_over_nodes() -> None:
    cluster = nodes(2, 2, uplink=12.0)
    # each node sends 2 x 2 of its 16 quarters of S... 2 devices x 2 peers x S/4 = S over its uplink
    assert collective_seconds(cluster, "all_to_all", everyone(cluster), 1.0) == pytest.approx(1 / 12)
    assert collective_seconds(cluster, "all_to_all", (0, 1), 1.0) == pytest.approx(0.5 / 100)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_rings_that_cross_adapters_are_slower_the_more_nodes(count: int) -> None:
    base = nodes(*[4] * count, uplink=40.0)
    net = replace(base.levels[1], crossing_slowdown=0.5)
    crossing = replace(base, levels=(base.levels[0], net))

    def both(op: str, members: range) -> tuple[float, float]:
        group = tuple(4 * node + k for node in range(count) for k in members)
        found = [collective_seconds(item, op, group, 1.0, algorithm="auto") for item in (base, crossing)]
        return found[0], found[1]

    before, after = both("all_gather", range(2))
    n = 2 * count  # a hierarchy sends half of the buffer of a node over the network, as a ring does
    tier = min((n - 1) / n, (count - 1) / count) / 20
    factor = 1 + 0.5 * math.log2(count)
    assert before <= (n - 1) / n / 20 * (1 + 1e-12)
    assert after == pytest.approx(min((n - 1) / n / 20 * factor, 1 / 2 / 100 + tier * factor))
    for op, members in (("all_gather", range(1)), ("all_gather", range(4)), ("all_to_all", range(2))):
        assert both(op, members)[0] == both(op, members)[1], (op, members)


# --------------------------------------------------------------------------------------- parameter server


@pytest.mark.parametrize(("workers", "servers"), [(4, 1), (4, 2), (2, 4), (8, 8)])
def test_parameter_servers_apart(workers: int, servers: int) -> None:
    """A worker moves 2S, a server 2nS/k: the slower of the two."""
    cluster = flat(workers + servers)
    found = collective_seconds(
        cluster, "parameter_server", tuple(range(workers)), 1e6,
        servers=tuple(range(workers, workers + servers)),
    )  # fmt: skip
    assert found == pytest.approx(2 * ALPHA + 2 * max(1.0, workers / servers))


def test_parameter_servers_on_the_workers_match_the_ring() -> None:
    """Parallax: dense 4 w (N-1)/N in and out per machine, so the same bytes as a ring."""
    cluster = flat(8, alpha=0.0)
    both = [
        collective_seconds(cluster, op, everyone(cluster), 1e6) for op in ("parameter_server", "all_reduce")
    ]
    assert both[0] == pytest.approx(both[1])


def test_parameter_servers_reach_their_own_share_of_the_bandwidth() -> None:
    base = flat(4, alpha=0.0)
    level = replace(base.levels[0], operation_efficiency=(("parameter_server", 0.25),))
    slow = replace(base, levels=(level,))
    both = [collective_seconds(c, "parameter_server", everyone(c), 1e6) for c in (base, slow)]
    assert both[1] == pytest.approx(both[0] * base.levels[0].collective_efficiency / 0.25)
    assert both[1] > both[0]


def test_one_server_among_the_workers() -> None:
    cluster = flat(4, alpha=0.0)
    found = collective_seconds(cluster, "parameter_server", (0, 1, 2, 3), B, servers=(0,))
    assert found == pytest.approx(2 * 3.0)  # three others push all of S to device 0, then pull it


def test_parameter_server_over_nodes() -> None:
    cluster = nodes(2, 2, slow=10.0, uplink=10.0)
    found = collective_seconds(cluster, "parameter_server", (0, 1, 2, 3), 1.0, servers=(0,))
    assert found == pytest.approx(2 * 2.0 / 10)  # node 1 pushes two buffers through its uplink


# ------------------------------------------------------------------------------------------------ volumes


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_volumes(n: int) -> None:
    reduce, scatter, gather = (
        collective_wire_bytes(op, n, 8.0) for op in ("all_reduce", "reduce_scatter", "all_gather")
    )
    assert reduce == pytest.approx(2 * (n - 1) / n * 8)
    assert reduce == scatter + gather
    assert collective_wire_bytes("all_to_all", n, 8.0) == pytest.approx((n - 1) / n * 8)
    # n - 1 ranks of a chain send S on
    assert collective_wire_bytes("broadcast", n, 8.0) * n == pytest.approx((n - 1) * 8)


# ------------------------------------------------------------------------------------------ explicit links


@given(st.integers(2, 6), st.data())
def test_narrowest_cut_against_all_cuts(n: int, data: st.DataObject) -> None:
    rates = st.one_of(st.just(0), st.integers(1, 9))
    edges = {pair: data.draw(rates) for pair in combinations(range(n), 2)}
    edges = {pair: float(rate) for pair, rate in edges.items() if rate}
    links = list(meshed(edges, n).links)
    cuts = [
        sum(rate for (a, b), rate in edges.items() if (a in side) != (b in side))
        for k in range(1, n)
        for side in map(set, combinations(range(n), k))
    ]
    if min(cuts) > 0:
        assert _narrowest_cut(links, list(range(n))) == pytest.approx(min(cuts))


def test_ring_over_links() -> None:
    line = meshed({(0, 1): 10.0, (1, 2): 10.0}, 3)
    assert collective_seconds(line, "all_gather", (0, 1, 2), 3.0, algorithm="ring") == pytest.approx(0.2)
    full = meshed(dict.fromkeys(combinations(range(4), 2), 10.0), 4)
    assert collective_seconds(full, "all_gather", (0, 1, 2, 3), 4.0, algorithm="ring") == pytest.approx(0.1)


def test_dgx1_uses_all_six_links_and_the_host_where_there_is_none() -> None:
    cluster = load_cluster("dgx-1-v100")
    size, fraction = 1e9, 0.87
    rates = {
        devices: 2 * (len(devices) - 1) / len(devices) * size
        / collective_seconds(cluster, "all_reduce", devices, size, algorithm="ring") / fraction
        for devices in ((0, 1), (0, 3), (0, 1, 2, 3), everyone(cluster))
    }  # fmt: skip
    assert list(rates.values()) == pytest.approx([25e9, 50e9, 100e9, 150e9], rel=0.01)
    assert [tier.name for tier in span_of(cluster, (0, 5)).tiers] == ["pcie"]
    assert [tier.name for tier in span_of(cluster, (0, 1, 6)).tiers] == ["links", "pcie"]


def test_shared_resource_of_links() -> None:
    cluster = meshed(dict.fromkeys(combinations(range(4), 2), 10.0), 4)
    bus = replace(
        cluster, links=tuple(replace(link, shared="bus") for link in cluster.links), shared=(("bus", 8.0),)
    )
    # four hops of a ring meet in one bus of 8
    assert collective_seconds(bus, "all_gather", (0, 1, 2, 3), 4.0, algorithm="ring") == pytest.approx(3 / 2)


def test_mixed_cluster_joins_links_and_levels() -> None:
    cluster = load_cluster("mixed-v100-a100")
    span = span_of(cluster, everyone(cluster))
    assert [tier.name for tier in span.tiers] == ["links", "nvswitch", "infiniband"]
    assert not span.even
    with pytest.raises(InputError, match="equally many"):
        collective_seconds(cluster, "all_reduce", everyone(cluster), 1.0, algorithm="hierarchical")
    assert collective_seconds(cluster, "all_reduce", everyone(cluster), 1e9) > 1.5 * 1e9 / 25e9


# --------------------------------------------------------------------------------------------- invariants


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
def test_one_device_is_free(op: str, algorithm: str) -> None:
    assert collective_seconds(flat(2), op, (1,), 1e9, algorithm=algorithm) == 0.0
    assert collective_wire_bytes(op, 1, 1e9) == 0.0


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.sampled_from(PAIRS),
    st.floats(0, 1e12),
    st.floats(1, 1e3),
    st.floats(0.1, 1e4),
    st.floats(0.1, 1e4),
    st.floats(0.1, 1e4),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
    st.integers(1, 8),
)
def test_more_bytes_or_sharing_never_faster_more_bandwidth_never_slower(
    sizes: list[int], pair: tuple[str, str], size: float, more: float, fast: float, slow: float,
    uplink: float, alphas: tuple[float, float], concurrent: int,
) -> None:  # fmt: skip
    op, algorithm = pair
    if algorithm == "hierarchical":
        sizes = [sizes[0]] * len(sizes)
    base = nodes(*sizes, fast=fast, slow=slow, uplink=uplink, alphas=alphas)

    def time(cluster: Cluster, volume: float = size, groups: int = concurrent) -> float:
        return collective_seconds(
            cluster, op, everyone(cluster), volume, algorithm=algorithm, concurrent=groups
        )

    usual, above = time(base), 1 - 1e-9
    assert math.isfinite(usual)
    assert time(base, size * more) >= usual * above
    assert time(base, size, concurrent + 1) >= usual * above
    for change in ({"fast": fast * more}, {"slow": slow * more}, {"uplink": uplink * more}):
        values = {"fast": fast, "slow": slow, "uplink": uplink, **change}
        assert time(nodes(*sizes, alphas=alphas, **values)) <= usual / above


@given(st.sampled_from(sorted(ALGORITHMS)), st.floats(0, 1e12), st.sampled_from(cluster_names()), st.data())
def test_auto_is_the_cheapest(op: str, size: float, name: str, data: st.DataObject) -> None:
    cluster = load_cluster(name)
    some = st.integers(0, min(cluster.device_count, 64) - 1)
    devices = tuple(data.draw(st.lists(some, min_size=1, max_size=12, unique=True)))
    auto = collective_seconds(cluster, op, devices, size)
    for algorithm in ALGORITHMS[op]:
        if algorithm != "halving" and (algorithm != "hierarchical" or span_of(cluster, devices).even):
            assert auto <= collective_seconds(cluster, op, devices, size, algorithm=algorithm) * (1 + 1e-12)
    # the order in which devices are named does not matter
    assert auto == collective_seconds(cluster, op, devices[::-1], size)


@given(st.floats(0, 1e12), st.integers(2, 64))
def test_reduce_scatter_and_all_gather_make_an_all_reduce(size: float, n: int) -> None:
    cluster = nodes(*[8] * 8, fast=450e9, slow=50e9, uplink=400e9, alphas=(2e-6, 5e-6))
    times = {
        op: collective_seconds(cluster, op, tuple(range(n)), size, algorithm="ring")
        for op in ("all_reduce", "reduce_scatter", "all_gather")
    }
    # two launches instead of one
    overhead = span_of(cluster, tuple(range(n))).overhead_s
    assert times["all_reduce"] + overhead == pytest.approx(times["reduce_scatter"] + times["all_gather"])


def test_hierarchy_sends_less_over_a_slow_network() -> None:
    cluster = load_cluster("ethernet-10g-4x4")
    ring, hierarchy = (
        collective_seconds(cluster, "all_reduce", everyone(cluster), 1e9, algorithm=name)
        for name in ("ring", "hierarchical")
    )
    assert hierarchy < ring


def test_large_group_equals_its_closed_form() -> None:
    cluster = load_cluster("hgx-h100-2048")  # without what only its own node says of protocols
    bare = replace(cluster.levels[0], protocols=(), operation_efficiency=())
    cluster = replace(cluster, levels=(bare, *cluster.levels[1:]))
    n, devices = 16384, everyone(cluster)
    span = span_of(cluster, devices)
    assert [(tier.units, tier.hops) for tier in span.tiers] == [(8, 2048 * 7), (2048, 2048)]
    node, network = cluster.levels
    alpha = 2048 * 7 * node.latency_s + 2048 * network.latency_s - min(node.latency_s, network.latency_s)
    # per node: eight adapters, each at the efficiency of an all-reduce
    share = dict(network.operation_efficiency).get("all_reduce", network.collective_efficiency)
    rate = min(8 * (network.device_bytes_per_s or network.bandwidth_bytes_per_s), network.uplink_bytes_per_s)
    ring = span.overhead_s + 2 * (alpha + (n - 1) / n * 1e9 / (share * rate))
    assert collective_seconds(cluster, "all_reduce", devices, 1e9, algorithm="ring") == pytest.approx(ring)
    assert span_of(cluster, devices) is span
    assert collective_seconds(cluster, "all_reduce", devices, 1e9) < ring


@pytest.mark.parametrize("n", [2, 4, 8, 16, 64, 256])
def test_all_reduce_bandwidth_falls_as_groups_grow(n: int) -> None:
    """Bus bandwidth published for A100 systems: some 230 GB/s inside a node, some 180 GB/s beyond.

    Two devices copy half of the result for themselves: 193 GB/s measured at 512 MiB.
    """
    cluster = load_cluster("dgx-a100-128")
    seconds = collective_seconds(cluster, "all_reduce", tuple(range(n)), 4e9)
    bus = 2 * (n - 1) / n * 4e9 / seconds
    lowest, highest = {2: (190e9, 220e9), 4: (215e9, 240e9), 8: (220e9, 240e9)}.get(n, (165e9, 190e9))
    assert lowest < bus < highest


# ------------------------------------------------------------------------------------ transfers and errors


def test_transfer() -> None:
    path = Path(kind="pcie", latency_s=0.5, bandwidth_bytes_per_s=4.0, resources=(("bus", 2.0), ("x", 9.0)))
    assert transfer_seconds(path, 3.0) == 2.0
    assert transfer_seconds(replace(path, resources=()), 3.0) == 1.25
    assert transfer_seconds(LOCAL, 1e12) == 0.0
    times = [transfer_seconds(path, size) for size in (0, 1, 10, 100)]
    assert all(low < high for low, high in pairwise(times))


@pytest.mark.parametrize(
    ("op", "devices", "options", "says"),
    [
        ("all_redcue", (0, 1), {}, "unknown collective 'all_redcue'"),
        ("all_reduce", (0, 1), {"algorithm": "star"}, "has no 'star'"),
        ("all_to_all", (0, 1), {"algorithm": "ring"}, "has no 'ring'"),
        ("all_reduce", (), {}, "a group of 0 devices"),
        ("all_reduce", (0, 0), {}, "1 of them different"),
        ("all_reduce", (0, 4), {}, "no device 4"),
        ("all_reduce", (-1, 0), {}, "no device -1"),
        ("parameter_server", (0, 1), {"servers": (7,)}, "no device 7"),
    ],
)
def test_bad_groups(op: str, devices: tuple[int, ...], options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        collective_seconds(flat(4), op, devices, 1.0, **options)  # type: ignore[arg-type]
    assert caught.value.allowed


def test_unconnected_devices_are_named() -> None:
    cluster = replace(nodes(2, 2), levels=nodes(2, 2).levels[:1])
    with pytest.raises(InputError, match="devices 0 and 2 of cluster 'nodes' are not connected"):
        collective_seconds(cluster, "all_reduce", (0, 1, 2), 1.0)


def test_unknown_collective_has_no_volume() -> None:
    with pytest.raises(InputError, match="unknown collective"):
        collective_wire_bytes("gossip", 2, 1.0)
