"""What stands in the tabs as text and tables: HTML from plain rows, everything from outside escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from explorer.units import format_bytes, format_seconds

STYLE = """<style>
.xp{font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--jp-ui-font-color1,#222);
 font-variant-numeric:tabular-nums lining-nums;padding:4px 16px 12px}
.xp h3{font-size:14px;font-weight:600;margin:6px 0;color:inherit}
.xp .sub{color:var(--xp-ink2);font-weight:400;font-size:12px}
.xp table{border-collapse:collapse;font-size:12px;width:100%}
.xp th{font-weight:400;text-align:left;color:var(--xp-ink2);padding:4px 8px}
.xp td{padding:5px 8px;border-top:1px solid var(--jp-border-color2,#e0e0e0);white-space:nowrap}
.xp .n{text-align:right}.xp .own td{background:var(--xp-wash)}.xp b{font-weight:600}
.xp pre{font:12px/1.5 var(--jp-code-font-family,monospace);background:var(--xp-wash);color:inherit;
 border:1px solid var(--jp-border-color2,#e0e0e0);padding:8px 12px;max-height:360px;
 overflow:auto;margin:6px 0}
.xp .bad{color:var(--xp-bad)}.xp .warn{color:var(--xp-warn)}.xp ul{margin:4px 0;padding-left:18px}
.xp a{color:var(--xp-link)}.xp .scroll{overflow-x:auto}
.xp progress{width:260px;accent-color:var(--jp-brand-color1,#1976d2)}
.xp{--xp-ink2:#5c6168;--xp-wash:#f3f6fa;--xp-bad:#b71c1c;--xp-warn:#8f5200;--xp-link:#1565c0}
[data-jp-theme-light=false] .xp{--xp-ink2:#a9afb7;--xp-wash:#282c31;--xp-bad:#ff8f85;--xp-warn:#f2b760;
 --xp-link:#7cbcf7}
.xp-frame{border:1px solid var(--jp-border-color2,#e0e0e0);background:var(--jp-layout-color1,#fff)}
.xp-frame>.widget-box,.xp-frame>*{margin:0}
.xp-frame .widget-tab>.widget-tab-contents{padding:0;border-width:1px 0 0}
.xp-frame .jp-OutputArea-output{padding:0}
</style>"""
"""Once in the workbench; panels carry the class `xp`."""


def block(body: str) -> str:
    """A panel's HTML."""
    return f'<div class="xp">{body}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 1, own: int = -1) -> str:
    """A table; the first `text` columns are words, the others numbers; `own` marks one. Cells are HTML."""
    align = ["" if i < text else ' class="n"' for i in range(len(head))]
    top = "".join(f"<th{a} scope=col>{escape(name)}</th>" for a, name in zip(align, head, strict=True))
    lines = [
        f"<tr{' class=own' if i == own else ''}>"
        + "".join(f"<td{a}>{cell}</td>" for a, cell in zip(align, row, strict=True))
        + "</tr>"
        for i, row in enumerate(rows)
    ]
    body = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table>{body}</table></div>'


def percent(fraction: float | None, *, sign: bool = True) -> str:
    """A fraction for people; a true minus.

    >>> percent(-0.0341)
    '−3.4 %'
    """
    if fraction is None:
        return ""
    text = f"{abs(fraction) * 100:.1f} %"
    lead = "−" if fraction < 0 and text != "0.0 %" else "+" if sign and text != "0.0 %" else ""
    return lead + text


def search_html(rows: Sequence[Mapping[str, Any]], status: str) -> str:
    """The leaderboard."""
    if len(rows) < 2:
        note = (
            status or "No search yet. Choose a searcher in the bar and press Search; the board stays yours."
        )
        return block(f'<h3>Leaderboard</h3><div class="sub">{escape(note)}</div>')
    own = next((i for i, row in enumerate(rows) if row["searcher"] == "yours"), -1)
    lines = [
        (
            f"<b>{escape(row['searcher'])}</b>",
            escape(row["label"]),
            format_seconds(row["step_time_s"]) if row["step_time_s"] is not None else "–",
            percent(row["change"]) if row["searcher"] != "yours" else "",
            format_bytes(row["peak_bytes"]) if row["peak_bytes"] is not None else "–",
            percent(row["gap"], sign=False) if row["gap"] is not None else "",
            escape("optimal" if row["optimal"] else row["bound"] or ""),
            "" if row["evaluations"] is None else f"{row['evaluations']}",
            "" if row["wall_s"] is None else format_seconds(row["wall_s"]),
        )
        for row in rows
    ]
    head = (
        "searcher",
        "best strategy",
        "step time",
        "vs yours",
        "memory",
        "gap to bound",
        "bound of",
        "costed",
        "wall",
    )
    return block(
        f'<h3>Leaderboard <span class="sub">{escape(status)}</span></h3>'
        + table(head, lines, text=2, own=own)
    )


def export_html(view: Mapping[str, Any], chosen: str) -> str:
    """Files of a target: preview of one, download of each, what it says differently."""
    if view.get("refusals"):
        items = "".join(f"<li>{escape(text)}</li>" for text in view["refusals"])
        return block(
            f'<div class="bad" role="alert"><b>{escape(view["target"])} cannot express this:</b>'
            f"<ul>{items}</ul></div>"
        )
    parts = []
    for item in view["files"]:
        data = b64encode(item["text"].encode()).decode()
        link = f"data:application/octet-stream;base64,{data}"
        parts.append(
            f'<a download="{escape(item["name"])}" href="{link}" data-download="{escape(item["name"])}">'
            f"Download {escape(item['name'])}</a>"
        )
    shown = next((item for item in view["files"] if item["name"] == chosen), None)
    body = f"<div>{' · '.join(parts)}</div>"
    if shown is not None:
        more = f'<div class="sub">{escape(shown["omitted"])}</div>' if shown["omitted"] else ""
        body += f'<pre data-file="{escape(shown["name"])}" tabindex="0">{escape(shown["shown"])}</pre>{more}'
    if view["notes"]:
        items = "".join(f"<li>{escape(text)}</li>" for text in view["notes"])
        body += f"<h3>Expressed, but not to the letter</h3><ul>{items}</ul>"
    return block(body)
