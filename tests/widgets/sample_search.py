"""The sample's search results: five searchers and yours, in every state of the tab."""

from __future__ import annotations

from typing import Any

GIB = 2.0**30
BOUND_S = 4.83


def row(searcher: str, space: str, label: str, step_s: float | None, gib: float | None, answer: str,
        wall_s: float | None, **more: Any) -> dict[str, Any]:  # fmt: skip
    """One row; `more` over what most rows have."""
    return {
        "id": searcher,
        "searcher": searcher,
        "space": space,
        "label": label,
        "detail": f"{searcher}'s own words for {label}",
        "value": step_s,
        "step_s": step_s,
        "peak_bytes": gib * GIB if gib else None,
        "change": step_s / 6.44 - 1 if step_s else None,
        "gap": step_s / BOUND_S - 1 if step_s else None,
        "answer": answer,
        "wall_s": wall_s,
        "evaluations": 40,
        "level": None,
        "loadable": step_s is not None,
        "note": "",
        "on_board": False,
    } | more


def rows() -> list[dict[str, Any]]:
    """Finished rows, best first."""
    yours = {
        "id": "yours",
        "change": None,
        "loadable": False,
        "on_board": True,
        "evaluations": 0,
        "detail": "",
    }
    return [
        row("auto", "uniform, then local moves", "pp 4 × dp 2, interleaved_1f1b, 2 chunks, ZeRO-1",
            5.44, 68.0, "best so far", 38.2),
        row("exhaustive", "all uniform tp × pp × dp", "pp 4 × dp 2, interleaved_1f1b, 2 chunks, microbatch 1",
            5.48, 68.1, "optimal", 4.1),
        row("local", "small changes of yours", "pp 4 × dp 2, 1f1b, microbatch 1, selective recomputation",
            6.27, 48.3, "stopped", 12.4, note="loading it releases 2 pins"),
        row("yours", "by hand", "pp 4 × dp 2, 1f1b, microbatch 1", 6.44, 75.2, "", None, **yours),
        row("megatron", "tp × pp × dp by rule", "dp 2 × tp 4, microbatch 2", 7.18, 52.0, "ended", 0.9),
        row("pipedream", "cuts × replicas", "no strategy that respects 3 pins", None, None, "ended", 0.4),
    ]  # fmt: skip


def axes() -> list[dict[str, Any]]:
    """The axes of most frontiers."""
    return [{"name": "time", "title": "step time", "unit": "s", "one": 1.0},
            {"name": "memory", "title": "worst device memory", "unit": "GiB", "one": GIB}]  # fmt: skip


def points() -> list[dict[str, Any]]:
    """A frontier of three points."""
    found = [
        (5.44, 68.0, ["auto"], "pp 4 × dp 2, interleaved_1f1b, 2 chunks, microbatch 1, ZeRO-1"),
        (6.27, 48.3, ["local", "auto"], "pp 4 × dp 2, 1f1b, microbatch 1, selective recomputation"),
        (7.91, 31.0, ["auto"], "pp 8, 1f1b, microbatch 1, full recomputation"),
    ]
    return [
        {"id": f"{step}/{gib}", "searchers": who, "label": label, "detail": label, "step_s": step,
         "values": [step, gib * GIB], "peak_bytes": gib * GIB, "may_fit": gib > 64}
        for step, gib, who, label in found
    ]  # fmt: skip


def leaderboard_view(state: str = "done") -> dict[str, Any]:
    """`Leaderboard.view`: done, empty, searching, loaded, failed, or with an objective of its own (cost)."""
    view: dict[str, Any] = {
        "state": "done",
        "text": "5 searchers, one cost model, 1 204 strategies costed",
        "said": None,
        "objective": None,
        "bound": {"value_s": BOUND_S, "name": "work over peak"},
        "rows": rows(),
        "axes": axes(),
        "points": points(),
        "points_omitted": 0,
    }
    if state == "empty":
        alone = [item for item in rows() if item["id"] == "yours"]
        return view | {"state": "empty", "text": "yours, and what searchers find, with one cost model",
                       "rows": alone, "points": []}  # fmt: skip
    if state == "searching":
        early = row("exhaustive", "all uniform tp × pp × dp", "pp 4 × dp 2, 1f1b, microbatch 2", 6.02, 70.0,
                    "best so far", 2.3, level="busy")  # fmt: skip
        waiting = row("auto", "uniform, then local moves", "", None, None, "waiting", None)
        rest = [item for item in rows() if item["id"] in ("megatron", "yours", "pipedream")]
        return view | {"state": "searching", "text": "5 searchers, 2 done, 63 strategies costed",
                       "rows": [*rest, early, waiting], "points": points()[:1]}  # fmt: skip
    if state == "loaded":
        shown = [item | {"on_board": item["id"] in ("auto", "yours")} for item in rows()]
        return view | {"rows": shown, "said": "auto's strategy is on the board; Undo takes it back"}
    if state == "failed":
        wrong = row("pipedream", "cuts × replicas", "1,048,577 cut positions, too many for 2 levels",
                    None, None, "failed", 0.4, level="bad")  # fmt: skip
        return view | {"rows": [*rows()[:-1], wrong]}
    if state == "cost":
        priced = [
            item | {"value": item["step_s"] and item["step_s"] * 0.0046, "gap": None} for item in rows()
        ]
        return view | {"rows": priced, "objective": {"name": "cost", "unit": "dollars"}, "bound": None}
    if state == "frontier of three":
        return view | {
            "objective": {"name": "cost", "unit": "dollars"}, "bound": None, "points_omitted": 2,
            "axes": [
                {"name": "cost", "title": "cost", "unit": "$ a thousand steps", "one": 1e-3},
                {"name": "devices", "title": "devices used", "unit": "", "one": 1.0},
                {"name": "time", "title": "step time", "unit": "s", "one": 1.0},
            ],
            "points": [
                item | {"values": [item["step_s"] * 0.0046, 8.0 - i, item["step_s"]]}
                for i, item in enumerate(points())
            ],
        }  # fmt: skip
    return view
