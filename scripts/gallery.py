"""One offline page with the reports of several plans: `python scripts/gallery.py [FILE [PLAN...]]`.

Each report is the page that *Make report* writes, whole, in a frame; one is shown at a time. Without PLAN
(plan files or texts of `explorer share`) it shows a few bundled models on bundled clusters. The page has
some 0.2 MiB a plan and is written to build/gallery.html, which is not committed.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from widgets import Explorer  # noqa: E402
from widgets.report.document import report_html  # noqa: E402

SHOWN: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("llama3-8b", "dgx-a100", {"global_batch": 64, "sequence_length": 4096}),
    ("gpt3-175b", "dgx-a100-128", {}),
    ("llama3-405b", "hgx-h100-2048", {}),
    ("mixtral-8x7b", "hgx-h100", {}),
    ("resnet50", "dgx-1-v100", {}),
)
"""Model, cluster and fields of the workload of each page."""

STYLE = """
body { margin: 0; font: 14px/1.4 system-ui, sans-serif; color: #1c2733; background: #fff; }
header { display: flex; flex-wrap: wrap; gap: 6px 12px; align-items: baseline; padding: 10px 16px; }
h1 { font-size: 16px; margin: 0 8px 0 0; }
button { font: inherit; padding: 4px 10px; border: 1px solid #bdbdbd; border-radius: 4px; background: #fff; }
button[aria-pressed=true] { background: #e8f1fb; border-color: #1976d2; color: #1565c0; font-weight: 600; }
iframe { display: block; width: 100%; height: calc(100vh - 60px); border: 0; border-top: 1px solid #e0e0e0; }
"""
SCRIPT = """
const unpack = async (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
};
const pages = JSON.parse(document.querySelector('#pages').textContent);
const frame = document.querySelector('iframe');
const buttons = [...document.querySelectorAll('button')];
const show = async (i) => {
  buttons.forEach((button, j) => button.setAttribute('aria-pressed', String(i === j)));
  frame.title = buttons[i].textContent;
  frame.srcdoc = await unpack(pages[i]);
};
buttons.forEach((button, i) => button.addEventListener('click', () => show(i)));
show(0);
"""


def gallery(reports: list[tuple[str, str]]) -> str:
    """Make the page of (title, report) pairs."""
    packed = [base64.b64encode(gzip.compress(page.encode(), mtime=0)).decode() for _, page in reports]
    buttons = "".join(f"<button aria-pressed=false>{escape(title)}</button>" for title, _ in reports)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Plans</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body><header><h1>Plans</h1>{buttons}'
        '</header><iframe title="" sandbox="allow-scripts allow-downloads"></iframe>'
        f'<script type="application/json" id="pages">{json.dumps(packed)}</script>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def reports(plans: list[str]) -> list[tuple[str, str]]:
    """Make the reports of plans, or of what is bundled if there are none."""
    made = []
    benches = (
        (Explorer(plan=plan, session=None) for plan in plans)
        if plans
        else (Explorer(model, cluster, session=None, **work) for model, cluster, work in SHOWN)
    )
    for bench in benches:
        if bench.error:
            raise SystemExit(bench.error)
        made.append((f"{bench.model} on {bench.cluster}", report_html(bench)))
        bench.close()
    return made


def main(file: Path, plans: list[str]) -> None:
    """Write the page and say how large it is."""
    text = gallery(reports(plans))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    print(f"{file}: {len(text.encode()) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "gallery.html", sys.argv[2:])
