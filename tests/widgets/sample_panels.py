"""The sample's tiles and control bar."""

from __future__ import annotations

from typing import Any


def tiles_view(level: str = "ok") -> dict[str, Any]:
    """Tiles.view after a run, or in another state."""
    uniform = "uniform 8·8·8·8"
    tiles = [
        {
            "key": "step_time",
            "name": "Step time",
            "quantity": "seconds",
            "value": 6.44,
            "baseline": 6.667,
            "baseline_name": uniform,
            "low": 6.18,
            "high": 6.70,
            "measured": 6.64,
        },
        {
            "key": "throughput",
            "name": "Throughput",
            "quantity": "per_second",
            "unit": "tokens/s",
            "value": 20340.0,
            "baseline": 19633.0,
            "baseline_name": uniform,
            "low": 19530.0,
            "high": 21150.0,
            "measured": 19700.0,
        },
        {
            "key": "speedup",
            "name": "Speedup",
            "quantity": "ratio",
            "value": 1.035,
            "context": f"over {uniform}",
            "low": 1.0,
            "high": 1.07,
            "measured": 1.03,
        },
        {
            "key": "memory",
            "name": "Worst memory",
            "quantity": "fraction",
            "value": 0.95,
            "context": "of 79.2 GiB",
            "level": "warn",
            "baseline": 0.86,
            "baseline_name": uniform,
            "low": 0.92,
            "high": 0.98,
            "measured": 0.935,
        },
        {
            "key": "bubble",
            "name": "Bubble",
            "quantity": "fraction",
            "value": 0.241,
            "baseline": 0.268,
            "baseline_name": uniform,
            "low": 0.226,
            "high": 0.256,
            "measured": 0.25,
        },
        {
            "key": "mfu",
            "name": "MFU",
            "quantity": "fraction",
            "value": 0.419,
            "baseline": 0.405,
            "baseline_name": uniform,
            "low": 0.402,
            "high": 0.436,
            "measured": 0.36,
        },
    ]
    verdicts = {
        "ok": {
            "level": "ok",
            "text": "**Fits.** **Stage 2 binds:** 351 ms per microbatch, 16 % over the ideal cut. "
            "Moving block 26 to stage 3 saves **450 ms** a step (7.0 %).",
            "actions": [
                {"action": "preview_hint", "label": "Preview"},
                {"action": "apply_hint", "label": "Move block 26", "suggested": True},
            ],
        },
        "busy": {
            "level": "busy",
            "text": "**Searching with exhaustive.** 18 240 strategies costed; best 5.62 s, 12.8 % faster.",
            "progress": 0.6,
            "note": "18 of 30 s",
            "actions": [
                {"action": "use_best", "label": "Use best so far"},
                {"action": "stop", "label": "Stop"},
            ],
        },
        "bad": {
            "level": "bad",
            "text": "**Does not fit.** Stage 0: 10.3 GiB over capacity. "
            "ZeRO-1 over the replicas would fit: −16.3 GiB, +13 ms.",
            "actions": [{"action": "apply_hint", "label": "Use ZeRO-1", "suggested": True}],
        },
    }
    return {"tiles": tiles, "verdict": verdicts[level], "pending": level == "busy"}


def controls_view() -> dict[str, Any]:
    """Controls.view."""
    choose = lambda *values: [{"value": value, "label": value} for value in values]  # noqa: E731
    fields = [
        {
            "key": "model",
            "label": "Model",
            "kind": "select",
            "value": "llama3-8b",
            "options": choose("gpt2-small", "llama3-8b", "llama3-70b"),
        },
        {
            "key": "cluster",
            "label": "Cluster",
            "kind": "select",
            "value": "dgx-a100",
            "options": choose("dgx-a100", "dgx-1-v100"),
        },
        {
            "key": "global_batch",
            "label": "Batch",
            "kind": "number",
            "value": 32,
            "minimum": 1,
            "step": 1,
            "width_px": 56,
        },
        {
            "key": "sequence_length",
            "label": "Sequence",
            "kind": "number",
            "value": 4096,
            "minimum": 1,
            "step": 1,
            "width_px": 64,
        },
        {
            "key": "schedule",
            "label": "Schedule",
            "kind": "select",
            "value": "1f1b",
            "options": choose("gpipe", "1f1b", "interleaved_1f1b"),
        },
    ]
    buttons = [
        {"action": "search", "label": "Search", "primary": True},
        {"action": "undo", "label": "Undo"},
        {"action": "redo", "label": "Redo", "enabled": False},
        {"action": "run", "label": "Run"},
        {"action": "stop", "label": "Stop", "enabled": False},
        {"action": "export", "label": "Export"},
    ]
    return {"fields": fields, "buttons": buttons}
