"""A choice that the topology decides, confirmed by the clock: two network namespaces joined by a slowed link.

python benchmarks/slow_link.py [--mbit 100] [--rounds 3] [--heavy one|both] [--json]

Two namespaces stand for nodes of two ranks each; a pair of virtual interfaces joins them, slowed by `tc` to
so many Mbit/s in each direction. Two plans of one model have the same stages and replicas. In one the
replicas of a stage are on one node, so that gradients stay inside it and small activations cross; in the
other they are on both nodes. The link is measured as `explorer profile` measures links, with messages and
all-reduces of other sizes than the plans'; layers are timed in the runs. With that the simulator says which
plan is faster, and by what factor; then both run with real messages. With `--heavy both` two stages reduce
over the link at once. Needs root, `ip`, `tc`, virtual interfaces and the token bucket filter; ends with 3 and
says what is missing otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from explorer.cluster import Cluster, Level, NodeGroup, Source
from explorer.graph import LayerGraph
from explorer.run.cases.build import Prepared, prepare
from explorer.run.judging import compare
from explorer.run.judging.calibrate import calibrate, uncalibrated
from explorer.run.launching.launch import environment
from explorer.run.launching.status import StatusPages
from explorer.run.model import MLP, ModelSpec, Unit, model_graph
from explorer.run.spec import Calibration, RunSpec, Survey, write_spec
from explorer.simulation.one_job import simulate_job
from explorer.strategy import JobStrategy, Mesh, Stage
from explorer.workload import Job

MISSING = 3
"""Exit status where the system does not allow such a link."""
TIMEOUT_S = 300.0
SIZES = (2**18, 2**22)
"""Bytes of the messages and all-reduces by which the link is measured."""
HEAVY = {"one": 5, "both": 3}
"""Layers of the first stage: all that are wide, or half of them."""
PORT = "29541"
FFN, WIDTH, SEQ, SAMPLES = 2048, 128, 4, 8
PLACES = {"gradients inside a node": ((0, 1), (2, 3)), "gradients over the link": ((0, 2), (1, 3))}
"""Devices of the two stages, by plan; devices 0 and 1 are on the first node."""


class Missing(Exception):  # noqa: N818 - not an error of the program
    """What the system does not allow."""


class Node(NamedTuple):
    """A namespace that stands for a node."""

    name: str
    interface: str
    address: str


def sh(*command: str) -> None:
    """Run a command of the system.

    Raises:
        Missing: it is not there, or not allowed.
    """
    if shutil.which(command[0]) is None:
        raise Missing(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{' '.join(command)}: {done.stderr.strip()}")


@contextlib.contextmanager
def two_nodes(mbit: float) -> Iterator[list[Node]]:
    """Join two namespaces by a link of so many Mbit/s; remove them afterwards.

    Raises:
        Missing: the system does not allow it.
    """
    if os.geteuid():
        raise Missing("network namespaces need root")
    nodes = [
        Node(f"explorer{os.getpid()}{x}", f"xp{os.getpid()}{x}", f"10.77.0.{i}")
        for i, x in ((1, "a"), (2, "b"))
    ]
    try:
        for node in nodes:
            sh("ip", "netns", "add", node.name)
        sh("ip", "link", "add", nodes[0].interface, "type", "veth", "peer", "name", nodes[1].interface)
        for node in nodes:
            sh("ip", "link", "set", node.interface, "netns", node.name)
            sh("ip", "-n", node.name, "addr", "add", f"{node.address}/24", "dev", node.interface)
            sh("ip", "-n", node.name, "link", "set", node.interface, "up")
            sh("ip", "-n", node.name, "link", "set", "lo", "up")
            sh("tc", "-n", node.name, "qdisc", "add", "dev", node.interface, "root", "tbf",
               "rate", f"{mbit:g}mbit", "burst", "64kb", "latency", "400ms")  # fmt: skip
        yield nodes
    finally:
        for node in nodes:
            subprocess.run(["ip", "netns", "del", node.name], capture_output=True, check=False)


def model() -> ModelSpec:
    """Make a model of wide layers and few tokens: much more gradient than activation."""
    inner = [Unit(name=f"layers.{i}", kind=MLP, ffn=FFN, reads=(i,)) for i in range(4)]
    units = (Unit(name="embed", kind="embed"), *inner, Unit(name="head", kind="head", reads=(4,)))
    return ModelSpec(units=units, d_model=WIDTH, heads=2, seq=SEQ, vocab=32)


def cluster(link: dict[str, float]) -> Cluster:
    """Describe the two nodes: inside of each a host's memory, between them the link."""
    kind = uncalibrated(2).device_kinds[0]
    source = Source(key="*", how="measured", reference="two ranks over the link; inside a node assumed")
    inside = Level(
        name="host", kind="shared_memory", scope="node", latency_s=3e-4, bandwidth_bytes_per_s=1e9,
        sources=(source,),
    )  # fmt: skip
    between = Level(
        name="ethernet", kind="ethernet", scope="all", sources=(source,),
        uplink_bytes_per_s=link["bandwidth_bytes_per_s"], **link,
    )  # fmt: skip
    group = NodeGroup(count=2, device_kind=kind.name, devices_per_node=2)
    return Cluster(name="two-nodes", device_kinds=(kind,), nodes=(group,), levels=(inside, between))


def measured_link(nodes: list[Node]) -> dict[str, float]:
    """Measure latency, bandwidth and the part of it that an all-reduce reaches, one rank on each node."""
    survey = Survey(precisions=("fp32",), message_bytes=(4, *SIZES), reduce_bytes=SIZES)
    results = launch(nodes, RunSpec(ranks=2, cases=(), rounds=1, warmup_rounds=0, survey=survey), [0, 2])
    seconds = {
        (row["what"], row["size"][0]): row["seconds"]
        for row in results[0]["survey"][0] if row["what"] in ("message", "reduce")
    }  # fmt: skip
    small, large = SIZES
    bandwidth = (large - small) / (seconds["message", large] - seconds["message", small])
    reduced = (large - small) / (seconds["reduce", large] - seconds["reduce", small])  # 2 (n - 1) / n = 1
    return {
        "latency_s": seconds["message", 4], "bandwidth_bytes_per_s": bandwidth,
        "collective_efficiency": min(1.0, reduced / bandwidth),
    }  # fmt: skip


def strategy_of(places: Sequence[tuple[int, int]], heavy: str) -> JobStrategy:
    """Put two stages, each with two replicas, on some devices."""
    names, cut = [unit.name for unit in model().units], HEAVY[heavy]
    stages = tuple(
        Stage(layers=tuple(part), meshes=(Mesh(devices=devices),), microbatch_samples=SAMPLES // 2)
        for part, devices in zip((names[:cut], names[cut:]), places, strict=True)
    )
    return JobStrategy(stages=stages, schedule="1f1b")


JOB = Job(global_batch=SAMPLES, precision="fp32", optimizer="sgd")


def prepared(places: Sequence[tuple[int, int]], heavy: str, where: Cluster) -> Prepared:
    """Lower one of the plans for a run."""
    graph = model_graph(model())
    return prepare("strategy", graph, where, JOB, strategy_of(places, heavy), steps=3, model=model())


def predicted_step(
    places: Sequence[tuple[int, int]], heavy: str, where: Cluster, graph: LayerGraph | None = None
) -> float:
    """Return the seconds of a step that the simulator predicts; reductions on one link share its rate."""
    return simulate_job(graph or model_graph(model()), where, JOB, strategy_of(places, heavy)).step_time_s


def run(nodes: list[Node], case: Prepared, devices: list[int], rounds: int) -> list[dict[str, Any]]:
    """Run a case and time its layers; return the ranks' results."""
    samples = tuple(sorted({s.samples for s in case.program.slots if 0 <= s.kind < 4}))
    spec = RunSpec(
        ranks=4, cases=(case.case,), rounds=rounds, warmup_rounds=1,
        calibration=Calibration(model=model(), samples=samples, message_bytes=(4,), reduce_bytes=(4,)),
    )  # fmt: skip
    return launch(nodes, spec, devices)


def launch(nodes: list[Node], spec: RunSpec, devices: list[int]) -> list[dict[str, Any]]:
    """Start the rank of each device in the namespace of its node; return the ranks' results."""
    spec = replace(spec, device="cpu", group_timeout_s=TIMEOUT_S)
    with tempfile.TemporaryDirectory(prefix="slow-link-") as place, contextlib.ExitStack() as ranks:
        folder = Path(place)
        write_spec(spec, folder / "spec.json")
        StatusPages(folder / "status", spec.ranks, create=True).close()
        log = ranks.enter_context((folder / "log").open("w+"))
        started = []
        for rank, device in enumerate(devices):
            node = nodes[device // 2]
            given = environment() | {
                "RANK": str(rank), "WORLD_SIZE": str(spec.ranks), "LOCAL_RANK": str(device % 2),
                "LOCAL_WORLD_SIZE": "2" if spec.ranks > 2 else "1", "GLOO_SOCKET_IFNAME": node.interface,
                "MASTER_ADDR": nodes[devices[0] // 2].address, "MASTER_PORT": PORT,
            }  # fmt: skip
            command = ["ip", "netns", "exec", node.name, sys.executable, "-m", "explorer.run.worker",
                       str(folder / "spec.json")]  # fmt: skip
            process = subprocess.Popen(command, env=given, stdout=log, stderr=log)
            ranks.callback(process.kill)
            started.append(process)
        failed = [process for process in started if process.wait(TIMEOUT_S)]
        if failed:
            log.seek(0)
            raise RuntimeError((folder / "events").read_text()[-1500:] + log.read()[-1500:])
        return [json.loads((folder / f"result-{rank}.json").read_text()) for rank in range(spec.ranks)]


def lanes_of(places: Sequence[tuple[int, int]]) -> list[int]:
    """Return the device of each rank."""
    return list(dict.fromkeys(device for devices in places for device in devices))


def compare_plans(mbit: float, rounds: int, heavy: str) -> dict[str, Any]:
    """Predict both plans, run both, and return seconds a step and the factor between them."""
    with two_nodes(mbit) as nodes:
        link = measured_link(nodes)
        where = cluster(link)
        before = {name: predicted_step(places, heavy, where) for name, places in PLACES.items()}
        found: dict[str, Any] = {"link": link, "chosen": min(before, key=before.__getitem__), "plans": {}}
        for name, places in PLACES.items():
            case = prepared(places, heavy, where)
            results = run(nodes, case, lanes_of(places), rounds)
            asked = Calibration(model=model(), samples=())
            known = calibrate(asked, [result["calibration"] for result in results], ranks=4)
            seen = compare.measure(case, [result["cases"]["strategy"] for result in results])
            found["plans"][name] = {
                "predicted_s": predicted_step(places, heavy, where, known.graph),
                "measured_s": seen.step_time_s,
                "cpu_share": min(known.cpu_share, seen.cpu_share),
            }  # fmt: skip
    fast, slow = (found["plans"][name] for name in PLACES)
    found["predicted"] = slow["predicted_s"] / fast["predicted_s"]
    found["measured"] = slow["measured_s"] / fast["measured_s"]
    found["slow_error_pct"] = 100 * (slow["predicted_s"] / slow["measured_s"] - 1)
    return found


def main() -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", type=float, default=100.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heavy", choices=tuple(HEAVY), default="one")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        found = compare_plans(options.mbit, options.rounds, options.heavy)
    except Missing as missing:
        print(f"slow_link: this system allows no slowed link: {missing}", file=sys.stderr)
        return MISSING
    if options.json:
        print(json.dumps(found))
        return 0
    link = found["link"]
    print(
        f"Two nodes of two ranks, {options.mbit:g} Mbit/s between them:"
        f" {link['bandwidth_bytes_per_s'] / 1e6:.2f} MB/s and {1e3 * link['latency_s']:.2f} ms measured,"
        f" all-reduces at {100 * link['collective_efficiency']:.0f} % of it.\n"
    )
    print("| plan | predicted, s a step | measured |\n|---|---|---|")
    for name, row in found["plans"].items():
        print(f"| {name} | {row['predicted_s']:.3f} | {row['measured_s']:.3f} |")
    print(
        f"| faster by | {found['predicted']:.2f} | {found['measured']:.2f} |\n\n"
        f"Chosen before: {found['chosen']}. Error of the slower plan {found['slow_error_pct']:+.1f} %."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
