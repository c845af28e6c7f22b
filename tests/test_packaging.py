"""An installed package holds what the repository does: built widgets, bundled profiles, types."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what a wheel of this tree installs."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        folder,
        ".",
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def names(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_is_complete(installed: Path) -> None:
    assert names(ROOT / "sample_profiles") == names(installed / "explorer" / "sample_profiles")
    assert names(ROOT / "widgets" / "static") == names(installed / "widgets" / "static")
    assert (installed / "explorer" / "py.typed").exists()


def test_wheel_holds_nothing_else(installed: Path) -> None:
    tops = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == {"explorer", "widgets"}
    assert not [name for name in names(installed / "widgets") if name.startswith("js")]


@pytest.mark.parametrize("noun", ["models", "clusters"])
def test_installed_package_finds_its_profiles(installed: Path, tmp_path: Path, noun: str) -> None:
    # `site` puts an editable install on the path; -S leaves it out, and the rest is named by hand.
    foreign = [path for path in sys.path if path.endswith("site-packages")]
    code = (
        f"import sys; sys.path[:0] = {[str(installed)]!r}; sys.path += {foreign!r}; "
        f"from explorer.cli import main; sys.exit(main(['list', {noun!r}, '--json']))"
    )
    command = [sys.executable, "-S", "-c", code]
    listed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)[noun]
