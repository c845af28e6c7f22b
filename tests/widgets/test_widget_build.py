"""The committed JavaScript is what the sources give, is self-contained, and its own tests pass."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

JS = Path(__file__).parents[2] / "widgets" / "js"
STATIC = JS.parent / "static"
NAMES = sorted(path.stem for path in STATIC.glob("*.js"))


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed; users do not need it, whoever changes widgets/js does")
    return found


def test_javascript_tests_pass() -> None:
    files = sorted(str(path) for path in (JS / "test").glob("*.test.js"))
    done = subprocess.run(
        [node(), "--test", *files], cwd=JS, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_static_files_are_what_the_sources_give() -> None:
    program = node()
    if not (JS / "node_modules" / "esbuild").is_dir():
        pytest.skip("esbuild is not installed: npm install in widgets/js")
    done = subprocess.run(
        [program, "build.mjs", "--check"], cwd=JS, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_static_files_are_self_contained(name: str) -> None:
    for suffix in ("js", "css"):
        text = (STATIC / f"{name}.{suffix}").read_text()
        assert not re.search(
            r"^import\b|\bimport\(|^export .*\bfrom\b|@import|url\(['\"]?https?:", text, re.MULTILINE
        ), "nothing is imported or fetched at run time"
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write", text), "nothing is read as HTML"
        addresses = set(re.findall(r"https?://[^\s\"')]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, addresses
        assert len(text) < 300_000


def test_no_font_below_eleven_pixels() -> None:
    for path in STATIC.glob("*.css"):
        sizes = [float(size) for size in re.findall(r"font(?:-size)?:[^;}]*?([\d.]+)px", path.read_text())]
        assert sizes
        assert min(sizes) >= 11, path.name
