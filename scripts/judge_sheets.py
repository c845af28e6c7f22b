"""Judge kinds of a measured generation by operators that others measured on them (SimuMax, 2025).

A part of `scripts/fit_costs.py kernels` that fits nothing. An A100 PCIe is described by its data sheet: it
takes the kernels of A100 SXM over, and one number of how far a power limit lowers its clocks. B200 has the
kernels of its own idle measurements. The operators were timed one after another, so that clocks have settled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fit_attention import kind_named
from fit_blocks import Fitted, markdown, percent

from explorer.cluster import DeviceKind
from explorer.costs.attention import BACKWARD_FLOPS, attention_seconds
from explorer.costs.products import product_seconds
from explorer.score.reading import reference_folder

SET = "matrix_products"  # its folder is there; the files are SimuMax's
FILES = {"a100-pcie-80gb": "system_a100_pcie.json", "b200-sxm-180gb": "system_b200.json"}
COUNTED_S = 50e-6
LAYOUTS = {"TN": "forward", "NN": "input gradient", "NT": "weight gradient"}
_PAIR = re.compile(r"(\w+)=([\w.]+)")


class Operator(NamedTuple):
    """One measured operator with its prediction."""

    what: str
    predicted_s: float
    measured_s: float


def made(_paths: Mapping[str, Path], _executor: Executor) -> Fitted:
    """Return errors of both kinds by operation."""
    head = ("device", "operation", "operators", "median", "mean", "bias", "within 15 %")
    lines = []
    for name, file in FILES.items():
        path = reference_folder() / "measured" / "simumax" / file
        found: dict[str, list[float]] = {}
        for item in operators(kind_named(name), json.loads(path.read_text(encoding="utf-8"))):
            if item.measured_s >= COUNTED_S:
                found.setdefault(item.what, []).append(100 * (item.predicted_s / item.measured_s - 1))
        for what, errors in found.items():
            sizes = np.abs(errors)
            cells = (percent(float(np.median(sizes))), percent(float(sizes.mean())))
            bias, inside = percent(float(np.mean(errors)), signed=True), f"{(sizes <= 15).mean():.0%}"
            lines.append((name, what, str(len(errors)), *cells, bias, inside))
    return Fitted("sheets", markdown(head, lines, words=2), ())


def operators(
    kind: DeviceKind, system: Mapping[str, Mapping[str, Mapping[str, object]]]
) -> Iterator[Operator]:
    """Yield the measured products and attentions of a system description."""
    ops: Mapping[str, Mapping[str, object]] = system["accelerator"]["op"]  # type: ignore[assignment]
    for op, precision in (("matmul", "bf16"), ("fp8_matmul", "fp8")):
        for text, share, peak in _measured(ops, op):
            yield product(kind, precision, dict(_PAIR.findall(text)), share * peak)
    for op, backward in (("sdp_fwd", False), ("sdp_bwd", True)):
        for text, share, peak in _measured(ops, op):
            yield attention(kind, dict(_PAIR.findall(text)), share * peak, backward=backward)


def _measured(ops: Mapping[str, Any], op: str) -> Iterator[tuple[str, float, float]]:
    found = ops.get(op, {})
    for text, share in found.get("accurate_efficient_factor", {}).items():
        yield text, share, float(found["tflops"]) * 1e12


def product(kind: DeviceKind, precision: str, said: Mapping[str, str], rate: float) -> Operator:
    """Predict a product as one of a long row of others."""
    b, m, n, k = (float(said[name]) for name in ("b", "m", "n", "k"))
    sizes = (np.array([size]) for size in (b, m, n, k))
    seconds = product_seconds(kind, precision, *sizes, summed=said["layout"] == "NT")
    what = f"product, {precision}, {LAYOUTS[said['layout']]}"
    return Operator(what, float(seconds[0]) + kind.launch_overhead_s, 2 * b * m * n * k / rate)


def attention(kind: DeviceKind, said: Mapping[str, str], rate: float, *, backward: bool) -> Operator:
    """Predict a causal attention, whose rate is of the FLOPs without a mask."""
    samples, sequence, heads, keys, wide, value = (
        float(said[name])
        for name in ("batch", "seq_len", "head_num", "kv_head_num", "qk_head_dim", "v_head_dim")
    )
    head = (wide + value) / 2
    moved = 2.0 * samples * sequence * (heads + keys) * 2 * head * (2 if backward else 1)
    sizes = [np.array([size]) for size in (samples * heads, sequence, sequence, head)]
    seconds = attention_seconds(
        kind.attention_kernels[0], kind, "bf16", *sizes, causal=True, moved=np.array([moved]),
        backward=backward,
    )  # fmt: skip
    flops = 4 * samples * heads * sequence**2 * head * (BACKWARD_FLOPS if backward else 1.0)
    return Operator(f"attention, {'backward' if backward else 'forward'}", float(seconds[0]), flops / rate)
