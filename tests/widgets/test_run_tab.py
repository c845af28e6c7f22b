"""The Run tab: a real run to its end, and what each verdict looks like."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import explorer.run
from explorer.run import compare
from explorer.run.compare import CONFIRMED, OFF, TOO_NOISY, WRONG, Comparison
from explorer.run.scale import SMALL
from widgets import Explorer
from widgets.runpanel import RunPanel
from widgets.runwords import progress_share, run_html

LIMIT_S = 90


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = Explorer("gpt2-small", "dgx-a100", global_batch=4)
    found.set(stages=2)
    found.set(replicas=1)
    assert not found.error
    yield found
    found.close()


def comparison(**fields: Any) -> Comparison:
    known: dict[str, Any] = {
        "predicted": {"step_time_s": 0.5, "speedup": 1.5},
        "measured": {"step_time_s": 0.4, "speedup": 1.2, "iqr_s": 0.01},
        "error_pct": 25.0,
        "speedup_error_pct": 25.0,
        "parts": {
            "predicted": {"compute": 0.3, "bubble": 0.2, "overhead": 0.0},
            "measured": {"compute": 0.2, "bubble": 0.15, "overhead": 0.05},
        },
        "numerics_ok": True,
        "contention": 0.95,
        "validated": ["stages: 2"],
        "not_validated": ["precision: bf16 in the plan, <fp32> here"],
        "verdict": OFF,
        "baseline": "data_parallel",
        "engine": "interpreter",
        "numerics": {},
    }
    return Comparison(**known | fields)


def test_a_run_to_its_end(bench: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real processes; the gauge is set so that any machine is too noisy, which is the same everywhere."""
    monkeypatch.setattr(compare, "QUIET", 2.0)
    small = partial(explorer.run.make_experiment, size=SMALL, ranks=2)
    monkeypatch.setattr(explorer.run, "make_experiment", small)
    seen: list[dict[str, Any]] = []

    async def scenario() -> None:
        bench.run_panel.set("rounds", "1")
        bench.controls.send_intent("action", action="run")
        assert bench.tabs_title() == "Run"
        for _ in range(LIMIT_S * 20):
            if not bench.run_panel.task.running:
                return
            seen.append(bench.tiles.view["verdict"])
            await asyncio.sleep(0.05)

    asyncio.run(scenario())
    assert not bench.error
    assert all(view["level"] == "busy" for view in seen)
    shares = [view["progress"] or 0.0 for view in seen]
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1
    verdict, page = bench.tiles.view["verdict"], bench.run_panel.result.value
    assert verdict["level"] == "warn"
    assert verdict["text"].startswith("**Too noisy for a verdict: the ranks got ")
    assert "Too noisy for a verdict" in page
    assert "gradients equal those of one process" in page
    for part in ("compute", "communication", "bubble", "overhead", "step time", "speedup over data parallel"):
        assert part in page
    assert page.index("<h3>Validated") < page.index("stages: 2") < page.index("<h3>Not validated")
    assert "precision: bf16 in the plan, fp32 here" in page
    buttons = {button["action"]: button["enabled"] for button in bench.controls.view["buttons"]}
    assert buttons["run"]
    assert not buttons["stop"]
    bench.set(global_batch=8)
    assert "noisy" not in bench.tiles.view["verdict"]["text"], "a verdict is of the state that was run"


@pytest.mark.parametrize(
    ("fields", "level", "said"),
    [
        ({"verdict": CONFIRMED}, "ok", "The run confirms the prediction."),
        ({"verdict": OFF}, "warn", "The prediction is off."),
        ({"verdict": WRONG, "numerics_ok": False}, "bad", "gradients differ"),
        ({"verdict": TOO_NOISY, "contention": 0.57}, "warn", "got 57% of the processor time"),
    ],
)  # fmt: skip
def test_a_verdict_is_a_sentence(fields: dict[str, Any], level: str, said: str) -> None:
    panel = RunPanel(None, lambda: None)
    panel.task.comparison = comparison(**fields)
    view = panel.verdict()
    assert view is not None
    assert view["level"] == level
    assert said in view["text"]
    assert "took 400 ms a step, predicted 500 ms (+25.0 %)" in view["text"]
    assert "Speedup over data parallel 1.20, predicted 1.50 (+25.0 %)" in view["text"]
    assert said in run_html({"comparison": panel.task.comparison})


def test_rows_of_the_comparison() -> None:
    page = run_html({"comparison": comparison()})
    assert "&lt;fp32&gt;" in page
    row = page[page.index("<td>compute") :].partition("</tr>")[0]
    assert [text in row for text in ("300 ms", "200 ms", "+50.0 %")] == [True] * 3
    assert "%" not in page[page.index("<td>overhead") :].partition("</tr>")[0], "nothing predicted, no error"
    dry = comparison(
        engine="dry", baseline="", numerics_ok=None, speedup_error_pct=None,
        predicted={"step_time_s": 0.5, "speedup": None},
        measured={"step_time_s": 0.4, "speedup": None, "iqr_s": 0.0},
    )  # fmt: skip
    assert "speedup" not in run_html({"comparison": dry})
    assert "Numerics: not checked" in run_html({"comparison": dry})


def test_progress_counts_rounds_that_warm_up_and_cases() -> None:
    cases = [
        SimpleNamespace(name=name, once=name == "numerics") for name in ("numerics", "strategy", "baseline")
    ]
    spec = SimpleNamespace(cases=cases, warmup_rounds=2, rounds=2)
    events = [
        {"event": "round", "number": -2},
        {"event": "case", "name": "strategy", "round": -2},
        {"event": "round", "number": 0},
        {"event": "case", "name": "baseline", "round": 1},
    ]
    assert [progress_share(event, spec) for event in events] == [0, 0.125, 0.5, 1]
    assert progress_share({"event": "case", "name": "numerics", "round": -1}, spec) is None
    assert progress_share({"event": "ready"}, spec) is None
