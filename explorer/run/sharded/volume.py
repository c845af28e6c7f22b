"""Volume: the bytes that each rank of a mesh sends in a forward and backward, as sharding predicts them.

What a real run sends otherwise is not hidden in a tolerance but has a name: `Otherwise`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from explorer.base.units import dtype_bytes
from explorer.graph import COMPUTE
from explorer.run.sharded.execution import ShardedExecution
from explorer.run.sharded.kinds import is_by_channel
from explorer.sharding.reshard import wire_factor
from explorer.sharding.states import share

Key = tuple[str, str, str]
"""(way, operation, mesh axis): `forward`, `backward` or `update`."""


class Otherwise(NamedTuple):
    """Bytes that a run sends otherwise than the cost model counts them."""

    key: Key
    """Where."""
    layer: str
    """Layer that it concerns."""
    sent: float
    """Bytes of each rank, averaged, added to (or taken from) what is predicted."""
    why: str
    """Reason in words."""


def predicted_bytes(run: ShardedExecution, precision: str) -> dict[Key, float]:
    """Return the bytes that a rank sends for one microbatch and one update, averaged over the ranks."""
    found: Counter[Key] = Counter()
    result = run.whole.cut(tuple(layer.name for layer in run.layers))
    for way, items in (("forward", result.forward), ("backward", result.backward)):
        for item in items:
            scalars = wire_factor(item.op, item.size) * item.elements_per_sample * run.replica_samples
            found[way, item.op, item.axis] += scalars * _word(item.dtype, precision)  # type: ignore[assignment]
    for name, sums in result.partial_sums.items():
        parameter = run.graph.parameter[name]
        scalars = result.parameter_fraction[name] * parameter.elements
        for axis, count in sums:
            sent = wire_factor("all_reduce", count) * scalars * _word(parameter.dtype, precision)
            found["update", "all_reduce", axis] += sent  # type: ignore[assignment]
    for name, stored in run.stored.items():
        parameter = run.graph.parameter[name]
        for a, count in stored.sums:
            if run.axes[a].carved:  # replicas of each other, whose gradients data parallelism adds up
                scalars = share(stored.placement, parameter.shape, run.plain_axes) * parameter.elements
                sent = wire_factor("all_reduce", count) * scalars * _word(parameter.dtype, precision)
                found["update", "all_reduce", run.axes[a].name] += sent  # type: ignore[assignment]
    return {key: sent for key, sent in found.items() if sent}


def otherwise(run: ShardedExecution, precision: str) -> Iterator[Otherwise]:
    """Yield what a run sends otherwise than predicted, where it is known why."""
    for layer in run.layers:
        here = run.here[layer.name]
        if layer.kind == "norm" and is_by_channel(here):
            for way in ("forward", "backward"):
                for item in getattr(here.plan, way):
                    axis = run.axes[item.axis]
                    scalars = wire_factor(item.op, axis.size) * item.elements * (1 - run.replica_samples)
                    sent = scalars * _word(item.dtype, precision)
                    why = "statistics by channel are of all samples at once, and counted for each sample"
                    yield Otherwise((way, item.op, axis.name), layer.name, sent, why)


def sent_bytes(run: ShardedExecution) -> dict[Key, int]:
    """Return the bytes that this rank has sent since its meter was cleared."""
    found: dict[Key, int] = defaultdict(int)
    for (way, op, axis, _), sent in run.mesh.meter.sent.items():
        found[way, op, axis] += sent
    return {key: sent for key, sent in found.items() if sent}


def _word(dtype: str, precision: str) -> float:
    # statistics that the cost model counts in fp32 are made in the precision of the run if that is wider
    wide = dtype_bytes(precision)
    return (
        max(wide, dtype_bytes(dtype)) if dtype == "fp32" else wide if dtype == COMPUTE else dtype_bytes(dtype)
    )
