"""Shorthand of plan files: runs of devices, and fields that the stages of a job share.

A run of devices is ``0 .. 1023``, both ends included, and ``0 .. 7 x 128 by 64`` the same run 128 times in
all, each time 64 further on; more such repetitions may follow. Fields that most stages share stand once, in
``stage_defaults`` of their job, with ``axes`` for meshes that state none. A stage states only what differs.

Small jobs are written out in full, as version 0.1.0 did, since a short list is easier to read than a rule.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from explorer.base.errors import InputError
from explorer.base.plain_data import plain_field
from explorer.strategy import JobStrategy, Mesh, Stage

LONGEST_SPELT_OUT = 64
"""Most devices of a job that is still written out in full."""
MOST_DEVICES = 2**22
"""Most devices that a list may name; a slip must not exhaust the memory."""

DEFAULTS, AXES = "stage_defaults", "axes"
_OWN = ("layers", "meshes", "slices", "name")
_USUAL = {item.name: item.default for item in fields(Stage) if item.name not in _OWN}
"""Fields that stages may share, with their defaults."""
_SHARED = tuple(_USUAL)

_RUN = re.compile(r"(\d{1,9})(?: \.\. (\d{1,9}))?((?: x \d{1,9} by -?\d{1,9})*)")
_REPEAT = re.compile(r" x (\d+) by (-?\d+)")


def device_runs(devices: Sequence[int]) -> list[int | str]:
    """Return devices as numbers and runs, from which `devices_of` restores them exactly.

    >>> device_runs((0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19))
    ['0 .. 3 x 3 by 8']
    >>> device_runs((5, 4))
    [5, 4]
    """
    runs = _ascending(devices)
    while (fewer := _repeated(runs)) != runs:
        runs = fewer
    return [part for run in runs for part in run.parts()]


def devices_of(runs: Any, key: str) -> Any:
    """Return the devices that numbers and runs name; anything that is not a list of these is returned
    unchanged.

    Args:
        runs: plain data of a file.
        key: its path, for messages.

    Raises:
        InputError: a text that is not a run, or too many devices.
    """
    if not isinstance(runs, list) or not any(isinstance(item, str) for item in runs):
        return runs
    found: list[Any] = []
    for i, item in enumerate(runs):
        found += _spelt_out(item, f"{key}[{i}]") if isinstance(item, str) else [item]
        if len(found) > MOST_DEVICES:
            raise _too_many(key, len(found))
    return found


def shortened(data: dict[str, Any], job: JobStrategy) -> dict[str, Any]:
    """Return the plain data of a job in shorthand if it is large, else unchanged.

    Args:
        data: plain data of `JobStrategy`, as `to_plain` makes it.
        job: the job it describes.
    """
    if len(job.devices) <= LONGEST_SPELT_OUT:
        return data
    shared = {name: value for name in _SHARED if (value := _of_most(job, name)) != _USUAL[name]}
    axes = Counter(mesh.axes for stage in job.stages for mesh in stage.meshes).most_common(1)[0][0]
    stages = []
    for part, stage in zip(data["stages"], job.stages, strict=True):
        own = {name: plain_field(stage, name) for name in shared if getattr(stage, name) != shared[name]}
        kept = {name: value for name, value in part.items() if name not in shared} | own
        meshes = zip(part["meshes"], stage.meshes, strict=True)
        kept["meshes"] = [_short_mesh(plain, mesh, axes) for plain, mesh in meshes]
        for item, sharding in zip(kept.get("shardings", ()), stage.shardings, strict="shardings" in kept):
            if sharding.meshes:
                pairs = zip(item["meshes"], sharding.meshes, strict=True)
                item["meshes"] = [_short_mesh(plain, mesh, None) for plain, mesh in pairs]
        stages.append(kept)
    first = next(stage for stage in job.stages if stage.meshes[0].axes == axes)
    defaults = {AXES: plain_field(first.meshes[0], AXES)}
    for name, value in shared.items():
        defaults[name] = plain_field(next(s for s in job.stages if getattr(s, name) == value), name)
    return {DEFAULTS: defaults, **data, "stages": stages}


def _of_most(job: JobStrategy, name: str) -> Any:
    """Return the value of a field that more than half of the stages have, else its default."""
    value, count = Counter(getattr(stage, name) for stage in job.stages).most_common(1)[0]
    return value if 2 * count > len(job.stages) else _USUAL[name]


def _short_mesh(plain: Mapping[str, Any], mesh: Mesh, axes: object) -> dict[str, Any]:
    short = {**plain, "devices": device_runs(mesh.devices)}
    if mesh.axes == axes:
        del short[AXES]
    return short


def written_out(data: Any, key: str) -> Any:
    """Return the plain data of a job with its shared fields repeated in each stage, and devices as numbers.

    Args:
        data: plain data of a file; anything that is not a job is returned unchanged.
        key: its path, for messages.

    Raises:
        InputError: defaults that are not a mapping, or a text that is not a run of devices.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("stages"), list):
        return data
    job = dict(data)
    defaults = job.pop(DEFAULTS, {})
    if not isinstance(defaults, Mapping):
        raise InputError(
            "what stages share is not a mapping",
            key=f"{key}.{DEFAULTS}",
            found=defaults,
            allowed="fields of stages",
        )
    if wrong := [name for name in defaults if name not in (*_SHARED, AXES)]:
        raise InputError(
            f"{wrong[0]!r} cannot be shared",
            key=f"{key}.{DEFAULTS}.{wrong[0]}",
            found=wrong[0],
            allowed=", ".join((AXES, *_SHARED)),
        )
    shared = {name: value for name, value in defaults.items() if name != AXES}
    axes = {AXES: defaults[AXES]} if AXES in defaults else {}
    job["stages"] = [
        _stage({**shared, **stage} if isinstance(stage, Mapping) else stage, axes, f"{key}.stages[{i}]")
        for i, stage in enumerate(job["stages"])
    ]
    return job


def _stage(data: Any, axes: Mapping[str, Any], key: str) -> Any:
    """Return a stage with the devices of all its meshes as numbers; shared axes apply only to its own
    meshes.
    """
    if not isinstance(data, Mapping):
        return data
    stage = _with_meshes(data, axes, key)
    if isinstance(stage.get("shardings"), list):
        stage["shardings"] = [
            _with_meshes(item, {}, f"{key}.shardings[{i}]") if isinstance(item, Mapping) else item
            for i, item in enumerate(stage["shardings"])
        ]
    if isinstance(stage.get("keeping"), list):
        stage["keeping"] = [_with_word_on(item) for item in stage["keeping"]]
    return stage


def _with_word_on(data: Any) -> Any:
    """Return an exception whose key `on` is the word: bare in YAML it is the truth value."""
    if not isinstance(data, Mapping) or True not in data:
        return data
    return {"on" if key is True else key: value for key, value in data.items()}


def _with_meshes(data: Mapping[str, Any], axes: Mapping[str, Any], key: str) -> dict[str, Any]:
    part = dict(data)
    if isinstance(part.get("meshes"), list):
        part["meshes"] = [_mesh(mesh, axes, f"{key}.meshes[{i}]") for i, mesh in enumerate(part["meshes"])]
    return part


def _mesh(data: Any, axes: Mapping[str, Any], key: str) -> Any:
    if not isinstance(data, Mapping):
        return data
    mesh = {**axes, **data}
    return {**mesh, "devices": devices_of(mesh["devices"], f"{key}.devices")} if "devices" in mesh else mesh


class _Run(NamedTuple):
    """Ascending devices, repeated; several runs may share one pattern."""

    start: int
    length: int
    repeats: tuple[tuple[int, int], ...] = ()
    """(repetitions in all, distance between them), innermost first."""

    @property
    def size(self) -> int:
        """Number of devices in it."""
        return self.length * math.prod(times for times, _ in self.repeats)

    def parts(self) -> list[int | str]:
        """Return the run as a text, or its devices if they are fewer than three."""
        if self.size < 3:
            return list(_devices(self))
        head = f"{self.start} .. {self.start + self.length - 1}" if self.length > 1 else str(self.start)
        return [head + "".join(f" x {times} by {step}" for times, step in self.repeats)]


def _devices(run: _Run) -> list[int]:
    found = list(range(run.start, run.start + run.length))
    for times, step in run.repeats:
        found = [device + i * step for i in range(times) for device in found]
    return found


def _ascending(devices: Sequence[int]) -> list[_Run]:
    """Group devices that follow each other by one into runs."""
    runs: list[_Run] = []
    for device in devices:
        if runs and device == runs[-1].start + runs[-1].length:
            runs[-1] = runs[-1]._replace(length=runs[-1].length + 1)
        else:
            runs.append(_Run(device, 1))
    return runs


def _repeated(runs: list[_Run]) -> list[_Run]:
    """Join runs of one pattern at equal distances into one run; return the same list if there are none."""
    found: list[_Run] = []
    at = 0
    while at < len(runs):
        count = _alike(runs, at)
        if count > 2 or (count == 2 and runs[at].size > 2):
            step = runs[at + 1].start - runs[at].start
            found.append(runs[at]._replace(repeats=(*runs[at].repeats, (count, step))))
        else:
            count = 1
            found.append(runs[at])
        at += count
    return found


def _alike(runs: list[_Run], at: int) -> int:
    """Count the runs from `at` on that have its pattern and stand at equal distances."""
    count = 1
    while at + count < len(runs):
        run, before = runs[at + count], runs[at + count - 1]
        same = (run.length, run.repeats) == (before.length, before.repeats)
        if not same or run.start - before.start != runs[at + 1].start - runs[at].start:
            break
        count += 1
    return count


def _spelt_out(text: str, key: str) -> list[int]:
    """List the devices of a run.

    Raises:
        InputError: `text` is not a run, or names too many devices.
    """
    match = _RUN.fullmatch(text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise InputError(
            f"{text!r} is not a run of devices",
            key=key,
            found=text,
            allowed="0 .. 1023 (both ends included), 0 .. 7 x 128 by 64 (128 times in all, 64 further on)",
        )
    first, last = int(match[1]), int(match[2] or match[1])
    repeats = tuple((int(times), int(step)) for times, step in _REPEAT.findall(match[3]))
    run = _Run(first, last - first + 1, repeats)
    if run.size > MOST_DEVICES:
        raise _too_many(key, run.size)
    return _devices(run)


def _too_many(key: str, count: int) -> InputError:
    return InputError(f"{count:,} devices", key=key, found=count, allowed=f"up to {MOST_DEVICES:,}")
