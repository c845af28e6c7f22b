"""What a demanding newcomer found wrong, looked at where it was found: in the page, on the inputs named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab import Lab, Workbench, write_cell

pytestmark = pytest.mark.browser

SIZES = "forward_compute_time=1.0, backward_compute_time=2.0, activation_size=8000.0, parameter_size=4000.0"
KINDS = ("Conv2d", "ReLU", "Conv2d", "MaxPool2d", "Linear", "Conv2d")
PROFILE = "".join(
    f"node{number} -- {kind}({number}, 8) -- {SIZES}\n" for number, kind in enumerate(KINDS, 1)
) + "".join(f"\tnode{number} -- node{number + 1}\n" for number in range(1, len(KINDS)))
"""A profile as PipeDream writes it: measured layers, numbered nodes, no FLOPs."""

Opener = Callable[[str], Workbench]


@pytest.fixture
def open_bench(lab: Lab, browser: Any) -> Iterator[Opener]:
    """`open_bench(arguments)`: a notebook that shows `Explorer(arguments)`; nothing may be uncaught."""
    opened: list[Workbench] = []

    def make(arguments: str) -> Workbench:
        code = f"from widgets import Explorer\nexplorer = Explorer({arguments}, session=None)\nexplorer"
        opened.append(Workbench(browser.new_page()))
        opened[-1].open(lab, write_cell(lab, f"review-{id(opened[-1])}", code))
        opened[-1].settled()
        return opened[-1]

    yield make
    for bench in opened:
        bench.page.close()
        assert not bench.errors, bench.errors


def test_lanes_of_a_mixed_cluster_say_their_device(open_bench: Opener) -> None:
    bench = open_bench("'gpt2-small', 'mixed-v100-a100'")
    kinds = [text for text in bench.page.locator(".b-lane .b-kind").all_inner_texts() if text]
    assert any("v100" in kind for kind in kinds)
    assert any("a100" in kind for kind in kinds)


def test_a_mixture_of_experts_has_all_its_fields(open_bench: Opener) -> None:
    bench = open_bench("'mixtral-8x7b', 'hgx-h100'")
    bench.do("explorer.set(tensor=2)")
    bench.settled()
    fields = set(
        bench.page.eval_on_selector_all(
            ".c-bar [data-field]", "(all) => all.map((field) => field.dataset.field)"
        )
    )
    wanted = {
        "expert",
        "context",
        "sequence_parallel",
        "framework",
        "schedule",
        "update",
        "zero",
        "recompute",
    }
    assert wanted <= fields


def test_a_measured_profile_begins_with_work_for_all_and_no_utilization(lab: Lab, open_bench: Opener) -> None:
    """No FLOPs are known of it; one minibatch would leave all devices but one idle."""
    (lab.root / "measured.txt").write_text(PROFILE, encoding="utf-8")
    bench = open_bench("'measured.txt', 'dgx-a100-4'")
    assert "–" in bench.page.inner_text("[data-kpi=mfu]")
    assert "0.0" not in bench.page.inner_text("[data-kpi=mfu]")
    batch = int(bench.ask("explorer.workload.job.global_batch"))
    stated = "__import__('explorer').default_workload(explorer.history.now.inputs.graph).job.global_batch"
    assert batch >= 32 * int(bench.ask(stated))
    chips = bench.page.locator("[data-lane] [data-block]")
    board = {str(chip.get_attribute("aria-label")).split(",")[0] for chip in chips.all()}
    graph = set(bench.ask("[node['label'] for node in explorer.parts.graph.view['nodes']]"))
    assert board & graph, (board, graph)
    assert not [label for label in board | graph if label.startswith("node")], "names, not numbers of nodes"


def test_what_was_gained_since_the_start_stays_in_the_tiles(open_bench: Opener) -> None:
    """A better plan is not compared with an even cut of its own shape, which would be six times nothing."""
    bench = open_bench("'llama3-8b', 'dgx-a100', global_batch=64, sequence_length=4096")
    first = bench.kpi("step_time")
    bench.do("explorer.set(stages=2)")
    bench.until(lambda: bench.kpi("step_time") != first, "another plan is drawn")
    bench.settled()
    tiles = bench.page.locator("[data-kpi=step_time]")
    assert "vs start" in tiles.inner_text()
    assert "0.0 %" not in tiles.inner_text()


def test_a_drop_out_of_order_is_simulated_while_it_is_held(open_bench: Opener) -> None:
    """First an estimate that says so; then the very numbers that stand there after the drop."""
    bench = open_bench("'llama3-8b', 'dgx-a100', global_batch=64, sequence_length=4096")
    page = bench.page
    bench.do("explorer.set(stages=4)")
    bench.settled()
    source = bench.box("[data-lane='2'] [data-block='layers.17']")
    page.mouse.move(source["x"] + source["w"] / 2, source["y"] + source["h"] / 2)
    page.mouse.down()
    page.mouse.move(source["x"] + 9, source["y"] + 5)
    below = page.evaluate(
        "() => { const r = document.querySelector(\"[data-lane='0']\").getBoundingClientRect();"
        " return [r.x + 0.7 * r.width, r.y + r.height / 2]; }"
    )
    page.mouse.move(*below, steps=8)
    page.wait_for_selector(".t-note:has-text('Simulated')")
    held = (bench.kpi("step_time"), bench.kpi("memory"))
    page.mouse.up()
    bench.until(lambda: bench.lane_of("layers.17") == "0", "dropped")
    bench.settled()
    assert (bench.kpi("step_time"), bench.kpi("memory")) == held
