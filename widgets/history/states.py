"""The list of states to which undo and redo can go, with files in and out."""

from __future__ import annotations

import traitlets

from explorer.explain.names import counted
from widgets.base import STATIC, Widget


class States(Widget):
    """One row a state, newest first. Intents: `go`, `compare`, `open_path`, `open_text`, `action`."""

    _esm = STATIC / "states.js"
    _css = STATIC / "states.css"

    download = traitlets.Dict(
        help="What the page is to save: {'name', 'type', 'number'}; a new number starts it; {} is nothing."
    ).tag(sync=True)
    data = traitlets.Bytes(b"", help="Its content.").tag(sync=True)

    def summary(self) -> str:
        """Return the number of states."""
        return counted(len(self.view.get("rows", [])), "state")

    def offer_download(self, name: str, kind: str, data: bytes) -> None:
        """Let the page save a file; `kind` is its media type."""
        number = int(self.download.get("number", 0)) + 1
        with self.hold_sync():
            self.data = data
            self.download = {"name": name, "type": kind, "number": number}
