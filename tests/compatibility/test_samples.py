"""Files of version 0.1.0 open, and their reports are what that version gave."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.calibrate.files import read_evidence
from explorer.calibrate.history import Entry, read
from explorer.cli.predict import report_json
from explorer.cluster import Cluster, Software
from explorer.cluster_profiles import load_cluster
from explorer.graph import Layer, LayerGraph
from explorer.models import saved
from explorer.plan import Resolved
from explorer.pricing import pricer
from explorer.search.baselines import predict
from explorer.simulation.lane_memory import MEMORY_PARTS, memory_by_lane
from explorer.simulation.report import Report
from explorer.strategy import Strategy
from widgets.history.file import read_session
from widgets.history.load import restore

HERE = Path(__file__).parent
PLANS = sorted((HERE / "plans").iterdir())
RUN_SECONDS = [
    3.00002e-06,
    0.000503,
    6.000028571428571e-06,
    0.007148857142857143,
    0.002004,
    0.002731565289083417,
]
"""What the run timed, in the order of its observations."""


def differences(was: Any, found: Any, where: str = "") -> Iterator[str]:
    """Where a report is not what it was; keys that are new are none."""
    if isinstance(was, dict):
        for key in was:
            if key in found:
                yield from differences(was[key], found[key], f"{where}.{key}")
            else:
                yield f"{where}.{key} is gone"
    elif isinstance(was, list) and len(was) == len(found):
        for i, (a, b) in enumerate(zip(was, found, strict=True)):
            yield from differences(a, b, f"{where}[{i}]")
    elif isinstance(was, float) and isinstance(found, float):
        if not math.isclose(was, found, rel_tol=1e-9, abs_tol=1e-15):
            yield f"{where}: {was} -> {found}"
    elif was != found:
        yield f"{where}: {was} -> {found}"


def test_every_plan_has_a_report() -> None:
    assert {path.stem for path in PLANS} == {path.stem for path in (HERE / "expected").iterdir()}
    assert len(PLANS) >= 13


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_gives_the_same_report(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricer, "slowed_s", free)
    was = json.loads((HERE / "expected" / f"{path.stem}.json").read_text("utf-8"))
    found = without_what_is_made_again(predict(as_it_counted(explorer.load_plan(path))))
    assert list(differences(was, json.loads(json.dumps(report_json(found))))) == []


def free(slowdown: float, exchange_s: float, work_s: float) -> float:
    """Exchanges of sharded states beside work as version 0.1.0 priced them: they slow nothing."""
    return 0.0


def as_it_counted(resolved: Resolved) -> Resolved:
    """The plan without what version 0.1.0 read and left out of every number: the period of checkpoints.

    Bundled profiles have learned since; the one that these plans name was saved as it was then.
    """
    strategy = without_checkpoints(resolved.plan.strategy)
    named = resolved.plan.cluster.reference == "dgx-a100"
    cluster = load_cluster(HERE / "clusters" / "a100.yaml") if named else resolved.cluster
    plan = replace(resolved.plan, strategy=strategy)
    graphs = {name: without_routes(graph) for name, graph in resolved.graphs.items()}
    return replace(resolved, plan=plan, cluster=issued_alike(cluster), graphs=graphs)


def issued_alike(cluster: Cluster) -> Cluster:
    """The cluster as version 0.1.0 priced hosts: an operation of a backward takes as long as a forward's."""
    kinds = tuple(
        replace(kind, software=replace(kind.software, backward_issue=1.0)) for kind in cluster.device_kinds
    )
    return replace(cluster, device_kinds=kinds)


def without_routes(graph: LayerGraph) -> LayerGraph:
    """The graph without what version 0.1.0 knew nothing of: how tokens reach their experts.

    What layers of experts moved was counted in one number with what their products move.
    """
    if not any(layer.routing is not None for layer in graph.layers):
        return graph
    return replace(graph, layers=tuple(without_route(graph, layer) for layer in graph.layers))


def without_route(graph: LayerGraph, layer: Layer) -> Layer:
    if layer.routing is None:
        return layer
    sizes = [math.prod(graph.tensor[use.name].shape) for use in (*layer.writes, layer.reads[0])]
    work = replace(layer.forward, moved_elements=sizes[-1] + sizes[0] + 2 * sum(sizes[1:-1]))
    return replace(layer, routing=None, forward=work, input_grad=work, weight_grad=work)


def without_checkpoints(strategy: Strategy) -> Strategy:
    return Strategy(jobs=tuple(replace(job, checkpoint_period_s=0.0) for job in strategy.jobs))


def without_what_is_made_again(report: Report) -> Report:
    """The report without what version 0.1.0 left out of peaks: what selective recomputation makes again."""
    if report.jobs:
        return report
    program, prices = report.timeline.program, report.timeline.prices
    memory = tuple(
        replace(item, recompute_peak_bytes_per_sample=0.0, recompute_in_turn_bytes_per_sample=0.0)
        if stage.recompute == "selective"
        else item
        for item, stage in zip(prices.memory, prices.pricer.stages, strict=True)
    )
    at = MEMORY_PARTS.index("activations")
    counted = memory_by_lane(program, prices.with_memory(memory))[0][:, at]
    parts = (
        (*row[:at], float(own), *row[at + 1 :])
        for row, own in zip(report.memory_parts_bytes, counted, strict=True)
    )
    return replace(report, memory_parts_bytes=tuple(parts))


def test_what_is_made_again_counts_now() -> None:
    report = predict(explorer.load_plan(HERE / "plans" / "every-field.yaml"))
    assert report.peak_memory_bytes != without_what_is_made_again(report).peak_memory_bytes


def test_work_beside_exchanges_is_slower_now(monkeypatch: pytest.MonkeyPatch) -> None:
    path = HERE / "plans" / "every-field.yaml"
    now = predict(as_it_counted(explorer.load_plan(path)))
    monkeypatch.setattr(pricer, "slowed_s", free)
    before = predict(as_it_counted(explorer.load_plan(path)))
    assert 1 < now.step_time_s / before.step_time_s < 1.01


def test_backwards_are_issued_faster_now() -> None:
    resolved = as_it_counted(explorer.load_plan(HERE / "plans" / "every-field.yaml"))
    slow = [replace(k.software, host_issue_s=1.0, backward_issue=1.0) for k in resolved.cluster.device_kinds]
    before, now = (
        predict(replace(resolved, cluster=replace(resolved.cluster, device_kinds=kinds)))
        for kinds in (
            tuple(replace(k, software=s) for k, s in zip(resolved.cluster.device_kinds, slow, strict=True)),
            tuple(
                replace(k, software=replace(s, backward_issue=Software().backward_issue))
                for k, s in zip(resolved.cluster.device_kinds, slow, strict=True)
            ),
        )
    )
    assert 0.75 < now.step_time_s / before.step_time_s < 1


def test_rows_on_their_way_to_experts_count_now() -> None:
    resolved = explorer.load_plan(HERE / "plans" / "experts.yaml")
    before = as_it_counted(resolved)
    now = predict(replace(before, graphs=resolved.graphs))
    assert 1.01 < now.step_time_s / predict(before).step_time_s < 1.3


def test_checkpoints_count_now() -> None:
    resolved = explorer.load_plan(HERE / "plans" / "every-field.yaml")
    assert resolved.plan.strategy.job.checkpoint_period_s == 600.0
    counted = as_it_counted(resolved)
    now, before = predict(replace(counted, plan=resolved.plan)), predict(counted)
    assert 1 < now.step_time_s / before.step_time_s < 1.001
    assert now.makespan_s == before.makespan_s


@pytest.mark.parametrize("path", sorted((HERE / "clusters").iterdir()), ids=lambda path: path.stem)
def test_a_profile_opens(path: Path) -> None:
    cluster = load_cluster(path)
    assert cluster.device_count > 0
    assert all(math.isfinite(cluster.path(0, i).latency_s) for i in range(1, cluster.device_count))


@pytest.mark.parametrize("path", sorted((HERE / "models").iterdir()), ids=lambda path: path.stem)
def test_a_saved_graph_opens(path: Path) -> None:
    assert saved.load(path).layers


@pytest.mark.parametrize("path", sorted((HERE / "sessions").iterdir()), ids=lambda path: path.suffix[1:])
def test_a_session_comes_back_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricer, "slowed_s", free)
    session = read_session(path)
    restored = restore(session, known=None)
    assert restored.remarks == ("cluster dgx-a100 has changed since, so its numbers are new",)
    cluster = issued_alike(load_cluster(HERE / "clusters" / "a100.yaml"))
    assert (len(restored.points), restored.at) == (9, 6)
    for state, point in zip(session.states, restored.points, strict=True):
        given, strategy = point.inputs, without_checkpoints(point.strategy)
        counted = explorer.simulate(given.graph, cluster, given.workload, strategy)
        assert counted.step_time_s == pytest.approx(state.step_time_s, rel=1e-9)
        over = max((item.over_bytes for item in counted.overflows), default=0.0)
        assert over == pytest.approx(state.over_bytes, rel=1e-9)
    assert [bool(point.holds.pinned) for point in restored.points][:3] == [False, False, True]
    assert restored.points[3].holds.locked
    assert restored.points[7].other is not None
    assert (session.look.searcher, session.look.opened) == ("local", ("layers.1",))


def test_a_history_is_read_as_it_was_written() -> None:
    found = read(HERE / "runs" / "history.jsonl")
    assert not found.broken
    assert [(item.source, item.verdict) for item in found.entries] == [
        ("validate interpreter", "confirmed"), ("validate interpreter", "too noisy"), ("trace x.json", ""),
    ]  # fmt: skip
    assert found.entries[0].predicted["step_time_s"] == 2.6
    assert found.entries[0].measured["bubble_s"] == 0.1
    assert found.entries[2] == Entry(
        machine="a100-sxm-80gb", predicted={"operators_s": 1.0}, measured={"operators_s": 1.25},
        source="trace x.json",
    )  # fmt: skip


def test_a_run_still_says_what_it_timed() -> None:
    evidence = read_evidence(HERE / "runs" / "validate.json", load_cluster("cpu-2"))
    seconds = [item.measured_s for item in evidence.observations]
    assert seconds == pytest.approx(RUN_SECONDS, rel=1e-9)
