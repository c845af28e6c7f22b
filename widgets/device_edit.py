"""Devices moved by hand: to another lane, into another's place, out of use. Pure; a bad wish raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.base.errors import InputError
from explorer.strategies.device_edits import Placed, with_device
from explorer.strategies.shares import EVEN, SPEED, TURNS, with_sharing

from .holds import check
from .session import Point, make_point

DEVICE, SHARING = "device", "sharing"
"""Gestures: move a device; share the samples of a lane otherwise among its replicas."""
SHARING_WORDS = {EVEN: "equal shares", SPEED: "shares by speed", TURNS: "microbatches in turn"}


def moved_device(point: Point, intent: Mapping[str, Any]) -> Point:
    """Return the state after a device was put somewhere, with its replica.

    Args:
        point: the state.
        intent: `device`, and `to_lane` (id) or `to_device`; neither takes it out of use.

    Raises:
        ExplorerError: the device cannot go there, or the strategy that this makes cannot run.
    """
    device, other, lane = int(intent["device"]), intent.get("to_device"), intent.get("to_lane")
    job, present = point.strategy.job, point.inputs.cluster.present
    for number in (device, other):
        if number is not None and number not in set(present):
            raise InputError(
                f"no device {number}", key="device", found=number, allowed="a device of the cluster"
            )
    used = {d for devices in point.scene.group_devices for d in devices}
    idle = [number for number in present if number not in used]
    after = with_device(
        Placed(job=job, groups=point.groups), idle, device,
        lane=None if lane is None else int(lane), other=None if other is None else int(other),
    )  # fmt: skip
    check(point.holds, job, after.job)
    strategy = point.strategy.with_job(after.job)
    return make_point(point.inputs, strategy, after.groups, note=_note(device, other, lane))


def shared_otherwise(point: Point, lane: int, how: str) -> Point:
    """Return the state after the replicas of a lane were told how to share its samples.

    Raises:
        ExplorerError: no such lane, or the strategy that this makes cannot run.
    """
    if not 0 <= lane < len(point.groups):
        raise InputError(f"no lane {lane}", key="lane", found=lane, allowed=f"0 to {len(point.groups) - 1}")
    own, stages = point.inputs, point.scene.stages_of_lane[lane]
    if not stages:
        raise InputError(f"lane {lane} has no layers", key="lane", found=lane, allowed="a lane with layers")
    job = with_sharing(own.graph, point.scene.cluster, own.job.precision, point.strategy.job, stages, how)
    strategy = point.strategy.with_job(job)
    return make_point(own, strategy, point.groups, note=f"lane {lane}: {SHARING_WORDS[how]}")


def _note(device: int, other: int | None, lane: str | None) -> str:
    if other is not None:
        return f"devices {device} and {other} changed places"
    return f"device {device} out of use" if lane is None else f"device {device} to lane {lane}"
