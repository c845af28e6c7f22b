"""Every field of a plan's inputs acts, or is refused by name, or is only there to be read.

The classes are found from the types of `simulate`'s arguments, so that a new field fails here until it
changes some report, is refused, or is listed as descriptive with the reason.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import Any

import pytest

from explorer.base.errors import ExplorerError
from explorer.cluster import Cluster
from explorer.graph import Defaults, Layer, LayerGraph
from explorer.search import OBJECTIVES
from explorer.simulation.check import check
from explorer.simulation.simulate import simulate
from explorer.strategy import Strategy
from explorer.sweep.bands import report_bands
from explorer.workload import Workload, default_workload
from tests.fields.said import CHANGES, CHOICES, DESCRIPTIVE, OF_BANDS, REFUSED, WHOLE_CLASSES, Changes
from tests.fields.samples import Sample, decoder, instances, others, samples

ROOTS = (LayerGraph, Cluster, Workload, Strategy)
UNFIT = (AssertionError, AttributeError, IndexError, StopIteration, TypeError, ValueError)
"""What an edit raises that cannot be made of a sample."""
MOST = 12
"""Objects of a class that are tried in one sample."""


def classes(*roots: type) -> list[type]:
    """The classes of everything that a plan says, from the annotations of their fields."""
    found: dict[type, None] = {}
    waiting: list[Any] = list(roots or ROOTS)
    while waiting:
        item = waiting.pop()
        if is_dataclass(item) and isinstance(item, type) and item not in found:
            found[item] = None
            waiting += typing.get_type_hints(item).values()
        waiting += typing.get_args(item)
    return sorted(found, key=lambda kind: kind.__name__)


CLASSES = {kind.__name__: kind for kind in classes()}
PLANS_OF_A_STRATEGY = sorted({kind.__name__ for kind in classes(Strategy)} - {"Strategy"} | {"Job"})
"""Classes of all that is chosen, and of the job it is chosen for."""
FIELDS = [
    (kind.__name__, field.name)
    for kind in CLASSES.values()
    if kind.__name__ not in WHOLE_CLASSES
    for field in fields(kind)
    if field.init
]


def observed(sample: Sample) -> tuple[Any, ...]:
    """Every number that is predicted of a plan."""
    report = simulate(*sample)
    found: list[Any] = [
        report.step_time_s, report.makespan_s, report.device_span_s, report.throughput_samples_per_s,
        report.bubble_fraction, report.mfu, report.feasible, report.lane_devices, report.memory_parts_bytes,
        report.capacity_bytes, report.busy_s, report.versions, report.delay, report.global_batch,
        sorted(report.traffic_bytes.items()), report.dispatch, report.rooms,
    ]  # fmt: skip
    for job in sample.workload.jobs:
        found += [o.value(sample.cluster, job, report) for o in OBJECTIVES.values() if o.needs(job)]
    return tuple(found)


@cache
def before(name: str) -> tuple[Any, ...]:
    """What is predicted of a sample as it is."""
    return observed(samples()[name])


def changed(kind: str, field: str, said: Changes | None = None) -> Iterator[tuple[str, Callable[[], Sample]]]:
    """Samples with one field of one object changed: the sample's name, and how to make it."""
    said = said or CHANGES.get((kind, field), Changes())
    for name, sample in samples().items():
        for edit in said.edits:
            yield name, partial(edit, sample)
        for item, put in _some(instances(tuple(sample), CLASSES[kind])):
            old = getattr(item, field)
            for value in others(old) if said.values is None else said.values:
                if value != old:
                    yield name, partial(_made, item, put, field, value)


def _made(item: Any, put: Callable[[Any], Any], field: str, value: Any) -> Sample:
    return Sample(*put(replace(item, **{field: value})))


def _some(found: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """One object of each kind of layer, or of each name, and few of anything else."""
    seen: list[Any] = []
    for item, put in found:
        mark = item.kind if isinstance(item, Layer) else getattr(item, "name", len(seen))
        if mark not in seen and len(seen) < MOST:
            seen.append(mark)
            yield item, put


def acts(kind: str, field: str, said: Changes | None = None) -> bool:
    """Whether some change of the field changes some prediction."""
    for name, make in changed(kind, field, said):
        try:
            sample = make()
            if not check(*sample) and observed(sample) != before(name):
                return True
        except (
            ExplorerError,
            AssertionError,
            AttributeError,
            IndexError,
            StopIteration,
            TypeError,
            ValueError,
        ):
            continue  # no such change can be made of this sample
    return False


def changes_bands(kind: str, field: str) -> bool:
    """Whether every change of the field changes how far the step of a calibrated sample may be off."""
    made = [make() for name, make in changed(kind, field) if samples()[name].cluster.calibration.steps]
    return bool(made) and step_band(samples()["calibrated"]) not in map(step_band, made)


def step_band(sample: Sample) -> tuple[float, float]:
    """Return the ends of the band of a step time."""
    band = report_bands(*sample)["step_time_s"]
    return band.low, band.high


def refusal(kind: str, field: str, said: Changes | None = None) -> str:
    """What is said first against a change of the field; empty if nothing is."""
    for _, make in changed(kind, field, said):
        try:
            sample = make()
            found = check(*sample)
            if not found:
                simulate(*sample)
        except ExplorerError as error:
            found = [str(error)]
        except UNFIT:
            continue
        if found:
            return "; ".join(found)
    return ""


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_it_acts_or_is_refused(kind: str, field: str) -> None:
    if (kind, field) in DESCRIPTIVE:
        assert not acts(kind, field), "it changes numbers: it is not only descriptive"
    elif (kind, field) in OF_BANDS:
        assert not acts(kind, field), "it changes numbers, not their bands alone"
        assert changes_bands(kind, field)
    elif (kind, field) in REFUSED:
        assert REFUSED[kind, field] in refusal(kind, field)
        assert not acts(kind, field), "what acts is not refused"
    else:
        assert acts(kind, field), "nothing changes: let it act, refuse it by name, or list it as descriptive"


@pytest.mark.parametrize(
    ("kind", "field", "value"), [(*key, value) for key, every in CHOICES.items() for value in every], ids=str
)
def test_every_choice_acts_or_is_refused(kind: str, field: str, value: Any) -> None:
    alone = Changes(values=(value,))
    assert acts(kind, field, alone) or str(value) in refusal(kind, field, alone)


def test_lists_name_fields_that_are_there() -> None:
    known = {(kind.__name__, field.name) for kind in CLASSES.values() for field in fields(kind)}
    assert {*CHANGES, *CHOICES, *DESCRIPTIVE, *OF_BANDS, *REFUSED} <= known
    assert not {*DESCRIPTIVE} & {*REFUSED}
    assert not OF_BANDS & {*DESCRIPTIVE, *REFUSED}
    assert set(WHOLE_CLASSES) <= set(CLASSES)
    assert all(DESCRIPTIVE.values())
    assert all(WHOLE_CLASSES.values())


@pytest.mark.parametrize("name", samples())
def test_samples_are_sound(name: str) -> None:
    assert check(*samples()[name]) == []
    assert before(name) == observed(samples()[name])


@pytest.mark.parametrize("field", [field.name for field in fields(Defaults)])
def test_what_a_model_states_is_the_usual_workload(field: str) -> None:
    graph = decoder()
    value = {"precision": "fp32", "optimizer": "sgd", "epochs": ((1, 2.0),)}.get(field, 7)
    stated = replace(graph, defaults=replace(graph.defaults, **{field: value}))
    assert getattr(default_workload(stated).job, field) == value
