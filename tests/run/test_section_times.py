"""Sections timed as one: tasks take what their section took, and its gradients are those of its layers."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import torch

from explorer.run.cases.build import Prepared
from explorer.run.judging.section_times import Halves, Section, section_extras, section_times
from explorer.run.own import layer_timing
from explorer.run.own.layer_times import graph_with_times
from explorer.run.own.layer_timing import time_layers
from explorer.run.own.own_layers import own_layers
from explorer.run.own.own_source import OwnSource
from explorer.run.spec import Cut
from explorer.tasks.program import B, F, I, W
from tests.run.own.own_cases import LLAMA, case, configured, cut, source

CPU, SAMPLES = torch.device("cpu"), 2
WHOLE, ADD_UP = Halves(0.25, 0.5, 0.125), layer_timing._add_up


def timed(schedule: str, **fields: Any) -> tuple[Prepared, OwnSource]:
    """Two stages of a GPT whose layers take a second forward and two backward, on one sample."""
    own = source("gpt", {"layers": "2", "embed": "16", "heads": "2", "vocab": "20"}, 8)
    times = {(layer.name, 1): (1.0, 2.0, 0.0) for layer in own.graph.layers}
    own = own._replace(graph=graph_with_times(own.graph, times, precision="fp64"))
    stages = tuple(replace(stage, **fields) for stage in cut(own, 2))
    return case(own, stages, schedule, batch=8), own


def tasks_take(made: Prepared, own: OwnSource, whole: Halves) -> dict[str, set[float]]:
    """Seconds of tasks by kind and stage, if all sections take what is said."""
    splits = {slot.where for slot in made.program.slots if slot.kind == I}
    known = {Section(units, 1, i in splits): whole for i, units in enumerate(made.case.sections)}
    seconds = made.prices.seconds[made.program.slot] + section_extras(made, own.graph, known)
    found: dict[str, set[float]] = {}
    for task in range(made.program.size):
        kind = int(made.program.kind[task])
        if kind in (F, B, I, W):
            found.setdefault("FBIW"[kind], set()).add(round(float(seconds[task]), 9))
    return found


def test_a_task_takes_what_its_section_did() -> None:
    assert tasks_take(*timed("1f1b"), WHOLE) == {"F": {0.25}, "B": {0.625}}


def test_each_half_of_a_backward_takes_what_it_did() -> None:
    """The first stage has nobody to send gradients of inputs to."""
    assert tasks_take(*timed("zb_h1"), WHOLE) == {"F": {0.25}, "B": {0.625}, "I": {0.5}, "W": {0.125}}


def test_what_is_made_again_is_a_forward_more() -> None:
    assert tasks_take(*timed("1f1b", recompute="full"), WHOLE) == {"F": {0.25}, "B": {0.875}}


def test_sections_that_were_not_timed_take_what_their_layers_do() -> None:
    made, own = timed("1f1b")
    assert not section_extras(made, own.graph, {}).any()
    other = {Section(units, 2, splits=False): WHOLE for units in made.case.sections}
    assert not section_extras(made, own.graph, other).any()
    slices = replace(made, case=replace(made.case, sections=((100,), (101,))))  # no layers of the graph
    assert not section_extras(slices, own.graph, other).any()


def test_seconds_are_means_of_ranks_and_rounds_by_section() -> None:
    cuts = [Cut(((0,), (1, 2)), 1, (1,)), Cut(((0,), (1, 2)), 1), Cut(((0, 1, 2),), 4)]
    rows = [
        {"cuts": [[[t, 1.0], [2.0, 3.0, t]], [[3 * t, 1.0], [1.0, 1.0]], [[5.0, 6.0]]]} for t in (1.0, 2.0)
    ]
    assert section_times(cuts, rows) == {
        Section((0,), 1, splits=False): Halves(3.0, 1.0, 0.0),
        Section((1, 2), 1, splits=True): Halves(2.0, 3.0, 1.5),
        Section((1, 2), 1, splits=False): Halves(1.0, 1.0, 0.0),
        Section((0, 1, 2), 4, splits=False): Halves(5.0, 6.0, 0.0),
    }
    assert section_times([], [{}]) == {}


def gradients(
    own: OwnSource, monkeypatch: pytest.MonkeyPatch, **fields: Any
) -> tuple[layer_timing.LayerSeconds, dict[str, torch.Tensor]]:
    """What is timed, by a clock that ticks when it is read, and the gradients that were added up."""
    total: dict[str, torch.Tensor] = {}

    def keeping(sums: Any, found: dict[str, torch.Tensor], clock: Any) -> Any:
        for name, gradient in found.items():
            total[name] = total[name] + gradient if name in total else gradient.clone()
        return ADD_UP(sums, found, clock)

    monkeypatch.setattr(layer_timing, "_add_up", keeping)
    layers, ticks = own_layers(own.model), count()
    weights = layers.weights(range(len(own.model.layers)), CPU)
    taken = time_layers(layers, weights, SAMPLES, lambda: (float(next(ticks)), 0.0), **fields)
    assert all(weight.grad is None for weight in weights.values())
    return taken, total


@pytest.mark.parametrize("name", ["llama", "t5"])
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("backwards", [False, True])
def test_gradients_of_sections_are_those_of_their_layers(
    name: str, stages: int, backwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = source(*LLAMA) if name == "llama" else configured(name)
    _, single = gradients(own, monkeypatch)
    number = {layer.name: i for i, layer in enumerate(own.graph.layers)}
    sections = [tuple(number[layer] for layer in stage.layers) for stage in cut(own, stages)]
    sections = sections[::-1] if backwards else sections  # each waits for what it reads
    for split in ((), range(stages)):
        taken, found = gradients(own, monkeypatch, sections=sections, split=split)
        assert taken.first == [(1.0, 1.0, 2.0) if split else (1.0, 2.0)] * stages
        assert taken.sums == [1.0] * stages
        assert found.keys() == single.keys()
        for key, gradient in found.items():
            torch.testing.assert_close(gradient, single[key], rtol=1e-9, atol=1e-9)
