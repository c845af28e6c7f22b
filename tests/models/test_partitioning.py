"""Partitioning workloads: times by device kind, colours, backward nodes, and the machine around a host."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from explorer.base.errors import InputError
from explorer.models.partitioning import ACCELERATOR, CPU, fold_backward, node_id, read


def node(number: int, **given: Any) -> dict[str, Any]:
    base = {"id": number, "supportedOnFpga": 1, "cpuLatency": 20.0, "fpgaLatency": 2.0, "size": 64.0}
    return {**base, "isBackwardNode": 0, "colorClass": number, **given}


def edge(source: int, target: int, cost: float = 1.0, **given: Any) -> dict[str, Any]:
    return {"sourceId": source, "destId": target, "cost": cost, **given}


def workload(**given: Any) -> dict[str, Any]:
    """1 -> 2 forward, 2' -> 1' backward, in colours 1 and 2."""
    nodes = [node(1, name="a"), node(2)]
    nodes += [
        node(4, isBackwardNode=True, colorClass=2, fpgaLatency=6.0),
        node(3, isBackwardNode=1, colorClass=1),
    ]
    edges = [edge(1, 2), edge(2, 4, 0.0), edge(4, 3, 3.0)]
    return {"maxFPGAs": 2, "maxCPUs": 1, "maxSizePerFPGA": 1e9, "nodes": nodes, "edges": edges, **given}


def test_times_and_memory() -> None:
    graph, _ = read(workload())
    layer = graph.layer["1:a"]
    assert {m.device_kind: m.forward_s for m in layer.measured} == {ACCELERATOR: 0.002, CPU: 0.02}
    assert graph.parameter[layer.parameters[0].name].shape == (64.0,)
    assert not graph.parameter[layer.parameters[0].name].trainable
    assert node_id(layer.name) == 1


def test_backward_nodes() -> None:
    graph, _ = read(workload())
    assert {layer.name: layer.backward_of for layer in graph.layers if layer.backward_of} == {
        "4:node": "2:node",
        "3:node": "1:a",
    }
    measured = graph.layer["4:node"].measured[-1]
    assert (measured.forward_s, measured.input_grad_s + measured.weight_grad_s) == (0.0, 0.006)
    assert measured.halves


def test_colours_become_colocation() -> None:
    graph, _ = read(workload(nodes=[node(1, colorClass=7), node(2, colorClass=7), node(3)], edges=[]))
    assert [layer.colocation for layer in graph.layers] == ["color 7", "color 7", ""]


def test_node_without_colour_or_name() -> None:
    item = node(1)
    del item["colorClass"]
    graph, _ = read(workload(nodes=[item, node(2, isBackwardNode=1)], edges=[edge(1, 2)]))
    assert graph.layers[0].colocation == ""
    assert graph.layers[1].backward_of == "1:node"  # its class has no forward node: the nearest one


def test_only_on_cpu() -> None:
    graph, _ = read(workload(nodes=[node(1, supportedOnFpga=False)], edges=[]))
    assert graph.layers[0].device_kinds == (CPU,)
    assert [m.device_kind for m in graph.layers[0].measured] == [CPU]


def test_transfer_costs_come_back_from_the_cluster() -> None:
    graph, cluster = read(workload())
    size = graph.tensor["4:node"].bytes_per_sample("fp32")
    to_cpu, to_other, back = cluster.path(0, 2), cluster.path(0, 1), cluster.path(2, 0)
    assert size / to_cpu.bandwidth_bytes_per_s == pytest.approx(0.003, rel=1e-12)
    assert size / back.bandwidth_bytes_per_s == pytest.approx(0.003, rel=1e-12)
    assert size / to_other.bandwidth_bytes_per_s == pytest.approx(0.006, rel=1e-12)
    assert [cluster.kind_of(device).name for device in range(3)] == [ACCELERATOR, ACCELERATOR, CPU]
    assert cluster.kind_of(0).memory_bytes == 1e9


def test_sizes_decide_the_rate_if_they_agree() -> None:
    agreeing = [edge(1, 2, 1.0, size=5e6), edge(4, 3, 3.0, size=15e6)]
    graph, cluster = read(workload(edges=agreeing))
    assert graph.tensor["1:a"].shape == (5e6,)
    assert cluster.path(0, 2).bandwidth_bytes_per_s == 5e9
    graph, cluster = read(workload(edges=[edge(1, 2, 1.0, size=5e6), edge(4, 3, 3.0, size=5e6)]))
    assert graph.tensor["1:a"].shape == (2**31 * 1e-3,)


def test_one_tensor_per_producer_and_cost() -> None:
    three = [node(1), node(2), node(3)]
    graph, _ = read(workload(nodes=three, edges=[edge(1, 2), edge(1, 3)]))
    assert list(graph.tensor) == ["1:node"]
    graph, _ = read(workload(nodes=three, edges=[edge(1, 2), edge(1, 3, 9.0)]))
    assert list(graph.tensor) == ["1:node", "1:node.2"]


def test_no_cpu_and_no_limit() -> None:
    data = workload(maxCPUs=0)
    del data["maxSizePerFPGA"]
    _, cluster = read(data)
    assert cluster.device_count == 2
    assert cluster.kind_of(1).memory_bytes > 1e15


def test_folding_keeps_time_and_memory() -> None:
    graph, _ = read(workload())
    folded = fold_backward(graph)
    assert [layer.name for layer in folded.layers] == ["1:a", "2:node"]
    (measured,) = [m for m in folded.layers[1].measured if m.device_kind == ACCELERATOR]
    assert (measured.forward_s, measured.input_grad_s, measured.weight_grad_s) == (0.002, 0.003, 0.003)
    held = sum(folded.parameter[use.name].elements for layer in folded.layers for use in layer.parameters)
    assert held == 4 * 64
    assert folded.needs_gradient == {"1:a", "2:node"}
    assert fold_backward(folded) is folded


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda d: d.update(nodes={}), "nodes"),
        (lambda d: d.pop("edges"), "edges"),
        (lambda d: d.update(nodes=[3]), "nodes[0].id"),
        (lambda d: d["nodes"][1].pop("id"), "nodes[1].id"),
        (lambda d: d["nodes"][1].update(id=1), "nodes[1].id"),
        (lambda d: d["nodes"][1].update(id=1.5), "nodes[1].id"),
        (lambda d: d["nodes"][1].update(fpgaLatency="2"), "nodes[1].fpgaLatency"),
        (lambda d: d["nodes"][1].update(cpuLatency=-1), "nodes[1].cpuLatency"),
        (lambda d: d["nodes"][1].update(size=float("nan")), "nodes[1].size"),
        (lambda d: d["nodes"][1].update(isBackwardNode="no"), "nodes[1].isBackwardNode"),
        (lambda d: d["edges"][0].update(destId=99), "edges[0].destId"),
        (lambda d: d["edges"][0].pop("cost"), "edges[0].cost"),
        (lambda d: d["edges"].append(3), "edges[3].sourceId"),
        (lambda d: d["edges"].append(edge(3, 1)), "edges"),
        (lambda d: d.update(maxFPGAs=-1), "maxFPGAs"),
        (lambda d: d.update(maxFPGAs=0, maxCPUs=0), "maxFPGAs"),
        (lambda d: d.update(nodes=[], edges=[]), "layers"),
    ],
)
def test_wrong_values_are_named(change: Callable[[dict[str, Any]], object], key: str) -> None:
    data = json.loads(json.dumps(workload()))
    change(data)
    with pytest.raises(InputError) as caught:
        read(data, file="w.json")
    assert (caught.value.file, caught.value.key) == ("w.json", key)
    assert "\n" not in str(caught.value)
