"""Fits of attention: numbers come back from made times; shapes and devices left out; what profiles say."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer.calibrate.attention_fit import (
    SHEETS,
    MeasuredAttention,
    fit_attention,
    halves,
    mean_errors,
    products_and_softmax,
    scaled,
)
from explorer.cluster import AttentionKernel, HeadSpeed
from explorer.score.kernel_devices import kind_called

MEASURED = {
    "A100-SXM4-80GB": ("flash-2", {128: 0.97}),
    "H100-SXM5-80GB": ("flash-3", {64: 0.9}),
    "B200": ("cudnn", {64: 0.8}),
}
"""By device its kernel that was measured, and the share of the backward over that of the forward."""
NEAREST = {"H100-SXM5-80GB": "B200", "B200": "H100-SXM5-80GB", "A100-SXM4-80GB": "H100-SXM5-80GB"}
"""Device from which one that was never measured takes its kernel over."""


def kernel_of(device: str) -> AttentionKernel:
    kernels = kind_called(device).attention_kernels
    return next(kernel for kernel in kernels if kernel.name == MEASURED[device][0])


def made(kernel: AttentionKernel, count: int = 300) -> MeasuredAttention:
    """Times of random attentions that a kernel takes on an A100."""
    luck = np.random.default_rng(1)
    batch = 2.0 ** luck.integers(0, 6, count)
    sequence, heads = 2.0 ** luck.integers(9, 14, count), 4.0 * luck.integers(1, 16, count)
    head = 64.0 * luck.integers(1, 3, count)
    blank = MeasuredAttention(
        kind_called("A100-SXM4-80GB"), "bf16", batch, sequence, heads, heads, head, np.ones(count)
    )
    return blank._replace(seconds=blank.predicted(kernel))


def test_numbers_come_back() -> None:
    small, large = (HeadSpeed(head=h, forward=f, backward=0.8 * f) for h, f in ((64, 0.5), (128, 0.7)))
    kernel = AttentionKernel(
        name="flash-2", columns=64, imbalance=0.9, exposed=1.1, start_s=4e-6, sustained=0.12,
        heads=(small, large),
    )  # fmt: skip
    blank = replace(kernel, heads=(HeadSpeed(head=64, forward=0.3, backward=0.3),), imbalance=0.0)
    found = fit_attention(made(kernel), blank, {64: 0.8})
    for one, other in zip(found.heads, kernel.heads, strict=True):
        assert one.forward == pytest.approx(other.forward, rel=0.01)
        assert one.backward == pytest.approx(other.backward, rel=0.01)
    for name in ("imbalance", "exposed", "start_s", "sustained"):
        assert getattr(found, name) == pytest.approx(getattr(kernel, name), rel=0.05)


def test_a_device_of_the_same_sheet_takes_the_same_kernel() -> None:
    kernel, sheet = kernel_of("H100-SXM5-80GB"), SHEETS["h100-sxm-80gb"]
    found = scaled(kernel, sheet, sheet, [64, 256])
    known = {speed.head: speed.forward for speed in kernel.heads}
    share, softmax = products_and_softmax(kernel, sheet)
    assert share > 0
    assert softmax > 0
    for speed in found.heads:
        assert speed.forward == pytest.approx(known[speed.head], rel=0.05)


def test_a_slower_product_unit_makes_the_softmax_cheaper() -> None:
    kernel, sheet = kernel_of("A100-SXM4-80GB"), SHEETS["a100-sxm-80gb"]
    half = sheet._replace(peak_flops_per_s=sheet.peak_flops_per_s / 2)
    assert scaled(kernel, sheet, half, [128]).heads[0].forward > kernel.heads[1].forward


# ------------------------------------------------------------------------------------------- published rows


def published(folder: Path, device: str) -> MeasuredAttention:
    with (folder / "measured/kernels/attention_forward.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["device"] == device]
    names = ("batch_size", "sequence", "num_heads", "num_key_value_heads", "head_dim", "microseconds")
    *sizes, microseconds = (np.array([float(row[name]) for row in rows]) for name in names)
    return MeasuredAttention(kind_called(device), "bf16", *sizes, microseconds * 1e-6)


@pytest.mark.parametrize("device", MEASURED)
def test_shapes_left_out(device: str, reference_dir: Path) -> None:
    measured = published(reference_dir, device)
    fitted = halves(measured)
    kernel = fit_attention(measured.taken(fitted), kernel_of(device), MEASURED[device][1])
    others = measured.taken(~fitted)
    median, mean = mean_errors(others.errors(kernel), others.seconds)
    assert median <= 5
    assert mean <= 8


@pytest.mark.parametrize("device", MEASURED)
def test_profiles_say_what_the_fit_finds(device: str, reference_dir: Path) -> None:
    own = kernel_of(device)
    found = fit_attention(published(reference_dir, device), own, MEASURED[device][1])
    told = {speed.head: speed.forward for speed in own.heads}
    for speed in found.heads:
        assert told[speed.head] == pytest.approx(speed.forward, rel=0.005)
    for name in ("imbalance", "exposed", "start_s", "sustained"):
        assert getattr(own, name) == pytest.approx(getattr(found, name), rel=0.02)


@pytest.mark.parametrize("device", MEASURED)
def test_a_generation_that_was_never_measured(device: str, reference_dir: Path) -> None:
    measured, other = published(reference_dir, device), NEAREST[device]
    sheets = [SHEETS[kind_called(name).name] for name in (other, device)]
    kernel = scaled(kernel_of(other), *sheets, sorted({int(head) for head in measured.head}))
    median, mean = mean_errors(measured.errors(kernel), measured.seconds)
    assert max(median, mean) <= 30
