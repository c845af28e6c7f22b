"""Where a drop's time goes in the page, by Chromium's own trace. `python benchmarks/gestures_trace.py`

The drops of `gestures.py`: for each kind the median CPU milliseconds of the page's main thread by sort of
work (scripts, style, layout, paint, ...), from the release of the button to the frame that shows Python's
answer, and what that took on the clock. CPU time hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Any

from gestures import DRAGS, REST_MS, SIZES, WARM_UP, opened_board
from gestures_page import Page, opened

CATEGORIES = "devtools.timeline,disabled-by-default-devtools.timeline,blink.user_timing,v8.execute,toplevel"
MOST_ROWS = 14
"""Sorts of work that are printed."""

Event = dict[str, Any]


def traced(page: Page, drag: Any, number: int) -> list[Event]:
    """Make a drop and return the events of its trace."""
    devtools = page.page.context.new_cdp_session(page.page)
    devtools.send("Tracing.start", {"transferMode": "ReturnAsStream", "categories": CATEGORIES})
    before = page.drops()
    drag(page, number, REST_MS)
    page.drop_done(before)
    ended: list[dict[str, Any]] = []
    devtools.once("Tracing.tracingComplete", lambda event: ended.extend([event]))
    devtools.send("Tracing.end")
    page.until(lambda: bool(ended), "traced")
    text, last = "", False
    while not last:
        part = devtools.send("IO.read", {"handle": ended[0]["stream"]})
        text += base64.b64decode(part["data"]).decode() if part.get("base64Encoded") else part["data"]
        last = part["eof"]
    devtools.detach()
    events: list[Event] = json.loads(text)["traceEvents"]
    return events


def window(events: Iterable[Event]) -> tuple[float, float, int]:
    """Return begin and end of the drop, in microseconds of the trace, and the page's process."""
    marks = [event for event in events if event.get("name") == "sx-repaint"]
    begin = [event for event in marks if event["ph"] == "b"][-1]
    end = [event for event in marks if event["ph"] == "e"][-1]
    return begin["ts"], end["ts"], begin["pid"]


def main_thread(events: Iterable[Event], process: int) -> int:
    """Return the number of a page's main thread."""
    return next(
        event["tid"]
        for event in events
        if event.get("name") == "thread_name"
        and event["pid"] == process
        and event["args"]["name"] == "CrRendererMain"
    )


def own_ms(events: Iterable[Event], begin: float, end: float) -> Counter[str]:
    """Return the CPU milliseconds of nested events that begin in a window, by name, without what is inside
    them.

    >>> outer = {"name": "frame", "ts": 0, "dur": 10_000, "tdur": 8_000}
    >>> inner = {"name": "layout", "ts": 1_000, "dur": 4_000, "tdur": 3_000}
    >>> sorted(own_ms([outer, inner], 0, 20_000).items())
    [('frame', 5.0), ('layout', 3.0)]
    """
    found: Counter[str] = Counter()
    around: list[tuple[str, float]] = []
    for event in sorted(events, key=lambda item: (item["ts"], -item["dur"])):
        if event["ts"] < begin or event["ts"] > end:
            continue
        while around and around[-1][1] <= event["ts"]:
            around.pop()
        spent = event.get("tdur", 0) / 1e3
        if around:
            found[around[-1][0]] -= spent
        found[event["name"]] += spent
        around.append((event["name"], event["ts"] + event["dur"]))
    return found


def split(events: list[Event]) -> tuple[float, Counter[str]]:
    """Return a drop's milliseconds on the clock, and its CPU milliseconds by sort of work."""
    begin, end, process = window(events)
    thread = main_thread(events, process)
    own = [
        e for e in events if e.get("ph") == "X" and (e["pid"], e["tid"]) == (process, thread) and "dur" in e
    ]
    return (end - begin) / 1e3, own_ms(own, begin, end)


def drops(page: Page, count: int) -> dict[str, list[tuple[float, Counter[str]]]]:
    """Return the split drops by kind; each is undone before the next."""
    found: dict[str, list[tuple[float, Counter[str]]]] = {kind: [] for kind in DRAGS}
    kinds = list(DRAGS)
    for number in range(count + WARM_UP):
        kind = kinds[number % 2]
        events = traced(page, DRAGS[kind], number // 2)
        if number >= WARM_UP:
            found[kind].append(split(events))
        at = page.ask("explorer.history.at")
        page.page.locator(".c-bar [data-action=undo]").first.click()
        page.until(lambda at=at: page.ask("explorer.history.at") == at - 1, "undone")
        page.settled()
    return found


def print_table(found: dict[str, list[tuple[float, Counter[str]]]]) -> None:
    """Print the medians."""
    names = sorted(
        {name for rows in found.values() for _, own in rows for name in own},
        key=lambda name: -sum(own[name] for rows in found.values() for _, own in rows),
    )
    print(f"| CPU ms of the page's main thread | {' | '.join(found)} |\n|---|{'---:|' * len(found)}")
    for name in names[:MOST_ROWS]:
        cells = (statistics.median(own[name] for _, own in rows) for rows in found.values())
        print(f"| {name} | {' | '.join(f'{cell:.1f}' for cell in cells)} |")
    for what, value in (
        ("all of it", lambda row: sum(row[1].values())),
        ("on the clock", lambda row: row[0]),
    ):
        cells = (statistics.median(value(row) for row in rows) for rows in found.values())
        print(f"| {what} | {' | '.join(f'{cell:.1f}' for cell in cells)} |")


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=16, help="drops at each size")
    parser.add_argument("--size", choices=[size.model for size in SIZES], help="only this board")
    arguments = parser.parse_args()
    with opened() as page:
        for size in SIZES:
            if arguments.size in (None, size.model):
                opened_board(page, size)
                print(f"\n{size.name}\n")
                print_table(drops(page, arguments.count))


if __name__ == "__main__":
    main()
