"""Bundled profiles are what `scripts/fit_costs.py kernels` writes: those of its log, and of a fit again."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from explorer.calibrate.collective_fit import collective_errors
from explorer.cluster import Level
from explorer.cluster_profiles import load_cluster
from explorer.score.kernel_devices import kind_called
from explorer.score.kernels import KERNEL_SETS

ROOT = Path(__file__).parents[2]
CLUSTERS = ROOT / "sample_profiles" / "clusters"
LOG, PAGE = (ROOT / "docs" / name for name in ("fit.md", "kernels.md"))
BLOCK = re.compile(r"`([\w-]+)`, `([\w-]+)`:\n\n```yaml\n(.*?)```", re.DOTALL)
SAME = 0.01
"""Relative difference of seconds by numbers that were fitted on another machine: descents round otherwise."""


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a part of the script."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def blocks() -> list[tuple[str, str, str]]:
    found = BLOCK.findall(LOG.read_text(encoding="utf-8"))
    assert found
    return found


def test_profiles_say_the_numbers_of_the_log(part: Any) -> None:
    made = part("fit_blocks")
    for profile, owner, text in blocks():
        whole = (CLUSTERS / f"{profile}.yaml").read_text(encoding="utf-8")
        until = "sources:" if text.lstrip().startswith("- name") else ""
        assert made.replaced(whole, made.Block(profile, owner, text, until)) == whole, (profile, owner)


def test_the_log_has_every_number_that_profiles_fit_to_kernels() -> None:
    fitted: set[tuple[str, str, str]] = set()
    for path in CLUSTERS.glob("*.yaml"):
        cluster = load_cluster(path.stem)
        owners = [*cluster.device_kinds, *cluster.levels]
        text = path.read_text(encoding="utf-8")
        for owner in owners:
            own = f"- name: {owner.name}\n" in text
            for key in ("product_kernels", "protocols", "operation_efficiency"):
                told = any(item.key == key and "kernels" in item.fitted_on for item in owner.sources)
                if own and told and f"    {key}:" in text.split(f"- name: {owner.name}\n")[1]:
                    fitted.add((path.stem, owner.name, key))
    logged = {(profile, owner, text.split(":")[0].strip()) for profile, owner, text in blocks()}
    taken_over = {item for item in fitted - logged if item[0] in ("gb200-nvl72", "a100-800g-64")}
    assert fitted - taken_over <= logged


@pytest.mark.parametrize("name", ["products", "measured", "sheets", "attention", "collectives"])
def test_the_page_has_the_tables_of_the_log(name: str) -> None:
    page, log = (path.read_text(encoding="utf-8") for path in (PAGE, LOG))
    table = page.split(f"<!-- fitted: {name} -->")[1].split("<!-- end -->")[0].strip()
    assert table.count("\n") >= 3
    assert table in log


def test_blocks_replace_what_they_name_and_nothing_else(part: Any) -> None:
    made = part("fit_blocks")
    text = (
        "kinds:\n  - name: one\n    tiles:\n      - 1\n    last: 2\n  - name: two\n    tiles:\n      - 3\n"
        "    kernels:\n      - name: a\n        start: 1\n        sources:\n          - 1\n      - name: b\n"
        "    last: 4\n"
    )
    found = made.replaced(text, made.Block("p", "two", "    tiles:\n      - 7\n      - 8\n"))
    assert found == text.replace("      - 3\n", "      - 7\n      - 8\n")
    found = made.replaced(text, made.Block("p", "two", "      - name: a\n        start: 5\n", "sources:"))
    assert found == text.replace("start: 1", "start: 5")


def test_tables_stand_between_their_marks(part: Any) -> None:
    made = part("fit_blocks")
    text = "a\n<!-- fitted: x -->\nold\n<!-- end -->\nb\n<!-- fitted: y -->\n<!-- end -->\n"
    once = made.with_table(text, made.Fitted("x", "| new |\n", ()))
    assert once == text.replace("\nold\n", "\n\n| new |\n\n")
    assert made.with_table(once, made.Fitted("x", "| new |\n", ())) == once


# ---- fits made again --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("key", [("a100-sxm-80gb", "bf16"), ("l40s-pcie-48gb", "bf16")])
def test_products_are_fitted_again(key: tuple[str, str], part: Any, reference_dir: Path) -> None:
    script = part("fit_products")
    rows = script.read_products(reference_dir / KERNEL_SETS.get(script.SET).path)[key]
    found = script.fitted(script.Task("all", *key, (rows,), 4))
    bundled = dict(rows.kind.product_kernels)[key[1]]
    apart = np.abs(rows.errors(found) - rows.errors(bundled))
    assert np.median(apart) <= SAME


def test_attention_is_fitted_again(part: Any, reference_dir: Path) -> None:
    script = part("fit_attention")
    paths = {script.SET: reference_dir / KERNEL_SETS.get(script.SET).path}
    measured = script.read_attentions(paths[script.SET])
    for rows in measured.values():
        found, bundled = script.fitted(rows), script.bundled(rows.kind.name)
        assert np.abs(rows.errors(found) - rows.errors(bundled)).max() <= SAME


def test_a_kernel_that_nobody_measured_follows_from_two_sheets(part: Any) -> None:
    script = part("fit_attention")
    for (name, kernel_name), (_, base, sizes) in script.DERIVED.items():
        kind = kind_called(name)
        (own,) = (item for item in kind.attention_kernels if item.name == kernel_name)
        found = script.derived(script.bundled(base), base, kind, sizes)
        for one, other in zip(own.heads, found.heads, strict=True):
            assert (one.head, one.forward, one.backward) == pytest.approx(
                (other.head, other.forward, other.backward), rel=0.01
            )
        assert own.start_s == pytest.approx(found.start_s)


@pytest.mark.slow
def test_collectives_are_fitted_again(part: Any, reference_dir: Path) -> None:
    script = part("fit_collectives")
    kind = "a100-sxm-80gb"
    rows = script.times_of(reference_dir / KERNEL_SETS.get(script.SET).path, (kind,))[kind]
    found = script.fitted(script.Task(kind, "", tuple(rows)))
    cluster = load_cluster(script.KINDS[kind][0])
    apart = np.array(collective_errors(found, rows)) - np.array(collective_errors(cluster, rows))
    assert np.median(np.abs(apart)) <= SAME


def test_a_kind_left_out_takes_the_geometric_mean_of_the_others(part: Any) -> None:
    script = part("fit_collectives")
    names = ("h100-sxm-80gb", "b200-sxm-180gb")
    others = [load_cluster(script.KINDS[name][0]) for name in names]
    level: Level = script.described("a100-sxm-80gb", others).levels[0]
    shares = [dict(other.levels[0].operation_efficiency)["all_gather"] for other in others]
    assert dict(level.operation_efficiency)["all_gather"] == pytest.approx(np.prod(shares) ** 0.5)
    assert level.bandwidth_bytes_per_s == load_cluster("dgx-a100").levels[0].bandwidth_bytes_per_s
