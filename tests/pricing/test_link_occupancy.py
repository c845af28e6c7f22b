"""Occupancy of links: what is carried is what is sent, at no time more than there is."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import ExplorerError
from explorer.cluster import Cluster, DeviceKind, Link, NodeGroup
from explorer.pricing.link_occupancy import LinkUse, link_use
from explorer.simulation.report import Report
from explorer.strategy import Mesh, Stage, single
from tests.pricing.test_contention import stages_over_nodes
from tests.random_plans import Case, even_cases, pipeline, uneven_cases


def use_of(report: Report, steps: int | None = None) -> LinkUse:
    line = report.timeline
    return link_use(line.program, line.prices, line.timing, steps or line.program.order.steps)


def conserved(use: LinkUse, end_s: float, columns: int) -> None:
    shares = use.shares(columns, end_s)
    assert shares.shape == (len(use.names), columns)
    assert (shares >= 0).all()
    assert (shares <= 1 + 1e-6).all(), "a link gives no more than it has"
    carried = (shares * use.capacity[:, None]).sum(axis=1) * end_s / columns
    assert carried == pytest.approx(use.carried_bytes(), rel=1e-6, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    case=st.one_of(even_cases("1f1b"), even_cases("gpipe"), uneven_cases()),
    columns=st.sampled_from([1, 7, 100]),
)
def test_slices_add_up_to_what_is_carried(case: Case, columns: int) -> None:
    try:
        report = explorer.simulate(*case)
    except ExplorerError:
        return
    conserved(use_of(report), float(report.timeline.timing.end_s.max()), columns)


def test_transfers_carry_what_the_traffic_sends() -> None:
    """Without collectives a link carries the bytes of all pairs whose path meets it."""
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("ethernet-10g-4x4")
    workload = explorer.default_workload(graph).with_job(global_batch=16, mode="infer")
    strategy = explorer.uniform(graph, cluster, workload.job, stages=8, schedule="gpipe")
    report = explorer.simulate(graph, cluster, workload, strategy)
    expected: dict[str, float] = defaultdict(float)
    for (source, target), size in report.traffic_bytes.items():
        for name, _ in cluster.path(source, target).resources:
            expected[name] += size
    use = use_of(report, 1)
    found = dict(zip(use.names, use.carried_bytes().tolist(), strict=True))
    assert found == pytest.approx(dict(expected), rel=1e-9)
    assert any("group" in name for name in found), "some cross nodes"


def test_reductions_hold_the_uplink_all_the_time() -> None:
    """Four stages reduce over three nodes at once: they share the uplinks, which are full meanwhile."""
    report = explorer.simulate(*stages_over_nodes(4, 1200.0))
    assert report.pass_name == "events"
    use = use_of(report, 1)
    uplinks = [i for i, name in enumerate(use.names) if "group" in name]
    assert uplinks
    end = float(report.timeline.timing.end_s.max())
    assert use.shares(400, end)[uplinks].max() == pytest.approx(1.0, rel=1e-6)
    conserved(use, end, 400)


def test_collectives_inside_compute_are_counted() -> None:
    graph, cluster = explorer.load_model("llama3-8b"), explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=8)
    alone, split = (
        explorer.simulate(graph, cluster, workload, explorer.uniform(graph, cluster, workload.job, **shape))
        for shape in ({"stages": 4}, {"stages": 4, "tensor": 2})
    )
    assert use_of(split, 1).carried_bytes().sum() > 5 * use_of(alone, 1).carried_bytes().sum()
    used = {name for name, size in zip(*_carried(split), strict=True) if size > 0}
    assert {f"nvswitch:{way}:{device}" for way in ("in", "out") for device in range(8)} <= used
    conserved(use_of(split, 1), float(split.timeline.timing.end_s.max()), 300)


def _carried(report: Report) -> tuple[tuple[str, ...], list[float]]:
    use = use_of(report, 1)
    return use.names, use.carried_bytes().tolist()


def test_a_link_of_a_pairs_own_is_that_pair() -> None:
    """Two devices joined by one link each way: forward activations go one way, gradients the other."""
    case = pipeline([1.0, 1.0], [1.0, 1.0], microbatches=2)
    kind = DeviceKind(
        name="unit",
        memory_bytes=1e9,
        memory_bandwidth_bytes_per_s=1e9,
        peak_flops_per_s=(("fp32", 1e9),),
    )
    links = tuple(
        Link(source=a, target=b, kind="nvlink", latency_s=0.0, bandwidth_bytes_per_s=10.0)
        for a, b in ((0, 1), (1, 0))
    )
    nodes = (NodeGroup(count=1, device_kind="unit", devices_per_node=2),)
    cluster = Cluster(name="pair", device_kinds=(kind,), nodes=nodes, links=links)
    graph = explorer.models.synthetic.chain([1.0, 1.0], backward_s=[1.0, 1.0], activation_bytes=20.0)
    names = [layer.name for layer in graph.layers]
    stages = tuple(Stage(layers=(name,), meshes=(Mesh(devices=(i,)),)) for i, name in enumerate(names))
    report = explorer.simulate(graph, cluster, case.workload, single(stages=stages, schedule="1f1b"))
    names_, carried = _carried(report)
    assert set(names_) == {"pair:0:1", "pair:1:0"}
    assert carried == pytest.approx([size for _, size in sorted(report.traffic_bytes.items())])


def test_sudden_bytes_fall_into_one_slice() -> None:
    use = LinkUse(
        names=("a",), capacity=np.array([10.0]), link=np.array([0, 0]),
        start_s=np.array([1.5, 2.0]), end_s=np.array([1.5, 4.0]), bytes=np.array([5.0, 8.0]),
    )  # fmt: skip
    assert use.shares(4, 4.0).tolist() == [[0.0, 0.5, 0.4, 0.4]]
    assert use.shares(4, 0.0).tolist() == [[0.0] * 4]
