"""Source: a config to be imported, as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.base.errors import InputError
from explorer.base.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """What a reader is given."""

    name: str
    """File name, for messages."""
    text: str
    """Its content."""
    folder: Path
    """Where files that it names lie."""
    part: str = ""
    """Which of several configs of the file is meant; empty for the only one."""
    model: str | None = None
    """Model that the user names; None for what the config says."""
    cluster: str | None = None
    """Cluster that the user names; None for what the config says."""
    trusted: Trust = False
    """What code the file may name: none, or see `explorer.base.trust`."""

    @property
    def trust(self) -> Trust:
        """What code may be run: what the file may name, and the model that the user names."""
        if isinstance(self.trusted, bool):
            return self.trusted or ((self.model,) if self.model else ())
        return (*self.trusted, *((self.model,) if self.model else ()))

    def needed(self, key: str, said: str | None = None) -> str:
        """The `model` or `cluster`: what the user names, else what the config says.

        Raises:
            InputError: neither does.
        """
        found: str | None = getattr(self, key) or said
        if not found:
            raise InputError(
                f"the config does not say which {key}",
                key=f"--{key}",
                allowed=f"a name from `explorer list {key}s`, or a file",
            )
        return found
