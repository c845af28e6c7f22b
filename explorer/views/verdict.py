"""The sentence that judges a strategy: at once from the report, then with the change that helps most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.base.units import format_bytes, format_seconds
from explorer.cluster.memory_room import MAY_FIT
from explorer.explain import Sentence
from explorer.explain.memory import tightest
from explorer.explain.pipeline import above_mean
from explorer.views.scene import Scene
from explorer.views.why import button

LONGEST_LABEL = 28
"""Most characters on the verdict's button."""


def quick_verdict(scene: Scene) -> dict[str, Any]:
    """Return the verdict of the report alone: whether the plan fits and what binds, without a proposal."""
    report = scene.report
    if not report.feasible:
        return {"level": "bad", "text": _overflow(scene), "actions": []}
    tight = tightest(report)
    text = "**Fits.**" if tight is None else f"**May fit:** {tight.words}."
    if len(scene.groups) > 1:
        busiest = max(range(len(report.busy_s)), key=report.busy_s.__getitem__)
        mean = sum(report.busy_s) / len(report.busy_s)
        over = report.busy_s[busiest] / mean - 1 if mean else 0.0
        lane = next((i for i, lanes in enumerate(scene.report_lanes) if busiest in lanes), 0)
        words = _lane_words(scene, lane)
        text += (
            f" **{words} {'bind' if words.startswith('Stages') else 'binds'}:**"
            f" {format_seconds(report.busy_s[busiest])} of work a step,"
            f" {above_mean(over)}."
        )
    return {"level": "ok" if tight is None else "warn", "text": text, "actions": []}


def _overflow(scene: Scene) -> str:
    worst = max(scene.report.overflows, key=lambda item: item.over_bytes)
    lane = scene.lane_of_device.get(worst.device, 0)
    count = len(scene.report.overflows)
    more = f" ({count} lanes do not fit)" if count > 1 else ""
    said, what = "Does not fit", "capacity"
    if scene.report.memory_verdict == MAY_FIT:  # refused, since only what fits for sure is taken
        said, what = "May fit", "what fits for sure"
    return (
        f"**{said}.** {_lane_words(scene, lane)}, device {worst.device}:"
        f" **{format_bytes(worst.over_bytes)} over** {what}{more}."
    )


def _lane_words(scene: Scene, lane: int) -> str:
    stages = [s for s, own in enumerate(scene.lane_of_stage) if own == lane]
    if not stages:
        return f"Lane {lane}"
    return f"Stage {stages[0]}" if len(stages) == 1 else f"Stages {', '.join(map(str, stages))}"


def verdict_view(scene: Scene, sentences: Sequence[Sentence]) -> tuple[dict[str, Any], Sentence | None]:
    """Return the verdict with its best proposal as a button, and that proposal.

    Of several proposals the one with the shortest re-simulated step is taken. Proposals that cost time to
    free memory are left to the list of reasons.
    """
    quick = quick_verdict(scene)
    proposals = [
        item
        for item in sentences
        if item.strategy is not None and item.step_time_s is not None and (item.saves_s or 0.0) >= 0
    ]
    best = min(proposals, key=lambda item: item.step_time_s or 0.0, default=None)
    if best is None:
        if scene.report.feasible:
            return quick | {"note": "no single change tried helps"}, None
        advice = next((item.text for item in sentences if item.topic == "memory"), "")
        return quick | {"text": advice or quick["text"]}, None
    return quick | {
        "text": f"{quick['text']} {_proposal(scene, best)}",
        "actions": [{"action": "apply_hint", "label": _label(best), "suggested": True,
                     "title": "Apply this change; Undo takes it back"}],
    }, best  # fmt: skip


def _proposal(scene: Scene, best: Sentence) -> str:
    step = best.step_time_s or 0.0
    if not scene.report.feasible:
        return f"Fastest change that fits: {best.change}, {format_seconds(step)} a step."
    saved = scene.report.step_time_s - step
    share = saved / scene.report.step_time_s
    return f"Best change: {best.change}, to save **{format_seconds(saved)}** a step ({share:.1%})."


def _label(best: Sentence) -> str:
    """Label the change's button; a long change is left to the sentence next to it."""
    label = button(best.change)
    return label if len(label) <= LONGEST_LABEL else "Apply this change"
