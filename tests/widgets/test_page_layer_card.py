"""The card of a layer in a real browser: a workbench answers what the page asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from harness import WidgetPage

from explorer.simulation.simulate import simulate
from widgets import Explorer
from widgets.jobs import at_once

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]


@pytest.fixture
def page(shared_page: WidgetPage) -> Iterator[WidgetPage]:
    """A clean page, wide enough for a column; afterwards no error may have happened."""
    shared_page.reset()
    yield shared_page
    assert not shared_page.errors, shared_page.errors


UP = "layers.3.mlp.up"
ROW = '[data-card="{}"] [data-choice="{}"]'


class Bench:
    """A workbench whose layer graph is on a page."""

    def __init__(self, page: WidgetPage, *, opened: tuple[str, ...] = ("layers.3/*",)) -> None:
        self.explorer = Explorer(model="gpt2-small", cluster="dgx-a100", global_batch=16, session=False)
        self.explorer.set(stages=2, tensor=2, microbatch_size=1)
        self.explorer.graph.opened = list(opened)
        self.page, self.answered = page, 0
        page.show("graph", self.explorer.graph)

    def answer(self, *, count: bool = True) -> list[dict[str, Any]]:
        """Answer what was sent; simulate the rows of an open card unless that is left to come."""
        graph = self.explorer.graph
        new = self.page.sent("graph")[self.answered :]
        self.answered += len(new)
        for item in new:
            graph.send_intent(item["kind"], **{k: v for k, v in item.items() if k not in ("seq", "kind")})
        if count:
            at_once(self.explorer.showing.card.work)
        self.tell()
        return new

    def tell(self) -> None:
        graph = self.explorer.graph
        self.page.receive(
            "graph",
            view=graph.view,
            card=graph.card,
            notice=graph.notice,
            seq=self.page.sent("graph")[-1]["seq"],
        )

    def row(self, part: str, key: str) -> Any:
        return self.page.page.locator(ROW.format(part, key))


def test_a_click_on_a_layer_shows_its_layouts_and_one_is_chosen(page: WidgetPage) -> None:
    bench = Bench(page)
    start = bench.explorer.strategy
    page.page.click(f'[data-node="{UP}"]')
    assert bench.answer(count=False)[0]["layer"] == UP
    assert page.text(".g-card b") == "mlp.up of block 3"
    assert bench.row("layout", "by feed-forward").get_attribute("aria-checked") == "true"
    assert "…" in bench.row("layout", "whole on each device").inner_text()
    bench.answer()
    assert "%" in bench.row("layout", "whole on each device").inner_text()
    sample = bench.row("layout", "own samples on each device")
    assert sample.get_attribute("aria-disabled") == "true"
    assert "1 sample of a microbatch for 2 devices" in sample.inner_text()
    sample.click(force=True)
    assert bench.answer() == []
    bench.row("layout", "whole on each device").click()
    assert bench.answer()[0] == {
        "kind": "choose_for_layer",
        "of": "layout",
        "key": "whole on each device",
        "seq": 2,
    }
    assert bench.row("layout", "whole on each device").get_attribute("aria-checked") == "true"
    assert bench.explorer.history.now.note == f"{UP}: whole on each device"
    told = bench.explorer.graph.card["now"]["layout"]["step_s"]
    assert told == bench.explorer.report.step_time_s
    assert bench.explorer.undo()
    assert bench.explorer.strategy == start


def test_all_alike_change_together(page: WidgetPage) -> None:
    bench = Bench(page)
    page.page.click(f'[data-node="{UP}"]')
    bench.answer()
    page.page.click('[data-scope="all_alike"][data-for="true"]')
    assert bench.answer()[0]["all_alike"] is True
    bench.row("layout", "by sequence").click()
    bench.answer()
    named = [
        name for stage in bench.explorer.strategy.job.stages for x in stage.shardings for name in x.layers
    ]
    assert named == [f"layers.{i}.mlp.up" for i in range(12)]


def test_the_keyboard_does_all_of_it(page: WidgetPage) -> None:
    bench = Bench(page)
    keys = page.page.keyboard
    page.page.focus(f'[data-node="{UP}"]')
    keys.press("Enter")
    bench.answer()
    assert page.page.evaluate("document.activeElement.dataset.choice") == "by feed-forward"
    keys.press("ArrowUp")
    assert page.page.evaluate("document.activeElement.dataset.choice") == "by embedding with partial sums"
    keys.press("Enter")
    assert bench.answer()[0]["key"] == "by embedding with partial sums"
    keys.press("Escape")
    assert bench.answer()[0]["layer"] is None
    assert not page.page.locator(".g-card").is_visible()
    assert page.page.evaluate("document.activeElement.dataset.node") == UP
    assert not page.leaked()


def test_a_block_says_what_its_stage_keeps(page: WidgetPage) -> None:
    bench = Bench(page, opened=("layers.3",))
    page.page.focus('[data-node][aria-expanded="false"]')
    page.page.keyboard.press("e")
    bench.answer()
    assert not page.page.locator('[data-card="layout"]').is_visible()
    assert page.text(".g-card b") == "Stage 0"
    full = bench.row("memory", "full").inner_text()
    assert "+" in full  # seconds added
    assert "\N{MINUS SIGN}" in full  # bytes saved
    page.page.click('[data-scope="kept_for"][data-for="stages"]')
    bench.answer()
    bench.row("memory", "full").click()
    bench.answer()
    assert {stage.recompute for stage in bench.explorer.strategy.job.stages} == {"full"}
    bench.row("memory", "optimizer").click()
    bench.answer()
    assert all(stage.offload == ("optimizer",) for stage in bench.explorer.strategy.job.stages)
    assert bench.row("memory", "optimizer").get_attribute("aria-checked") == "true"


def test_a_block_is_recomputed_and_its_figures_are_those_of_the_simulator(page: WidgetPage) -> None:
    bench = Bench(page, opened=("layers.3",))
    start, before = bench.explorer.strategy, bench.explorer.report
    page.page.focus('[data-node="layers.3"]')
    page.page.keyboard.press("e")
    bench.answer()
    block = page.page.locator('[data-scope="kept_for"][data-for="block"]')
    name = block.inner_text()
    block.click()
    assert bench.answer()[0]["kept_for"] == "block"
    assert block.get_attribute("aria-pressed") == "true"
    full = bench.row("memory", "full")
    assert "Recompute the block" in full.inner_text()
    told = next(row["outcome"] for row in bench.explorer.graph.card["memory"] if row["key"] == "full")
    assert told["step_s"] > before.step_time_s
    assert told["peak_bytes"] < max(before.peak_memory_bytes)
    assert "+" in full.inner_text()
    assert "\N{MINUS SIGN}" in full.inner_text()
    full.focus()
    page.page.keyboard.press("Enter")
    bench.answer()
    report = bench.explorer.report
    assert report.step_time_s == told["step_s"]
    assert bench.explorer.graph.card["now"]["memory"]["peak_bytes"] == told["peak_bytes"]
    own = bench.explorer.now().inputs
    alone = simulate(own.graph, own.cluster, own.workload, bench.explorer.strategy)
    assert alone.step_time_s == told["step_s"]
    (item,) = bench.explorer.strategy.job.stages[0].keeping
    assert item.recompute == "full"
    assert bench.explorer.history.now.note == f"recompute the block: {name.lower()}"
    assert full.get_attribute("aria-checked") == "true"
    assert bench.explorer.undo()
    assert bench.explorer.strategy == start
    assert bench.explorer.report.step_time_s == before.step_time_s


@pytest.mark.parametrize("key", ["layer", "alike", "block", "stage", "stages"])
def test_every_scope_is_reached_by_the_keyboard(page: WidgetPage, key: str) -> None:
    bench = Bench(page)
    page.page.focus(f'[data-node="{UP}"]')
    page.page.keyboard.press("Enter")
    bench.answer()
    button = page.page.locator(f'[data-scope="kept_for"][data-for="{key}"]')
    for _ in range(30):
        if button.evaluate("(e) => e === document.activeElement"):
            break
        page.page.keyboard.press("Tab")
    page.page.keyboard.press("Enter")
    assert bench.answer()[0]["kept_for"] == key
    assert button.get_attribute("aria-pressed") == "true"
    assert page.page.evaluate("document.activeElement.dataset.for") == key


@pytest.mark.parametrize(("width", "dark"), [(480, True), (760, False)])
def test_it_can_be_read_at_every_width_in_both_themes(open_page: Open, width: int, dark: bool) -> None:
    page = open_page(width=width, dark=dark)
    bench = Bench(page)
    page.page.click(f'[data-node="{UP}"]')
    bench.answer()
    page.page.click('[data-scope="kept_for"][data-for="alike"]')
    bench.answer()
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item for item in page.contrasts() if item[0] < 4.5]
    found = Axe().run(page.page, context=".sx-graph").response
    assert [item["id"] for item in found["violations"]] == []
    cut = "[...document.querySelectorAll('.g-card *')].filter((e) => e.scrollWidth > e.clientWidth + 1)"
    assert page.page.evaluate(f"{cut}.filter((e) => e.clientWidth).map((e) => e.outerHTML)") == []


def test_where_nobody_answers_nothing_is_asked(page: WidgetPage) -> None:
    bench = Bench(page)
    page.receive("graph", edits=False)
    page.page.click(f'[data-node="{UP}"]')
    page.page.keyboard.press("Enter")
    assert bench.page.sent("graph") == []
    assert page.page.locator('[data-action="inspect"]').count() == 0
