"""The view of an export: targets, files with preview, and what each target can express."""

from __future__ import annotations

from typing import Any

import traitlets

from widgets.base import STATIC, Widget


class ExportView(Widget):
    """Target tabs, files, preview, copy and download. Intents: `action`."""

    _esm = STATIC / "export.js"
    _css = STATIC / "export.css"

    target = traitlets.Unicode("plan", help="Exporter whose files are shown.").tag(sync=True)
    file = traitlets.Unicode(help="File that is previewed; empty or unknown is the first.").tag(sync=True)

    @traitlets.validate("target")
    def _known(self, proposal: dict[str, Any]) -> object:
        from explorer.export import EXPORTERS

        if proposal["value"] not in EXPORTERS.names():
            allowed = ", ".join(EXPORTERS.names())
            raise traitlets.TraitError(f"unknown target {proposal['value']!r}: one of {allowed}")
        return proposal["value"]

    def summary(self) -> str:
        """Return the target and its files."""
        if not self.view:
            return "nothing yet"
        names = ", ".join(item["name"] for item in self.view["files"])
        return f"{self.view['target']}: {names or 'refused'}"
