"""Views of the Run tab, state by state, from made-up comparisons."""

from __future__ import annotations

from typing import Any

from explorer.run.judging.action_times import TRANSFERS, ActionTime
from explorer.run.judging.compare import CONFIRMED, Comparison, StageTime
from explorer.run.judging.cost_check import LayerSeconds
from explorer.run.judging.held_bytes import RankBytes
from explorer.run.one_rank.findings import ActionSeconds, LayerBytes, SliceCheck
from explorer.views.run_view import comparison_view
from explorer.views.slice_view import slice_view

INTRO = [
    "A run trains a small likeness of this plan on the processors of this machine, in turn with a baseline.",
    "It takes about 25 s; Stop ends it at any time.",
]


def comparison(**fields: Any) -> Comparison:
    """The numbers of the mock: 6.44 s predicted, 6.64 s measured."""
    known: dict[str, Any] = {
        "predicted": {"step_time_s": 6.44, "speedup": 1.5},
        "measured": {"step_time_s": 6.64, "speedup": 1.45, "iqr_s": 0.04},
        "error_pct": -3.0,
        "speedup_error_pct": 3.4,
        "parts": {
            "predicted": {"compute": 4.83, "communication": 0.039, "bubble": 1.55, "overhead": 0.025},
            "measured": {"compute": 4.94, "communication": 0.053, "bubble": 1.61, "overhead": 0.039},
        },
        "numerics_ok": True,
        "contention": 0.96,
        "validated": [
            "schedule 1f1b, its order, and the weight versions it reads",
            "stages: 4",
            "ratio of the stages' times",
        ],
        "not_validated": [
            "microbatches per step: 16 in the plan, 8 here",
            "the layers themselves: 14 small ones stand for 452",
            "precision: bf16 in the plan, fp32 here",
        ],
        "verdict": CONFIRMED,
        "baseline": "data_parallel",
        "engine": "likeness",
        "numerics": {"gradient": 3e-7, "weight": 2e-7},
        "stages": [
            StageTime(stages=(i,), predicted_s=1.0, measured_s=m)
            for i, m in enumerate((1.019, 1.021, 1.033, 1.022))
        ],
        "actions": [
            ActionTime(stage=stage, action=action, count=count, predicted_s=predicted, measured_s=measured)
            for stage in range(4)
            for action, count, predicted, measured in (
                ("F", 48, 0.041, 0.042 + stage / 1000),
                ("B", 48, 0.081, 0.0802),
                ("U", 6, 0.006, 0.0081),
                (TRANSFERS, 6, 0.010, 0.013),
            )
        ],
        "rounds": 3,
        "error_spread_pct": 2.6,
    }
    return Comparison(**known | fields)


def run_view(state: str = "done", **more: Any) -> dict[str, Any]:
    """`RunView.view`."""
    view: dict[str, Any] = {
        "state": state,
        "intro": INTRO,
        "stand_ins": None,
        "note": "",
        "progress": None,
        "failure": None,
        "result": None,
        "calibration": None,
    }
    return view | more


def done_view(**fields: Any) -> dict[str, Any]:
    """With a result and what calibrating would change."""
    result = comparison_view(comparison(**fields)) | {"old": None, "errors": True}
    note = "likeness on 4 ranks (processors), 3 rounds, 26.1 s, at 14:02"
    return run_view(note=note, result=result, calibration=calibration())


def slice_check(**fields: Any) -> SliceCheck:
    """A rank of gpt2-small alone, its attention predicted too fast."""
    known: dict[str, Any] = {
        "rank": 1,
        "stages": (1,),
        "device": "cpu",
        "clock": "processor",
        "profile": "this-machine: two cores",
        "costs_missing": "",
        "shortened": (("microbatches of a step", "16", "3"), ("precision", "bf16", "fp32")),
        "actions": [
            ActionSeconds(action="F1", predicted_s=0.150, measured_s=0.157, count=3),
            ActionSeconds(action="B1", predicted_s=0.280, measured_s=0.443, count=3),
            ActionSeconds(action="U1", predicted_s=0.98, measured_s=1.03, count=1),
        ],
        "layers": [
            LayerSeconds(
                layer=f"h.{i}.{part}", samples=1, predicted_s=(0.01, 0.02), measured_s=(0.01, 0.02 + late)
            )
            for i in range(6, 12)
            for part, late in (("attn.scores", 0.03 + i / 1000), ("mlp.up", -0.002))
        ],
        "saved": [
            LayerBytes(layer=f"h.{i}.attn.scores", predicted_bytes=2e6, measured_bytes=2.5e6)
            for i in range(6, 12)
        ],
        "memory": RankBytes(rank=1, predicted_bytes=1.9 * 2**30, measured_bytes=1.92 * 2**30),
        "predicted_s": 2.27,
        "measured_s": 2.83,
        "error_pct": -19.8,
        "verdict": CONFIRMED,
    }  # fmt: skip
    return SliceCheck(**known | fields)


def sliced_view(**fields: Any) -> dict[str, Any]:
    """With the result of one rank alone."""
    result = slice_view(slice_check(**fields)) | {"old": None, "errors": True}
    return run_view(note="slice: rank 1 alone (processors), 41 s, at 14:05", result=result)


def slicing_view() -> dict[str, Any]:
    """One rank alone, under way."""
    progress = {
        "share": 0.5, "elapsed_s": 17.4, "left_s": 17.4, "phase": "Timing every layer by itself",
        "said": "Timing every layer by itself", "other": None, "ranks": [], "contention": None,
    }  # fmt: skip
    return run_view("running", progress=progress)


def calibration(**fields: Any) -> dict[str, Any]:
    """A correction of a link and of products."""
    return {
        "possible": True,
        "text": "Calibrating writes two-cpus-calibrated.yaml and puts two-cpus calibrated on the board.",
        "changes": [
            {"what": "pcie", "before": 22e9, "after": 17.4e9, "quantity": "bytes_per_s"},
            {"what": "pcie latency", "before": 1e-5, "after": 1.4e-5, "quantity": "seconds"},
            {"what": "matmul", "before": 0.58, "after": 0.57, "quantity": "fraction"},
        ],
        "kept": ["ethernet: the run stayed within one machine"],
        "step_s": 6.62,
        "now_s": 6.44,
    } | fields


def refused() -> dict[str, Any]:
    """A calibration that is refused."""
    return calibration(
        possible=False, changes=[], kept=[], step_s=None, now_s=None,
        text="The ranks ran on processors of this machine, not on a100-sxm-80gb: seconds and bandwidths of"
        " the one say nothing about the other, so dgx-a100 stays as it is.",
    )  # fmt: skip


def running_view(ranks: int = 4, **more: Any) -> dict[str, Any]:
    """In the second of three rounds."""
    states = ("computing", "waiting", "computing", "starting", "done", "failed")
    rows = [
        {
            "rank": i,
            "state": states[i % 6],
            "doing": (
                "forward of microbatch 3",
                "backward of microbatch 2 waits for rank 2",
                "backward of microbatch 0",
                "",
                "",
                "",
            )[i % 6],
            "round": "Round 2 of 3",
            "step_s": 0.351 + 0.01 * i if i % 6 < 3 else None,
            "memory_bytes": (412 + 7 * i) * 2**20,
            "at_s": 0.31 + 0.02 * i if i % 6 < 3 else None,
            "of_s": 1.24 if i % 6 < 3 else None,
        }
        for i in range(ranks)
    ]
    got = "Contention low: ranks get 96\N{NO-BREAK SPACE}% of the processor time they need"
    load = {"share": 0.96, "level": "ok", "text": got}
    progress: dict[str, Any] = {
        "share": 0.6, "elapsed_s": 17.4, "left_s": 9.2, "phase": "Round 2 of 3", "said": "Round 2 of 3",
        "other": None, "ranks": rows,
        "contention": load,
    }  # fmt: skip
    return run_view("running", progress=progress | more)


def failed_view(**more: Any) -> dict[str, Any]:
    """With a log and a way out."""
    failure = {
        "rank": 1,
        "text": "rank 1 was killed by SIGKILL; the system does that when memory runs out during 0F3",
        "log": "\n".join(f"line {i} of what the ranks printed" for i in range(12)),
        "fix": "Memory ran out. Close other notebooks, or do a dry run, which holds no model.",
        "action": "run_dry",
        "label": "Do a dry run instead",
    }
    return run_view("failed", failure=failure | more)
