"""The same notebook in Notebook 7 and as a Voila application: drawn, and moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab import Lab, Workbench, running_lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CHIP = "[data-lane='0'] [data-block='layers.3']"


@pytest.fixture(scope="module", params=["notebook", "voila"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp(request.param), request.param) as found:
        yield found


def _open(server: Lab, page: Any) -> Workbench:
    bench = Workbench(page)
    if server.app == "notebook":
        bench.open(server)
    else:
        page.goto(server.url(""))
        page.wait_for_selector("[data-lane] [data-block]")
    return bench


def test_it_is_drawn_and_moved(server: Lab, browser: Any, tmp_path: Path) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    bench = _open(server, page)
    bench.errors.clear()  # Notebook 7 raises one of its own while it starts
    for part in ("controls", "board", "tiles", "timeline", "graph"):
        assert page.locator(f"[data-widget={part}]").first.is_visible(), part
    assert page.locator("[data-widget=heatmap]").count() == 2
    before = bench.kpi("step_time")
    bench.drag(CHIP, "[data-lane='2'] [data-block]")
    page.wait_for_selector("[data-lane='2'] [data-block='layers.3']")
    page.wait_for_function(
        "(old) => document.querySelector('[data-kpi=step_time] .t-value').innerText !== old", arg=before
    )
    bench.act("undo")
    page.wait_for_selector(CHIP)
    bench.settled()
    assert bench.kpi("step_time") == before
    assert not bench.errors, bench.errors
    own = f"http://127.0.0.1:{server.port}"
    assert any(url.startswith(own) for url in asked), "nothing was recorded"
    foreign = [url for url in asked if not url.startswith((own, "data:", "blob:"))]
    # Voila's own template asks a CDN for its icon font; nothing of ours does
    assert [url for url in foreign if "fontawesome" not in url] == []
    page.close()
