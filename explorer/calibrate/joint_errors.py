"""Joint errors: independent directions in which the numbers of a calibrated cluster may be off together.

After a step time was measured its numbers err against each other. The eigenvectors of their covariance are
independent again, so the plan is simulated at either end of each, as with single numbers
(`explorer.sweep.bands`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.calibrate.numbers import Number
from explorer.calibrate.posterior import Array, Z
from explorer.calibrate.step_numbers import StepNumber, moved, step_numbers
from explorer.calibrate.steps import calibrated_covariance
from explorer.cluster import Cluster, Source
from explorer.cluster.calibration import MODEL

_LEAST = 1e-3  # standard deviation of a direction below which it moves nothing that is shown
_NAMES = {
    "compute": "busy_slowdown", "host": "host_issue_s", "transfers": "bandwidth_bytes_per_s",
    "overlap": "overlap_slowdown", "lockstep": "device_spread",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One independent error of several numbers."""

    number: Number
    """The number that takes the largest part in it, for people."""
    less: Cluster
    """Cluster at the lower end of its 80 % band."""
    more: Cluster
    """Cluster at the upper end."""


def covered(cluster: Cluster) -> frozenset[str]:
    """Return the keys of the profile's numbers whose errors are among the joint ones."""
    known = {key for key, _ in cluster.calibration.priors}
    return frozenset(key for item in step_numbers(cluster) if item.key in known for key in item.members)


def directions(cluster: Cluster, model: str) -> tuple[Direction, ...]:
    """Return the independent errors of a calibrated cluster; () if no step was measured.

    Args:
        cluster: the cluster.
        model: name of the graph that is predicted; one that was not measured has an error of its own.
    """
    if not cluster.calibration.steps:
        return ()
    return cluster.memo(("joint errors", model), lambda: _directions(cluster, model))


def _directions(cluster: Cluster, model: str) -> tuple[Direction, ...]:
    keys, left = calibrated_covariance(cluster.calibration)
    own = [i for i, key in enumerate(keys) if not key.startswith(MODEL) or key == MODEL + model]
    numbers = {item.key: item for item in step_numbers(cluster, (model,))}
    here = [i for i in own if keys[i] in numbers]
    chosen = [numbers[keys[i]] for i in here]
    spread = left[np.ix_(here, here)]
    if not cluster.calibration.knows(model):
        fresh = numbers[MODEL + model]
        chosen.append(fresh)
        spread = np.pad(spread, (0, 1))
        spread[-1, -1] = fresh.sd**2
    values, vectors = np.linalg.eigh(spread)
    return tuple(
        _direction(cluster, chosen, vectors[:, i] * math.sqrt(float(value)))
        for i, value in enumerate(values)
        if value > _LEAST**2
    )


def _direction(cluster: Cluster, numbers: Sequence[StepNumber], along: Array) -> Direction:
    by = dict(zip((item.key for item in numbers), (Z * along).tolist(), strict=True))
    ends = [moved(cluster, tuple(numbers), {key: sign * far for key, far in by.items()}) for sign in (-1, 1)]
    most = numbers[int(np.abs(along).argmax())]
    return Direction(number=_shown(cluster, most), less=ends[0], more=ends[1])


def _shown(cluster: Cluster, number: StepNumber) -> Number:
    """Return the number of a profile that stands for a group."""
    owner, _, group = number.key.rpartition(".")
    if number.key.startswith(MODEL):
        owner, group = cluster.nodes[0].device_kind, "compute"
    name = _NAMES[group]
    source = Source(key=name, how="fitted", reference="measured steps", band=math.expm1(Z * number.sd))
    return Number(owner=owner, name=name, value=0.0, quantity="fraction", source=source)
