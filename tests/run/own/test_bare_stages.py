"""Stages without weights: nothing is updated there, whatever weights the other stages read."""

from __future__ import annotations

from itertools import pairwise

import pytest

from explorer.strategy import Mesh, Stage
from tests.run.own.own_cases import FACTORIES, case, source
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")
EXACT = 1e-10


@pytest.mark.parametrize("schedule", ["1f1b", "pipedream", "pipedream_2bw", "spectrain", "zb_h1"])
def test_a_stage_of_an_activation(schedule: str) -> None:
    own = source(f"{FACTORIES}:skip")
    names = [layer.name for layer in own.graph.layers]
    at = names.index("act")
    stages = tuple(
        Stage(layers=tuple(names[a:b]), meshes=(Mesh(devices=(i,)),))
        for i, (a, b) in enumerate(pairwise((0, at, at + 1, len(names))))
    )
    prepared = case(own, stages, schedule, batch=4, optimizer="momentum")
    assert prepared.placement.skeleton.updates == (True, False, True)
    assert worst(on_threads(prepared)) <= EXACT
