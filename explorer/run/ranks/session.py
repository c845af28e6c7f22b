"""Session: one rank's whole run: connect, run what runs once, then calibration and cases in rounds.

The process group is never taken down: gloo processes that had done all their work now and then aborted while
it was, and what they had measured was lost. The last barrier is the end of all messages; a rank then writes
its result and leaves with its sockets open.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch

from explorer.run.gpus import on_gpus
from explorer.run.launching import guard
from explorer.run.launching.status import COMPUTING, IDLE, WAITING
from explorer.run.ranks.allocated import counted, prepare_counting
from explorer.run.ranks.heap import keep_freed_memory, take_pages
from explorer.run.ranks.interpreter import Backend, Hooks, Interpreter
from explorer.run.ranks.lane import LanePlan, RankLanes
from explorer.run.ranks.sleeper import Sleeper
from explorer.run.ranks.transport import Transport, connect
from explorer.run.spec import DRY, RunCase, RunSpec

if TYPE_CHECKING:
    from explorer.run.own.own_model import OwnModel
    from explorer.run.ranks.compute import Compute
    from explorer.run.sharded.lanes import LaneTransport

CROWDED_TRIES = 3
"""Calibrations in a row in which some rank must have been crowded for the machine to count as crowded."""
SPARE = 4.0
"""Bytes of the heap over the counted peak of a case: allocations of other sizes leave gaps between them."""
LEAD_S = 0.01
"""Seconds from the last rank's arrival at the barrier to the common start."""


class Reports(Protocol):
    """Where a session reports (see `explorer.run.worker.Desk`)."""

    rank: int
    events: guard.Events
    at: str

    def status(self, state: int, text: str = "", predicted_s: float = 0.0) -> None:
        """Report what this rank does now."""


def run_session(spec: RunSpec, desk: Reports) -> dict[str, Any]:
    """Run everything a specification requests; return this rank's result."""
    keep_freed_memory()
    torch.set_num_threads(1)
    if spec.pin and not on_gpus(spec.device):  # there threads of NCCL and autograd work beside this one
        _pin(spec.ranks)
    urgent = bool(spec.cases) and all(case.kind == DRY for case in spec.cases) and hurry()
    _prepare(spec)
    transport = connect(spec.group_timeout_s, spec.device)
    desk.events.send("ready", device=str(transport.device), name=_device_name(transport.device))
    result: dict[str, Any] = {
        "cases": {case.name: [] for case in spec.cases},
        "calibration": [],
        "survey": [],
        "machine": {},
        "urgent": urgent,
    }
    # one after the other, since comparisons hold many copies of the weights
    for i, case in enumerate(spec.cases):
        if case.once:
            result["cases"][case.name].append(_player(case, i, spec, desk, transport)())
            _give_back(case, spec)
            desk.events.send("case", name=case.name, round=-1)
    if not on_gpus(spec.device):
        held = [row.get("peak_bytes", 0) for rows in result["cases"].values() for row in rows]
        take_pages(SPARE * max(held, default=0), spec.ranks)
    players = [
        (case, _player(case, i, spec, desk, transport)) for i, case in enumerate(spec.cases) if not case.once
    ]
    calibrator = None
    if spec.calibration is not None:
        from explorer.run.ranks.calibration_timing import Stopwatch

        calibrator = Stopwatch(spec.calibration, transport)
    surveyor = None
    if spec.survey is not None:
        from explorer.run.survey.surveyor import Surveyor

        surveyor = Surveyor(spec.survey, transport, desk.status)
        result["machine"] = surveyor.machine()
    crowded = calibrator is not None and _is_crowded(spec, calibrator, transport, desk)
    # one round says what a crowded machine did; more would be no evidence either
    for number in range(1) if crowded else range(-spec.warmup_rounds, spec.rounds):
        _round(number, players, calibrator, surveyor, result, desk)
    if calibrator is not None:  # so that every round lies between two
        result["calibration"].append(_calibrate(calibrator, desk))
    desk.status(IDLE)
    transport.barrier()
    return result


def _give_back(case: RunCase, spec: RunSpec) -> None:
    """Give back what a case has left that ran once, drawn weights included if no other case has its model."""
    gc.collect()  # graphs of tensors may lie in circles
    whole = _drawn_for(case)
    if whole is not None and all(_drawn_for(other) != whole for other in spec.cases if other is not case):
        from explorer.run.own.own_layers import own_layers

        own_layers(whole).forget()


def _drawn_for(case: RunCase) -> OwnModel | None:
    """Return the model for which a case draws weights, with whole layers on lanes of one rank; None for
    stand-ins.
    """
    from explorer.run.own.own_model import OwnModel
    from explorer.run.referee.whole_weights import uncut

    model = None if case.model is None else uncut(case.model)
    return model.whole if isinstance(model, OwnModel) else None


def _is_crowded(spec: RunSpec, calibrator: Any, transport: Transport, desk: Reports) -> bool:
    """Tell whether some rank got too little of a core in each of several calibrations, before any round."""
    for _ in range(CROWDED_TRIES):
        share = _calibrate(calibrator, desk)["cpu_share"]
        least = -transport.largest(-share)
        if least >= spec.quiet_share:
            return False
    desk.events.send("crowded", share=least)
    return True


def _calibrate(calibrator: Any, desk: Reports) -> dict[str, Any]:
    """Time what predictions need, and say what share of a core this rank got meanwhile."""
    desk.status(WAITING, "calibration", 0.0)
    times: dict[str, Any] = calibrator.measure()
    desk.events.send("load", share=times["cpu_share"])
    return times


def _round(
    number: int,
    players: list[tuple[RunCase, Callable[[], dict[str, Any]]]],
    calibrator: Any,
    surveyor: Any,
    result: dict[str, Any],
    desk: Reports,
) -> None:
    """Run every case once, with what is timed beside them; keep the records of rounds from 0 on."""
    measured = number >= 0
    desk.events.send("round", number=number)
    if calibrator is not None and measured:
        result["calibration"].append(_calibrate(calibrator, desk))
    for case, play in players:
        record = play()
        result["cases"][case.name] += [record] * measured
        desk.events.send("case", name=case.name, round=number)
    if surveyor is not None:
        rows = surveyor.measure()
        result["survey"] += [rows] * measured
        desk.events.send("survey", round=number)


def _prepare(spec: RunSpec) -> None:
    """Do once what takes seconds the first time, before anything is timed."""
    if spec.calibration is not None or any(case.kind != DRY for case in spec.cases):
        import_for_backward()
    if any(case.count_bytes for case in spec.cases):
        prepare_counting()


def import_for_backward() -> None:
    """Take one gradient as the stages do: the first one of a process imports some 500 modules, for
    seconds.
    """
    x = torch.ones(1, requires_grad=True)
    torch.autograd.grad([2 * x], [x], [torch.ones(1)])


def hurry() -> bool:
    """Ask the system to wake this process on time whatever else runs: ranks of a dry run sleep, so this takes
    from nobody.

    If the system does not allow it (to an ordinary user) everything works, only with more noise.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError):
        return False
    return True


def _device_name(device: torch.device) -> str:
    """Return the name of the device for which a calibration of it would hold."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _pin(ranks: int) -> None:
    """Pin each rank to one core if there are enough."""
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) >= ranks:
            os.sched_setaffinity(0, {cores[int(os.environ.get("LOCAL_RANK", "0"))]})


def _player(
    case: RunCase, index: int, spec: RunSpec, desk: Reports, transport: Transport
) -> Callable[[], dict[str, Any]]:
    """Build a case; return a function that runs it once."""
    if case.engine == "torch":
        from explorer.run.ranks.engines import torch_player

        return torch_player(case, desk, transport)
    lanes = RankLanes(case.lowered())
    faults = {f.action: f for f in spec.faults if f.rank == transport.rank and f.case == index}

    def before(position: int) -> None:
        if position in faults:
            guard.inject(faults[position])

    def step(number: int) -> None:
        desk.events.send("step", case=case.name, step=number)

    hooks = Hooks(status=desk.status, before=before, step=step)
    if case.kind != DRY and case.is_sharded:
        from explorer.run.sharded.sharded_compute import open_sharded

        return _computing(*open_sharded(case, lanes, transport), hooks, case, desk)
    transport.open(lanes.wires, lanes.groups)
    lane = 0 if case.everywhere else transport.rank
    plan = lanes.plan(lane) if lane < len(lanes.program.programs) else None
    if case.kind == DRY:
        return lambda: _play(plan, Sleeper(case.seconds, transport.device), transport, hooks, case, desk)
    from explorer.run.ranks.compute import Compute

    compute = Compute(case, lanes, lane, transport.device) if plan else None
    return _computing(compute, transport, plan, hooks, case, desk)


def _computing(
    compute: Compute | None,
    transport: Transport | LaneTransport,
    plan: LanePlan | None,
    hooks: Hooks,
    case: RunCase,
    desk: Reports,
) -> Callable[[], dict[str, Any]]:
    """Return a function that computes a case once."""
    from explorer.run.referee.comparison import compare_with_emulation

    def play() -> dict[str, Any]:
        if compute is not None:
            compute.reset()
            if not (case.check or case.count_bytes):  # what is timed are steps like any but the first
                compute.make_states()
        if compute is not None and case.count_bytes:
            with counted(transport.device, compute.held()) as found:
                record = _play(plan, compute, transport, hooks, case, desk)
            record["peak_bytes"] = found.peak
        else:
            record = _play(plan, compute, transport, hooks, case, desk)
        if compute is not None:
            if case.check:
                desk.status(COMPUTING, "the comparison with one process", sum(case.seconds))
            record.update(compute.record())
            if case.check:
                record["numerics"] = compare_with_emulation(compute)
        return record

    return play


def _play(
    plan: LanePlan | None,
    backend: Backend | None,
    transport: Transport | LaneTransport,
    hooks: Hooks,
    case: RunCase,
    desk: Reports,
) -> dict[str, Any]:
    """Start together, run, and return the stamps."""
    desk.status(WAITING, "the start of " + case.name, 0.0)
    transport.barrier()
    begin = transport.largest(time.perf_counter()) + LEAD_S if _one_host() else time.perf_counter()
    record: dict[str, Any] = {"stamps": []}
    if plan is not None and backend is not None:
        stamps = Interpreter(plan, backend, transport, hooks, case.seconds).run(begin)
        record["stamps"] = [list(stamp) for stamp in stamps]
    desk.status(WAITING, "the end of " + case.name, 0.0)
    return record


def _one_host() -> bool:
    """Tell whether all ranks share one clock."""
    return os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
