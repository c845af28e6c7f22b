"""Devices moved on the board in a real browser: by dragging, by the panel; a workbench answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from harness import WidgetPage

from widgets import Explorer

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]


class Bench:
    """A workbench whose board is on a page: two stages of three replicas, devices 6 and 7 out of use."""

    def __init__(self, page: WidgetPage, cluster: str = "dgx-a100", **degrees: int) -> None:
        self.explorer = Explorer(model="gpt2-small", cluster=cluster, global_batch=48, session=False)
        self.explorer.set(**degrees or {"stages": 2, "replicas": 3, "microbatch_size": 2})
        self.page, self.answered, self.told = page, 0, []
        self.explorer.board.send = self.told.append
        page.show("board", self.explorer.board)

    def answer(self) -> list[dict[str, Any]]:
        """Answer what was sent, and what is considered."""
        board, explorer = self.explorer.board, self.explorer
        sent = self.page.page.evaluate("window.models.board.sent")
        new = sent[self.answered :]
        self.answered = len(sent)
        self.told.clear()
        for item in new:
            if item.get("consider", {}).get("kind") == "device":
                explorer.gestures.consider(item["consider"])
            elif "seq" in item:
                board.send_intent(item["kind"], **{k: v for k, v in item.items() if k not in ("seq", "kind")})
        for content in self.told:
            if "considered" in content:
                self.page.page.evaluate(
                    "(c) => { for (const l of window.models.board.listeners.get('msg:custom')) l(c) }",
                    content,
                )
        last = max((item["seq"] for item in sent if "seq" in item), default=0)
        self.page.receive("board", view=board.view, notice=board.notice, seq=last)
        return [item for item in new if "seq" in item]

    @property
    def devices(self) -> list[tuple[int, ...]]:
        return [group.meshes[0].devices for group in self.explorer.history.now.groups]


@pytest.fixture
def page(shared_page: WidgetPage) -> Iterator[WidgetPage]:
    shared_page.reset()
    yield shared_page
    assert not shared_page.errors, shared_page.errors


def box(device: int) -> str:
    return f'[data-device="{device}"]'


def test_a_device_is_dragged_to_another_lane_onto_another_and_out(page: WidgetPage) -> None:
    bench = Bench(page)
    start = bench.explorer.strategy
    assert "6" in page.text(".b-idle")
    page.drag(box(1), '[data-lane="1"] .b-track')
    assert bench.answer()[-1] == {"kind": "device", "device": 1, "to_lane": "1", "to_device": None, "seq": 1}
    assert bench.devices == [(0, 2), (3, 4, 5, 1)]
    page.drag(box(0), box(7))
    bench.answer()
    assert bench.devices[0] == (7, 2)
    page.drag(box(2), ".b-idle")
    bench.answer()
    assert bench.devices[0] == (7,)
    page.drag(box(6), '[data-lane="0"] .b-track')
    bench.answer()
    assert bench.devices[0] == (7, 6)
    for _ in range(4):
        assert bench.explorer.undo()
    assert bench.explorer.strategy == start


def test_while_it_is_carried_its_effect_is_said_and_escape_cancels(page: WidgetPage) -> None:
    bench = Bench(page)
    page.drag(box(1), '[data-lane="1"] .b-track', release=False)
    page.page.wait_for_function("window.models.board.sent.some((m) => m.consider?.kind === 'device')")
    bench.answer()
    assert "→" in page.text(".b-ghost")
    page.page.keyboard.press("Escape")
    page.page.mouse.up()
    assert bench.answer() == []
    assert page.page.locator(".b-ghost").count() == 0


def test_what_cannot_be_is_refused_in_words_and_the_board_stays(page: WidgetPage) -> None:
    bench = Bench(page, stages=4, tensor=2, replicas=1)
    before = bench.devices
    page.drag(box(0), '[data-lane="1"] .b-track')
    bench.answer()
    assert "lane 0 has no replica but that of device 0" in page.text(".sx-notice")
    assert "a swap" in page.text(".sx-notice")
    assert bench.devices == before
    page.drag(box(0), box(2))  # replicas of two change places together
    bench.answer()
    assert bench.devices[:2] == [(2, 3), (0, 1)]


def test_the_panel_does_it_by_keyboard(page: WidgetPage) -> None:
    bench = Bench(page)
    page.page.focus(".b-chip >> nth=0")
    page.page.keyboard.press("g")
    assert page.page.evaluate("document.activeElement.dataset.field") == "device"
    page.page.select_option('[data-field="device"]', "2")
    page.page.select_option('[data-field="to"]', "lane:1")
    page.page.wait_for_function("window.models.board.sent.some((m) => m.consider?.device === 2)")
    bench.answer()
    assert page.text(".b-dev-text").startswith("A step: ")
    page.page.press('[data-action="move-device"]', "Enter")
    bench.answer()
    assert bench.devices == [(0, 1), (3, 4, 5, 2)]
    page.page.keyboard.press("Escape")
    assert not page.page.locator(".b-devpanel").is_visible()
    assert not page.leaked()


def test_a_lane_of_two_kinds_shares_its_samples_by_speed(page: WidgetPage) -> None:
    bench = Bench(page, cluster="mixed-v100-a100", stages=2, replicas=3, microbatch_size=4)
    assert "v100-sxm2-16gb" in page.text(".b-idle")
    page.drag(box(0), box(8))
    bench.answer()
    assert bench.devices[0] == (8, 1, 2)
    before = bench.explorer.report.step_time_s
    page.page.click(box(8))
    page.page.select_option('[data-field="sharing"]', "speed")
    assert bench.answer()[-1] == {"kind": "sharing", "lane": "0", "how": "speed", "seq": 2}
    shares = bench.explorer.strategy.job.stages[0].shares
    assert shares[0] > shares[1] == shares[2]  # an A100 takes more than a V100
    assert bench.explorer.report.step_time_s < before
    assert bench.explorer.board.view["lanes"][0]["sharing"] == "speed"
    page.page.click(box(3))
    page.page.select_option('[data-field="sharing"]', "speed")
    bench.answer()
    assert "stage 1 has equally fast replicas" in page.text(".sx-notice")
    assert page.page.input_value('[data-field="sharing"]') == "even"


@pytest.mark.parametrize(("width", "dark"), [(700, True), (1168, False)])
def test_it_can_be_read(open_page: Open, width: int, dark: bool) -> None:
    page = open_page(width=width, dark=dark)
    Bench(page)
    page.page.click('[data-action="devices"]')
    page.settle()
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item for item in page.contrasts() if item[0] < 4.5]
    found = Axe().run(page.page, context=".sx-board").response
    assert [item["id"] for item in found["violations"]] == []
