"""torch's own action order as an oracle, and our CSV as torch reads it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from explorer.actions import Order, Shape, parse_action
from explorer.base.errors import InputError, PlanError
from explorer.schedules import SCHEDULES, Schedule, make_order
from explorer.schedules._torch_notation import from_torch_csv, to_torch_csv, unsupported
from explorer.schedules.custom import lanes_text
from explorer.schedules.groups import small_shape
from tests.schedules.shapes import bidirectional, line, replicated, workers

NAMED = [schedule for schedule in SCHEDULES if schedule.torch_name]
named = pytest.mark.parametrize("schedule", NAMED, ids=lambda schedule: schedule.name)


def shapes(schedule: Schedule) -> Iterator[tuple[int, int, int, Shape]]:
    """Positions, microbatches and chunks that a schedule can order, as torch lays it out."""
    for p, m, chunks in product(range(2, 9), range(1, 33), (1, 2, 3)):
        if m > 4 * p or (chunks == 3 and m % 3):  # enough of three chunks
            continue
        shape = schedule.placement.shape(schedule.placement.grid(p, chunks), m)
        if (chunks > 1) == schedule.placement.several and not schedule.unmet(shape):
            yield p, m, chunks, shape


def one_of(schedule: Schedule) -> tuple[int, int, int, Shape]:
    """Four positions and eight microbatches."""
    return next(case for case in shapes(schedule) if case[:2] == (4, 8))


def computed(order: Order, shape: Shape) -> list[list[str]]:
    return list(csv.reader(io.StringIO(to_torch_csv(order, shape))))


def tabled(name: str, ranks: int, microbatches: int, chunks: int) -> list[list[str]]:
    """torch's published order, without idle slots and reductions."""
    visualizer = pytest.importorskip("torch.distributed.pipelining._schedule_visualizer")
    rows = visualizer.get_schedule_ops(name, ranks, microbatches, chunks)
    cells = [[str(cell) for cell in row if cell is not None] for row in rows]
    cells = [[cell for cell in row if "REDUCE_GRAD" not in cell] for row in cells]
    last = ranks * chunks - 1
    if name == "1F1B" and cells[-1][0] == f"{last}F1":
        # torch 2.13 numbers the last rank's forwards from 1 in this table, though not when it runs.
        shifted = {f"{last}F{n + 1}": f"{last}F{n}" for n in range(microbatches)}
        cells[-1] = [shifted.get(cell, cell) for cell in cells[-1]]
    return cells


class RecordingStage:
    """Stands for torch's stage: writes down what the schedule asks of it, sends nothing."""

    has_backward = True
    device = "cpu"

    def __init__(self, index: int) -> None:
        self.stage_index = index
        self.log: list[str] = []

    def forward_one_chunk(self, microbatch: int, *_: Any, **__: Any) -> None:
        self.log.append(f"{self.stage_index}F{microbatch}")

    def backward_one_chunk(self, microbatch: int, **_: Any) -> None:
        self.log.append(f"{self.stage_index}B{microbatch}")

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: []


def executed(name: str, ranks: int, microbatches: int) -> list[list[str]]:
    """What torch's schedule really does on each rank, run without ranks."""
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    logs = []
    for rank in range(ranks):
        schedule = object.__new__(schedules.get_schedule_class(name))
        stage = RecordingStage(rank)
        vars(schedule).update(
            _stage=stage,
            _n_microbatches=microbatches,
            _num_stages=ranks,
            _has_backward=True,
            _internal_losses=[],
            scale_grads=False,
            _check_inputs=lambda *_: ([()] * microbatches, [{}] * microbatches),
            _initialize_stage=lambda *_: None,
            _maybe_compute_loss=lambda *_: None,
            _maybe_get_loss=lambda *_: None,
            _update_losses=lambda *_: None,
        )
        schedule._step_microbatches()
        logs.append(stage.log)
    return logs


@named
def test_order_is_torchs(schedule: Schedule) -> None:
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    known = schedules.get_schedule_class(schedule.torch_name)
    single = issubclass(known, schedules.PipelineScheduleSingle)
    tried = 0
    for p, m, chunks, shape in shapes(schedule):
        found = computed(make_order(schedule.name, shape), shape)
        if single:
            assert found == executed(schedule.torch_name, p, m)
        if m >= p or not single:  # torch's 1F1B table wants that, its runtime does not
            assert found == tabled(schedule.torch_name, p, m, chunks)
        tried += 1
    assert tried >= 10


@named
def test_torch_accepts_the_csv(schedule: Schedule) -> None:
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    p, m, chunks, shape = one_of(schedule)
    text = to_torch_csv(make_order(schedule.name, shape, steps=2), shape)
    rows = {
        rank: [schedules._Action.from_str(cell) for cell in row]
        for rank, row in enumerate(csv.reader(io.StringIO(text)))
    }
    homes = schedules._validate_schedule(rows, p, shape.stages, m)
    grid = schedule.placement.grid(p, chunks)
    assert homes == {stage: schedule.placement.position(stage, 0, grid) for stage in range(shape.stages)}


SAID = [
    (schedule, options)
    for schedule, options in (
        *((item, {}) for item in SCHEDULES if item.tried or item.variant_of),
        *((SCHEDULES.get("split_backward"), {"of": name, "fill": True}) for name in ("1f1b", "hanayo")),
        (SCHEDULES.get("zb_auto"), {"limit": 2}),
    )
    if schedule.flush and not schedule.placement.whole
]


@pytest.mark.parametrize(
    ("schedule", "options"), SAID, ids=lambda value: value.name if isinstance(value, Schedule) else str(value)
)
def test_torchs_runtime_takes_the_csv_of_whatever_it_can_say(
    schedule: Schedule, options: dict[str, object]
) -> None:
    """Also of schedules that torch has no name for: it finds a sequence of sends and receives for each."""
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    shape = small_shape(schedule.with_options(options), 4)
    order = make_order(schedule.name, shape, options=options)
    if unsupported(order, shape):
        with pytest.raises(PlanError):
            to_torch_csv(order, shape)
        return
    rows = {
        rank: [schedules._Action.from_str(cell) for cell in row]
        for rank, row in enumerate(csv.reader(io.StringIO(to_torch_csv(order, shape))))
    }
    homes = schedules._validate_schedule(rows, len(rows), shape.stages, shape.microbatches[0])
    given = {rank: list(row) for rank, row in rows.items()}  # torch empties them
    sent = schedules._add_send_recv(given, homes.__getitem__, shape.stages)
    assert {rank: [action for action in lane if action in rows[rank]] for rank, lane in sent.items()} == rows


@named
def test_csv_round_trip(schedule: Schedule) -> None:
    *_, shape = one_of(schedule)
    order = make_order(schedule.name, shape, steps=2)
    lanes = from_torch_csv(to_torch_csv(order, shape))
    read = make_order("custom", shape, steps=2, options={"lanes": lanes_text(lanes)})
    assert (read.lanes, read.flush) == (order.lanes, True)


def test_reads_what_torch_writes_elsewhere() -> None:
    text = "0F0,,(0F1;0B0)OVERLAP_F_B,0I1,0W1\n,1F0,1F1,1B0,1B1\n"
    assert [" ".join(map(str, lane)) for lane in from_torch_csv(text)] == [
        "0F0 0F1 0OVERLAP1 0B0 0I1 0W1",
        "1F0 1F1 1B0 1B1",
    ]


@pytest.mark.parametrize("cell", ["0SEND_F0", "1UNSHARD", "0REDUCE_GRAD", "F0", "0Q1"])
def test_csv_errors_name_the_cell(cell: str) -> None:
    with pytest.raises(InputError, match=r"order\.csv: row 1 column 2"):
        from_torch_csv(f"0F0,0B0\n1F0,1B0,{cell}\n", file="order.csv")


def test_split_replicas_are_one_pipeline_and_ranges_are_cells() -> None:
    shape = replicated([(0, 1)], [2, 2], [2, 2], [False, False])
    text = "0F0 0F1 0I0 0I1 0W0-1; 1F0 1B0 1F1 1B1"
    order = make_order("custom", shape, options={"lanes": text})
    assert len(order.lanes) == 4
    assert to_torch_csv(order, shape) == "0F0,0F1,0I0,0I1,0W0,0W1\n1F0,1B0,1F1,1B1\n"


def test_what_torch_cannot_say_is_listed() -> None:
    def problems(order: Order, shape: Any) -> str:
        with pytest.raises(PlanError) as caught:
            to_torch_csv(order, shape)
        assert len(caught.value.problems) == len(unsupported(order, shape))
        return str(caught.value)

    for name, shape, word in (
        ("chimera", bidirectional(4, 4), "2 copies"),
        ("pipedream", line(2, 4), "no flush"),
        ("cyclic", workers(3, 3, 3), "extra dependencies"),
        ("layer_parallel", line(3, 2), "sweeps"),
        ("1f1b", replicated([(0, 1)], [4, 4], [1, 2], [False, True]), "in turn"),
        ("1f1b", replicated([(0, 2), (1, 2)], [4, 4, 4], [1, 1, 1], [False] * 3), "not a chain"),
        ("1f1b", replicated([(0, 1)], [4, 2], [1, 1], [False] * 2), "sizes"),
        ("1f1b", line(2, 4, training=False), "without backwards"),
    ):
        assert word in problems(make_order(name, shape), shape)
    assert parse_action("0W0-1").count == 2
