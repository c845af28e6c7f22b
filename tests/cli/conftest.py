"""`run` a command in this process; the `plan` of a search."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.cli import main
from tests.cli.commands import SMALL, Output, Run


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Output:
        capsys.readouterr()
        status = main([str(item) for item in arguments])
        caught = capsys.readouterr()
        assert "Traceback" not in caught.out + caught.err
        return Output(status, caught.out, caught.err)

    return call


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "even.yaml"
    assert main(["search", *SMALL, "--searcher", "even", "--option", "stages=4", "-o", str(path)]) == 0
    return path
