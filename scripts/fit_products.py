"""Fit the kernels of matrix products of bundled device kinds to measured products, and judge the fits.

    python scripts/fit_products.py                            # every device: half judges, then all are fitted
    python scripts/fit_products.py --write                    # and the profiles say what was found
    python scripts/fit_products.py --without l40s-pcie-48gb   # one set of numbers for the other devices

Printed are the errors over products of 50 us and more of pairs of columns and depth that were not fitted, and
the numbers as a profile says them. The rows are those of `explorer score matrix_products`. Each fit takes
half a minute on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from explorer.base.plain_data import to_plain
from explorer.calibrate.product_fit import COUNTED_S, MeasuredProducts, fit_products, halves
from explorer.cluster import ProductKernels
from explorer.score.kernel_sets.matrix_products import COLUMNS, product_of
from explorer.score.kernels import Refused, checked, kernel_paths
from explorer.score.reading import read_table, use_reference

ROOT = Path(__file__).parents[1]
PROFILES = {
    "a100-sxm-80gb": "dgx-a100", "h100-sxm-80gb": "hgx-h100", "b200-sxm-180gb": "b200",
    "l40s-pcie-48gb": "l40s-pcie-8",
}  # fmt: skip
"""Profile that states the kernels of each measured kind; others extend it."""


def read_products(path: Path) -> dict[tuple[str, str], MeasuredProducts]:
    """Measured products by kind of device and precision."""
    rows: dict[tuple[str, str], list[tuple[Any, tuple[float, ...]]]] = {}
    for record in read_table(path, COLUMNS)[0]:
        found = checked(record, product_of)
        if not isinstance(found, Refused):
            group = rows.setdefault((found.kind.name, found.precision), [])
            group.append((found.kind, (*found.sizes, found.measured_s)))
    return {
        key: MeasuredProducts(group[0][0], key[1], *np.array([row for _, row in group], dtype=float).T)
        for key, group in rows.items()
    }


def said_of(products: MeasuredProducts, kernels: ProductKernels) -> str:
    """Errors over products that count."""
    counted = products.taken(products.seconds >= COUNTED_S)
    errors = 100 * np.expm1(counted.errors(kernels))
    sizes = np.abs(errors)
    return (
        f"{len(errors)} products of {COUNTED_S * 1e6:.0f} us and more: median {np.median(sizes):.1f} %, "
        f"mean {sizes.mean():.1f} %, worst {sizes.max():.0f} %, bias {errors.mean():+.1f} %"
    )


def as_text(kernels: Mapping[str, ProductKernels], indent: int = 4) -> str:
    """The numbers as a profile says them."""
    lines = [f"{'':{indent}}product_kernels:"]
    for precision, item in kernels.items():
        lines.append(f"{'':{indent + 2}}{precision}:")
        for key, value in to_plain(item).items():
            if key == "tiles":
                lines.append(f"{'':{indent + 4}}tiles:")
                lines += [f"{'':{indent + 6}}- {_flow(tile)}" for tile in value]
            else:
                lines.append(f"{'':{indent + 4}}{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).strip()
    return text.removesuffix("...").strip()


def written(text: str, kind: str, block: str) -> str:
    """A profile with the block in place of what the kind says of its kernels."""
    lines = text.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.strip() == f"- name: {kind}")
    at = next(i for i in range(start, len(lines)) if lines[i].startswith("    product_kernels:"))
    end = next(i for i in range(at + 1, len(lines)) if not lines[i].startswith("     "))
    return "".join([*lines[:at], block, *lines[end:]])


def fit_each(measured: Mapping[tuple[str, str], MeasuredProducts]) -> dict[str, dict[str, ProductKernels]]:
    """Fit each device and precision: half of the shapes judges, then all are fitted."""
    found: dict[str, dict[str, ProductKernels]] = {}
    for (kind, precision), products in measured.items():
        fitted = halves(products)
        kernels = fit_products([products.taken(fitted)])
        print(f"{kind} {precision}, shapes left out: {said_of(products.taken(~fitted), kernels)}")
        kernels = fit_products([products])
        print(f"{kind} {precision}, all: {said_of(products, kernels)}", flush=True)
        found.setdefault(kind, {})[precision] = kernels
    return found


def fit_together(measured: Iterable[MeasuredProducts], without: str) -> None:
    """Fit one set of numbers to the devices of each precision but one."""
    groups: dict[str, list[MeasuredProducts]] = {}
    for products in measured:
        groups.setdefault(products.precision, []).append(products)
    for precision, members in groups.items():
        kernels = fit_products([item for item in members if item.kind.name != without], starts=2)
        for item in members:
            left = ", left out" if item.kind.name == without else ""
            print(f"{item.kind.name} {precision}{left}: {said_of(item, kernels)}")
        print(as_text({precision: kernels}), flush=True)


def main() -> None:
    """Fit, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=Path, help="folder of the published measurements")
    parser.add_argument("--rows", type=Path, help="other rows")
    parser.add_argument("--kinds", nargs="+", choices=sorted(PROFILES), help="default all")
    parser.add_argument("--write", action="store_true", help="write the numbers into the bundled profiles")
    parser.add_argument("--without", metavar="KIND", help="fit all kinds together but this one (or `none`)")
    given = parser.parse_args()
    use_reference(given.reference)
    path = given.rows or kernel_paths(["matrix_products"], {})["matrix_products"]
    measured = read_products(path)
    if given.kinds:
        measured = {key: item for key, item in measured.items() if key[0] in given.kinds}
    if given.without:
        fit_together(measured.values(), given.without)
        return
    for kind, kernels in fit_each(measured).items():
        block = as_text(kernels)
        print(block)
        if given.write:
            profile = ROOT / "sample_profiles" / "clusters" / f"{PROFILES[kind]}.yaml"
            profile.write_text(written(profile.read_text(), kind, block))


if __name__ == "__main__":
    main()
