"""`explorer calibrate CLUSTER --products FILE.csv`: measured products in a profile, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer.base.errors import InputError
from explorer.cli.main import main
from explorer.cluster import DeviceKind
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.costs.products import alone_seconds, product_seconds
from explorer.score.product_file import with_products

HEAD = "device,gemm_dtype,m,n,k,microseconds\n"
ROWS = (
    "NVIDIA A100-SXM4-80GB,bfloat16,4096,4096,4096,700\nA100-SXM4-80GB,bf16,4096,4096,4096,720\n"
    "A100-SXM4-80GB,bfloat16,4096,4096,4096,900\na100-sxm-80gb,float16,128,1024,512,9.5\n"
)


def written(folder: Path, text: str) -> Path:
    path = folder / "products.csv"
    path.write_text(text, encoding="utf-8")
    return path


def calibrate(folder: Path, *more: str, cluster: str = "dgx-a100") -> int:
    return main(["calibrate", cluster, "--products", str(folder / "products.csv"),
                 "-o", str(folder / "mine.yaml"), *more])  # fmt: skip


def seconds(kind: DeviceKind, precision: str, *shape: float) -> float:
    return float(alone_seconds(kind, precision, *(np.array([size]) for size in shape))[0])


def test_a_profile_predicts_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, HEAD + ROWS)
    assert calibrate(tmp_path, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [(item["precision"], item["shapes"]) for item in said["products"]] == [("bf16", 1), ("fp16", 1)]
    (kind,) = load_cluster(tmp_path / "mine.yaml").device_kinds
    (plain,) = load_cluster("dgx-a100").device_kinds
    assert seconds(kind, "bf16", 4096, 4096, 4096) == pytest.approx(720e-6), "the median"
    assert seconds(kind, "fp16", 128, 1024, 512) == pytest.approx(9.5e-6)
    assert seconds(kind, "bf16", 512, 16384, 512) == pytest.approx(seconds(plain, "bf16", 512, 16384, 512))
    law = 720e-6 / seconds(plain, "bf16", 4096, 4096, 4096)
    near = seconds(kind, "bf16", 4096, 4096, 5120) / seconds(plain, "bf16", 4096, 4096, 5120)
    assert abs(np.log(near)) < abs(np.log(law))
    assert np.log(near) * np.log(law) > 0
    assert any(item.key == "measured_products" and item.how == "measured" for item in kind.sources)
    # in a step clocks have settled, as for the law
    sizes = [np.array([size]) for size in (1.0, 4096.0, 4096.0, 4096.0)]
    step, by_law = (product_seconds(one, "bf16", *sizes)[0] for one in (kind, plain))
    assert step / by_law == pytest.approx(law)


def test_more_products_join_those_that_were_there(tmp_path: Path) -> None:
    written(tmp_path, HEAD + ROWS)
    assert calibrate(tmp_path) == 0
    written(tmp_path, HEAD + "A100-SXM4-80GB,bf16,4096,4096,4096,650\nA100-SXM4-80GB,bf16,64,64,64,4\n")
    assert calibrate(tmp_path, cluster=str(tmp_path / "mine.yaml")) == 0
    (kind,) = load_cluster(tmp_path / "mine.yaml").device_kinds
    known = {precision: len(times.points) for precision, times in kind.measured_products}
    assert known == {"bf16": 2, "fp16": 1}
    assert seconds(kind, "bf16", 4096, 4096, 4096) == pytest.approx(650e-6)


def test_a_kind_that_extends_a_measured_one_was_not_measured(tmp_path: Path) -> None:
    written(tmp_path, HEAD + ROWS)
    assert calibrate(tmp_path) == 0
    (tmp_path / "other.yaml").write_text(
        "schema: explorer.cluster/1\nextends: mine\nname: other\ndevice_kinds:\n"
        "  - {name: quicker, extends: a100-sxm-80gb, memory_bytes: 90 GiB}\n"
        "nodes:\n  - {count: 1, device_kind: quicker, devices_per_node: 8}\n",
        encoding="utf-8",
    )
    (kind,) = load_cluster(tmp_path / "other.yaml").device_kinds
    assert not kind.measured_products
    assert not any(item.key == "measured_products" for item in kind.sources)


def test_the_device_may_be_left_out_where_there_is_one_kind(tmp_path: Path) -> None:
    path = written(tmp_path, "gemm_dtype,m,n,k,microseconds\nfp16,512,512,512,60\n")
    found = with_products(load_cluster("dgx-1-v100"), path)
    assert [item.precision for item in found.imported] == ["fp16"]
    with pytest.raises(InputError, match="a device is needed"):
        with_products(load_cluster("mixed-v100-a100"), path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD, "it has no rows"),
        (HEAD + "H100-SXM5-80GB,bf16,64,64,64,5\n", "another device, 'H100-SXM5-80GB'"),
        (HEAD + "a100-sxm-80gb,int4,64,64,64,5\n", "unknown gemm_dtype 'int4'"),
        (HEAD + "a100-sxm-80gb,bf16,0,64,64,5\n", "m"),
        (HEAD + "a100-sxm-80gb,bf16,4096,4096,4096,100\n", "faster than the peak of a100-sxm-80gb"),
        ("m,n,k,microseconds\n1,1,1,1\n", "gemm_dtype"),
    ],
)
def test_wrong_files_are_one_line(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, text)
    assert calibrate(tmp_path) == 2
    said = capsys.readouterr().err.strip()
    assert says in said
    assert "\n" not in said
    assert not (tmp_path / "mine.yaml").exists()


def test_products_come_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, HEAD + ROWS)
    assert calibrate(tmp_path, "--with", "trace.json") == 2
    assert "--products" in capsys.readouterr().err


def test_lines_that_are_wrong_are_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, HEAD + "Z9,bf16,1,1,1,1\n" * 7 + ROWS)
    assert calibrate(tmp_path) == 0
    said = capsys.readouterr().err
    assert said.count("another device, 'Z9'") == 5
    assert "2 more lines are left out" in said


def test_a_profile_with_a_product_faster_than_its_peak_is_refused(tmp_path: Path) -> None:
    written(tmp_path, HEAD + ROWS)
    assert calibrate(tmp_path) == 0
    cluster = load_cluster(tmp_path / "mine.yaml")
    (kind,) = cluster.device_kinds
    slow = tuple((name, peak / 2) for name, peak in kind.peak_flops_per_s)
    save_cluster(replace(cluster, device_kinds=(replace(kind, peak_flops_per_s=slow),)), tmp_path / "b.yaml")
    with pytest.raises(InputError, match=r"measured_products\.bf16"):
        load_cluster(tmp_path / "b.yaml")
