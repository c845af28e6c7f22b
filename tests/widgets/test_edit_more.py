"""Edits beyond cuts, without a page: any gesture is costed by the simulator, or refused without a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as package
from explorer.views.kept_choices import SCOPES
from widgets import Explorer
from widgets.jobs import at_once

UP = "layers.3.mlp.up"


def workbench(**options: Any) -> Explorer:
    asked = {"model": "gpt2-small", "cluster": "mixed-v100-a100", "global_batch": 48, "session": False}
    made = Explorer(**asked | options)
    made.set(stages=2, tensor=2, replicas=2, microbatch_size=2)
    return made


BENCH = workbench()
LAYERS = [layer.name for layer in BENCH.now().inputs.graph.layers]
DEVICES = st.integers(0, 15)
DEVICE = st.fixed_dictionaries({
    "kind": st.just("device"), "device": DEVICES, "to_lane": st.none() | st.sampled_from(("0", "1")),
    "to_device": st.none() | DEVICES,
})  # fmt: skip
SHARING = st.fixed_dictionaries({
    "kind": st.just("sharing"), "lane": st.sampled_from(("0", "1")),
    "how": st.sampled_from(("even", "speed", "turns")),
})  # fmt: skip
MOVE = st.builds(
    lambda layer, lane: {"kind": "move", "layers": [layer], "to_lane": lane},
    st.sampled_from(LAYERS), st.sampled_from(("0", "1")),
)  # fmt: skip
INSPECT = st.fixed_dictionaries({
    "kind": st.just("inspect"), "layer": st.sampled_from(LAYERS), "whole": st.booleans(),
    "all_alike": st.booleans(), "kept_for": st.sampled_from([*SCOPES, "x"]),
})  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_gestures_are_simulated_or_refused_and_undone(data: st.DataObject) -> None:
    bench = BENCH
    start, own = bench.strategy, bench.now().inputs
    made = 0
    for _ in range(data.draw(st.integers(1, 5))):
        before = bench.strategy
        intent = dict(data.draw(st.one_of(DEVICE, SHARING, MOVE, INSPECT)))
        _send(bench, intent, data)
        if bench.error:
            assert bench.strategy == before, "what is refused changes nothing"
            assert len(bench.error) > 20
            bench.error = ""
            continue
        made += bench.strategy is not before
        alone = package.simulate(own.graph, own.cluster, own.workload, bench.strategy)
        assert alone.step_time_s == bench.report.step_time_s
        assert alone.peak_memory_bytes == bench.report.peak_memory_bytes
    for _ in range(made):
        assert bench.undo()
    assert bench.strategy == start


def _send(bench: Explorer, intent: dict[str, Any], data: st.DataObject) -> None:
    kind = intent.pop("kind")
    if kind != "inspect":
        bench.board.send_intent(kind, **intent)
        return
    bench.graph.send_intent(kind, **intent)
    rows = [*bench.graph.card["layouts"], *bench.graph.card["memory"]]
    row = data.draw(st.sampled_from(rows))
    bench.graph.send_intent("choose_for_layer", of=row["kind"], key=row["key"])


def test_a_session_keeps_all_of_it(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    bench = workbench(session=file)
    bench.graph.send_intent("inspect", layer=UP, all_alike=True)
    bench.graph.send_intent("choose_for_layer", of="layout", key="by sequence")
    bench.graph.send_intent("choose_for_layer", of="memory", key="full")
    bench.board.send_intent("device", device=0, to_lane="1", to_device=None)
    bench.board.send_intent("sharing", lane="1", how="turns")
    assert not bench.error
    wanted = bench.strategy
    bench.saving.flush()
    again = Explorer(
        model="gpt2-small", cluster="mixed-v100-a100", global_batch=48, session=file, reopen=True
    )
    assert again.strategy == wanted
    assert again.undo()
    assert [stage.replicas for stage in again.strategy.job.stages] == ["split", "split"]


def test_an_open_card_follows_the_state_and_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = workbench(cluster="dgx-a100")
    bench.graph.send_intent("inspect", layer=UP)
    card = bench.showing.card
    at_once(card.work)
    assert all(row["outcome"] or row["problem"] for row in bench.graph.card["layouts"])
    assert list(card.work()) == [], "what is known is not simulated again"
    bench.set(recompute="full")
    card.settled()
    assert next(row for row in bench.graph.card["memory"] if row["key"] == "full")["present"]
    bench.graph.send_intent("inspect", layer="nothing")
    assert "no layer 'nothing'" in bench.error
    assert bench.graph.notice["level"] == "error"
    bench.graph.send_intent("inspect", layer=None)
    assert bench.graph.card == {}
    monkeypatch.setattr("widgets.layer_card.MOST_TASKS", 0)
    bench.graph.send_intent("inspect", layer=UP)
    assert bench.graph.card["waits"] is False
    assert list(card.work()) == []


def test_pins_and_locks_hold_against_devices() -> None:
    bench = workbench(cluster="dgx-a100")
    bench.pin([UP])
    before = bench.strategy
    bench.board.send_intent("device", device=0, to_lane="1", to_device=None)
    assert "pinned" in bench.error
    assert bench.strategy == before
