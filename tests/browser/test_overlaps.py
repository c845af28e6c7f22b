"""No text stands on another and none is cut off: every state with a picture, three widths, both themes.

States go on from each other, so all of them run or none: EXPLORER_OVERLAPS=1 asks for them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from lab import Workbench
from overlaps import findings

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from screenshot_states import FOLLOWS, OUTPUT, STATES, first_state, reasons_are_there

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif("EXPLORER_OVERLAPS" not in os.environ, reason="EXPLORER_OVERLAPS=1 asks for it"),
]

WIDTHS = (1168, 848, 1488)
"""Of the workbench; the first is the one in which a state is brought about."""
TALL = 4200
"""Height of the page, so that nothing has to be scrolled to."""


@pytest.fixture(scope="module")
def margin(opened: Workbench) -> int:
    """Pixels of the page beside the workbench."""
    reasons_are_there(opened)
    width = opened.page.evaluate(
        "(s) => Math.round(innerWidth - document.querySelector(s).getBoundingClientRect().width)", OUTPUT
    )
    return int(width)


def resize(bench: Workbench, width: int) -> None:
    """Make the workbench so wide, and wait until it is drawn so."""
    bench.page.set_viewport_size({"width": width, "height": TALL})
    bench.page.wait_for_timeout(700)
    bench.settled()


def test_what_overlaps_is_found(opened: Workbench, margin: int) -> None:
    resize(opened, 1168 + margin)
    assert findings(opened.page, OUTPUT) == []
    opened.page.evaluate("() => { document.querySelector('.t-value').style.marginTop = '-14px'; }")
    assert [item for item in findings(opened.page, OUTPUT) if item.startswith("over")]
    opened.page.evaluate("() => { document.querySelector('.t-value').style = 'width: 20px'; }")
    assert [item for item in findings(opened.page, OUTPUT) if item.startswith("cut")]
    opened.page.evaluate("() => document.querySelector('.t-value').removeAttribute('style')")


@pytest.mark.parametrize("name", ["start", *STATES])
def test_nothing_overlaps(opened: Workbench, margin: int, name: str) -> None:
    """One state; those that go on from another need it to have been there before."""
    resize(opened, WIDTHS[0] + margin)
    if name not in FOLLOWS:
        first_state(opened)
    if name != "start":
        STATES[name](opened)
    wrong = {}
    for width in WIDTHS:
        resize(opened, width + margin)
        for theme in ("Light", "Dark"):
            opened.theme(theme)
            opened.settled()
            wrong[f"{width} {theme}"] = findings(opened.page, OUTPUT)
    opened.theme("Light")
    assert {at: found for at, found in wrong.items() if found} == {}
