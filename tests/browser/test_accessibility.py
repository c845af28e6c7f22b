"""axe-core on the whole page: nothing serious, in every state, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from lab import Workbench

pytestmark = pytest.mark.browser

FRAME = ".jp-OutputArea-output .xp-frame"
GRAVE = {"serious", "critical"}


def findings(bench: Workbench) -> list[str]:
    """Serious and critical findings inside the workbench, with the elements they are about."""
    found: dict[str, Any] = Axe().run(bench.page, context=FRAME).response
    assert found["passes"], "axe looked at nothing"
    return [
        f"{item['id']} ({item['impact']}): {item['help']}: "
        + "; ".join(node["html"][:160] for node in item["nodes"][:3])
        for item in found["violations"]
        if item["impact"] in GRAVE
    ]


def start(bench: Workbench) -> None:
    """As it opens."""


def overfull(bench: Workbench) -> None:
    """Blocks where they do not fit."""
    layers = (
        "[l.name for l in explorer.history.now.inputs.graph.layers if l.block in ('layers.20', 'layers.21')]"
    )
    bench.do(f"explorer.board.send_intent('move', layers={layers}, to_lane='0')")


def compared(bench: Workbench) -> None:
    """With a plan B."""
    bench.act("compare")
    bench.do("explorer.set(schedule='gpipe')")


def exported(bench: Workbench) -> None:
    """Files of an export."""
    bench.act("export")


def mistyped(bench: Workbench) -> None:
    """A wrong value at its field."""
    bench.do("explorer.controls.send_intent('set', key='global_batch', value='seven')")


def every_tab(name: str) -> Callable[[Workbench], None]:
    """One tab at the front."""

    def show(bench: Workbench) -> None:
        bench.do(f"explorer.open_tab({name!r})")
        bench.page.wait_for_selector(".xp-frame .widget-tab-contents .sx >> visible=true")

    show.__name__ = name
    return show


STATES = [start, overfull, compared, exported, mistyped]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_no_serious_finding(bench: Workbench, state: Callable[[Workbench], None], theme: str) -> None:
    bench.theme(theme)
    state(bench)
    bench.settled()
    bench.at_rest()
    assert findings(bench) == []


def test_every_tab(bench: Workbench) -> None:
    bench.theme("Light")
    wrong = {}
    for name in bench.ask("[panel.title for panel in explorer.panels]"):
        every_tab(name)(bench)
        bench.settled()
        wrong[name] = findings(bench)
    assert {name: found for name, found in wrong.items() if found} == {}
