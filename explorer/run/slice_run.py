"""The slice run: one rank of a plan at its full size, alone on one device, with faked neighbours.

The rank's own layers (`explorer.run.own.layer_modules`) run in its own order, on tensors of the sizes that
its neighbours would send; what they send themselves goes nowhere. Nothing waits, so the seconds are those of
the layers, and the peak is that of the rank. Both stand beside the prediction: seconds by a profile of the
machine, bytes by the simulation of the plan in the precision that runs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.base.units import format_bytes
from explorer.cluster import Cluster
from explorer.costs.compute import layer_costs
from explorer.costs.update_time import update_seconds
from explorer.models.captured_program import CapturedProgram, Capturing, capture_program, per_sample
from explorer.plan import Resolved
from explorer.run.judging.compare import relative_pct, verdict_of
from explorer.run.judging.cost_check import (
    COST_TOLERANCE_PCT,
    PROCESSOR,
    LayerSeconds,
    RankBytes,
    clock_of,
    unfit,
)
from explorer.run.own.layer_modules import LABELS, TOTAL, LayerModule, layer_module
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.one_job import simulate_job
from explorer.simulation.report import Report
from explorer.strategy import Stage
from explorer.workload import Job

if TYPE_CHECKING:
    import torch

REPEATS = 3
"""Timings of every layer by itself; the median counts."""
PRECISION = "fp32"
"""Precision in which a slice runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSeconds:
    """Seconds of one kind of action of the rank."""

    action: str
    """F, B or U and the stage, as in `F2`."""
    predicted_s: float | None
    """By the machine's profile; None without one."""
    measured_s: float
    """Median over its microbatches."""
    count: int
    """How often it was timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceCheck:
    """What a slice run found."""

    rank: int
    """The lane of the plan that ran."""
    stages: tuple[int, ...]
    """Its stages."""
    device: str
    """Where it ran."""
    clock: str
    """Clock of the seconds: `processor` or `wall`."""
    profile: str
    """Name and title of the machine's profile; empty without one."""
    costs_missing: str
    """Reason why no profile predicts; empty if one does."""
    shortened: tuple[tuple[str, str, str], ...]
    """What was changed to run here: what, in the plan, here."""
    actions: list[ActionSeconds]
    """By kind of action and stage."""
    layers: list[LayerSeconds]
    """Every layer by itself."""
    memory: RankBytes
    """Peak bytes of its tensors."""
    predicted_s: float | None
    """Seconds of all its actions, predicted."""
    measured_s: float
    """The same, measured."""
    error_pct: float | None
    """Error of the prediction, in per cent; None without a profile."""
    verdict: str
    """confirmed or off, by seconds; empty without a profile."""


def run_slice(
    resolved: Resolved,
    source: Capturing,
    *,
    rank: int | None = None,
    microbatches: int | None = None,
    profile: Cluster | None = None,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda _text: None,
) -> SliceCheck:
    """Run one rank of a plan.

    Args:
        resolved: the plan.
        source: the module behind its model.
        rank: lane to run; None for the busiest.
        microbatches: most microbatches of a step that run; None for one more than the plan has stages.
        profile: profile of this machine; None predicts no seconds.
        device: cpu or cuda.
        tell: called with what begins.

    Raises:
        InputError: a plan of which no rank can run alone, another model, or more bytes than there are.
    """
    job, shortened = _shortened(resolved, microbatches)
    report = _report(resolved, job)
    lane = max(range(len(report.busy_s)), key=report.busy_s.__getitem__) if rank is None else rank
    if not 0 <= lane < len(report.busy_s):
        raise InputError(
            f"the plan has no rank {rank}", key="rank", found=rank, allowed=f"0 to {len(report.busy_s) - 1}"
        )
    expected = _peak_bytes(report, lane, job)
    _require_room(expected, device)
    stages = resolved.plan.strategy.job.stages
    order = [a for a in report.timeline.program.order.lanes[lane] if a.op in "FBU"]
    mine = tuple(sorted({action.stage for action in order}))
    size = stages[mine[0]].microbatch_samples // stages[mine[0]].meshes[0].replicas
    tell(f"capturing the model for {size} samples")
    program = capture_program(source, samples=size)
    with one_thread():
        runner = _Runner(program, source, {s: stages[s] for s in mine}, job.optimizer, device)
        tell("timing every layer by itself")
        layers = runner.layers(profile)
        tell("running the rank's order")
        runner.play(order)  # allocators and kernels settle
        times = runner.play(order)
        tell("counting bytes")
        peak = runner.counted(order)
    name = runner.name
    missing = unfit(profile, ranks=1, device=name)
    actions = _actions(times, resolved, job, profile if not missing else None, samples=size)
    known = [item.predicted_s for item in actions if item.predicted_s is not None]
    predicted = (
        sum(item.predicted_s * item.count for item in actions if item.predicted_s is not None)
        if known
        else None
    )
    measured = sum(item.measured_s * item.count for item in actions)
    error = None if predicted is None else relative_pct(predicted, measured)
    return SliceCheck(
        rank=lane, stages=mine, device=name, clock=clock_of(name),
        profile=f"{profile.name}: {profile.title}" if profile and not missing else "",
        costs_missing=missing, shortened=shortened, actions=actions, layers=layers,
        memory=RankBytes(rank=lane, predicted_bytes=expected, measured_bytes=peak),
        predicted_s=predicted, measured_s=measured, error_pct=error,
        verdict="" if error is None else verdict_of(
            contention=1.0, numerics_ok=None, error_pct=error, tolerance_pct=COST_TOLERANCE_PCT
        ),
    )  # fmt: skip


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread, as ranks do and profiles are measured."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _shortened(resolved: Resolved, microbatches: int | None) -> tuple[Job, tuple[tuple[str, str, str], ...]]:
    """Return the job that runs, and what it has less of than the plan's.

    Raises:
        InputError: a plan whose ranks need others for their own layers.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    for s, stage in enumerate(strategy.stages):
        if problem := _dependent(stage):
            raise InputError(
                f"stage {s} cannot run alone: {problem}",
                key="engine", found="slice", allowed="engine interpreter",
            )  # fmt: skip
    sizes = {stage.microbatch_samples for stage in strategy.stages}
    parts = {stage.microbatch_samples // stage.meshes[0].replicas for stage in strategy.stages}
    if len(sizes) > 1 or len(parts) > 1 or not job.training:
        raise InputError(
            "a slice runs training with one microbatch size",
            key="engine", found=sorted(sizes | parts), allowed="equal sizes, or engine interpreter",
        )  # fmt: skip
    size = sizes.pop()
    before = job.global_batch // size
    after = min(before, microbatches or len(strategy.stages) + 1)
    changes = []
    if after != before:
        changes.append(("microbatches of a step", str(before), str(after)))
    if job.precision != PRECISION:
        changes.append(("precision", job.precision, PRECISION))
    made = replace(job, global_batch=after * size, precision=PRECISION, gradient_precision="", framework="")
    return made, tuple(changes)


def _dependent(stage: Stage) -> str:
    """Return why a rank of a stage needs other ranks for its own layers; empty if it does not."""
    if any(len(row) > 1 for mesh in stage.meshes for row in mesh.rows):
        return "its layers are sharded"
    if stage.shares or (stage.meshes[0].replicas > 1 and stage.replicas != "split"):
        return "its replicas work on unequal parts"
    if stage.zero:
        return f"ZeRO level {stage.zero}"
    if stage.recompute != "none":
        return f"{stage.recompute} recomputation"
    return "layers cut into slices" if stage.slices else ""


def _report(resolved: Resolved, job: Job) -> Report:
    report = simulate_job(resolved.graph, resolved.cluster, job, resolved.plan.strategy.job)
    order = report.timeline.program.order
    if any(action.op not in "FBU" for lane in order.lanes for action in lane):
        raise InputError(
            "a slice runs forwards, whole backwards and updates",
            key="engine", found=resolved.plan.strategy.job.schedule,
            allowed="a schedule without split backwards, or engine interpreter",
        )  # fmt: skip
    return report


def _peak_bytes(report: Report, lane: int, job: Job) -> float:
    """Return the bytes of tensors of a lane: the plan's, or at its update, with Adam's roots, if these are
    more.
    """
    parts = dict(zip(MEMORY_PARTS, report.memory_parts_bytes[lane], strict=True))
    roots = parts["gradients"] if job.optimizer in ("adam", "adamw") else 0.0
    update = parts["weights"] + parts["versions"] + parts["gradients"] + parts["optimizer"] + roots
    return max(report.allocated_memory_bytes[lane], update)


def _require_room(needed: float, device: str) -> None:
    """Refuse a slice that does not fit, before anything starts."""
    free = free_bytes(device)
    if needed > free:
        raise InputError(
            f"the rank needs {format_bytes(needed)} of tensors, and {format_bytes(free)} are free here",
            key="engine", found="slice", allowed="a smaller microbatch, or engine interpreter",
        )  # fmt: skip


def free_bytes(device: str) -> float:
    """Return the memory that is free on a device (cpu or cuda)."""
    if device == "cuda":
        import torch

        return float(torch.cuda.mem_get_info()[0])
    import psutil

    return float(psutil.virtual_memory().available)


def _actions(
    times: Mapping[str, list[float]],
    resolved: Resolved,
    job: Job,
    profile: Cluster | None,
    *,
    samples: int,
) -> list[ActionSeconds]:
    graph, stages = resolved.graph, resolved.plan.strategy.job.stages
    found = []
    for action, seconds in times.items():
        stage = stages[int(action[1:])]
        predicted = None
        if profile is not None:
            kind = profile.device_kinds[0]
            layers = [graph.index[name] for name in stage.layers]
            if action[0] == "U":
                held = {use.name for name in stage.layers for use in graph.layer[name].parameters}
                predicted = update_seconds(
                    kind, elements=sum(graph.parameter[name].elements for name in held),
                    optimizer=job.optimizer, precision=PRECISION,
                )  # fmt: skip
            else:
                costs = layer_costs(graph, kind, samples=samples, precision=PRECISION).seconds[:, layers]
                work = costs[0] if action[0] == "F" else costs[1:]
                predicted = float(work.sum()) + kind.software.action_overhead_s
        found.append(
            ActionSeconds(
                action=action, predicted_s=predicted, measured_s=median(seconds), count=len(seconds)
            )
        )
    return found


class _Runner:
    """The layers of one rank with their weights, gradients and states."""

    def __init__(
        self,
        program: CapturedProgram,
        source: Capturing,
        stages: Mapping[int, Stage],
        optimizer: str,
        device: str,
    ) -> None:
        import torch

        from explorer.run.ranks.optimizers import Optimizer

        self.program, self.stages = program, stages
        self.device = torch.device(device)
        self.name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
        self.samples = program.samples
        self.values = {node.name: node.meta.get("val") for node in program.module.graph.nodes}
        known = program.graph.index
        missing = [name for stage in stages.values() for name in stage.layers if name not in known]
        if missing:
            raise InputError(
                f"the module has no layer {missing[0]!r}", key="model", found=missing[0],
                allowed="a plan of the graph that was captured from this module",
            )  # fmt: skip
        self.modules = {
            s: layer_module(program, stage.layers, device=self.device) for s, stage in stages.items()
        }
        shapes = {name: item.shape for name, item in source.module.named_parameters()}
        names = dict.fromkeys(name for item in self.modules.values() for name in item.parameters)
        self.weights = {name: self._weight(shapes[name]) for name in names}
        self.optimizer = Optimizer(optimizer, 1e-4)

    def _weight(self, shape: Any) -> torch.Tensor:
        import torch

        made = torch.ones(shape) if len(shape) == 1 else torch.randn(shape).mul_(0.02)
        return made.to(self.device).requires_grad_()

    def _given(self, module: LayerModule, *, gradients: bool) -> dict[str, torch.Tensor]:
        """Make what others would send, in their sizes."""
        import torch

        found = {}
        for name in module.reads:
            if name in self.program.inputs:
                example = self.program.inputs[name]
                more = (self.samples, *[1] * (example.dim() - 1)) if per_sample(example) else ()
                found[name] = (example.repeat(more) if more else example).to(self.device)
            elif name == LABELS:
                shape = tuple(map(round, self.program.graph.tensor[LABELS].shape))
                found[name] = torch.zeros(self.samples, *shape, dtype=torch.long, device=self.device)
            else:
                like = self.values[self.program.made_at[name]]
                made = torch.zeros(tuple(map(int, like.shape)), dtype=like.dtype, device=self.device)
                if made.dtype.is_floating_point:
                    made.normal_()
                    made.requires_grad_(gradients and self.program.graph.tensor[name].backward)
                found[name] = made
        return found

    def _roots(
        self, made: Mapping[str, torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
        """Return the outputs to differentiate, and gradients as the next stages would send them."""
        import torch

        roots = [(name, item) for name, item in made.items() if item.requires_grad]
        came = [None if name == TOTAL else torch.ones_like(item) for name, item in roots]
        return [item for _, item in roots], came

    def _now(self) -> float:
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            return time.perf_counter()
        return time.thread_time()

    def layers(self, profile: Cluster | None) -> list[LayerSeconds]:
        """Time every layer by itself, forward and backward."""
        import torch

        found = []
        graph = self.program.graph
        costs = None
        if profile is not None and not unfit(profile, ranks=1, device=self.name):
            kind = profile.device_kinds[0]
            costs = layer_costs(graph, kind, samples=self.samples, precision=PRECISION).seconds
        for name in (name for stage in self.stages.values() for name in stage.layers):
            module = layer_module(self.program, (name,), device=self.device)
            if not module.writes:
                continue
            pairs = []
            for _ in range(REPEATS + 1):
                given = self._given(module, gradients=True)
                begin = self._now()
                made = module(given, self.weights)
                forward = self._now() - begin
                roots, came = self._roots(made)
                wanted = [x for x in given.values() if x.requires_grad]
                wanted += [self.weights[p] for p in module.parameters]
                begin = self._now()
                if roots and wanted:
                    torch.autograd.grad(roots, wanted, came, allow_unused=True)
                pairs.append((forward, self._now() - begin))
            at = graph.index[name]
            own = (0.0, 0.0) if costs is None else (float(costs[0, at]), float(costs[1:, at].sum()))
            found.append(
                LayerSeconds(
                    layer=name, samples=self.samples, predicted_s=own,
                    measured_s=(median(p[0] for p in pairs[1:]), median(p[1] for p in pairs[1:])),
                )
            )  # fmt: skip
        return found

    def play(self, order: list[Any]) -> dict[str, list[float]]:
        """Run actions in order; return the seconds of each, by kind and stage."""
        import torch

        waiting: dict[tuple[int, int, int], Any] = {}
        times: dict[str, list[float]] = defaultdict(list)
        for action in order:
            key = (action.stage, action.first_microbatch, action.copy)
            given = self._given(self.modules[action.stage], gradients=True) if action.op == "F" else {}
            begin = self._now()
            if action.op == "F":
                waiting[key] = self._roots(self.modules[action.stage](given, self.weights))
            elif action.op == "B":
                roots, came = waiting.pop(key)
                torch.autograd.backward(roots, came)
                del roots, came
            else:
                self._update(self.modules[action.stage])
            times[f"{action.op}{action.stage}"].append(self._now() - begin)
        return dict(times)

    def _update(self, module: LayerModule) -> None:
        held = {name: self.weights[name] for name in module.parameters}
        given = {name: w.grad for name, w in held.items() if w.grad is not None}
        self.optimizer.step(held, given)
        for weight in held.values():
            weight.grad = None

    def counted(self, order: list[Any]) -> float:
        """Return the peak bytes of tensors while actions run."""
        from explorer.run.ranks.allocated import counted

        states = [*self.optimizer.first.values(), *self.optimizer.second.values()]
        with counted(self.device, [*self.weights.values(), *states]) as found:
            self.play(order)
        return found.peak


__all__ = ["PROCESSOR", "ActionSeconds", "SliceCheck", "run_slice"]
