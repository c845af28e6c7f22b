"""Ideal pipelines: equal stages of given seconds on equal devices with free links, as papers draw them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.models.synthetic import chain
from explorer.schedules import SCHEDULES
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.strategy import UpdateChoice
from explorer.workload import Job, Workload

ACTIVATIONS = MEMORY_PARTS.index("activations")
SCRAP_BYTES = 1e-15
"""Bytes that cross stages if a transfer takes time: negligible next to the bytes that a stage keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideal:
    """An ideal pipeline: one sample a microbatch, seconds per stage and microbatch."""

    p: int
    """Pipeline positions, one device each (times `replicas`)."""
    m: int
    """Microbatches of one step."""
    schedule: str
    """Name of a registered schedule."""
    forward_s: float = 1.0
    """F: seconds of one stage's forward."""
    backward_s: float = 2.0
    """B = I + W: seconds of one stage's backward."""
    weight_grad_s: float | None = None
    """W: seconds of one stage's weight gradient; None for half of B."""
    chunks: int | None = None
    """Stages at each position; None for the number of the schedule's placement."""
    replicas: int = 1
    """Data-parallel replicas."""
    parameter_bytes: float = 0.0
    """Bytes of the weights of one stage."""
    bandwidth_bytes_per_s: float = 1e30
    """Bytes/s between any two devices."""
    transfer_s: float = 0.0
    """Seconds of one microbatch's transfer from stage to stage, whatever its size."""
    memory_bytes: float = 1e18
    """Bytes of every device."""
    host_s: float = 0.0
    """Seconds in which a stage's activations of one microbatch go to the host; 0: there is no way."""
    recompute: str = "none"
    """Recomputation: none or full."""
    updates: tuple[UpdateChoice, ...] = ()
    """Update rules of the parameters."""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Options of the schedule."""

    def report(self) -> Report:
        """Return the report; every stage keeps one byte per microbatch for its backward."""
        placement = SCHEDULES.get(self.schedule).with_options(self.options).placement
        stages = placement.stages(placement.grid(self.p, self.chunks))
        weight = self.backward_s / 2 if self.weight_grad_s is None else self.weight_grad_s
        graph = chain(
            [self.forward_s] * stages,
            input_grad_s=self.backward_s - weight,
            weight_grad_s=weight,
            activation_bytes=SCRAP_BYTES if self.transfer_s else 0.0,
            saved_bytes=1.0,
            parameter_bytes=self.parameter_bytes,
        )
        job = Job(global_batch=self.m * self.replicas, precision="fp32", optimizer="none")
        cluster = free_cluster(
            self.p * self.replicas, self.bandwidth_bytes_per_s, self.transfer_s, self.host_s,
            self.memory_bytes,
        )  # fmt: skip
        strategy = uniform(
            graph, cluster, job, stages=self.p, replicas=self.replicas, chunks=self.chunks,
            microbatch_size=1, schedule=self.schedule, options=self.options, recompute=self.recompute,
        )  # fmt: skip
        strategy = strategy.with_job(replace(strategy.job, updates=self.updates))
        return simulate(graph, cluster, Workload(jobs=(job,)), strategy)

    def sent_bytes(self) -> float:
        """Return the bytes that one device sends in a step, on average."""
        return sum(self.report().traffic_bytes.values()) / (self.p * self.replicas)

    def idle_s(self) -> float:
        """Return the seconds of one step, from idle, in which the first device computes nothing."""
        report = self.report()
        return report.makespan_s - report.busy_s[0]

    def bubble(self) -> float:
        """Return idle time over the makespan: the bubble fraction."""
        return self.idle_s() / self.report().makespan_s

    def device_idle_s(self) -> float:
        """Return the most idle seconds of a device between its first start and its last end in one step.

        That is the rest of the bubble if devices begin the next step before others end this one.
        """
        report = self.report()
        return max(span - busy for span, busy in zip(report.device_span_s, report.busy_s, strict=True))

    def bubble_rate(self) -> float:
        """Return the share of a step, from step to step, that is not compute."""
        report = self.report()
        return 1 - report.busy_s[0] / report.step_time_s

    def bubble_over_ideal(self) -> float:
        """Return idle time over useful time, as Megatron-LM counts the bubble."""
        return self.idle_s() / self.report().busy_s[0]

    def activations(self, position: int) -> float:
        """Return the most microbatches of one stage held for their backward at a position."""
        report = self.report()
        lane = next(i for i, devices in enumerate(report.lanes) if position * self.replicas in devices)
        return report.memory_parts_bytes[lane][ACTIVATIONS]


@cache
def free_cluster(
    devices: int,
    bandwidth_bytes_per_s: float = 1e30,
    latency_s: float = 0.0,
    host_s: float = 0.0,
    memory_bytes: float = 1e18,
) -> Cluster:
    """Return equal devices without overheads, all joined by links of one bandwidth and latency, each to its
    host by one that takes `host_s` seconds for a byte (0: none).
    """
    kind = DeviceKind(
        name="unit",
        memory_bytes=memory_bytes,
        memory_bandwidth_bytes_per_s=1e18,
        peak_flops_per_s=(("fp32", 1e18),),
        host_bandwidth_bytes_per_s=1 / host_s if host_s else 0.0,
    )
    wire = Level(
        name="wire", kind="nvlink", scope="all", latency_s=latency_s,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
    )  # fmt: skip
    nodes = (NodeGroup(count=1, device_kind="unit", devices_per_node=devices),)
    return Cluster(name="ideal", device_kinds=(kind,), nodes=nodes, levels=(wire,))
