"""What two plans are said to differ in: everything that differs, one line a subject, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from widgets import Explorer
from widgets.compare.words import differences
from widgets.edits import shift_boundary


@pytest.fixture(scope="module")
def bench() -> Iterator[Explorer]:
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32)
    assert not found.error
    yield found
    found.close()


@pytest.fixture(autouse=True)
def from_the_start(bench: Explorer) -> None:
    bench.go(0)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("recompute", "full", "recomputation: none → full"),
        ("zero", "2", "ZeRO level: 0 → 2"),
        ("microbatch_size", 2, "microbatch of a replica: 4 → 2"),
        ("precision", "fp32", "precision: bf16 → fp32"),
        ("global_batch", 64, "global batch: 32 → 64"),
    ],
)
def test_one_change_is_one_line_and_its_reverse_the_other_way(
    bench: Explorer, key: str, value: object, line: str
) -> None:
    before = bench.now()
    bench.set(**{key: value})
    assert differences(bench.now(), before) == [line]
    subject, change = line.split(": ")
    assert differences(before, bench.now()) == [f"{subject}: {' → '.join(reversed(change.split(' → ')))}"]
    assert differences(bench.now(), bench.now()) == []


def test_another_schedule_is_told_by_its_name_and_what_differs_in_the_two_orders(bench: Explorer) -> None:
    before = bench.now()
    bench.set(schedule="gpipe")
    said = differences(bench.now(), before)
    assert said[0] == "schedule: 1f1b → gpipe"
    assert "activations" in said[1]
    assert len(said) == 3, "what is kept, and where the orders part"
    assert differences(before, bench.now())[0] == "schedule: gpipe → 1f1b"


def test_another_cut_is_told_by_its_degrees_and_how_many_layers_move(bench: Explorer) -> None:
    before = bench.now()
    bench.set(tensor=2)
    said = differences(bench.now(), before)
    assert said[0].startswith("cut: ")
    assert "2-way tensor" in said[0]
    assert len(said) <= 4, "summed up, not stage by stage"


def test_a_boundary_is_told_by_the_layers_that_crossed_it(bench: Explorer) -> None:
    before = bench.now()
    now = shift_boundary(before, 0, 1, 1)
    count = len(now.inputs.graph.layers)
    moved = [
        n for n in now.scene.lane_of_layer if now.scene.lane_of_layer[n] != before.scene.lane_of_layer[n]
    ]
    line = next(line for line in differences(now, before) if line.startswith("placement: "))
    assert line.startswith(f"placement: {len(moved)} of {count} layers on other devices (")
    block = next(layer.block or layer.name for layer in now.inputs.graph.layers if layer.name == moved[0])
    assert block in line


def test_stages_that_changed_alike_share_a_line(bench: Explorer) -> None:
    before = bench.now()
    job = before.strategy.job
    assert len(job.stages) >= 3
    changed = job.with_stages(
        [replace(s, recompute="full") if i != 1 else s for i, s in enumerate(job.stages)]
    )
    after = replace(before, strategy=before.strategy.with_job(changed))
    stages = ", ".join(["0", f"2–{len(job.stages) - 1}" if len(job.stages) > 3 else "2"])
    assert differences(after, before) == [f"recomputation: none → full in stages {stages}"]
