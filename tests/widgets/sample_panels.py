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
        {
            "key": "exposed_communication",
            "name": "Exposed communication",
            "quantity": "seconds",
            "value": 0.039,
            "compare": "difference",
            "baseline": 0.034,
            "baseline_name": uniform,
            "note": "0.6% of the step",
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
    return {
        "tiles": tiles, "verdict": verdicts[level], "pending": level == "busy", "reasons": reasons(),
        "reasoning": False,
    }  # fmt: skip


def reasons(*, old: bool = False) -> list[dict[str, Any]]:
    """Four reasons, the last of which proposes nothing."""
    rows: list[tuple[str, str, str, str, str | None, float | None]] = [
        ("balance", "Balance", "**Device 4 binds** (stage 2): 5.62 s of work a step, 16% above the mean.",
         "**Move block 26 to stage 3** to save **450 ms** a step (7.0%).", "Move block 26 to stage 3", 0.45),
        ("bubble", "Bubble", "Devices are idle for 24% of the step (1f1b, 16 microbatches).",
         "**Interleave 2 chunks a device** to save **310 ms** a step (4.8%).", "Interleave 2 chunks", 0.31),
        ("memory", "Memory", "**Fits.** Device 0 is fullest, at 95% of its memory: 38.3 GiB activations.",
         "**Use ZeRO-1** to free **12.7 GiB** for 13 ms a step (0.2%).", "Use ZeRO-1", -0.013),
        ("shape", "Shape", "The plan is 4 stages × 2 replicas. No neighbouring shape helps;",
         "best tried: cut into 2 stages × 4 replicas, 6.9 s a step (+7.1%).", None, None),
    ]  # fmt: skip
    return [
        {
            "key": key, "topic": topic, "text": f"{lead} {gain}",
            "action": f"apply_reason:{key}" if label else None, "label": label,
            "step_time_s": 6.44 - (saves or -0.46), "saves_s": saves, "worth": bool(label),
            "old": old,
        }
        for key, topic, lead, gain, label, saves in rows
    ]  # fmt: skip


def what_if_view() -> dict[str, Any]:
    """WhatIf.view with one slider moved and one wrong number."""
    slider = lambda key, label, unit, now, value, stops, **more: {  # noqa: E731
        "key": f"whatif_{key}", "label": label, "unit": unit, "title": f"{label} of the plan", "now": now,
        "value": value, "stops": stops, "changed": value != now, "error": None, "typed": None, **more,
    }  # fmt: skip
    row = lambda key, name, quantity, now, then, compare, **more: {  # noqa: E731
        "key": key, "name": name, "quantity": quantity, "now": now, "then": then, "compare": compare,
        "level": None, **more,
    }  # fmt: skip
    return {
        "sliders": [
            slider("bandwidth", "Bandwidth", "×", 1.0, 1.0, [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]),
            slider("global_batch", "Global batch", "samples", 32.0, 64.0, [8.0, 16.0, 32.0, 64.0, 128.0]),
            slider("sequence_length", "Sequence", "tokens", 4096.0, 4096.0, [1024.0, 2048.0, 4096.0, 8192.0],
                   error="'many' cannot be: a whole number of 1 or more", typed="many"),
            slider("devices", "Devices", "in use", 8.0, 8.0, [4.0, 8.0, 16.0, 32.0]),
        ],
        "rows": [
            row("step_time", "Step time", "seconds", 6.44, 12.1, "percent"),
            row("throughput", "Throughput", "per_second", 20340.0, 21660.0, "percent", unit="tokens/s"),
            row("memory", "Worst memory", "fraction", 0.95, 1.02, "points", level="bad"),
        ],
        "verdict": {"level": "bad", "text": "**Global batch 64: would not fit**, 1.8 GiB over capacity."},
        "note": "",
        "actions": [
            {"action": "whatif_reset", "label": "Reset", "enabled": True},
            {"action": "whatif_apply", "label": "Apply", "suggested": True, "enabled": False},
        ],
    }  # fmt: skip


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
