"""`explorer completion`: shell completion of commands, flags and names, by argcomplete."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("explorer", "strategy-explorer")

_NAMES: dict[str, tuple[str, str]] = {
    "schedule": ("explorer.schedules", "SCHEDULES"),
    "searcher": ("explorer.search", "SEARCHERS"),
    "to": ("explorer.export", "EXPORTERS"),
    "model": ("explorer.models", "SOURCES"),
}
"""Flags that take a registered name, by `dest`: the place of its registry."""


def add_commands(commands: Any) -> None:
    """Add `completion`."""
    parser = commands.add_parser(
        "completion", help='shell completion: eval "$(explorer completion bash)", or zsh, fish'
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run_completion)


def run_completion(options: argparse.Namespace) -> int:
    """Print the code that a shell runs to complete our commands."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(list(PROGRAMS), shell=options.shell))
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks for completions, and end; return at once in every other case.

    The shell asks through the environment variable `_ARGCOMPLETE`; nothing is imported without it.
    """
    import argcomplete

    _name_completers(parser)
    argcomplete.autocomplete(parser)


def _name_completers(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:  # argparse has no public way to walk a parser
        if isinstance(action, argparse._SubParsersAction):
            for command in set(action.choices.values()):
                _name_completers(command)
        elif action.dest == "cluster":
            action.completer = _clusters  # type: ignore[attr-defined]
        elif action.dest in _NAMES:
            action.completer = _registered(*_NAMES[action.dest])  # type: ignore[attr-defined]


def _clusters(**_: object) -> Iterable[str]:
    from explorer.cluster_profiles import cluster_names

    return cluster_names()


def _registered(module: str, registry: str) -> Callable[..., Iterable[str]]:
    def names(**_: object) -> Iterable[str]:
        from importlib import import_module

        found: Iterable[str] = getattr(import_module(module), registry).names()
        return found

    return names
