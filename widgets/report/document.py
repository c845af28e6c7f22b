"""One HTML file of a plan, to send to someone: the workbench's drawings over data that stands in the file.

It opens offline and asks for nothing: a content security policy forbids every request, and allows only the
one script that this package wrote. Whatever comes from outside is escaped, or stands as data that no HTML
parser sees. `page.py` makes such a file from a plan file.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Protocol

from explorer.base.files import read_text, write_bytes
from explorer.base.formats import yaml_text
from explorer.plan import Resolved, to_document
from explorer.plan_text import packed
from explorer.views import graph_view
from widgets.base import STATIC, Widget
from widgets.jobs import at_once
from widgets.paint import paint_rest
from widgets.panels import STYLE
from widgets.parts import Parts
from widgets.session import History, Point
from widgets.showing import Showing

from .words import KeptPlan, heading, more_html, top_html, words_html

PACK_FROM = 1_000_000
"""Characters of data above which they are compressed."""

MOST_ANSWERS = 40
"""Most nodes of the layer graph that can still be opened or closed in a report."""

_NOT_SENT = {"layout", "tabbable", "tooltip", "notice", "bench", "seq", "way_back", "own_id", "heard"}


class Reported(Protocol):
    """The workbench as its report sees it."""

    history: History
    """History, for the time the state was made."""
    parts: Parts
    """Parts that are drawn again."""
    showing: Showing
    """Source of the reasons."""

    def now(self) -> Point:
        """Return the state shown; raise `InputError` while nothing is loaded."""
        ...

    def resolved(self) -> Resolved:
        """Return the plan shown, with its inputs."""
        ...


def write_report(bench: Reported, path: Path) -> int:
    """Write the report of the state shown; return its size in bytes.

    Raises:
        InputError: nothing is loaded, or the file cannot be written.
    """
    data = report_html(bench).encode()
    write_bytes(path, data)
    return len(data)


def report_html(bench: Reported) -> str:
    """Make the report of the state shown, as it is looked at: colours, open parts, plan B.

    Raises:
        InputError: nothing is loaded.
    """
    point = bench.now()
    at_once(lambda: paint_rest(bench.parts, point, bench.showing.layer_errors(point)))
    bench.showing.explain(point)
    reasons = bench.showing.reasons
    plans = {"A": bench.resolved()}
    if point.other is not None:
        plans["B"] = point.other.resolved()
    kept = {name: _kept(plan) for name, plan in plans.items()}
    verdict = reasons.verdict or bench.parts.tiles.view.get("verdict") or {}
    body = (
        top_html(point, made_s=bench.history.clock())
        + '<div data-part="tiles"></div>'
        + words_html(verdict, reasons.rows)
        + '<p class="r-failed" id="report-failed" hidden>The drawings cannot be shown; the tables below are '
        "complete.</p>" + _places() + more_html(point, kept)
    )
    return page_html(heading(point), body, {"parts": _parts(bench)})


def _kept(resolved: Resolved) -> KeptPlan:
    """Return a plan as its file and as one short text."""
    document = to_document(resolved.plan, resolved.graphs)
    return KeptPlan(file=yaml_text(document), text=packed(document))


def page_html(title: str, body: str, data: Mapping[str, Any]) -> str:
    """Wrap a body in the file; `data` is what the script draws."""
    script = read_text(STATIC / "report.js").replace("</script", r"<\/script")
    styles = STYLE.removeprefix("<style>").removesuffix("</style>") + read_text(STATIC / "report.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    packed, text = _data_text(data)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}: plan</title><style>{styles}</style></head>"
        f'<body data-jp-theme-light="true"><main>{body}</main>'
        f'<script type="application/json" id="report-data" data-packed="{packed}">{text}</script>'
        f'<script type="module">{script}</script></body></html>\n'
    )


def _data_text(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return how the data is packed, and text in which no tag can begin."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    if len(text) < PACK_FROM:
        return "no", text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return "gzip", base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _places() -> str:
    """Return the places of the drawings."""
    return (
        '<div data-part="board"></div><div data-part="timeline"></div>'
        '<div class="r-columns"><div data-part="graph"></div>'
        '<div><div data-part="memory"></div><div data-part="traffic"></div></div></div>'
    )


def _parts(bench: Reported) -> list[dict[str, Any]]:
    """Return the state of every drawing, without anything that only the workbench can do."""
    parts = bench.parts
    tiles, board, timeline = _state(parts.tiles), _state(parts.board), _state(parts.timeline)
    # verdict and reasons stand above as text
    tiles["view"] = tiles["view"] | {"verdict": None, "reasons": [], "reasoning": False, "own": None}
    tiles["view"]["tour"] = None
    board["view"] = board["view"] | {"editable": False}
    timeline["view"] = timeline["view"] | {"fixed": "Only the workbench edits the order"}
    graph = _state(parts.graph) | {"edits": False, "card": {}}
    timeline |= {"asks": False, "moment": {}, "area": {}}
    return [
        {"name": "tiles", "kind": "tiles", "state": tiles},
        {"name": "board", "kind": "board", "state": board},
        {"name": "timeline", "kind": "timeline", "state": timeline},
        {"name": "graph", "kind": "graph", "state": graph, "answers": _answers(bench)},
        {"name": "memory", "kind": "heatmap", "state": _state(parts.memory)},
        {"name": "traffic", "kind": "heatmap", "state": _state(parts.traffic)},
    ]


def _state(widget: Widget) -> dict[str, Any]:
    """Return the synced traits of a widget; bytes are marked."""
    own = {
        name: getattr(widget, name)
        for name in widget.traits(sync=True)
        if not name.startswith("_") and name not in _NOT_SENT
    }
    return {
        name: {"$bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in own.items()
    }


def _answers(bench: Reported) -> dict[str, Any]:
    """Return the layer graph's answers to one part more or less being open, by what is open then."""
    point, graph = bench.now(), bench.parts.graph
    opened = list(graph.opened)
    wishes: list[list[str]] = [[]]
    wishes += [
        [other for other in opened if other != node["id"]] if node["id"] in opened else [*opened, node["id"]]
        for node in graph.view.get("nodes", [])[:MOST_ANSWERS]
    ]
    other = point.other.scene if point.other is not None else None
    answers = {}
    for wish in wishes:
        view = graph_view(point.scene, opened=wish, other=other, other_name="B")
        for key in (wish, view["opened"]):
            answers[json.dumps(sorted(key), separators=(",", ":"), ensure_ascii=False)] = view
    return answers
