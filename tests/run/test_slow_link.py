"""A topology-aware choice on two nodes with a slow link between them, where the system allows such a link."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MISSING = 3


@pytest.mark.slow
def test_the_plan_that_keeps_gradients_inside_a_node_is_as_much_faster_as_predicted() -> None:
    """The link decides, whatever else the machine does: all but a twentieth of the slower step is waiting."""
    done = subprocess.run(
        [sys.executable, "benchmarks/slow_link.py", "--json"],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=500,
    )  # fmt: skip
    if done.returncode == MISSING:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["chosen"] == "gradients inside a node"
    assert found["link"]["bandwidth_bytes_per_s"] == pytest.approx(100e6 / 8, rel=0.15)
    assert min(found["predicted"], found["measured"]) > 2
    assert abs(found["slow_error_pct"]) < 30, found
