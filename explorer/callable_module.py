"""Modules that can be called, where a public function shares its name with the module that holds it.

`import explorer.search` binds the package to `explorer.search`, which users call as a function; Python
lets a module change its class, so both spellings work.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A module that passes calls on to its function of the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


def make_callable(name: str) -> None:
    """Let the module called `name` be called."""
    sys.modules[name].__class__ = _Callable
