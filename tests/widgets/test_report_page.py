"""The report: one file, opened from disk with no network, drawn, readable, and harmless whatever it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import explorer as core
from explorer.base.errors import InputError
from explorer.cli import main as command
from explorer.cluster_profiles import save_cluster
from explorer.models import saved
from explorer.plan import fingerprint
from widgets import Explorer
from widgets.report import document
from widgets.report import page as reportpage
from widgets.report.document import page_html, report_html

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


class Parsed(HTMLParser):
    """Tags with their attributes, and text outside scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def bench() -> Iterator[Explorer]:
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32, session=None)
    found.compare_with(found.now())
    layers = found.now().inputs.graph.blocks[found.board.blocks[4]["id"]]
    found.board.send_intent("move", layers=list(layers), to_lane="3")
    yield found
    found.close()


@pytest.fixture(scope="module")
def report(bench: Explorer) -> str:
    return report_html(bench)


def test_it_says_everything_in_words(report: str, bench: Explorer) -> None:
    text = " ".join(Parsed(report).text.split())
    for part in (
        "gpt2-small on dgx-a100", "4 stages × 2 replicas", "Fits.", "global batch 32", "Against plan B",
        "Memory by part", "Where the numbers come from", "datasheet", "schema: explorer.plan/1",
        f"fingerprint {fingerprint(bench.now().inputs.cluster)}", core.__version__, "UTC",
    ):  # fmt: skip
        assert part in text, part
    assert len(report) < 3_000_000


def test_it_keeps_both_plans(report: str, bench: Explorer) -> None:
    texts = re.findall(r'<pre class="r-text" tabindex="0">(.*?)</pre>', report)
    assert [core.load_plan(text).plan.strategy for text in texts] == [bench.strategy, bench.other]
    files = [dict(attrs) for tag, attrs in Parsed(report).tags if tag == "a" and "download" in dict(attrs)]
    assert [a["download"] for a in files] == ["plan-a.yaml", "plan-b.yaml"]


def test_it_asks_for_nothing(report: str) -> None:
    tags = Parsed(report).tags
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    for tag, attributes in tags:
        assert tag not in ("iframe", "object", "embed", "base", "form")
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href", "srcset", "action"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#")), (tag, attributes)
    assert not re.search(
        r"@import|url\(['\"]?(?!data:)\w", re.sub(r"<script.*?</script>", "", report, flags=re.DOTALL)
    )


def test_the_data_are_the_views_without_editing(report: str, bench: Explorer) -> None:
    data = json.loads(re.search(r'id="report-data"[^>]*>(.*?)</script>', report, re.DOTALL)[1])
    states = {part["name"]: part["state"] for part in data["parts"]}
    assert set(states) == {"tiles", "board", "timeline", "graph", "memory", "traffic"}
    assert states["board"]["view"]["editable"] is False
    assert states["graph"]["edits"] is False
    assert states["graph"]["card"] == {}
    assert states["board"]["blocks"] == json.loads(json.dumps(bench.board.blocks))
    assert states["tiles"]["view"]["tiles"] == json.loads(json.dumps(bench.tiles.view["tiles"]))
    assert not any("actions" in (state["view"].get("verdict") or {}) for state in states.values())


def test_long_data_are_packed(monkeypatch: pytest.MonkeyPatch, bench: Explorer, report: str) -> None:
    monkeypatch.setattr(document, "PACK_FROM", 10)
    packed = report_html(bench)
    assert 'data-packed="gzip"' in packed
    assert len(packed) < len(report)


def test_a_plan_gives_the_same_report_twice(tmp_path: Path, bench: Explorer) -> None:
    core.save_plan(bench.plan, bench.resolved().graphs, tmp_path / "plan.yaml")
    texts = []
    for name in ("a.html", "b.html"):
        size = reportpage.report_of_plan(tmp_path / "plan.yaml", tmp_path / name)
        text = (tmp_path / name).read_text("utf-8")
        assert size == len(text.encode())
        texts.append(re.sub(r"<time.*?</time>", "", text))
    assert texts[0] == texts[1]


def test_what_is_wrong_is_said(tmp_path: Path, bench: Explorer, capsys: pytest.CaptureFixture[str]) -> None:
    assert reportpage.main(["one"]) == 2
    assert reportpage.main([str(tmp_path / "no.yaml"), str(tmp_path / "o.html")]) == 2
    assert "no.yaml" in capsys.readouterr().err
    with pytest.raises(InputError, match="cannot write"):
        bench.save_report(tmp_path / "nowhere" / "o.html")
    empty = Explorer("gpt2-smal", session=None)
    with pytest.raises(InputError, match="nothing is loaded"):
        empty.save_report(tmp_path / "o.html")
    assert list(tmp_path.iterdir()) == []


def test_the_command(tmp_path: Path, bench: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    core.save_plan(bench.plan, bench.resolved().graphs, tmp_path / "plan.yaml")
    arguments = ["report", str(tmp_path / "plan.yaml"), "-o", str(tmp_path / "o.html")]
    monkeypatch.setattr("explorer.cli.reporting.entry_points", lambda **_: [])
    assert command(arguments) == 2

    class Gone:
        def load(self) -> Callable[[Path, Path], int]:
            raise ModuleNotFoundError("an older installation named it")

    monkeypatch.setattr("explorer.cli.reporting.entry_points", lambda **_: [Gone()])
    assert command(arguments) == 2

    class Entry:
        def load(self) -> Callable[[Path, Path], int]:
            return reportpage.report_of_plan

    monkeypatch.setattr("explorer.cli.reporting.entry_points", lambda **_: [Entry()])
    assert command(arguments) == 0
    assert (tmp_path / "o.html").stat().st_size > 100_000


# -- opened -------------------------------------------------------------------------------------------


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Open a report from disk, offline; afterwards nothing may have been asked for or gone wrong."""
    wrong: list[str] = []
    contexts = []

    def one(text: str, **options: Any) -> Any:
        (tmp_path / "report.html").write_text(text, encoding="utf-8")
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(r.url))
        page.goto((tmp_path / "report.html").as_uri())
        page.wait_for_selector("body[data-ready]")
        page.evaluate("() => new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(d)))")
        return page

    one.wrong = wrong
    yield one
    for context in contexts:
        context.close()
    assert not wrong, wrong


def drawn(page: Any, selector: str) -> int:
    """Different colours of a canvas."""
    return int(
        page.evaluate(
            """(selector) => {
              const canvas = document.querySelector(selector);
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              const seen = new Set();
              for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add(data.slice(i, i + 3).join());
              return seen.size;
            }""",
            selector,
        )
    )


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (1000, "dark"), (390, "light")])
def test_it_opens_offline(opened: Callable[..., Any], report: str, width: int, scheme: str) -> None:
    page = opened(report, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    assert page.locator("[data-part=board] [data-lane]").count() == 4
    assert page.locator("[data-part=tiles] [data-kpi]").count() >= 5
    assert page.locator("[data-part=graph] .sx-graph").count() == 1
    assert drawn(page, "[data-part=timeline] canvas") > 3
    assert drawn(page, "[data-part=memory] canvas") > 3
    assert (page.get_attribute("body", "data-jp-theme-light") == "false") == (scheme == "dark")
    assert page.get_by_role("heading", level=1).inner_text() == "gpt2-small on dgx-a100"
    assert page.is_hidden("#report-failed")


def test_nothing_can_be_edited_but_much_be_looked_at(opened: Callable[..., Any], report: str) -> None:
    page = opened(report, viewport={"width": 1400, "height": 900})
    before = page.inner_text("[data-part=tiles]")
    chip = page.locator("[data-part=board] [data-block]").nth(2)
    chip.click()
    page.keyboard.press("Alt+ArrowDown")
    page.keyboard.press("]")
    assert page.inner_text("[data-part=tiles]") == before
    assert page.locator("[data-part=board] [data-action=move-to]:visible").count() == 0
    page.locator("[data-part=timeline] [data-action=table]").first.click()
    assert page.locator("[data-part=timeline] table").count() >= 1
    page.get_by_text("Memory by part").click()
    assert page.get_by_role("columnheader", name="optimizer").is_visible()


def test_packed_data_are_drawn(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, bench: Explorer
) -> None:
    monkeypatch.setattr(document, "PACK_FROM", 10)
    page = opened(report_html(bench))
    assert page.locator("[data-part=board] [data-lane]").count() == 4


def test_evil_names_do_no_harm(opened: Callable[..., Any], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    graph = core.load_model("gpt2-small")
    first = graph.layers[0]
    renamed = replace(graph, name=EVIL, layers=(replace(first, name=EVIL, block=EVIL), *graph.layers[1:]))
    saved.save(renamed, "evil.json")
    cluster = core.load_cluster("dgx-a100")
    evil = replace(cluster, sources=tuple(replace(s, reference=EVIL) for s in cluster.sources), name=EVIL)
    save_cluster(evil, "evil.yaml")
    bench = Explorer("evil.json", "evil.yaml", session=None)
    assert not bench.error
    bench.compare_with(replace(bench.now(), note=EVIL))
    text = report_html(bench)
    bench.close()
    assert "<script>document" not in text
    page = opened(text)
    assert "owned" not in page.title()
    assert page.locator("img").count() == 0
    assert EVIL in page.inner_text("body")


def test_a_foreign_script_would_not_run(opened: Any) -> None:
    text = page_html("t", "<p>hello</p>", {"parts": []})
    page = opened(text)
    assert page.inner_text("main") == "hello"
    result = page.evaluate(
        """() => new Promise((done) => {
          document.addEventListener("securitypolicyviolation", () => done("refused"), { once: true });
          const script = document.createElement("script");
          script.textContent = "document.title = 'owned'";
          document.body.append(script);
          setTimeout(() => done("nothing"), 300);
        })"""
    )
    assert result == "refused"
    assert page.title() != "owned"
    assert "Content Security Policy" in opened.wrong.pop()
