"""Resharding table: the collective that turns one state into another, and what it moves.

Over one mesh axis of n devices, with S the buffer (the tensor without what other mesh axes split off):

    partial   -> broadcast   all_reduce       2 (n-1)/n S sent by each device
    partial   -> split       reduce_scatter     (n-1)/n S
    split     -> broadcast   all_gather         (n-1)/n S
    split(i)  -> split(j)    all_to_all         (n-1)/n S/n
    broadcast -> split       none (a slice)
    any       -> partial     none (others add zeros)

These are OneFlow's boxing costs. `sample` is a split like any other. Over several axes the conversions run
one axis after the other, those that shrink the buffer first and those that grow it last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from explorer.sharding.states import BROADCAST, PARTIAL, Axis, State, TensorPlacement, share


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One conversion over one mesh axis."""

    op: str
    """all_reduce, reduce_scatter, all_gather, all_to_all, or `slice` and `pad`, which move nothing."""
    axis: int
    """Position of the mesh axis."""
    source: State
    """State before the conversion."""
    target: State
    """State after the conversion."""
    buffer: float
    """Buffer in samples of the tensor: all of it except what other axes split; for an all_to_all one device's
    part."""

    @property
    def moves(self) -> bool:
        """Whether anything is sent."""
        return self.op not in ("slice", "pad")


def conversion(source: State, target: State) -> str:
    """Return the collective that turns one state into another; `slice` or `pad` sends nothing, "" if equal.

    >>> conversion(PARTIAL, BROADCAST), conversion(0, 1), conversion(BROADCAST, 0)
    ('all_reduce', 'all_to_all', 'slice')
    """
    if source == target:
        return ""
    if target == PARTIAL:
        return "pad"
    if source == PARTIAL:
        return "all_reduce" if target == BROADCAST else "reduce_scatter"
    if source == BROADCAST:
        return "slice"
    return "all_gather" if target == BROADCAST else "all_to_all"


def wire_factor(op: str, devices: int) -> float:
    """Return the buffers each device sends: 2(n-1)/n for an all-reduce or a halo, (n-1)/n for the others.

    A ring's gradients make one more pass than the blocks they travel with: (2n-1)/n together.

    >>> wire_factor("all_reduce", 4), wire_factor("slice", 4)
    (1.5, 0.0)
    """
    if op in ("slice", "pad", ""):
        return 0.0
    if op == "halo":
        return 2.0 * (devices - 1) / devices
    if op == "ring_gradient":
        return (2.0 * devices - 1) / devices
    return (2.0 if op == "all_reduce" else 1.0) * (devices - 1) / devices


_ORDER = {"slice": 0, "reduce_scatter": 1, "all_reduce": 2, "all_to_all": 3, "all_gather": 4, "pad": 5}


@lru_cache(maxsize=65536)
def reshard(
    source: TensorPlacement, target: TensorPlacement, sizes: tuple[float, ...], axes: tuple[Axis, ...]
) -> tuple[Step, ...]:
    """List the conversions from one placement to another, in the order that moves least.

    Args:
        source: state per mesh axis before.
        target: state per mesh axis after.
        sizes: size of each axis of the tensor.
        axes: the mesh axes.
    """
    if source == target:
        return ()
    ops = [(conversion(a, b), i) for i, (a, b) in enumerate(zip(source, target, strict=True)) if a != b]
    now, steps = list(source), []
    for op, i in sorted(ops, key=lambda item: (_ORDER[item[0]], item[1])):
        # an all-to-all works on what the device holds, the others on everything that this axis splits
        during = list(now)
        if op != "all_to_all":
            during[i] = BROADCAST
        buffer = share(tuple(during), sizes, axes)
        steps.append(Step(op=op, axis=i, source=source[i], target=target[i], buffer=buffer))
        now[i] = target[i]
    return tuple(steps)


def moved(steps: Sequence[Step], axes: Sequence[Axis]) -> float:
    """Sum what each device sends in all these steps, in samples of the tensor."""
    return sum(step.buffer * wire_factor(step.op, axes[step.axis].size) for step in steps)
