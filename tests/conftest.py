"""What all tests share: hypothesis profiles, the slow tests to run, reference data, Chromium, torchtitan."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]

# A busy machine must not change the outcome, hence no deadline and no complaint about slow examples.
_ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, database=None, print_blob=True, **_ANY_SPEED)
settings.register_profile("sample", database=None, print_blob=True, **_ANY_SPEED)  # with --hypothesis-seed
settings.register_profile("search", max_examples=2000, **_ANY_SPEED)  # look for new failures
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


SEED = int(os.environ.get("EXPLORER_TEST_SEED", "0"))
"""Chooses which slow tests are run; `make test-all` sets it and says it."""
SLOW_SHARE = float(os.environ.get("EXPLORER_SLOW_SHARE", "1"))
"""Share of the slow tests that are run."""


def sampled(names: list[str], share: float, seed: int) -> set[str]:
    """Return a share of some names, at least one, chosen by a seed and by nothing else."""
    count = min(len(names), max(1, round(share * len(names)))) if names else 0
    return set(random.Random(seed).sample(sorted(names), count))


def pytest_report_header() -> str:
    """Say how to repeat this run."""
    return f"slow tests: {SLOW_SHARE:.0%} of them, by EXPLORER_TEST_SEED={SEED}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses reference data, and leave out slow tests that the sample does not hold."""
    for item in items:
        if "reference_dir" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.reference)
    if SLOW_SHARE >= 1:
        return
    slow = {item.nodeid for item in items if item.get_closest_marker("slow")}
    left_out = slow - sampled(list(slow), SLOW_SHARE, SEED)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


@pytest.fixture(scope="session")
def reference_dir() -> Path:
    """Inputs and published results that are kept beside the repository."""
    folder = ROOT.parent / "shared" / "reference"
    if not folder.is_dir():
        pytest.skip("there is no ../shared/reference beside the repository")
    return folder


@pytest.fixture(scope="session")
def chromium_executable() -> str | None:
    """`executable_path` for Playwright: a Chromium on the PATH, or None for Playwright's own."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        if Path(playwright.chromium.executable_path).exists():
            return None
    message = "there is no Chromium; `make test` installs one"
    if os.environ.get("EXPLORER_REQUIRE_BROWSER"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def load_titan_config() -> Callable[..., dict[str, Any]]:
    """Load a torchtitan config with torchtitan itself, in a process of its own.

    `load_titan_config(module, function, *overrides, path=folder)` is what
    `torchtitan --module module --config function overrides...` would train with, as plain values;
    `path` is where an exported module lies.
    """
    pytest.importorskip("torchtitan", reason="needs the `titan` extra")

    def load(module: str, function: str, *overrides: str, path: Path | None = None) -> dict[str, Any]:
        command = [sys.executable, ROOT / "tests" / "support" / "titan_config.py"]
        command += ["--module", module, "--config", function, *overrides]
        environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        config: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return config

    return load


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
