"""Dependencies point one way, and `explorer/` stays headless and light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A part may import parts of its own line and of the lines above. "explorer" is the list of public names.
ORDER = (
    "base",
    "actions routing",
    "graph cluster framework workload matrix_products",
    "framework_files",
    "models transforms cluster_profiles",
    "reads updates",
    "plan_text",
    "strategy plan plan_shorthand",
    "sharding costs schedules",
    "tasks",
    "passes",
    "pricing strategies",
    "tables",
    "simulation",
    "explain sweep search planners calibrate run profiling importing export views",
    "score library",
    "explorer",
    "cli __main__",
)
LEVEL = {part: level for level, parts in enumerate(ORDER) for part in parts.split()}

USER_INTERFACE = {
    "IPython", "anywidget", "ipykernel", "ipywidgets", "jupyter_client", "jupyter_core", "jupyter_server",
    "jupyterlab", "matplotlib", "nbclient", "nbformat", "notebook", "plotly", "traitlets", "widgets",
}  # fmt: skip
SCHEDULES_KNOW = {"base", "actions", "reads", "schedules"}
TORCH_AT_IMPORT = {"models", "run"}  # the parts whose files may import torch before they are called


def imports(tree: ast.AST, *, at_import: bool = False) -> Iterator[str]:
    """Dotted names that a module imports; with `at_import` only those imported when it is."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            yield from imports(node, at_import=at_import)


def part_of(name: str, parts: set[str]) -> str | None:
    """The part of explorer that a dotted name belongs to; None for a foreign one."""
    package, _, rest = name.partition(".")
    if package != "explorer":
        return None
    first = rest.partition(".")[0]
    return first if first in parts else "explorer"


def wrong_way(part: str, tree: ast.AST, parts: set[str]) -> list[str]:
    """What a file of a part imports although it stands below it."""
    used = {part_of(name, parts) for name in imports(tree)} - {None}
    return sorted(other for other in used if LEVEL.get(other, 0) > LEVEL.get(part, 0))


def explorer_parts() -> dict[str, list[Path]]:
    """The files of each part of explorer."""
    folder = ROOT / "explorer"
    result: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.py")):
        first = path.relative_to(folder).parts[0].removesuffix(".py")
        result.setdefault("explorer" if first == "__init__" else first, []).append(path)
    return result


PARTS = explorer_parts()
FILES = [pytest.param(part, path, id=str(path.relative_to(ROOT))) for part in PARTS for path in PARTS[part]]


def test_every_part_has_its_place() -> None:
    unknown = set(PARTS) - set(LEVEL)
    assert not unknown, f"say in ORDER in {Path(__file__).name} where {sorted(unknown)} stand"


@pytest.mark.parametrize(("part", "path"), FILES)
def test_imports_of_file(part: str, path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    above = wrong_way(part, tree, set(PARTS))
    assert not above, f"{part} stands below {', '.join(above)}"
    foreign = {name.partition(".")[0] for name in imports(tree)}
    assert not foreign & USER_INTERFACE, "explorer/ has no user interface"
    if part == "schedules":
        known = {part_of(name, set(PARTS)) for name in imports(tree)} - {None}
        assert known <= SCHEDULES_KNOW, "a schedule knows shapes, actions and read rules, nothing else"
    if part not in TORCH_AT_IMPORT:
        early = {name.partition(".")[0] for name in imports(tree, at_import=True)}
        assert not early & {"torch", "transformers"}, "import torch where it is needed"
    late = {"base"} if path.name == "compiling.py" else set()
    assert part in late or "numba" not in foreign, "explorer/base/compiling.py alone compiles"


def test_no_part_depends_on_itself() -> None:
    graph = {
        part: {
            part_of(name, set(PARTS))
            for path in paths
            for name in imports(ast.parse(path.read_text("utf-8")))
        }
        - {None, part}
        for part, paths in PARTS.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def modules(package: str) -> dict[str, Path]:
    """Dotted name of each file of a package."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def file_imports(package: str) -> dict[str, set[str]]:
    """Which files of a package each of them imports, when it is imported or later, for types too."""
    files = modules(package)

    def owner(name: str) -> str:
        return name if name in files else name.rpartition(".")[0]

    return {
        name: ({owner(item) for item in imports(ast.parse(path.read_text("utf-8")))} & set(files)) - {name}
        for name, path in files.items()
    }


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Files that import each other in a circle; [] where none do."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_file_imports_itself_through_others() -> None:
    assert circle(file_imports("explorer")) == []


def test_a_circle_is_found_where_there_is_one() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_import_is_light() -> None:
    code = "import explorer, sys; print(*sys.modules)"
    command = [sys.executable, "-W", "error", "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    assert "explorer" in loaded
    assert not {"numba", "torch", "transformers", "scipy", *USER_INTERFACE} & set(loaded)


@pytest.mark.parametrize(
    ("part", "code", "found"),
    [
        ("graph", "from explorer.base.errors import InputError", []),
        ("graph", "from explorer import simulation", ["simulation"]),
        ("costs", "def f():\n    import explorer.tasks.lower", ["tasks"]),
        ("tasks", "from explorer import Plan", ["explorer"]),
        ("cli", "import explorer\nfrom explorer.search import search", []),
    ],
)
def test_the_check_itself(part: str, code: str, found: list[str]) -> None:
    assert wrong_way(part, ast.parse(code), set(LEVEL)) == found


def test_the_check_sees_late_imports() -> None:
    tree = ast.parse("import torch.nn\nif x:\n    from plotly import io\ndef f():\n    import yaml")
    assert set(imports(tree)) == {"torch.nn", "plotly.io", "yaml"}
    assert set(imports(tree, at_import=True)) == {"torch.nn", "plotly.io"}
