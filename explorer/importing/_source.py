"""Source: a config to be imported, as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.base.errors import InputError
from explorer.base.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """Input of a reader."""

    name: str
    """File name, for messages."""
    text: str
    """Content of the file."""
    folder: Path
    """Folder of the files that it names."""
    part: str = ""
    """Name of the config, if the file has several; empty for the only one."""
    model: str | None = None
    """Model that the user names; None for the one in the config."""
    cluster: str | None = None
    """Cluster that the user names; None for the one in the config."""
    trusted: Trust = False
    """Code that the file may name: none, or see `explorer.base.trust`."""

    @property
    def title(self) -> str:
        """Name of the file alone, for notes whose parts are divided by semicolons."""
        return Path(self.name).name.replace(";", ",")

    @property
    def trust(self) -> Trust:
        """Code that may be run: what the file may name, and the model that the user names."""
        if isinstance(self.trusted, bool):
            return self.trusted or ((self.model,) if self.model else ())
        return (*self.trusted, *((self.model,) if self.model else ()))

    def needed(self, key: str, said: str | None = None) -> str:
        """Return the `model` or `cluster`: the one that the user names, else the one in the config.

        Raises:
            InputError: neither names one.
        """
        found: str | None = getattr(self, key) or said
        if not found:
            raise InputError(
                f"the config does not say which {key}",
                key=f"--{key}",
                allowed=f"a name from `explorer list {key}s`, or a file",
            )
        return found
