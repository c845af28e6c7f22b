"""Edits: from one state and a wish to the next state. Pure; an impossible wish raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from explorer.base.errors import ExplorerError, InputError
from explorer.cluster.device_kinds import LIKELY, SURELY
from explorer.cluster.memory_room import MARGIN, margin_settings, under_settings
from explorer.cluster_profiles import load_cluster
from explorer.explain.names import counted
from explorer.framework_files import load_framework
from explorer.models import load_model
from explorer.schedules import SCHEDULES
from explorer.strategies.degrees import Degrees
from explorer.strategies.degrees_neighbours import divisible
from explorer.strategies.exceptions import carried
from explorer.strategies.model_axes import EXPERT
from explorer.strategies.moves import place_layers
from explorer.strategy import REPLICA, ROUND_ROBIN, JobStrategy, Stage, Strategy
from explorer.workload import Workload

from .holds import check, with_lock, with_pins
from .inputs import Inputs, load_inputs, shared
from .phases import PLACING, READING, phase
from .schedule_choice import OPTION, degrees_shown, with_option, with_schedule
from .session import Point, make_point
from .start import start_strategy
from .update_choice import UPDATE, UPDATE_OPTION, with_update

FALLBACK_SCHEDULE = "1f1b"
"""Schedule that runs any DAG of stages; used if a drop leaves a shape that the chosen schedule cannot
order.
"""


def move_layers(point: Point, layers: Iterable[str], lane: int) -> Point:
    """Put layers on a lane, in every replica.

    Raises:
        ExplorerError: an unknown layer or lane, or a placement that no schedule can order.
    """
    moves = dict.fromkeys(layers, lane)
    if not moves:
        raise InputError("nothing was moved", key="layers", found=0, allowed="one layer or more")
    job = place_layers(point.inputs.graph, point.strategy.job, moves, point.groups)
    return _placed(point, job, f"moved {counted(len(moves), 'layer')}")


def shift_boundary(point: Point, before: int, after: int, layers: int) -> Point:
    """Give the first `layers` layers of stage `after` to `before`, or with a negative count the last of
    `before` to `after`.

    Raises:
        ExplorerError: missing stages, or a stage that would be left empty.
    """
    job = point.strategy.job
    for stage in (before, after):
        if not 0 <= stage < len(job.stages):
            raise InputError(
                f"no stage {stage}", key="boundary", found=stage, allowed=f"0 to {len(job.stages) - 1}"
            )
    giver, taker = (after, before) if layers > 0 else (before, after)
    own = _sorted(point, job.stages[giver].layers)
    if not 0 < abs(layers) < len(own):
        raise InputError(
            f"stage {giver} has {counted(len(own), 'layer')}; it cannot give {abs(layers)}",
            key="layers", found=layers, allowed=f"1 to {len(own) - 1}",
        )  # fmt: skip
    moved = own[:layers] if layers > 0 else own[layers:]
    gone = set(moved)
    stages = list(job.stages)
    stages[giver] = replace(stages[giver], layers=tuple(name for name in own if name not in gone))
    stages[taker] = replace(stages[taker], layers=tuple(_sorted(point, (*stages[taker].layers, *moved))))
    held = carried(point.inputs.graph, job, stages)
    return _placed(point, job.with_stages(held), f"moved {counted(len(moved), 'layer')} across a boundary")


def _sorted(point: Point, layers: Iterable[str]) -> list[str]:
    return sorted(layers, key=point.inputs.graph.index.__getitem__)


def _placed(point: Point, job: JobStrategy, note: str) -> Point:
    """Cost a placement, under the fallback schedule if its own cannot order it."""
    check(point.holds, point.strategy.job, job)
    strategy = point.strategy.with_job(job)
    try:
        return make_point(point.inputs, strategy, point.groups, note=note)
    except ExplorerError:
        if job.schedule == FALLBACK_SCHEDULE:
            raise
        fallback = point.strategy.with_job(replace(job, schedule=FALLBACK_SCHEDULE, options=()))
        said = f"{note}; {job.schedule} has no order for this placement, so the schedule is now 1f1b"
        return make_point(point.inputs, fallback, point.groups, note=said)


def pin_layers(point: Point, layers: Iterable[str], *, on: bool) -> Point:
    """Pin layers to their devices, or release them; the name of a block stands for its layers.

    Raises:
        InputError: an unknown layer or block.
    """
    graph = point.inputs.graph
    names = [name for item in layers for name in graph.blocks.get(item, (item,))]
    for name in names:
        if name not in graph.index:
            allowed = "a layer or block of the model"
            raise InputError(f"no layer or block {name!r}", key="pins", found=name, allowed=allowed)
    what = f"{'pinned' if on else 'released'} {counted(len(names), 'layer')}"
    return replace(point, holds=with_pins(point.holds, names, on=on), note=what, maker="board")


def lock_lane(point: Point, lane: int, *, on: bool) -> Point:
    """Lock a lane, so that it keeps exactly its layers, or unlock it.

    Raises:
        InputError: no such lane.
    """
    groups = point.scene.group_devices
    if not 0 <= lane < len(groups):
        raise InputError(f"no lane {lane}", key="locks", found=lane, allowed=f"0 to {len(groups) - 1}")
    what = f"{'locked' if on else 'unlocked'} lane {lane}"
    return replace(point, holds=with_lock(point.holds, groups[lane], on=on), note=what, maker="board")


def degrees_of(point: Point) -> Degrees:
    """Return the degrees nearest to a state, as the pickers show them; lanes without layers count."""
    return degrees_shown(point)


def even_strategy(inputs: Inputs, degrees: Degrees) -> Strategy:
    """Return the even strategy of some degrees, with which hand-made placements are compared.

    Raises:
        ExplorerError: the cluster is too small, or the batch does not divide.
    """
    return degrees.build(inputs.graph, inputs.cluster, inputs.job)


def edits_plan(key: str) -> bool:
    """Tell whether a field makes another state, which has to be worked out."""
    return key in _FIELDS or key.startswith((OPTION, UPDATE_OPTION)) or key == UPDATE


def set_field(point: Point, key: str, value: Any) -> Point:
    """Return the state after a picker was set.

    Raises:
        ExplorerError: an unknown field, or an impossible value.
    """
    if key.startswith(OPTION):
        return with_option(point, key, value)
    if key == UPDATE or key.startswith(UPDATE_OPTION):
        return with_update(point, key, value)
    if key not in _FIELDS:
        raise InputError(f"unknown field {key!r}", key=key, found=value, allowed=", ".join(_FIELDS))
    return _FIELDS[key](point, key, value)


def _new_inputs(point: Point, key: str, value: Any) -> Point:
    """Start afresh with another model or cluster. The workload stays if the model stays."""
    own = point.inputs
    if key == "model":
        brought = own.cluster_name == own.model.reference  # devices that came with a file go with it
        phase(READING)
        inputs = load_inputs(str(value), None if brought else own.cluster_name, prefer_own=True)
    else:  # the model is loaded already, with its own settings: its file may be gone
        devices = under_settings(load_cluster(str(value)), margin_settings(own.cluster))
        inputs = replace(own, cluster_name=str(value), cluster=shared(devices))
    phase(PLACING)
    return make_point(inputs, start_strategy(inputs), note=f"{key} {value}", maker="start")


def _sequence_length(point: Point, key: str, value: Any) -> Point:
    own = point.inputs
    length = whole_number(key, value)
    inputs = _read_again(own, own.workload.with_job(sequence_length=length))
    return make_point(inputs, point.strategy, point.groups, note=f"sequence length {length}")


def _framework(point: Point, _key: str, value: Any) -> Point:
    """Change the framework: it may fuse kernels or sum gradients otherwise, so the model is read again."""
    own, name = point.inputs, str(value)
    inputs = _read_again(own, own.workload.with_job(framework=name))
    return make_point(inputs, point.strategy, point.groups, note=f"framework {name or 'as usual'}")


def _memory_margin(point: Point, key: str, value: Any) -> Point:
    """Take plans that may fit, or only those that fit for sure; the placement stays, its verdict may not."""
    inputs = replace(point.inputs, cluster=shared(under_settings(point.inputs.cluster, ((key, str(value)),))))
    return make_point(inputs, point.strategy, point.groups, note=f"memory that {MARGIN_WORDS[str(value)]}")


def _read_again(own: Inputs, workload: Workload) -> Inputs:
    """Return the inputs with the model as a workload has it; its own settings and devices stay."""
    job = workload.job
    kept = job.sequence_length == own.job.sequence_length
    length = own.model.sequence_length if kept else job.sequence_length
    phase(READING)
    graph = load_model(
        own.model.reference, sequence_length=length or None, settings=dict(own.model.settings),
        framework=load_framework(job.framework),
    )  # fmt: skip
    model = replace(own.model, sequence_length=length)
    return replace(own, model=model, graph=shared(graph), workload=workload)


MARGIN_WORDS = {LIKELY: "may fit", SURELY: "fits for sure"}
"""What is asked of the memory of plans."""

WORDS = {
    "global_batch": "batch", "microbatch_size": "microbatch", "recompute": "recomputation", "zero": "ZeRO",
}  # fmt: skip
"""Fields as a list of states names them, where their keys are no words."""


def _workload(point: Point, key: str, value: Any) -> Point:
    found = whole_number(key, value) if key == "global_batch" else str(value)
    inputs = replace(point.inputs, workload=point.inputs.workload.with_job(**{key: found}))
    return make_point(inputs, point.strategy, point.groups, note=f"{WORDS.get(key, key)} {found}")


def _every_stage(point: Point, key: str, value: Any) -> Point:
    """Set recomputation, ZeRO or microbatch size: the same for all stages, and for lanes without any."""
    found = str(value) if key == "recompute" else whole_number(key, value, least=0 if key == "zero" else 1)

    def changed(stage: Stage) -> Stage:
        if key != "microbatch_size":
            changes: dict[str, Any] = {key: found}
            return replace(stage, **changes)
        replicas = 1 if stage.replicas == ROUND_ROBIN else stage.meshes[0].replicas
        return replace(stage, microbatch_samples=int(found) * replicas)

    job = point.strategy.job
    strategy = point.strategy.with_job(job.with_stages(changed(stage) for stage in job.stages))
    groups = [replace(group, template=changed(group.template)) for group in point.groups]
    return make_point(point.inputs, strategy, groups, note=f"{WORDS.get(key, key)} {found}")


def _sequence_parallel(point: Point, key: str, value: Any) -> Point:
    """Split norms and additions along the sequence too, or no longer; the placement stays."""
    if value not in ("yes", "no"):
        raise InputError(f"{value!r} sequence parallelism", key=key, found=value, allowed="yes or no")
    now = degrees_of(point)
    wanted = now.changed(sequence_parallel=value == "yes")
    if now.tensor < 2:
        raise InputError(
            "sequence parallelism needs devices that share each layer", key=key, found=value,
            allowed="tensor 2 or more",
        )  # fmt: skip

    def changed(stage: Stage) -> Stage:
        return replace(stage, layout=wanted.layout) if stage.layout == now.layout else stage

    job = point.strategy.job
    strategy = point.strategy.with_job(job.with_stages(changed(stage) for stage in job.stages))
    if strategy == point.strategy and wanted != now:
        raise InputError(
            "every stage is laid out by hand", key=key, found=value, allowed="a layout in the plan's file"
        )
    groups = [replace(group, template=changed(group.template)) for group in point.groups]
    note = f"{'with' if wanted.sequence_parallel else 'without'} sequence parallelism"
    return make_point(point.inputs, strategy, groups, note=note)


def _schedule(point: Point, _key: str, value: Any) -> Point:
    return with_schedule(point, str(value))


def _regular(point: Point, key: str, value: Any) -> Point:
    """Set any other degree, by another even cut. Replicas follow so that all devices stay in use."""
    found = whole_number(key, value)
    now, note = degrees_of(point), f"{key} {found}, cut evenly"
    if SCHEDULES.get(now.schedule).literal:
        note += f"; {now.schedule} was spelt out for the former cut: the schedule is now {FALLBACK_SCHEDULE}"
        now = now.changed(schedule=FALLBACK_SCHEDULE, options=())
    wanted = now.changed(**{key: found})
    if key not in (REPLICA + "s", EXPERT):
        left = len(point.inputs.cluster.present) // (wanted.devices // wanted.replicas)
        wanted = wanted.changed(replicas=max(1, left))
    strategy = even_strategy(point.inputs, divisible(wanted, point.inputs.job))
    return make_point(point.inputs, strategy, note=note)


def whole_number(key: str, value: Any, *, least: int = 1) -> int:
    """Read a whole number as typed.

    Raises:
        InputError: the value is not a whole number, or too small.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not number.is_integer() or number < least:
        raise InputError(
            f"{value!r} is not a whole number of {least} or more", key=key, found=value, allowed=f">= {least}"
        )
    return int(number)


_FIELDS: dict[str, Callable[[Point, str, Any], Point]] = {
    "model": _new_inputs,
    "cluster": _new_inputs,
    "sequence_length": _sequence_length,
    "global_batch": _workload,
    "precision": _workload,
    "optimizer": _workload,
    "microbatch_size": _every_stage,
    "recompute": _every_stage,
    "zero": _every_stage,
    "sequence_parallel": _sequence_parallel,
    "framework": _framework,
    MARGIN: _memory_margin,
    "schedule": _schedule,
    "stages": _regular,
    "replicas": _regular,
    "tensor": _regular,
    "context": _regular,
    "expert": _regular,
    "chunks": _regular,
}
"""What each picker does."""
