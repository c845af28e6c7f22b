"""Write docs/schedules.md: every registered schedule with a drawing of its order, made by simulating it.

usage: python scripts/schedules_page.py [--check]

Drawings are SVG files in docs/images/schedules, in the colours of the workbench: a lane for each position,
time from left to right. They show an ideal pipeline: F, I and W of one second each, free
transfers. A schedule that is registered tomorrow appears by itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from explorer.library._ideal import ACTIVATIONS, Ideal
from explorer.schedules import SCHEDULES, Schedule
from explorer.schedules.groups import Group, grouped
from explorer.schedules.placements import ANY
from explorer.simulation.report import Report
from explorer.tasks.program import B, F, I, U, W
from explorer.views.timeline import report_rows

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "schedules.md"
FOLDER = ROOT / "docs" / "images" / "schedules"
TOKENS = ROOT / "widgets" / "js" / "src" / "common" / "tokens.css"
HEAD = """# Schedules

What runs on which device, and when. Each schedule is one file in `explorer/schedules/`;
`explorer list schedules` lists them, `--schedule NAME` and the workbench's picker choose one, its *Schedules*
tab says what they come to on your plan. This page is made by `python scripts/schedules_page.py`.

Every drawing is a simulated step of an ideal pipeline (two steps where they overlap): a lane for each
position, time from left to right; forward, input gradient and weight gradient of a stage take a second each,
transfers none. Numbers are microbatches; later chunks and second copies are paler.

![F forward, B backward, I input gradient, W weight gradient, U update](images/schedules/legend.svg)

*Bubble*: share of the step in which devices do not compute. *Activations*: most that a position keeps for
backwards, counted in the memory of the simulated step, in those of a stage and a microbatch. *Versions*: most
versions of its weights that a stage keeps.
"""
UNIT, LANE, GAP, LEFT = 11, 15, 3, 22
"""Pixels of a second, of a lane, between lanes, and of the lanes' names."""
WIDEST = 900
"""Widest drawing in pixels; longer ones have a shorter second."""
OPS = {F: "F", B: "B", I: "B", W: "W", U: "U"}


class Drawn(NamedTuple):
    """A schedule on its ideal pipeline."""

    schedule: Schedule
    ideal: Ideal
    report: Report


# ---- what is drawn ------------------------------------------------------------------------------


def ideal_of(schedule: Schedule) -> Ideal | None:
    """Return the ideal pipeline on which a schedule is drawn; None if it has no order of its own.

    It has 4 positions and 8 microbatches, or the next numbers that meet the needs; fewer for a costly one.
    """
    if schedule.literal:
        return None
    least, count = (2, 3) if schedule.costly else (4, 8)
    placement = schedule.placement
    several = placement.several and not placement.whole and placement is not ANY
    chunks = max(2, placement.chunks) if several else None
    for p in range(least, 3 * least):
        for m in range(count, 4 * count):
            if not schedule.unmet_even(p, m, chunks):
                return Ideal(p=p, m=m, schedule=schedule.name, chunks=chunks)
    raise ValueError(f"{schedule.name} can order no small pipeline")


@cache
def drawn_of(name: str) -> Drawn | None:
    """Return a schedule simulated; None if it has no order of its own."""
    schedule = SCHEDULES.get(name)
    ideal = ideal_of(schedule)
    return Drawn(schedule, ideal, ideal.report()) if ideal else None


def activations(drawn: Drawn) -> list[int]:
    """Return the most activations that each position keeps, in those of a stage and a microbatch."""
    report, ideal = drawn.report, drawn.ideal
    kept = [0.0] * ideal.p
    for lane, devices in enumerate(report.lane_devices):
        at = devices[0] // ideal.replicas
        kept[at] = max(kept[at], report.memory_parts_bytes[lane][ACTIVATIONS])
    return [round(value) for value in kept]


# ---- drawing ------------------------------------------------------------------------------------


@cache
def colours(*, dark: bool) -> dict[str, str]:
    """Return the workbench's colours by token."""
    light, night = TOKENS.read_text("utf-8").split('.sx[data-dark="true"]')
    found = re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", light)
    return dict(found) | (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", night)) if dark else {})


def style() -> str:
    """Return the style of all drawings, light and dark."""

    def rules(*, dark: bool) -> str:
        c = colours(dark=dark)
        fills = "".join(f".{op}{{fill:{c[op]}}}" for op in "FBWU")
        return f"{fills}.idle{{fill:{c['wash-2']}}}.name{{fill:{c['ink-2']}}}.on{{fill:{c['on-fw']}}}"

    text = "text{font:9px system-ui,sans-serif;text-anchor:middle}.name{text-anchor:start}.dark{fill:#14060a}"
    return f"<style>{text}{rules(dark=False)}@media(prefers-color-scheme:dark){{{rules(dark=True)}}}</style>"


def svg(width: float, height: float, title: str, parts: Iterator[str]) -> str:
    """Return an SVG file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
        f' height="{height:g}" role="img"><title>{title}</title>'
    )
    return "\n".join([head + style(), *parts, "</svg>"]) + "\n"


def drawing(drawn: Drawn) -> str:
    """Return the SVG of a schedule."""
    ideal, report = drawn.ideal, drawn.report
    rows = [row for row in report_rows(report).tolist() if row[3] <= U]
    end = max(row[1] for row in rows)
    unit = min(UNIT, (WIDEST - LEFT) / end)
    what = f"{drawn.schedule.name}, {ideal.p} positions, {ideal.m} microbatches"
    return svg(
        round(LEFT + end * unit + 2), len(report.lanes) * (LANE + GAP), what, _bars(drawn, rows, unit, end)
    )


def _bars(drawn: Drawn, rows: list[list[float]], unit: float, end: float) -> Iterator[str]:
    p, lanes = drawn.ideal.p, len(drawn.report.lanes)
    whole = drawn.schedule.placement.whole
    for lane in range(lanes):
        y = lane * (LANE + GAP)
        yield f'<text class="name" x="2" y="{y + 11}">{lane}</text>'
        yield f'<rect class="idle" x="{LEFT}" y="{y}" width="{end * unit:.4g}" height="{LANE}"/>'
    for start_s, end_s, lane, kind, stage, copy, microbatch, count, *_ in rows:
        wide = (end_s - start_s) * unit
        if wide <= 0:
            continue
        x, y = LEFT + start_s * unit, int(lane) * (LANE + GAP)
        turn = int(copy) if whole else int(stage) // p + int(copy)
        pale = f' opacity="{max(0.4, 1 - 0.22 * turn):.2g}"' if turn else ""
        op = OPS[int(kind)]
        size = f'width="{max(0.5, wide - 0.6):.4g}" height="{LANE}"'
        yield f'<rect class="{op}" x="{x:.4g}" y="{y}" {size}{pale}/>'
        label = f"{microbatch:.0f}" + (f"-{microbatch + count - 1:.0f}" if count > 1 else "")
        if microbatch >= 0 and wide >= 5.5 * len(label):
            ink = "on" if op in "FW" else "dark"
            yield f'<text class="{ink}" x="{x + wide / 2:.4g}" y="{y + 11}">{label}</text>'


def legend() -> str:
    """Return the SVG that says what the colours mean."""
    words = {"F": "F forward", "B": "B backward, I input gradient", "W": "W weight gradient", "U": "U update"}

    def parts() -> Iterator[str]:
        x = 2
        for op, text in words.items():
            yield f'<rect class="{op}" x="{x}" y="1" width="{LANE}" height="{LANE}"/>'
            yield f'<text class="name" x="{x + LANE + 5}" y="12">{text}</text>'
            x += LANE + 24 + round(4.8 * len(text))
        yield f'<rect class="idle" x="{x}" y="1" width="{LANE}" height="{LANE}"/>'
        yield f'<text class="name" x="{x + LANE + 5}" y="12">idle</text>'

    return svg(520, LANE + 2, "Colours", parts())


# ---- the page -----------------------------------------------------------------------------------


def page() -> str:
    """Return the whole page."""
    groups = grouped()
    rows = [overview(schedule) for _, found in groups for schedule in found]
    head = ["| | group | positions × microbatches | bubble | activations | versions |"]
    head += ["|---|---|---|---:|---:|---:|"]
    return "\n".join([HEAD, *head, *rows, "", *(section(group, found) for group, found in groups)])


def overview(schedule: Schedule) -> str:
    """Return a schedule's row of the table."""
    drawn = drawn_of(schedule.name)
    group = next(group for group, found in grouped() if schedule in found).name
    name = f"[`{schedule.name}`](#{schedule.name.replace('.', '')})"
    if drawn is None:
        return f"| {name} | {group} | as written | | | |"
    bubble = f"{100 * drawn.report.bubble_fraction:.1f} %"
    size = f"{drawn.ideal.p} × {drawn.ideal.m}"
    return (
        f"| {name} | {group} | {size} | {bubble} | {max(activations(drawn))} | {max(drawn.report.versions)} |"
    )


def section(group: Group, schedules: list[Schedule]) -> str:
    """Return one group of schedules."""
    return "\n".join(
        [f"## {group.name[0].upper()}{group.name[1:]}", "", f"{group.title}.", "", *map(entry, schedules)]
    )


def entry(schedule: Schedule) -> str:
    """Return one schedule."""
    lines = [
        f"### {schedule.name}",
        "",
        f"{schedule.title}." + (f" {schedule.paper}." if schedule.paper else ""),
    ]
    facts = [f"Placement: {schedule.placement.text}"]
    facts += [f"needs {schedule.needs.words()}"] if schedule.needs.words() else []
    facts += [f"in torch: `Schedule{schedule.torch_name}`"] if schedule.torch_name else []
    facts += [f"on a chain as `{schedule.variant_of}`"] if schedule.variant_of else []
    lines += ["", "; ".join(facts) + "."]
    options = [f"- `{option.name}` (`{option.default!r}`): {option.help}" for option in schedule.options]
    lines += ["", *options] if options else []
    drawn = drawn_of(schedule.name)
    if drawn is not None:
        size = f"{drawn.ideal.p} positions, {drawn.ideal.m} microbatches"
        chunks = drawn.ideal.chunks or 1
        size += f", {chunks} chunks" if chunks > 1 else ""
        bubble = f"bubble {100 * drawn.report.bubble_fraction:.1f} %"
        kept = ", ".join(map(str, activations(drawn)))
        lines += ["", f"![{schedule.name}: {size}](images/schedules/{schedule.name}.svg)"]
        lines += ["", f"{size}: {bubble}; activations by position {kept}."]
    return "\n".join(lines) + "\n"


def files() -> dict[Path, str]:
    """Return the text of every file that belongs to the page."""
    found = {PAGE: page(), FOLDER / "legend.svg": legend()}
    for schedule in SCHEDULES:
        drawn = drawn_of(schedule.name)
        if drawn is not None:
            found[FOLDER / f"{schedule.name}.svg"] = drawing(drawn)
    return found


def main() -> int:
    """Write the page and its drawings, or tell whether they are up to date."""
    made = files()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    gone = [path for path in FOLDER.glob("*.svg") if path not in made]
    if "--check" in sys.argv[1:]:
        if stale or gone:
            names = ", ".join(path.name for path in (*stale, *gone))
            print(f"{names}: not what the schedules say; run python scripts/schedules_page.py")
            return 1
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(made[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
