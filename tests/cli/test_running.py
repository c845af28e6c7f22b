"""What `explorer validate` prints while a run goes on."""

from __future__ import annotations

import pytest

from explorer.cli.running import Teller


def test_the_time_left_is_corrected_as_rounds_go_by(capsys: pytest.CaptureFixture[str]) -> None:
    """One round warms up, three are measured; the second takes twice as long as the first."""
    now = [100.0]
    tell = Teller(lambda: now[0])
    tell({"event": "engine", "engine": "layers", "stand_ins": "", "rounds": 4})
    for at, number in ((110.0, -1), (114.0, 0), (122.0, 1), (126.0, 2)):
        now[0] = at
        for rank in range(2):
            tell({"event": "round", "rank": rank, "number": number})
    assert capsys.readouterr().err.splitlines() == [
        "explorer: the model's own layers",
        "explorer: warming up",
        "explorer: round 1, about 12 s left",
        "explorer: round 2, about 12 s left",
        "explorer: round 3, about 5 s left",
    ]
