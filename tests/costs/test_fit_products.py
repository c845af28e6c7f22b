"""Fitting tiles to measured products: what was made with known tiles is found again."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.costs.products import product_seconds

SCRIPT = Path(__file__).parents[2] / "scripts" / "fit_products.py"
SIZES = [(m, n, k) for m in (2048, 4096, 8192) for n in (1024, 5120, 28672) for k in (1024, 4096, 16384)]


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("fit_products", SCRIPT)
    assert spec
    assert spec.loader
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def write(path: Path, seconds: Any, tflops: float) -> Path:
    rows = {
        f"b=1, m={m}, k={k}, n={n}, layout=TN, out_dtype=bf16": 2.0 * m * n * k / (s * tflops * 1e12)
        for (m, n, k), s in zip(SIZES, seconds, strict=True)
    }
    matmul = {"tflops": tflops, "accurate_efficient_factor": rows}
    path.write_text(json.dumps({"accelerator": {"op": {"matmul": matmul}}}))
    return path


def test_known_tiles_are_found_again(script: Any, tmp_path: Path) -> None:
    kind = load_cluster("b200").device_kinds[0]
    true = script.with_tiles(kind, (150.0, 0.6, 0.55, 0.4))
    batch, (m, n, k) = np.ones(len(SIZES)), np.array(SIZES, dtype=float).T
    seconds = product_seconds(true, "bf16", batch, m, n, k)
    products = script.read_products(write(tmp_path / "system.json", seconds, 2250.0))
    assert products.seconds == pytest.approx(seconds)
    found = script.fitted(kind, products)
    assert script.mean_pct(true, products) == pytest.approx(0.0, abs=1e-9)
    assert script.mean_pct(found, products) < 0.5
    assert found.tiles[0].fraction == pytest.approx(0.6, rel=0.02)


def test_printed_figures(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = load_cluster("b200").device_kinds[0]
    batch, (m, n, k) = np.ones(len(SIZES)), np.array(SIZES, dtype=float).T
    path = write(tmp_path / "system.json", product_seconds(kind, "bf16", batch, m, n, k), 2250.0)
    arguments = ["fit_products.py", str(path), "b200", "b200-sxm-180gb", "--least-ms", "0.2"]
    monkeypatch.setattr(sys, "argv", arguments)
    script.main()
    printed = capsys.readouterr().out
    assert f"of all {len(SIZES)}" in printed
    assert "fitted to the odd ones" in printed
