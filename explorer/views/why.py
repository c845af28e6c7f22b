"""The reasons next to the figures: each sentence with its button, those worth a change first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.explain import Sentence
from explorer.views.scene import Scene
from explorer.views.tiles import TIGHT, figures

_TOPICS = {
    "memory": "Memory",
    "balance": "Balance",
    "runs": "Order",
    "bubble": "Bubble",
    "recompute": "Recomputation",
    "communication": "Communication",
    "shape": "Shape",
    "devices": "Idle devices",
}


def reasons_view(scene: Scene, sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """Return `Tiles.view["reasons"]`, in the order given; a reason's key is its topic."""
    return [_reason(scene, said) for said in sentences]


def _reason(scene: Scene, said: Sentence) -> dict[str, Any]:
    proposes = said.strategy is not None
    return {
        "key": said.topic,
        "topic": _TOPICS.get(said.topic, said.topic.capitalize()),
        "text": said.text,
        "action": f"apply_reason:{said.topic}" if proposes else None,
        "label": button(said.change) if proposes else None,
        "step_time_s": said.step_time_s,
        "saves_s": said.saves_s,
        "worth": proposes and worth(scene, said),
        "old": False,
    }


def worth(scene: Scene, said: Sentence) -> bool:
    """Tell whether a proposal comes first: it makes the plan fit, saves time, or frees tight memory."""
    if not scene.report.feasible or said.saves_s is None or said.saves_s > 0:
        return True
    return said.topic == "memory" and figures(scene.report)["memory"] >= TIGHT


def button(change: str) -> str:
    """Write a change as its button says it."""
    return change[:1].upper() + change[1:]
