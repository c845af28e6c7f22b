"""Content of a tab that goes to the page when the tab is first opened.

The page loads the code of every widget that it is told of, in or out of sight; with all tabs at once the
board would wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ipywidgets import HTML, DOMWidget, Layout, VBox

WAIT = '<p style="margin:12px 16px;font-size:13px">This tab is being made.</p>'
"""What stands in a tab until its content is there."""


class TabBox(VBox):
    """A box that is filled when its tab is opened.

    Args:
        make: returns the widgets of the tab, from top to bottom. Those of ours that are made `late` open
            their way to the page then, with the state that they have.
    """

    def __init__(self, make: Callable[[], Sequence[DOMWidget]]) -> None:
        super().__init__([HTML(WAIT)], layout=Layout(width="100%"))
        self._make = make
        self.filled = False
        """Whether the tab was opened."""

    def fill(self) -> None:
        """Put the content there; do nothing if it is there already."""
        if not self.filled:
            self.filled = True
            self.children = tuple(self._make())
