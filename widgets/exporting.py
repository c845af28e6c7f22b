"""The Export tab: what a trainer would be given, file by file, with downloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipywidgets import HTML, Layout, VBox

from explorer.errors import ExplorerError, PlanError
from explorer.views import export_view

from .controls import Controls
from .panels import block, export_html
from .session import Point


class ExportPanel:
    """Shows the export of the present state; nothing is written anywhere, the page downloads."""

    def __init__(self, now: Callable[[], Point | None]) -> None:
        self._now = now
        self._target, self._file = "plan", ""
        self._drawn = False
        self.view: dict[str, Any] = {}
        self.controls = Controls()
        self.preview = HTML(layout=Layout(width="100%"))
        self.box = VBox([self.controls, self.preview], layout=Layout(width="100%"))
        self.preview.value = block(
            '<div class="sub">Press Export in the bar to see what a trainer would be given.</div>'
        )

    def outdate(self) -> None:
        """The state has changed: draw again, if something was drawn."""
        if self._drawn:
            self.draw()

    def set(self, key: str, value: Any) -> bool:
        """Take a field of this tab; whether it was one."""
        if key == "target":
            self._target, self._file = str(value), ""
        elif key == "file":
            self._file = str(value)
        else:
            return False
        self.draw()
        return True

    def draw(self) -> None:
        """Everything of this tab anew."""
        now = self._now()
        if now is None:
            return
        from explorer.export import EXPORTERS

        self._drawn = True
        self.view = _exported(now, self._target)
        names = [item["name"] for item in self.view["files"]]
        if names and self._file not in names:
            self._file = names[0]
        fields: list[dict[str, Any]] = [
            {"key": "target", "label": "Target", "kind": "select", "value": self._target,
             "options": [{"value": item.name, "label": f"{item.name}: {item.title}"} for item in EXPORTERS]},
        ]  # fmt: skip
        if names:
            options = [{"value": name, "label": name} for name in names]
            fields.append(
                {"key": "file", "label": "File", "kind": "select", "value": self._file, "options": options}
            )
        self.controls.view = {"fields": fields, "buttons": []}
        self.preview.value = export_html(self.view, self._file)


def _exported(now: Point, target: str) -> dict[str, Any]:
    """Preview of a target; what it cannot express is listed instead of files."""
    from explorer.export import notes, preview

    resolved = now.resolved()
    try:
        return export_view(target, preview(resolved, target), notes=notes(resolved, target))
    except PlanError as error:
        return export_view(target, {}, refusals=error.problems)
    except ExplorerError as error:
        return export_view(target, {}, refusals=[str(error)])
