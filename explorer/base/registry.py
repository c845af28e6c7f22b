"""The folder is the registry: a decorated function in a new file of a package is found.

>>> from explorer.base.registry import Registry, Spec
>>> registry: Registry[Spec] = Registry("schedule", "explorer.schedules")

A package makes one `Registry` of a typed spec, a frozen dataclass that extends `Spec` with what its users
and tests need to know. Each file of the package decorates one function with `registry.add(MySpec(...))`, or
with `registry.add("name", field=..., ...)` if the registry knows the class of its specs;
`registry.names()` imports the package's files on first use. No other file has to be touched.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, overload

from explorer.base.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound="Spec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a plug-in."""

    name: str
    """Name, as typed in `--option NAME=VALUE`."""
    default: Any
    """Value if none is given; its type is the option's type."""
    help: str
    """Explanation in one line."""
    choices: tuple[Any, ...] = ()
    """Allowed values; () if any of the default's type is allowed."""
    minimum: float | None = None
    """Least value of a number; None if there is none."""

    def read(self, value: Any) -> Any:
        """Convert a given value to the type of the default.

        Raises:
            InputError: it has another type, is outside the choices or below the minimum.
        """
        kind = type(self.default)
        try:
            if kind is bool and isinstance(value, str):
                value = _BOOLEANS[value.lower()]
            elif self.default is not None and not isinstance(value, kind):
                value = kind(value)
        except (KeyError, TypeError, ValueError):
            raise self._refused(value, kind.__name__) from None
        if self.choices and value not in self.choices:
            raise self._refused(value, ", ".join(map(str, self.choices)))
        if self.minimum is not None and not value >= self.minimum:
            raise self._refused(value, f"{self.minimum:g} or more")
        return value

    def _refused(self, value: Any, allowed: str) -> InputError:
        return InputError(f"option {self.name} is {value!r}", key=self.name, found=value, allowed=allowed)


_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def unregistered(*_: Any, **__: Any) -> Any:
    """Stand in for the function of a spec that no registry holds."""
    raise TypeError("a spec is called through its registry, which knows its function")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Description that every plug-in gives of itself; a package's own spec adds its fields."""

    name: str
    """Name, unique in its registry."""
    title: str
    """Description in one line."""
    paper: str = ""
    """Paper or other origin."""
    options: tuple[Option, ...] = ()
    """Options that the function takes as keyword arguments."""
    function: Callable[..., Any] = unregistered
    """The decorated function, which the registry fills in."""

    def read_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the defaults updated with the given options, text converted to each default's type.

        Raises:
            InputError: an option is unknown, or its value has the wrong type, choice or range.
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
            result[key] = known[key].read(value)
        return result


class Registry(Generic[S]):
    """Named functions, each with its spec, found in the files of one package.

    Args:
        noun: the word for an entry in errors.
        package: the package that holds its files.
        kind: class of its specs, for files that give a name and the fields instead of making a spec.
        also: further packages that hold files of it.
    """

    def __init__(
        self, noun: str, package: str, kind: type[S] | None = None, *, also: tuple[str, ...] = ()
    ) -> None:
        self.noun, self.package, self.kind, self.also = noun, package, kind, also
        self._entries: dict[str, S] = {}
        self._loaded = False

    @overload
    def add(self, spec: S, /) -> Callable[[F], F]: ...

    @overload
    def add(self, spec: str, /, **fields: Any) -> Callable[[F], F]: ...

    def add(self, spec: S | str, /, **fields: Any) -> Callable[[F], F]:
        """Return a decorator that registers a function under a spec, or under a name and a spec's fields."""

        def register(function: F) -> F:
            made = self._made(spec, fields) if isinstance(spec, str) else spec
            self._entries[made.name] = replace(made, function=function)
            return function

        return register

    def _made(self, name: str, fields: Mapping[str, Any]) -> S:
        if self.kind is None:
            raise TypeError(f"a {self.noun} is registered under its spec, not under {name!r}")
        return self.kind(name=name, **fields)

    def _load(self) -> None:
        if self._loaded:
            return
        for package in (self.package, *self.also):
            for file in _files(package):
                importlib.import_module(f"{package}.{file}")
        self._loaded = True

    def files(self) -> list[str]:
        """Return the names of the files that register something, sorted, without importing them."""
        return [name for package in (self.package, *self.also) for name in _files(package)]

    def names(self) -> list[str]:
        """Return all names, sorted."""
        self._load()
        return sorted(self._entries)

    def __iter__(self) -> Iterator[S]:
        return iter([self._entries[name] for name in self.names()])

    def get(self, name: str) -> S:
        """Return the spec called `name`.

        Raises:
            InputError: there is none.
        """
        self._load()
        if name not in self._entries:
            raise InputError(
                f"unknown {self.noun} {name!r}", key=self.noun, found=name, allowed=", ".join(self.names())
            )
        return self._entries[name]


def _files(package: str) -> list[str]:
    """Return the names of a package's files that register something, sorted."""
    found = (module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__))
    return sorted(name for name in found if not name.startswith("_"))
