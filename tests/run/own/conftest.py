"""What tests of own layers share."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.run import threads


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[torch.Tensor]]:
    """Every message and every part of a collective that ranks leave."""
    found: dict[str, list[torch.Tensor]] = {"send": [], "reduce": []}
    for name, taken in found.items():
        call = getattr(threads.Threads, name)

        def counted(
            self: Any, where: Any, what: torch.Tensor, *, _taken: Any = taken, _call: Any = call, **more: Any
        ) -> Any:
            _taken.append(what.clone())
            return _call(self, where, what, **more)

        monkeypatch.setattr(threads.Threads, name, counted)
    return found
