"""Prefix sums: seconds of every run of layers on one row of devices, as `section_time` would sum them.

Where prices are no sums, their parts are: a lane's collectives take what work and the host do not hide of
their sum; a run without blocks is recomputed as a whole, one with blocks only in them; the framework's call
costs nothing if all layers that do something were measured, which counts tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from explorer.base.caching import MEBIBYTE, remembered
from explorer.cluster import DeviceKind
from explorer.costs.measured import measured_and_not
from explorer.graph import LayerGraph
from explorer.pricing.layer_columns import FloatArray, LayerColumns, Sharded
from explorer.pricing.overlap import Beside, beside_of
from explorer.pricing.section_time import SectionTime, in_blocks, made_again
from explorer.tables.hidden_sums import Hidden, hidden_sums
from explorer.tables.positions import Positions
from explorer.tasks.skeleton import IntArray

SUMS_KEPT = 512
"""Prefix sums of whole graphs that are remembered: 200 KB each for 1,800 layers with collectives."""


class RunSeconds(NamedTuple):
    """Seconds of many runs of layers, arrays by run: the fields of `SectionTime`."""

    forward_s: FloatArray
    input_grad_s: FloatArray
    weight_grad_s: FloatArray
    forward_comm_s: FloatArray
    backward_comm_s: FloatArray
    recompute_s: FloatArray
    recompute_comm_s: FloatArray
    forward_bytes: FloatArray
    backward_bytes: FloatArray
    recompute_bytes: FloatArray
    behind_weight_s: FloatArray

    def at(self, run: int) -> SectionTime:
        """Return the seconds of one run."""
        return SectionTime(*(float(values[run]) for values in self))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgainSums:
    """What a backward recomputes; prefix sums over the positions of cuts."""

    remade_s: FloatArray
    """Seconds of forwards made again."""
    comm_s: FloatArray
    """Seconds of their collectives."""
    slack_s: FloatArray
    """Part of `remade_s` in which the device waits for the host."""
    sent_bytes: FloatArray
    """Bytes that a device sends in their collectives."""
    kept_bytes: FloatArray
    """Bytes of gathers that the backward repeats unseen, of layers not made again."""
    hidden: Hidden | None
    """Collectives hidden behind what is made again."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondsColumns:
    """Sums of seconds and bytes on one row of devices, over the positions before which they lie."""

    compute_s: FloatArray
    """(3, cuts): forward, input gradient and weight gradient."""
    comm_s: FloatArray
    """(2, cuts): collectives of forward and backward."""
    slack_s: FloatArray
    """(3, cuts): part of the compute in which the device waits for the host; 0 without collectives."""
    sent_bytes: FloatArray
    """(2, cuts): bytes that a device sends in forward and backward."""
    hidden: tuple[Hidden | None, Hidden | None, Hidden | None]
    """Collectives hidden behind forwards, input gradients and weight gradients."""
    again: AgainSums
    """What is recomputed in a run with blocks."""
    again_whole: AgainSums | None
    """What is recomputed in a run without blocks, if that is something else."""
    blocks: IntArray
    """Layers in blocks."""
    calls: tuple[tuple[float, IntArray, IntArray], ...]
    """Per kind of device (seconds of a call, layers that were measured, others that do something)."""

    def runs(self, starts: IntArray, stops: IntArray) -> RunSeconds:
        """Return the seconds of runs of layers from `starts` to before `stops`."""
        compute = self.compute_s[:, stops] - self.compute_s[:, starts]
        comm = self.comm_s[:, stops] - self.comm_s[:, starts]
        slack = self.slack_s[:, stops] - self.slack_s[:, starts]
        sent = self.sent_bytes[:, stops] - self.sent_bytes[:, starts]
        remade, again, sent_again, kept = _again(self.again, starts, stops)
        if self.again_whole is not None:
            bare = self.blocks[stops] == self.blocks[starts]
            whole = _again(self.again_whole, starts, stops)
            remade, again, sent_again, kept = (
                np.where(bare, one, other)
                for one, other in zip(whole, (remade, again, sent_again, kept), strict=True)
            )
        forward = np.maximum(0.0, comm[0] - _hidden(self.hidden[0], starts, stops) - slack[0])
        backward = np.maximum(0.0, comm[1] - _hidden(self.hidden[1], starts, stops) - slack[1])
        behind = _hidden(self.hidden[2], starts, stops) + slack[2]
        call = self._call_seconds(starts, stops)
        return RunSeconds(
            compute[0] + forward + call, compute[1] + backward + call, compute[2], forward, backward,
            remade + again, again, sent[0], sent[1] + kept, sent_again, np.minimum(behind, backward),
        )  # fmt: skip

    def _call_seconds(self, starts: IntArray, stops: IntArray) -> FloatArray:
        found = np.zeros(len(starts))
        for seconds, measured, others in self.calls:
            all_measured = (measured[stops] > measured[starts]) & (others[stops] == others[starts])
            np.maximum(found, np.where(all_measured, 0.0, seconds), out=found)
        return found


def _hidden(sums: Hidden | None, starts: IntArray, stops: IntArray) -> FloatArray | float:
    return 0.0 if sums is None else sums.of(starts, stops)


def _again(
    sums: AgainSums, starts: IntArray, stops: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return seconds of forwards made again and of their collectives, bytes sent in these, and bytes kept."""
    comm, slack = sums.comm_s[stops] - sums.comm_s[starts], sums.slack_s[stops] - sums.slack_s[starts]
    return (
        sums.remade_s[stops] - sums.remade_s[starts],
        np.maximum(0.0, comm - _hidden(sums.hidden, starts, stops) - slack),
        sums.sent_bytes[stops] - sums.sent_bytes[starts],
        sums.kept_bytes[stops] - sums.kept_bytes[starts],
    )


@remembered(SUMS_KEPT, most_bytes=16 * MEBIBYTE)
def seconds_columns(
    graph: LayerGraph,
    sharded: Sharded,
    columns: LayerColumns,
    kinds: tuple[DeviceKind, ...],
    overlap: tuple[tuple[str, str], ...],
    recompute: str,
    positions: Positions,
) -> SecondsColumns:
    """Return the sums of a graph's columns over positions.

    Args:
        graph: the model.
        sharded: its sharding.
        columns: seconds and bytes by layer.
        kinds: kinds of the devices in the row.
        overlap: (mesh axis, how) of collectives that run behind work.
        recompute: none, selective or full.
        positions: where runs start and stop.
    """
    sums = positions.sums
    if recompute != "none":
        plain = seconds_columns(graph, sharded, columns, kinds, overlap, "none", positions)
        again, whole = _recomputed(graph, sharded, columns, overlap, recompute, positions)
        return replace(plain, again=again, again_whole=whole)
    count = len(graph.layers)
    compute, lane = columns.compute_s, columns.lane
    every = np.ones(count)
    hidden = [
        None
        if lane is None
        else hidden_sums(way, lane.kind_s, compute, every * lane.apart, lane.slowdown, positions)
        for way in _ways(graph, sharded, columns, overlap)
    ]
    none = np.zeros((3, count))
    sent = none if lane is None else lane.sent_bytes
    return SecondsColumns(
        compute_s=sums(compute),
        comm_s=sums(none[:2] if lane is None else lane.comm_s),
        slack_s=sums(none if lane is None else lane.slack_s),
        sent_bytes=sums(sent[:2]),
        hidden=(hidden[0], hidden[1], hidden[2]),
        again=_again_sums(columns, None, none[0], positions),
        again_whole=None,
        blocks=sums(in_blocks(graph).astype(np.int64)),
        calls=tuple(
            (seconds, sums(measured), sums(others))
            for kind in kinds
            if (seconds := kind.software.action_overhead_s)
            for measured, others in (measured_and_not(graph, kind.name, sharded.degree),)
        ),
    )  # fmt: skip


def _ways(
    graph: LayerGraph, sharded: Sharded, columns: LayerColumns, overlap: tuple[tuple[str, str], ...]
) -> tuple[Beside | None, Beside | None, Beside | None]:
    if columns.lane is None or sharded.inside is None:
        return None, None, None
    return beside_of(graph, sharded.shards, sharded.inside, overlap)


def _recomputed(
    graph: LayerGraph,
    sharded: Sharded,
    columns: LayerColumns,
    overlap: tuple[tuple[str, str], ...],
    recompute: str,
    positions: Positions,
) -> tuple[AgainSums, AgainSums | None]:
    """Return the sums of what a backward recomputes; and of runs without blocks, if they differ."""
    count, blocks = len(graph.layers), in_blocks(graph)
    forward = _ways(graph, sharded, columns, overlap)[0]
    again = made_again(graph, np.arange(count), recompute)
    mixed = recompute == "full" and blocks.any() and not blocks.all()
    whole = _again_sums(columns, forward, np.ones(count), positions) if mixed else None
    return _again_sums(columns, forward, again.astype(float), positions), whole


def _again_sums(
    columns: LayerColumns, forward: Beside | None, again: FloatArray, positions: Positions
) -> AgainSums:
    compute, lane, sums = columns.compute_s, columns.lane, positions.sums
    if lane is None:
        none = sums(np.zeros(len(again)))
        return AgainSums(
            remade_s=sums(columns.again_s * again), comm_s=none, slack_s=none, sent_bytes=none,
            kept_bytes=none, hidden=None,
        )  # fmt: skip
    return AgainSums(
        remade_s=sums(columns.again_s * again),
        comm_s=sums(lane.comm_s[0] * again),
        slack_s=sums(lane.again_slack_s * again),
        sent_bytes=sums(lane.sent_bytes[0] * again),
        kept_bytes=sums(lane.sent_bytes[2] * (1.0 - again)),
        hidden=hidden_sums(forward, lane.kind_s, compute, again * lane.apart, lane.slowdown, positions),
    )
