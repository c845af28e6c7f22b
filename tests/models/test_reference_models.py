"""Every profile and workload beside the repository: counts, sums of times, and no cycle."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from explorer.graph import LayerGraph
from explorer.models import load_model, load_model_and_cluster
from explorer.models.partitioning import ACCELERATOR, CPU, fold_backward, node_id
from explorer.models.pipedream import without_unused

pytestmark = pytest.mark.reference


def seconds(graph: LayerGraph, kind: str = "*") -> float:
    rows = [m for layer in graph.layers for m in layer.measured if m.device_kind == kind]
    return sum(m.forward_s + m.input_grad_s + m.weight_grad_s for m in rows)


def profiles(folder: Path) -> list[Path]:
    found = sorted((folder / "pipedream").glob("*.graph.txt"))
    assert found
    return found


def workloads(folder: Path) -> list[Path]:
    root = folder / "dnn-partitioning"
    found = sorted([*root.glob("throughput/*.json"), *root.glob("latency/*.json")])
    assert found
    return found


def total(text: str, key: str) -> float:
    return sum(float(value) for value in re.findall(rf"{key}=([\d.]+)", text))


def test_profiles_agree_with_their_text(reference_dir: Path) -> None:
    for path in profiles(reference_dir):
        text = path.read_text()
        graph = load_model(str(path), settings={"inputs": "keep"})
        lines = text.splitlines()
        assert len(graph.layers) == sum(not line.startswith("\t") for line in lines), path.name
        assert graph.digraph.number_of_edges() == sum(line.startswith("\t") for line in lines)
        assert nx.is_directed_acyclic_graph(graph.digraph)
        whole = total(text, "forward_compute_time") + total(text, "backward_compute_time")
        assert seconds(graph) == pytest.approx(whole * 1e-3, rel=1e-12)
        assert 4 * graph.parameter_count == pytest.approx(total(text, "parameter_size"))


def test_times_of_one_worker_as_pipedream_prints_them(reference_dir: Path) -> None:
    runs = json.loads((reference_dir / "pipedream" / "expected.json").read_text())["runs"]
    expected = {
        run["profile"]: run["single_worker_time_s"] for run in runs if run.get("single_worker_time_s")
    }
    compared = 0
    for path in profiles(reference_dir):
        name = path.name.removesuffix(".graph.txt")
        if name in expected:
            assert seconds(without_unused(load_model(str(path)))) == pytest.approx(expected[name], rel=1e-12)
            compared += 1
    assert compared


def test_workloads_agree_with_their_json(reference_dir: Path) -> None:
    for path in workloads(reference_dir):
        data = json.loads(path.read_text())
        graph, cluster = load_model_and_cluster(str(path))
        assert cluster is not None
        assert len(graph.layers) == len(data["nodes"]), path.name
        assert graph.digraph.number_of_edges() == len(data["edges"])
        assert nx.is_directed_acyclic_graph(graph.digraph)
        assert cluster.device_count == data["maxFPGAs"] + data["maxCPUs"]
        for kind, key in ((CPU, "cpuLatency"), (ACCELERATOR, "fpgaLatency")):
            usable = [item for item in data["nodes"] if kind == CPU or item["supportedOnFpga"]]
            assert seconds(graph, kind) == pytest.approx(sum(item[key] for item in usable) * 1e-3, rel=1e-9)
        assert sum(p.elements for p in graph.parameters) == sum(item["size"] for item in data["nodes"])
        backward = {item["id"] for item in data["nodes"] if item["isBackwardNode"]}
        assert {node_id(layer.name) for layer in graph.layers if layer.backward_of} == backward
        transfers(data, graph, cluster.path(0, cluster.device_count - 1).bandwidth_bytes_per_s)


def transfers(data: dict[str, Any], graph: LayerGraph, rate: float) -> None:
    """Bytes over the rate to the host give each edge's cost back (the last device is a CPU)."""
    costs = {item["sourceId"]: item["cost"] * 1e-3 for item in data["edges"]}
    for name, producer in graph.producer.items():
        ours = graph.tensor[name].bytes_per_sample("fp32") / rate
        assert ours == pytest.approx(costs[node_id(producer)], rel=1e-9, abs=1e-15)


def test_folded_workloads_keep_their_sums(reference_dir: Path) -> None:
    for path in workloads(reference_dir):
        graph = load_model(str(path))
        folded = fold_backward(graph)
        assert not any(layer.backward_of for layer in folded.layers)
        assert seconds(folded, CPU) == pytest.approx(seconds(graph, CPU), rel=1e-9)
        held = sum(folded.parameter[use.name].elements for layer in folded.layers for use in layer.parameters)
        assert held == sum(p.elements for p in graph.parameters)
