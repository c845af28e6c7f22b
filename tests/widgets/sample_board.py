"""The sample's board: 4 stages x 2 replicas on 8 devices."""

from __future__ import annotations

from typing import Any

from sample_model import (
    BYTES,
    CAPACITY,
    GIB,
    MICROBATCHES,
    REPLICAS,
    STAGE_BLOCKS,
    TRANSFER_S,
    blocks,
    starts,
)


def lane(
    model: list[dict[str, Any]], index: int, lanes: int, runs: list[tuple[int, int]], group: str
) -> dict[str, Any]:
    flat = [item for block in model for item in block["layers"]]
    held = [flat[i] for first, count in runs for i in range(first, first + count)]
    in_flight = min(MICROBATCHES, lanes - index)
    total = {
        key: sum(item[key] for item in held)
        for key in (
            "forward_s",
            "backward_s",
            "weight_bytes",
            "gradient_bytes",
            "optimizer_bytes",
            "saved_bytes",
        )
    }
    memory = {key: total[key] for key in ("weight_bytes", "gradient_bytes", "optimizer_bytes")}
    memory["activation_bytes"] = total["saved_bytes"] * in_flight
    memory["buffer_bytes"] = 1.9 * GIB + 0.035 * sum(memory.values())
    return {
        "id": str(index),
        "name": f"Stage {index}",
        "group": group,
        "replicas": [[2 * index], [2 * index + 1]],
        "runs": [{"stage": index, "copy": 0, "first": first, "count": count} for first, count in runs],
        "forward_s": total["forward_s"],
        "backward_s": total["backward_s"],
        "in_flight": in_flight,
        "capacity_bytes": CAPACITY,
        "fits_bytes": CAPACITY,
        "most_bytes": CAPACITY,
        "memory": memory,
        "peak_bytes": sum(memory.values()),
        "binds": False,
        "replica_link": {"kind": "nvlink", "name": "NVLink", "step_bytes": 2 * total["weight_bytes"]},
    }


def board_view(
    model: list[dict[str, Any]] | None = None,
    cuts: list[tuple[int, int]] | None = None,
    extra: dict[str, list[tuple[int, int]]] | None = None,
    per_node: int = 4,
) -> dict[str, Any]:
    """Board.view for stages that hold `cuts` (block ranges); `extra` gives a lane its runs outright."""
    model = model or blocks()
    cuts = cuts or STAGE_BLOCKS
    at = starts(model)
    runs = [[(at[a], at[b] - at[a])] for a, b in cuts]
    for key, value in (extra or {}).items():
        runs[int(key)] = value
    lanes = [lane(model, i, len(cuts), runs[i], f"node {i // per_node}") for i in range(len(cuts))]
    slowest = max(lanes, key=lambda item: item["forward_s"] + item["backward_s"])
    slowest["binds"] = True
    boundaries = [
        {
            "id": f"{i}|{i + 1}",
            "before": i,
            "after": i + 1,
            "before_lane": str(i),
            "after_lane": str(i + 1),
            "at": runs[i][-1][0] + runs[i][-1][1],
            "minimum": runs[i][-1][0] + 1,
            "maximum": runs[i + 1][-1][0] + runs[i + 1][-1][1] - 1,
        }
        for i in range(len(cuts) - 1)
        if runs[i][-1][0] + runs[i][-1][1] == runs[i + 1][0][0]
    ]
    links = [
        {
            "from_lane": str(i),
            "to_lane": str(i + 1),
            "kind": "pcie",
            "name": "PCIe 4, across sockets" if i == 1 else "PCIe 4",
            "dashed": i == 1,
            "forward_bytes": float(BYTES),
            "backward_bytes": float(BYTES),
            "transfer_s": TRANSFER_S,
            "step_bytes": 2.0 * BYTES * MICROBATCHES * REPLICAS,
        }
        for i in range(len(cuts) - 1)
    ]
    total = sum(item["forward_s"] + item["backward_s"] for block in model for item in block["layers"])
    return {
        "lanes": lanes,
        "boundaries": boundaries,
        "links": links,
        "ideal_s": total / len(cuts),
        "scale_key": f"llama3-8b|{len(cuts)}",
        "can_undo": True,
        "can_redo": False,
        "editable": True,
        "baseline_name": "uniform 8·8·8·8",
        "pinned": [],
        "other_name": None,
        "estimate": estimate(lanes),
    }


def estimate(lanes: list[dict[str, Any]]) -> dict[str, Any]:
    """BoardView.estimate: a step of 1F1B without communication."""
    seconds = [item["forward_s"] + item["backward_s"] for item in lanes]
    step = sum(seconds) + (MICROBATCHES - 1) * max(seconds)
    return {
        "step_s": step,
        "samples": 2 * MICROBATCHES,
        "tokens_per_sample": 4096,
        "microbatches": float(MICROBATCHES),
        "mfu": 0.419,
        "bubble": 1 - MICROBATCHES * sum(seconds) / (len(lanes) * step),
        "busy_s": {item["id"]: MICROBATCHES * s for item, s in zip(lanes, seconds, strict=True)},
    }


def with_other(view: dict[str, Any], cuts: list[tuple[int, int]]) -> dict[str, Any]:
    """The view with plan B beside it."""
    beside = board_view(cuts=cuts)["lanes"]
    lanes = [
        {
            **own,
            "other": {
                **{key: item[key] for key in ("forward_s", "backward_s", "peak_bytes")},
                "runs": [[run["first"], run["count"]] for run in item["runs"]],
            },
        }
        for own, item in zip(view["lanes"], beside, strict=True)
    ]
    return {**view, "lanes": lanes, "other_name": "B: even cut"}


def held_view(locked: int = 1, pinned: tuple[str, ...] = ("layers.20",)) -> dict[str, Any]:
    """One lane locked, some blocks pinned."""
    view = board_view()
    view["lanes"][locked]["locked"] = True
    view["pinned"] = [item["id"] for block in blocks() if block["id"] in pinned for item in block["layers"]]
    return view


def overfull_view() -> dict[str, Any]:
    """Blocks 17 and 18 dropped on stage 0: a broken run that does not fit."""
    model = blocks()
    at = starts(model)
    view = board_view(
        model, [(0, 10), (10, 18), (20, 28), (28, 34)], {"0": [(0, at[10]), (at[18], at[20] - at[18])]}
    )
    view["lanes"][0]["runs"][1]["note"] = (
        "+1 transfer each way, 1.5 ms and 32 MiB a microbatch, 2.0 GiB a step: gpu 0 → 2 → 0 → 4"
    )
    return view
