"""What tests of several planners need."""

from __future__ import annotations

import json

import pytest

from explorer.base.solver_process import answers
from explorer.planners._pieces import integer_program


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have programs solved in this process: what another one answers is seen by the tests of models."""
    monkeypatch.setattr(integer_program, "_written", lambda text: json.dumps(answers(json.loads(text))))
