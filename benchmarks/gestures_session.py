"""A long session: random gestures with a fixed seed, then what it did to the memory of page and kernel.

The kernel is restarted and the page loaded anew in between, if asked for, and the page slowed down. Nothing
may stay stuck, and the step time that the page shows is that of a fresh simulation of the plan shown.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gestures_page import IDLE, Page

ROUND = 100
"""Gestures of one round. All begin at the same plan and draw the same gestures: what another round adds to
memory is held for nothing. The first fills the caches and loads what is only loaded when it is asked for."""
LATE = "Failed to initialize model"
"""What anywidget reports of a module that is not there after two seconds; the page then asks for it anew."""
GROWTH = 0.10
"""Allowed growth from the first reading to the last."""
FIELDS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("global_batch", (64, 128)),
    ("microbatch_size", (1, 2)),
    ("recompute", ("none", "selective", "full")),
    ("zero", (0, 1)),
    ("schedule", ("1f1b", "gpipe")),
    ("stages", (2, 4, 8)),
)
KEYS = ("Alt+ArrowDown", "Alt+ArrowUp", "ArrowRight", "Shift+ArrowRight")
SEARCHERS = ("megatron", "even")
MODELS = ("gpt2-small", "llama3-8b")
START = (
    "explorer = Explorer('llama3-8b', 'dgx-a100', global_batch=64, sequence_length=4096)\n"
    "explorer.search_budget_s = 1.0\nclocks.watch(explorer)\nstart = explorer.plan\nexplorer"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strain:
    """What makes a session hard."""

    throttle: int = 1
    """How many times slower the page's processor is."""
    restart_every: int = 0
    """Gestures between two restarts of the kernel; 0 for none."""
    reload_every: int = 0
    """Gestures between two loads of the page; 0 for none."""

    @property
    def patience(self) -> float:
        """How many times longer JupyterLab is waited for than on a page that is not slowed down."""
        return max(1.0, self.throttle / 4)


def session(page: Page, count: int, seed: int, strain: Strain = Strain()) -> bool:
    """Do `count` random gestures and print the memory; whether nothing went wrong and nothing grew."""
    page.load("session", ["from widgets import Explorer\nimport benchmarks.gestures_kernel as clocks", START])
    begin(page, strain)
    chance = random.Random(seed)
    wrong: list[str] = []
    counted: dict[str, int] = {}
    refused: list[str] = []
    readings: dict[int, tuple[float, float]] = {}
    print("| gestures | JS heap, MiB | page documents and nodes | kernel, MiB |\n|---|---|---|---|")
    for number in range(1, count + 1):
        if number % ROUND == 1:
            chance = random.Random(seed)
        name = chosen((number - 1) % ROUND + 1, chance)
        known = len(page.console)
        GESTURES[name][0](page, chance)
        counted[name] = counted.get(name, 0) + 1
        settle(page)
        page.console[known:] = [f"gesture {number}, {name}: {text}" for text in page.console[known:]]
        refused += dismiss(page)
        if strain.restart_every and number % strain.restart_every == 0:
            wrong += figures(page, number)
            restart(page, strain)
        elif strain.reload_every and number % strain.reload_every == 0:
            wrong += figures(page, number)
            page.save()
            page.page.reload()
            page.ready(60.0 * strain.patience)
            begin(page, strain)
        if number % ROUND == 0 or number == count:
            wrong += figures(page, number)
            readings[number] = read(page, number)
    print("\n" + ", ".join(f"{name} {times}" for name, times in sorted(counted.items())))
    print("wrong figures: " + ("; ".join(wrong) if wrong else "none"))
    return verdict(page, readings, refused) and not wrong


def begin(page: Page, strain: Strain) -> None:
    """Run the cells, at the speed asked for, until the board is there."""
    slow = page.page.context.new_cdp_session(page.page)
    slow.send("Emulation.setCPUThrottlingRate", {"rate": strain.throttle})
    page.run_cell(0)
    page.run_cell(1, ".b-chip", limit_s=90.0 * strain.patience)
    page.page.wait_for_timeout(2000)


def restart(page: Page, strain: Strain) -> None:
    """Restart the kernel; the page has to say so before the cells are run again."""
    page.page.evaluate(
        "() => { window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); return 1; }"
    )
    page.page.wait_for_selector(".sx-board .sx-notice[data-lasting]")
    page.page.wait_for_function(IDLE)
    begin(page, strain)


def figures(page: Page, number: int) -> list[str]:
    """Compare the step time on the page with that of a fresh simulation; return what differs."""
    page.do("explorer.stop()")
    settle(page)
    now = "explorer.history.now"
    fresh = float(
        page.ask(
            f"__import__('explorer').simulate({now}.inputs.graph, {now}.inputs.cluster,"
            f" {now}.inputs.workload, {now}.strategy).step_time_s"
        )
    )
    shown = page.kpi("step_time").replace("\u202f", "").replace("\u00a0", " ")
    digits, unit = re.fullmatch(r"([\d.]+)\s*(\S+)", shown).groups()  # type: ignore[union-attr]
    seconds = float(digits) * {"s": 1.0, "ms": 1e-3, "\u00b5s": 1e-6}[unit]
    if abs(seconds / fresh - 1) <= 0.006:  # three digits are shown
        return []
    return [f"gesture {number}: the page shows {shown}, a simulation says {fresh:.6g} s"]


def chosen(number: int, chance: random.Random) -> str:
    """The next gesture: first each once, so that what is loaded when asked for is there; then by chance."""
    names = list(GESTURES)
    if number <= len(names):
        return names[number - 1]
    return chance.choices(names, weights=[weight for _, weight in GESTURES.values()])[0]


def verdict(page: Page, readings: dict[int, tuple[float, float]], refused: list[str]) -> bool:
    """Say what grew and what went wrong."""
    first, last = min(readings), max(readings)
    (heap, kernel), (last_heap, last_kernel) = readings[first], readings[last]
    growth = last_heap / heap - 1, last_kernel / kernel - 1
    print(f"\ngrowth from {first} to {last}: page {growth[0]:+.1%}, kernel {growth[1]:+.1%}")
    print(f"refused with a notice (shown, not errors of the program): {len(refused)}")
    unexpected = sorted({text for text in refused if text.split(":", 1)[0].endswith(("Error", "Exception"))})
    found = page.trouble()
    late = [text for text in found if LATE in text]
    print(f"modules that took anywidget's two seconds or more, and were started again: {len(late)}")
    trouble = sorted({*found, *unexpected} - {*late})
    print("errors: " + ("; ".join(trouble) if trouble else "none"))
    return not trouble and max(growth) <= GROWTH


def settle(page: Page) -> None:
    """Wait for the answer, and a moment as a hand does."""
    page.settled()
    page.page.wait_for_timeout(60)


def dismiss(page: Page) -> list[str]:
    """Read and close notices of level error: refusals are part of a session, exceptions are not."""
    found: list[str] = page.page.evaluate(
        """() => [...document.querySelectorAll(".sx-notice[data-level=error]")].map((notice) => {
             const text = notice.firstChild.textContent;
             notice.querySelector("[data-action=dismiss]").click();
             return text;
           })"""
    )
    return found


def read(page: Page, number: int) -> tuple[float, float]:
    """MiB of the page's JavaScript heap and of the kernel, after collecting garbage.

    The plan of the beginning is opened first: plans of different sizes do not compare.
    """
    page.do("explorer.stop()")
    page.do("setattr(explorer, 'plan', start)")
    page.page.wait_for_timeout(4000)
    devtools = page.page.context.new_cdp_session(page.page)
    devtools.send("Performance.enable")
    for _ in range(2):
        devtools.send("HeapProfiler.collectGarbage")
    metrics = {item["name"]: item["value"] for item in devtools.send("Performance.getMetrics")["metrics"]}
    devtools.detach()
    heap = metrics["JSHeapUsedSize"] / 2**20
    kernel = float(page.ask("clocks.resident_bytes()")) / 2**20
    counts = f"{metrics['Documents']:.0f}, {metrics['Nodes']:.0f}"
    print(f"| {number} | {heap:.1f} | {counts} | {kernel:.0f} |", flush=True)
    return heap, kernel


# -- gestures ---------------------------------------------------------------------------------------------


MANY = 10_000
"""More elements than there are: one of them is chosen modulo their number."""


def _drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    mouse = page.page.mouse
    mouse.move(*start)
    mouse.down()
    mouse.move(start[0] - 6, start[1] + 2)
    mouse.move(*end, steps=4)
    mouse.up()


def _boundary(page: Page, chance: random.Random) -> None:
    at = page.spot(".b-lanes .b-handle", chance.randrange(MANY))
    if at:
        _drag(page, at, (at[0] + chance.uniform(-150, 150), at[1]))


def _block(page: Page, chance: random.Random) -> None:
    page.spot(".b-lanes [data-lane]", target := chance.randrange(MANY))
    start = page.spot(".b-lanes .b-chip", chance.randrange(MANY))
    end = page.spot(".b-lanes [data-lane]", target)
    if start and end:
        _drag(page, start, (start[0] + 30, end[1]))


def _keys(page: Page, chance: random.Random) -> None:
    page.page.evaluate(
        "(n) => { const all = document.querySelectorAll('.b-lanes .b-chip'); all[n % all.length]?.focus(); }",
        chance.randrange(MANY),
    )
    page.page.keyboard.press(chance.choice(KEYS))


def _press(action: str) -> Callable[[Page, random.Random], None]:
    def press(page: Page, _chance: random.Random) -> None:
        page.page.evaluate("(s) => document.querySelector(s)?.click()", f".c-bar [data-action={action}]")

    return press


def _set(page: Page, chance: random.Random) -> None:
    key, values = chance.choice(FIELDS)
    value = str(chance.choice(values))
    field = page.page.locator(f".c-bar [data-field={key}]:visible").first
    if field.evaluate("(element) => element.tagName") == "SELECT":
        field.select_option(value)
    else:
        field.fill(value)
        field.press("Enter")


def _search(page: Page, chance: random.Random) -> None:
    page.do(f"setattr(explorer, 'searcher', {chance.choice(SEARCHERS)!r})")
    _press("search")(page, chance)
    page.page.wait_for_timeout(chance.randrange(100, 900))
    page.do("explorer.stop()")


def _use_best(page: Page, _chance: random.Random) -> None:
    found = "explorer.search_panel.task.progress"
    page.do(f"{found} and {found}.best and explorer.use_best()")


def _load(page: Page, chance: random.Random) -> None:
    """Another model, and back: whole states come and go."""
    page.page.locator(".c-bar [data-field=model]:visible").first.select_option(chance.choice(MODELS))


GESTURES: dict[str, tuple[Callable[[Page, random.Random], None], float]] = {
    "boundary": (_boundary, 24),
    "block": (_block, 20),
    "keys": (_keys, 12),
    "undo": (_press("undo"), 16),
    "redo": (_press("redo"), 8),
    "set": (_set, 8),
    "search": (_search, 3),
    "use best": (_use_best, 2),
    "load": (_load, 5),
    "compare": (_press("compare"), 4),
}
"""What is done, and how often relative to the others."""
