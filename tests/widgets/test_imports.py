"""Files of the workbench import each other one way, also where only a type is wanted or a call does it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def named(tree: ast.AST, package: str) -> Iterator[str]:
    """Dotted names that a file of a package imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def module_of(name: str, modules: Mapping[str, object]) -> str | None:
    """The module that a dotted name is, or is in."""
    return next((found for found in (name, name.rpartition(".")[0]) if found in modules), None)


def test_no_circle() -> None:
    files = {module_name(path): path for path in sorted((ROOT / "widgets").rglob("*.py"))}
    files.pop("widgets")  # the names of all parts, each imported when it is first asked for
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = named(ast.parse(path.read_text(encoding="utf-8")), package)
        graph[name] = {own for item in found if (own := module_of(item, files)) and own != name}
    assert sum(map(len, graph.values())) > 100, "imports are seen"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from .session import Point", {"widgets.session.Point"}),
        ("from . import edits", {"widgets.edits"}),
        ("if TYPE_CHECKING:\n    from widgets.app import Explorer", {"widgets.app.Explorer"}),
        ("def f():\n    import widgets.app", {"widgets.app"}),
    ],
)
def test_the_check_itself(code: str, found: set[str]) -> None:
    assert set(named(ast.parse(code), "widgets")) == found
    assert set(named(ast.parse("from ..session import Point"), "widgets.run")) == {"widgets.session.Point"}


def test_the_workbench_opens_without_what_takes_a_second_to_import() -> None:
    code = (
        "import sys; from widgets import Explorer; Explorer('gpt2-small', 'dgx-a100');"
        " print(*{'torch', 'numba', 'transformers'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
