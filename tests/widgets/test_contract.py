"""Front ends that are not tested by themselves: every module keeps to what anywidget promises of a model.

anywidget's front-end module (https://anywidget.dev/en/afm/) is a default export with `render` and perhaps
`initialize`; its model has `get`, `set`, `save_changes`, `on`, `off` and `send`; nothing else is promised.
VS Code, Colab and marimo give no more than that, and marimo draws within a shadow root.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from harness import STATIC, WidgetPage, as_text, state_of

from widgets import Board, Explorer
from widgets.base import Widget

PROMISED = {"get", "set", "save_changes", "on", "off", "send"}
ASKED_FOR = {"widget_manager"}
"""What is used where a host has it (JupyterLab, Notebook, Voila), and done without elsewhere."""
EVENTS = ("change:", "change", "msg:custom")
OF_JUPYTER = {"comm_live_update"}
"""An event that only Jupyter's widget manager sends; waiting for it elsewhere does no harm."""

SHOW = """async ([source, text, shadow]) => {
  const { FakeModel } = await import('/harness.js');
  const base = new FakeModel(JSON.parse(text));
  const [asked, events] = [new Set(), new Set()];
  const model = new Proxy({}, {
    get(_, name) {
      asked.add(String(name));
      if (!['get', 'set', 'save_changes', 'on', 'off', 'send'].includes(name)) return undefined;
      return (...given) => {
        if (name === 'on') events.add(given[0]);
        return base[name](...given);
      };
    },
    set(_, name) { throw new Error(`the model's ${String(name)} is written to`); },
  });
  const module = await import(source);
  const host = document.createElement('div');
  document.querySelector('#cell').append(host);
  const el = document.createElement('div');
  (shadow ? host.attachShadow({ mode: 'open' }) : host).append(el);
  const close = await module.default.render({ model, el });
  await window.frames2();
  const drawn = el.querySelectorAll('*').length;
  base.receive(JSON.parse(text));
  await window.frames2();
  const result = { exports: Object.keys(module), parts: Object.keys(module.default), asked: [...asked],
    events: [...events], drawn, closes: typeof close, again: el.querySelectorAll('*').length };
  close?.();
  return { ...result, left: el.childElementCount };
}"""


def _source(widget: Widget) -> str:
    """Name of the bundle that a widget runs."""
    return next(file.name for file in STATIC.glob("*.js") if file.read_text("utf-8") == str(widget._esm))


@pytest.fixture(scope="module")
def states() -> Iterator[dict[str, dict[str, Any]]]:
    """State of one widget for each bundle of a workbench with all its tabs opened."""
    bench = Explorer("gpt2-small", "dgx-a100", session=None)
    for panel in bench.panels:
        bench.open_tab(panel.title)
    drawn = [*bench.parts.drawn, *(widget for panel in bench.panels for widget in panel.widgets())]
    yield {_source(widget): state_of(widget) for widget in reversed(drawn)}
    bench.close()


BUNDLES = sorted(file.name for file in STATIC.glob("*.js") if file.stem != "report")


def test_every_bundle_is_tried(states: dict[str, dict[str, Any]]) -> None:
    assert sorted(states) == BUNDLES


@pytest.mark.browser
@pytest.mark.parametrize("shadow", [False, True], ids=["page", "shadow root"])
@pytest.mark.parametrize("source", BUNDLES)
def test_it_needs_only_what_is_promised(
    source: str, shadow: bool, states: dict[str, dict[str, Any]], shared_page: WidgetPage
) -> None:
    shared_page.reset()
    found = shared_page.page.evaluate(SHOW, [f"/{source}", as_text(states[source]), shadow])
    assert found["exports"] == ["default"]
    assert set(found["parts"]) <= {"initialize", "render"}
    assert set(found["asked"]) <= PROMISED | ASKED_FOR
    assert [name for name in found["events"] if not name.startswith(EVENTS) and name not in OF_JUPYTER] == []
    assert found["drawn"] > 3, "it drew something"
    assert found["again"] > 3
    assert (found["closes"], found["left"]) == ("function", 0), "it cleans up after itself"
    assert not shared_page.errors, shared_page.errors
    assert not shared_page.foreign, shared_page.foreign


def test_colab_is_asked_to_show_widgets_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colab's own package is only there; what anywidget asks of it is seen by a stand-in."""
    asked: list[str] = []
    output = ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: asked.append("enabled")  # type: ignore[attr-defined]
    colab, google = ModuleType("google.colab"), ModuleType("google")
    colab.output, google.colab = output, colab  # type: ignore[attr-defined]
    for name, module in (("google", google), ("google.colab", colab), ("google.colab.output", output)):
        monkeypatch.setitem(sys.modules, name, module)
    from anywidget import _util

    _util.enable_custom_widget_manager_once.cache_clear()
    Board().close()
    _util.enable_custom_widget_manager_once.cache_clear()
    assert asked == ["enabled"]


def test_vs_code_finds_the_module_that_its_manager_asks_for() -> None:
    """VS Code's manager loads `anywidget` as an AMD module from the kernel's environment."""
    import anywidget

    share = Path(sys.prefix) / "share" / "jupyter" / "nbextensions" / "anywidget" / "index.js"
    if not share.is_file():
        pytest.skip("anywidget was installed without its files for Jupyter's front ends")
    text = share.read_text("utf-8")
    assert "define(" in text, "an AMD module"
    assert anywidget.__version__ in text
    board = Board()
    assert (board._model_module, board._view_module) == ("anywidget", "anywidget")
    board.close()
