"""Text and tables of the tabs: HTML from plain rows, with everything from outside escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """<style>
.xp{font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--jp-ui-font-color1,#222);
 font-variant-numeric:tabular-nums lining-nums;padding:4px 16px 12px}
.xp :is(h2,h3){font-size:14px;line-height:20px;font-weight:600;margin:10px 0 8px;color:inherit}
.xp .wrap{white-space:normal}
.xp .sub{color:var(--xp-ink2);font-weight:400;font-size:12px}
.xp table{border-collapse:collapse;font-size:12px;width:100%}
.xp .narrow table{width:auto;min-width:min(100%,640px)}
.xp th{font-weight:400;text-align:left;color:var(--xp-ink2);padding:2px 8px 5px;vertical-align:bottom;
 border-bottom:1px solid var(--jp-border-color1,#bdbdbd)}
.xp td{padding:5px 8px;border-bottom:1px solid var(--jp-border-color2,#e0e0e0);white-space:nowrap}
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
.xp-absent{display:none!important}
.xp-frame{border:1px solid var(--jp-border-color2,#e0e0e0);background:var(--jp-layout-color1,#fff)}
.xp-frame>.widget-box,.xp-frame>*,.xp-frame .widget-html{margin:0}
.xp-frame .widget-tab>.widget-tab-contents{padding:0;border-width:1px 0 0}
.xp-frame .jp-OutputArea-output{padding:0}
.xp-frame .modebar-container{top:26px!important}
.xp-frame .modebar-btn--logo{display:none!important}
.xp-frame .jupyter-widgets-disconnected::before{content:none!important}
</style>"""
"""Style sheet, once in the workbench; panels carry the class `xp`."""


def block(body: str) -> str:
    """Wrap a panel's HTML."""
    return f'<div class="xp">{body}</div>'


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 1, own: int = -1, narrow: bool = False
) -> str:
    """Make a table; the first `text` columns are words, the others numbers; `own` marks one row. Cells are
    HTML.

    A narrow one is as wide as its text needs, not as the page is.
    """
    align = ["" if i < text else ' class="n"' for i in range(len(head))]
    top = "".join(f"<th{a} scope=col>{escape(name)}</th>" for a, name in zip(align, head, strict=True))
    lines = [
        f"<tr{' class=own' if i == own else ''}>"
        + "".join(f"<td{a}>{cell}</td>" for a, cell in zip(align, row, strict=True))
        + "</tr>"
        for i, row in enumerate(rows)
    ]
    body = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll{" narrow" if narrow else ""}"><table>{body}</table></div>'


def percent(fraction: float | None, *, sign: bool = True) -> str:
    """Write a fraction in per cent for people, with a true minus.

    >>> percent(-0.0341)
    '−3.4 %'
    """
    if fraction is None:
        return ""
    text = f"{abs(fraction) * 100:.1f} %"
    lead = "−" if fraction < 0 and text != "0.0 %" else "+" if sign and text != "0.0 %" else ""
    return lead + text
