"""Fitting kernels to measured products: what was made by known kernels is found again."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from explorer.calibrate.product_fit import MeasuredProducts, fit_products, halves, rounded
from explorer.cluster import DeviceKind, ProductKernels, Tile
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.costs.products import alone_seconds

SCRIPTS = Path(__file__).parents[2] / "scripts"
TRUE = ProductKernels(
    tiles=(Tile(rows=256, columns=128, fraction=0.9), Tile(rows=128, columns=64, fraction=0.7)),
    splits=(1, 2, 4), tile_depth=200.0, partial_wave=0.4, memory_fraction=0.8, exposed_memory=0.1,
    start_s=4e-6,
)  # fmt: skip
KIND = DeviceKind(
    name="h100-sxm-80gb", memory_bytes=1e9, memory_bandwidth_bytes_per_s=2e12, compute_units=108,
    peak_flops_per_s=(("bf16", 3e14),), product_kernels=(("bf16", TRUE),),
)  # fmt: skip


def measured(count: int = 160, kind: DeviceKind = KIND) -> MeasuredProducts:
    luck = np.random.default_rng(1)
    sizes = [2.0 ** luck.integers(8, 14, count) * luck.integers(2, 5, count) / 2 for _ in range(3)]
    return MeasuredProducts(kind, "bf16", *sizes, alone_seconds(kind, "bf16", *sizes))


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a part of the script that fits."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


def test_known_kernels_are_found_again() -> None:
    products = measured()
    assert np.abs(products.errors(TRUE)).max() == 0
    found = fit_products([products], starts=1)
    assert np.median(np.abs(products.errors(found))) < 0.02
    assert len(found.tiles) * len(found.splits) <= 24
    assert found == rounded(found)
    other = replace(KIND, compute_units=148, memory_bandwidth_bytes_per_s=4e12)
    assert np.median(np.abs(measured(kind=other).errors(found))) < 0.05, "numbers are relative to data sheets"


def test_no_pair_of_columns_and_depth_is_fitted_and_judges() -> None:
    products = measured()
    chosen = halves(products)
    sides = [
        set(zip(part.columns.tolist(), part.depth.tolist(), strict=True))
        for part in (products.taken(chosen), products.taken(~chosen))
    ]
    assert not sides[0] & sides[1]
    assert 0.3 < chosen.mean() < 0.7


def test_the_block_of_a_profile_is_what_was_found(part: Callable[[str], Any]) -> None:
    text = part("fit_products").as_text({"bf16": TRUE, "fp8": TRUE})
    old = (
        "device_kinds:\n  - name: other\n  - name: mine\n    product_kernels:\n      bf16: {}\n    tile: 1\n"
    )
    blocks = part("fit_blocks")
    found = blocks.replaced(old, blocks.Block("any", "mine", text))
    made = yaml.safe_load(found)["device_kinds"][1]
    assert made["tile"] == 1
    assert list(made["product_kernels"]) == ["bf16", "fp8"]
    assert made["product_kernels"]["bf16"]["splits"] == [1, 2, 4]
    assert made["product_kernels"]["fp8"]["tiles"][1] == {"rows": 128, "columns": 64, "fraction": 0.7}


def test_profiles_have_the_kinds_that_the_script_writes(part: Callable[[str], Any]) -> None:
    script, blocks = part("fit_products"), part("fit_blocks")
    for kind, profile in script.PROFILES.items():
        assert profile in cluster_names()
        (found,) = (item for item in load_cluster(profile).device_kinds if item.name == kind)
        text = (SCRIPTS.parent / "sample_profiles" / "clusters" / f"{profile}.yaml").read_text()
        block = blocks.Block(profile, kind, script.as_text(dict(found.product_kernels)))
        assert blocks.replaced(text, block) == text


def test_rows_become_products_of_kinds(part: Callable[[str], Any], tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "device,gemm_dtype,m,n,k,microseconds\nB200,fp8,64,128,256,9\nZ9,fp8,1,1,1,1\nB200,bfloat16,1,2,3,4\n"
    )
    found = part("fit_products").read_products(path)
    assert list(found) == [("b200-sxm-180gb", "fp8"), ("b200-sxm-180gb", "bf16")]
    assert found["b200-sxm-180gb", "fp8"].seconds.tolist() == pytest.approx([9e-6])
