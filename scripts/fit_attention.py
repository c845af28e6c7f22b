"""Fit the kernels of attention of bundled device kinds to measured attentions, and judge the fits.

A part of `scripts/fit_costs.py kernels`. What was measured are forwards: the shares of the backward, and of
sizes of heads that were not measured, are documents' and stay. A device of which no attention was measured
takes a kernel over by its data sheet (`explorer.calibrate.attention_fit.scaled`), at the clock that its own
products keep where they take a millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
from fit_blocks import Block, Fitted, flow, markdown, percent

from explorer.calibrate.attention_fit import (
    SHEETS,
    MeasuredAttention,
    fit_attention,
    halves,
    mean_errors,
    rounded,
    scaled,
)
from explorer.cluster import AttentionKernel, DeviceKind
from explorer.score.kernel_devices import known_kinds
from explorer.score.kernel_sets.attention_forward import COLUMNS, PRECISION, attention_of
from explorer.score.kernels import Refused, checked
from explorer.score.reading import read_table

SET = "attention_forward"
KERNELS = {"a100-sxm-80gb": "flash-2", "h100-sxm-80gb": "flash-3", "b200-sxm-180gb": "cudnn"}
"""Kernel of each kind that was measured."""
PROFILES = {"a100-sxm-80gb": "dgx-a100", "h100-sxm-80gb": "hgx-h100", "b200-sxm-180gb": "b200"}
DERIVED = {("l40s-pcie-48gb", "flash-2"): ("l40s-pcie-8", "a100-sxm-80gb", (64, 128))}
"""By kind and kernel that was not measured: the profile, the kind it is taken from, and sizes of heads."""
LONG_S = 1e-3
"""Seconds of a product at whose clock a derived kernel works."""


def made(paths: Mapping[str, Path], executor: Executor) -> Fitted:
    """Fit, and return errors and numbers."""
    measured = read_attentions(paths[SET])
    halved = [rows.taken(halves(rows)) for rows in measured.values()]
    parts = list(executor.map(fitted, [*measured.values(), *halved]))
    kernels = dict(zip(measured, parts, strict=False))
    judged = dict(zip(measured, parts[len(measured) :], strict=True))
    blocks = [Block(PROFILES[name], name, as_text(kernel), "sources:") for name, kernel in kernels.items()]
    for (name, kernel_name), (profile, base, sizes) in DERIVED.items():
        if base in kernels:
            kind = kind_named(name)
            own = derived(kernels[base], base, kind, sizes)
            blocks.append(Block(profile, name, as_text(replace(own, name=kernel_name)), "sources:"))
    return Fitted("attention", table_of(measured, kernels, judged), tuple(blocks))


def kind_named(name: str) -> DeviceKind:
    """Return a bundled kind."""
    return next(kind for kind in known_kinds()[name].device_kinds if kind.name == name)


def read_attentions(path: Path) -> dict[str, MeasuredAttention]:
    """Measured attentions by kind of device, of the kernels that are fitted."""
    rows: dict[str, list[tuple[float, ...]]] = {}
    for record in read_table(path, COLUMNS)[0]:
        found = checked(record, attention_of)
        if not isinstance(found, Refused) and KERNELS.get(found.kind.name) == found.kernel:
            rows.setdefault(found.kind.name, []).append((*found.sizes, found.measured_s))
    return {
        name: MeasuredAttention(kind_named(name), PRECISION, *np.array(group, dtype=float).T)
        for name, group in rows.items()
    }


def bundled(name: str) -> AttentionKernel:
    """Return the kernel of a measured kind as its profile states it."""
    return next(item for item in kind_named(name).attention_kernels if item.name == KERNELS[name])


def fitted(rows: MeasuredAttention) -> AttentionKernel:
    """Fit one kernel; what forwards do not tell stays as the profile has it."""
    own = bundled(rows.kind.name)
    found = fit_attention(rows, own, {item.head: item.backward / item.forward for item in own.heads})
    told = {item.head: item for item in found.heads}
    heads = tuple(
        replace(item, forward=told[item.head].forward) if item.head in told else item for item in own.heads
    )
    return replace(found, heads=heads)


def derived(kernel: AttentionKernel, base: str, kind: DeviceKind, sizes: Sequence[int]) -> AttentionKernel:
    """Return a kernel on a kind where none was measured: by both sheets, and the clock of its products."""
    found = scaled(kernel, SHEETS[base], SHEETS[kind.name], sizes)
    products = kind.kernels_of(PRECISION)
    clock = 1.0
    if products is not None and products.sustained:
        seconds, shares = np.array(products.sustained).T
        clock = float(np.interp(np.log(LONG_S), np.log(seconds), shares))
    heads = tuple(
        replace(item, forward=item.forward * clock, backward=item.backward * clock) for item in found.heads
    )
    return rounded(replace(found, heads=heads))


def table_of(
    measured: Mapping[str, MeasuredAttention],
    kernels: Mapping[str, AttentionKernel],
    judged: Mapping[str, AttentionKernel],
) -> str:
    """Return the errors of attentions that count: shapes left out, and by the sheet of another device."""
    names = list(measured)
    head = ["device, kernel", "attentions", "all fitted", "shapes left out"]
    head += [f"from {name} by its sheet" for name in names]
    lines = []
    for name, rows in measured.items():
        left = rows.taken(~halves(rows))
        cells = [f"{name}, {KERNELS[name]}", f"{len(rows.seconds):,}", _errors(rows, kernels[name])]
        cells.append(_errors(left, judged[name]))
        sizes = sorted({int(head) for head in rows.head})
        for other in names:
            taken = scaled(kernels[other], SHEETS[other], SHEETS[name], sizes)
            cells.append("" if other == name else _errors(rows, taken))
        lines.append(cells)
    return markdown(head, lines)


def _errors(rows: MeasuredAttention, kernel: AttentionKernel) -> str:
    return ", ".join(map(percent, mean_errors(rows.errors(kernel), rows.seconds)))


def as_text(kernel: AttentionKernel) -> str:
    """Return a kernel as a profile says it, without its sources."""
    heads = [
        f"          - {{head: {item.head}, forward: {item.forward:g}, backward: {item.backward:g}}}"
        for item in kernel.heads
    ]
    lines = [
        f"      - name: {kernel.name}",
        f"        rows: {kernel.rows}",
        f"        columns: {kernel.columns}",
        "        heads:",
        *heads,
        f"        imbalance: {flow(kernel.imbalance)}",
        f"        exposed: {flow(kernel.exposed)}",
        f"        start_s: {kernel.start_s * 1e6:.4g} us",
        f"        sustained: {flow(kernel.sustained)}",
    ]
    return "\n".join(lines) + "\n"
