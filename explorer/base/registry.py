"""The folder is the registry: a decorated function in a new file of a package is found.

>>> from explorer.base.registry import Registry
>>> registry = Registry("schedule", "explorer.schedules")

A package makes one `Registry`; each of its files decorates one function with `registry.add(...)`;
`registry.names()` imports the package's files on first use. Nothing else has to be touched.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from explorer.base.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a plug-in."""

    name: str
    """As typed in `--option NAME=VALUE`."""
    default: Any
    """Value and type when not given."""
    help: str
    """One line."""
    choices: tuple[Any, ...] = ()
    """Allowed values; empty for any of the default's type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Generic[F]):
    """A registered function with what `explorer list` says of it."""

    name: str
    """Unique in its registry."""
    function: F
    """The function itself."""
    title: str
    """One line."""
    paper: str = ""
    """Paper or other origin."""
    options: tuple[Option, ...] = ()
    """Options it takes as keyword arguments."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else this registry's tests and users need to know, by key."""

    def read_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Given options over the defaults, text converted to each default's type.

        Raises:
            InputError: an unknown option or a value of the wrong type or choice.
        """
        known = {option.name: option for option in self.options}
        result = {option.name: option.default for option in self.options}
        for key, value in given.items():
            if key not in known:
                raise InputError(
                    f"{self.name} has no option {key!r}",
                    key=key,
                    found=value,
                    allowed=", ".join(known) or "no options",
                )
            result[key] = _convert(known[key], value)
        return result


def _convert(option: Option, value: Any) -> Any:
    kind = type(option.default)
    try:
        if kind is bool and isinstance(value, str):
            value = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
                value.lower()
            ]
        elif option.default is not None and not isinstance(value, kind):
            value = kind(value)
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"option {option.name} is {value!r}", key=option.name, found=value, allowed=kind.__name__
        ) from None
    if option.choices and value not in option.choices:
        allowed = ", ".join(map(str, option.choices))
        raise InputError(f"option {option.name} is {value!r}", key=option.name, found=value, allowed=allowed)
    return value


class Registry(Generic[F]):
    """Named functions found in the files of one package."""

    def __init__(self, noun: str, package: str) -> None:
        self.noun, self.package = noun, package
        self._entries: dict[str, Entry[F]] = {}
        self._loaded = False

    def add(
        self,
        name: str,
        *,
        title: str,
        paper: str = "",
        options: tuple[Option, ...] = (),
        **facts: Any,
    ) -> Callable[[F], F]:
        """Decorator that registers a function under `name`."""

        def register(function: F) -> F:
            self._entries[name] = Entry(
                name=name, function=function, title=title, paper=paper, options=options, facts=facts
            )
            return function

        return register

    def _load(self) -> None:
        if self._loaded:
            return
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{self.package}.{module.name}")
        self._loaded = True

    def names(self) -> list[str]:
        """All names, sorted."""
        self._load()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[Entry[F]]:
        return iter([self._entries[name] for name in self.names()])

    def get(self, name: str) -> Entry[F]:
        """The entry called `name`.

        Raises:
            InputError: there is none.
        """
        self._load()
        if name not in self._entries:
            raise InputError(
                f"unknown {self.noun} {name!r}", key=self.noun, found=name, allowed=", ".join(self.names())
            )
        return self._entries[name]
