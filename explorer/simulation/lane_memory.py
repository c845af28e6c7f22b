"""Memory of lanes: what the sections of each hold at its peak, from the program's events and the prices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.passes.timing import FloatArray
from explorer.pricing import Prices
from explorer.pricing.prices import MEMORY_COLUMNS
from explorer.tasks.program import Program
from explorer.tasks.program_tables import derived
from explorer.tasks.skeleton import IntArray

MEMORY_PARTS = (
    "weights", "versions", "gradients", "optimizer", "activations", "buffers", "reserved", "cached"
)  # fmt: skip
"""Parts of a device's memory, in the order they are stacked. Tensors come first; `reserved` is what a process
takes besides them, `cached` what its allocator holds and would give back before it fails.
"""
_STATES = [
    MEMORY_COLUMNS[name] for name in ("weight_bytes", "version_bytes", "gradient_bytes", "optimizer_bytes")
]
EVENT_COLUMNS = tuple(
    MEMORY_COLUMNS[name]
    for name in (
        "activation_bytes_per_sample",
        "recompute_peak_bytes_per_sample",
        "waiting_bytes_per_sample",
        "recompute_rest_bytes_per_sample",
        "recompute_whole_bytes_per_sample",
        "recompute_in_turn_bytes_per_sample",
    )
)
"""Columns of `Prices.memory_bytes` that memory events change, by `MemoryEvents.part`."""
_BUFFER, _RUN_BUFFER, _PER_SAMPLE = (
    MEMORY_COLUMNS[name] for name in ("buffer_bytes", "run_buffer_bytes", "buffer_bytes_per_sample")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTables:
    """Sections by lane, and where memory events look their bytes up."""

    section: IntArray
    """Per lane and section of it, one lane after the other: the section."""
    samples: FloatArray
    """The same: samples of one microbatch that the lane works on."""
    start: IntArray
    """Per lane: its first entry in `section`."""
    copies: FloatArray
    """Per section: copies of the weights besides the first."""
    whole: FloatArray
    """Per section: 1 if ZeRO keeps its weights gathered over runs of actions, else 0."""
    place: IntArray
    """Per memory event: place of its bytes in (sections, parts), flat."""


def memory_tables(program: Program) -> MemoryTables:
    """Return the tables of a program, made once."""
    return program.memo("memory tables", lambda: _find_tables(program))


def _find_tables(program: Program) -> MemoryTables:
    held, events = derived(program).sections, program.memory
    counts = np.array([len(found) for found in held], dtype=np.int64)
    return MemoryTables(
        section=np.array([section for found in held for section, _ in found], dtype=np.int64),
        samples=np.array([samples for found in held for _, samples in found], dtype=np.float64),
        start=np.cumsum(counts) - counts,
        copies=np.array(program.versions, dtype=np.float64) - 1 + np.array(program.copies),
        whole=np.array(program.whole_over_runs, dtype=np.float64),
        place=events.section * len(EVENT_COLUMNS) + events.part,
    )


def memory_by_lane(program: Program, prices: Prices) -> tuple[FloatArray, FloatArray]:
    """Return the (lanes, parts) bytes at each lane's peak, and the activation level after every memory
    event.
    """
    tables, held = memory_tables(program), prices.memory_bytes
    parts = np.zeros((len(tables.start), len(MEMORY_PARTS)))
    states = held[:, _STATES]
    states[:, 1] *= tables.copies
    parts[:, :4] = np.add.reduceat(states[tables.section], tables.start, axis=0)
    buffers = held[:, _BUFFER] + held[:, _RUN_BUFFER] * tables.whole
    own = buffers[tables.section] + held[tables.section, _PER_SAMPLE] * tables.samples
    parts[:, 5] = np.maximum(0.0, np.maximum.reduceat(own, tables.start))
    for lane, groups in enumerate(program.gathered_together):
        most = [_together(program, prices, lane, group) for group in groups]
        parts[lane, 5] = max(float(parts[lane, 5]), *most) if most else parts[lane, 5]
    events = program.memory
    if not len(events.lane):
        return parts, np.zeros(0)
    level = np.cumsum(activation_changes(program, prices))
    before = np.where(events.lane_start > 0, level[events.lane_start - 1], 0.0)
    peak = np.maximum.reduceat(level, events.lane_start) - before
    parts[events.lane[events.lane_start], 4] = np.maximum(peak, 0.0)
    return parts, level


def _together(program: Program, prices: Prices, lane: int, group: tuple[int, ...]) -> float:
    """Return the bytes of a lane's buffers while the weights of some sections are gathered at once."""
    found = []
    for section, samples in derived(program).sections[lane]:
        if section in group:
            item = prices.memory[section]
            more = item.run_buffer_bytes if program.whole_over_runs[section] else 0.0
            own = item.buffer_bytes + more + item.buffer_bytes_per_sample * samples
            others = (prices.memory[other].run_buffer_bytes for other in group if other != section)
            found.append(own + sum(others))
    return max(found)


def activation_changes(program: Program, prices: Prices) -> FloatArray:
    """Return the bytes that each memory event of a program allocates (above 0) or frees on one device."""
    sizes = prices.memory_bytes[:, list(EVENT_COLUMNS)].ravel()
    changes: FloatArray = program.memory.samples * sizes[memory_tables(program).place]
    return changes
