"""A plan of Sailor: stages with their layers and, for each replica, the GPUs it runs on.

``{"pipeline_list": [{"num_stages": 2, "dp": [1, 1], "layers_per_stage": [[0, 1, ...], [...]],
"tmp_per_stage": [[[[["GH-96", 4, zone]], 4]], ...]}], "mbs": 8, "gbs": 32, "real": s, "max_mem": bytes}``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from explorer.base.errors import InputError
from explorer.score.reading import count, positive
from explorer.score.sets._sailor_models import OPT_350M, PlannedModel, model_of

MOST_LAYERS = 1024
"""More than any model has: a mistyped number must not hang us."""
_MOST_GPUS = 4096
"""Larger than any cluster of the set: a mistyped number must not hang us."""


class Replica(NamedTuple):
    """GPUs of one replica of a stage."""

    gpus: tuple[tuple[str, int], ...]
    """(name, number) of its GPUs."""
    tensor: int
    """Tensor-parallel size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStage:
    """One stage of a plan."""

    layers: tuple[int, ...]
    """Consecutive layers of the profile."""
    replicas: tuple[Replica, ...]
    """Replicas, with equal tensor-parallel sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SailorPlan:
    """A plan with its measurements."""

    model: PlannedModel
    """What it trains."""
    stages: tuple[PlanStage, ...]
    """Stages in order; together they hold every layer once."""
    micro: int
    """Samples of a microbatch on one replica."""
    batch: int
    """Samples of a step."""
    seconds: float
    """Seconds of one step."""
    memory_bytes: float
    """Most bytes of memory on any GPU."""

    @property
    def gpus(self) -> dict[str, int]:
        """Number of GPUs of each name that it uses."""
        found: dict[str, int] = {}
        for stage in self.stages:
            for replica in stage.replicas:
                for name, number in replica.gpus:
                    found[name] = found.get(name, 0) + number
        return found


def read_plan(data: Any, model: str = OPT_350M) -> SailorPlan:
    """Read a plan from its JSON.

    Args:
        data: the plan.
        model: name of the model, unless the plan has a `model` of its own.

    Raises:
        InputError: a value is missing or wrong, layers do not occur once each, or sizes do not fit.
    """
    plan = _mapping(data, "plan")
    pipelines = _list(_value(plan, "pipeline_list"), "pipeline_list")
    pipeline = _mapping(pipelines[0], "pipeline_list")
    if len(pipelines) != 1:
        raise InputError(
            f"{len(pipelines)} pipelines", key="pipeline_list", found=len(pipelines),
            allowed="one, whose stages have several replicas",
        )  # fmt: skip
    layers = _list(_value(pipeline, "layers_per_stage"), "layers_per_stage")
    groups = _list(_value(pipeline, "tmp_per_stage"), "tmp_per_stage")
    data_parallel = _list(_value(pipeline, "dp"), "dp")
    stated = (count(_value(pipeline, "num_stages"), "num_stages"), len(groups), len(data_parallel))
    if any(number != len(layers) for number in stated):
        raise InputError(
            f"{len(layers)} lists of layers for {stated[0]} stages with {stated[1]} lists of GPUs and"
            f" {stated[2]} numbers of replicas", key="num_stages", found=stated[0], allowed="as many of each",
        )  # fmt: skip
    stages = tuple(_stage(*item) for item in zip(layers, groups, data_parallel, strict=True))
    _check_zones(groups)
    dealt = [number for stage in stages for number in stage.layers]
    trained = model_of(str(plan.get("model", model)), len(dealt))
    _check_layers(dealt, trained.layers)
    found = SailorPlan(
        model=trained,
        stages=stages,
        micro=count(_value(plan, "mbs"), "mbs"),
        batch=count(_value(plan, "gbs"), "gbs"),
        seconds=positive(_value(plan, "real"), "real"),
        memory_bytes=positive(_value(plan, "max_mem"), "max_mem"),
    )
    _check_sizes(found)
    return found


def _stage(layers: Any, group: Any, replicas: Any) -> PlanStage:
    numbers = tuple(_layer(item) for item in _list(layers, "layers_per_stage"))
    found = tuple(_replica(item) for item in _list(group, "tmp_per_stage"))
    if len(found) != count(replicas, "dp"):
        raise InputError(
            f"{replicas} replicas, but GPUs for {len(found)}",
            key="dp",
            found=replicas,
            allowed=str(len(found)),
        )
    sizes = {replica.tensor for replica in found}
    if len(sizes) > 1:
        raise InputError(
            f"replicas of one stage with tensor-parallel sizes {sorted(sizes)}", key="tmp_per_stage",
            found=sorted(sizes), allowed="one size for all replicas of a stage",
        )  # fmt: skip
    return PlanStage(layers=numbers, replicas=found)


def _layer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_LAYERS:
        raise InputError(f"no layer {value!r}", key="layers_per_stage", found=value, allowed="0, 1, 2, ...")
    return value


def _replica(item: Any) -> Replica:
    pair = _list(item, "tmp_per_stage")
    if len(pair) != 2:
        raise InputError(
            f"{len(pair)} values for one replica", key="tmp_per_stage", found=len(pair),
            allowed="its GPUs and its tensor-parallel size",
        )  # fmt: skip
    gpus = tuple(_gpus(entry) for entry in _list(pair[0], "tmp_per_stage"))
    tensor, total = count(pair[1], "tmp_per_stage"), sum(number for _, number in gpus)
    if total != tensor:
        raise InputError(
            f"tensor parallelism of {tensor} on {total} GPUs", key="tmp_per_stage", found=tensor,
            allowed=str(total),
        )  # fmt: skip
    return Replica(gpus, tensor)


def _gpus(entry: Any) -> tuple[str, int]:
    parts = _list(entry, "tmp_per_stage")
    if len(parts) != 3 or not isinstance(parts[0], str) or not isinstance(parts[2], str):
        raise InputError(
            f"{entry!r} names no GPUs", key="tmp_per_stage", found=entry, allowed="[name, number, zone]"
        )
    return parts[0], count(parts[1], "tmp_per_stage")


def _check_zones(groups: Sequence[Any]) -> None:
    zones = sorted({entry[2] for group in groups for replica in group for entry in replica[0]})
    if len(zones) > 1:
        raise InputError(
            f"GPUs in {len(zones)} zones", key="tmp_per_stage", found=zones,
            allowed="one zone: nothing is known of the links between several",
        )  # fmt: skip


def _check_layers(found: Sequence[int], count: int) -> None:
    if (last := max(found)) >= count:
        raise InputError(f"no layer {last}", key="layers_per_stage", found=last, allowed=f"0 to {count - 1}")
    missing = sorted(set(range(count)) - set(found))
    twice = sorted({number for number in found if found.count(number) > 1})
    if missing or twice:
        said = [f"{what} {numbers}" for what, numbers in (("twice", twice), ("missing", missing)) if numbers]
        raise InputError(
            f"layers {' and '.join(said)}", key="layers_per_stage", found=len(found),
            allowed=f"every layer from 0 to {count - 1} once",
        )  # fmt: skip
    if list(found) != sorted(found):
        raise InputError("layers out of order", key="layers_per_stage", allowed="in the order of the model")


def _check_sizes(plan: SailorPlan) -> None:
    total = sum(plan.gpus.values())
    if total > _MOST_GPUS:
        raise InputError(f"{total} GPUs", key="tmp_per_stage", found=total, allowed=f"at most {_MOST_GPUS}")
    for stage in plan.stages:
        size = plan.micro * len(stage.replicas)
        if plan.batch % size:
            raise InputError(
                f"a batch of {plan.batch} in microbatches of {plan.micro} on {len(stage.replicas)} replicas",
                key="gbs", found=plan.batch, allowed=f"a multiple of {size}",
            )  # fmt: skip


def _value(data: Mapping[str, Any], key: str) -> Any:
    if key not in data:
        raise InputError(f"no value for {key!r}", key=key, allowed="a value")
    return data[key]


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{type(value).__name__} is no object", key=key, allowed="a JSON object")
    return value


def _list(value: Any, key: str) -> Sequence[Any]:
    if not isinstance(value, list) or not value:
        raise InputError(f"{value!r} is no list with values", key=key, allowed="a list of one value or more")
    return value
