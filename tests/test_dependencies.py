"""What the product imports is what installing it brings along."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN = {"explorer", "widgets"}
MODULE_OF = {"ipython": "IPython", "pyyaml": "yaml"}
"""Modules whose distributions are called otherwise."""
EXTRAS = {
    "transformers": ("hf", {"explorer/models/_hf_child.py", "explorer/models/_pretrained.py"}),
}
"""What only an extra brings: the extra, and the files that may import it."""


def modules_of(requirements: list[str]) -> set[str]:
    """Top-level modules that requirements such as `pyyaml>=6.0` bring."""
    names = {re.split(r"[\s\[<>=!~;]", text, maxsplit=1)[0].lower() for text in requirements}
    return {MODULE_OF.get(name, name.replace("-", "_")) for name in names}


def foreign(tree: ast.AST) -> set[str]:
    """Top-level modules, neither of ours nor of Python, that a file imports anywhere in it."""
    return set(_names(tree)) - OWN - set(sys.stdlib_module_names)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


FILES = {
    str(path.relative_to(ROOT)): foreign(ast.parse(path.read_text(encoding="utf-8")))
    for package in sorted(OWN)
    for path in sorted((ROOT / package).rglob("*.py"))
    if "node_modules" not in path.parts
}


def test_every_import_is_a_declared_dependency() -> None:
    declared = modules_of(PROJECT["dependencies"])
    missing = {
        file: sorted(wrong)
        for file, found in FILES.items()
        if (wrong := {name for name in found - declared if file not in EXTRAS.get(name, ("", set()))[1]})
    }
    assert not missing


def test_extras_bring_what_they_are_for() -> None:
    for module, (extra, files) in EXTRAS.items():
        assert module in modules_of(PROJECT["optional-dependencies"][extra])
        assert {file for file, found in FILES.items() if module in found} == files


def test_every_dependency_has_a_use() -> None:
    """JupyterLab and its kernel are what the widgets run in: nothing imports them."""
    used = set().union(*FILES.values())
    assert modules_of(PROJECT["dependencies"]) - used == {"ipykernel", "jupyterlab"}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import scipy.optimize", {"scipy"}),
        ("def f():\n    from a.b import c", {"a"}),
        ("import os\nfrom explorer.base.errors import InputError\nfrom . import x", set()),
    ],
)
def test_the_check_sees(code: str, found: set[str]) -> None:
    assert foreign(ast.parse(code)) == found
