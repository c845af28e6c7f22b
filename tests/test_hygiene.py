"""What may be committed: light notebooks, nothing of the writer's machine, widgets that need no network."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LARGEST_NOTEBOOK_BYTES = 50_000
WORKING_COPIES = ROOT / "notebooks" / "mine"
NOT_OURS = {".git", ".venv", ".hypothesis", "node_modules", "__pycache__", "build", "dist"}

HOME = re.compile(r"(?<![\w.~-])(?:/home/(?!user\b|me\b)[a-z][\w.-]*|/Users/\w+|/root)/|[A-Z]:\\\\?Users\\")
REGISTRY = re.compile(
    r"https?://[^\s\"'<>]*(?:pypi\.org/(?!project/)|pythonhosted|registry\.|artifactory|nexus|/simple/?(?=[\s\"']|$))"
    r"|--(?:extra-)?index-url[= ]|--(?:trusted-host|find-links)\b",
    re.IGNORECASE,
)
FOREIGN_CODE = re.compile(
    r"""(?:\b(?:from|import|importScripts|fetch|src)\s*[(=]?\s*["'`]|@import\s*["']|\burl\(\s*["']?)(?:https?:)?//\w"""
)


def repository_files() -> list[Path]:
    """Files that are, or could be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ) if (ROOT / ".git").exists() else None  # fmt: skip
    if listed is None or listed.returncode:
        found = [
            path
            for path in ROOT.rglob("*")
            if not any(part in NOT_OURS or "_cache" in part for part in path.relative_to(ROOT).parts)
            and WORKING_COPIES not in path.parents
        ]
    else:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def text_of(path: Path) -> str:
    """The file as text, empty for a binary one."""
    data = path.read_bytes()
    return "" if b"\0" in data[:8192] else data.decode("utf-8", errors="replace")


def machine_traces(text: str) -> list[str]:
    """Home folders, this checkout's own path and package registries that a text names."""
    found = [match[0] for pattern in (HOME, REGISTRY) for match in pattern.finditer(text)]
    own = str(ROOT)
    return found + [own] * (own.count("/") > 1 and own in text)


def notebook_faults(notebook: dict[str, Any]) -> list[str]:
    """What a notebook holds that running it would put there anyway."""
    faults = ["metadata.widgets"] * ("widgets" in notebook["metadata"])
    for index, cell in enumerate(notebook["cells"]):
        if cell.get("outputs"):
            faults.append(f"outputs of cell {index}")
        if cell.get("execution_count") is not None:
            faults.append(f"execution count of cell {index}")
    return faults


FILES = repository_files()


def test_files_name_nothing_of_this_machine() -> None:
    faults = {
        str(path.relative_to(ROOT)): found for path in FILES if (found := machine_traces(text_of(path)))
    }
    assert not faults


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.name) for path in FILES if path.suffix == ".ipynb"]
)
def test_notebook_is_light(path: Path) -> None:
    assert path.stat().st_size < LARGEST_NOTEBOOK_BYTES
    assert not notebook_faults(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", sorted((ROOT / "widgets" / "static").glob("*")), ids=lambda path: path.name)
def test_widgets_need_no_network(path: Path) -> None:
    assert not [match[0] for match in FOREIGN_CODE.finditer(path.read_text(encoding="utf-8"))]


# Bad samples are put together here, so that this file passes its own check.
@pytest.mark.parametrize(
    "text",
    [
        "/home" + "/alice/model.json",
        "open('" + "/Users" + "/bob/x')",
        "/root" + "/.cache",
        "https://" + "registry.example.org/esbuild",
        "http://10.0.0.1/pypi" + "/simple/",
        "pip install --index" + "-url https://x",
        f"cd {ROOT}",
    ],
)
def test_the_check_sees_a_trace(text: str) -> None:
    assert machine_traces(text)


@pytest.mark.parametrize(
    "text", ["a/home/b", "~/models", "$HOME/x", "https://pypi.org/project/torch", "/tmp/x"]
)
def test_the_check_lets_pass(text: str) -> None:
    assert not machine_traces(text)


@pytest.mark.parametrize(
    "text",
    [
        'import x from "https://esm.sh/d3"',
        "import('http://a/b.js')",
        "@import url(//fonts.a/b)",
        'fetch("https://a")',
    ],
)
def test_the_check_sees_foreign_code(text: str) -> None:
    assert FOREIGN_CODE.search(text)


def test_the_check_knows_namespaces() -> None:
    assert not FOREIGN_CODE.search('const SVG = "http://www.w3.org/2000/svg"; // from https://a')


def test_the_check_sees_outputs() -> None:
    cell = {"cell_type": "code", "outputs": [{}], "execution_count": 3}
    assert len(notebook_faults({"metadata": {"widgets": {}}, "cells": [cell]})) == 3


OUTSIDE_THE_READER = {
    "explorer/base/files.py": "the one reader and writer",
    "explorer/base/formats.py": "the parsers behind it",
    "explorer/cli/main.py": "the null device, in place of a standard output that is gone",
    "explorer/models/_hf_child.py": "what the parent sends through a pipe",
    "explorer/run/launching/guard.py": "the ranks' events, one write each",
    "explorer/run/launching/launch.py": "the log that torchrun writes",
    "explorer/run/launching/status.py": "pages that ranks share",
    "explorer/score/profile_numbers.py": "positions of numbers in the text of a profile",
    "explorer/score/reading.py": "tables whose open quotes are mended line by line",
    "widgets/history/filelock.py": "locks, which are no content",
    "widgets/run/slicing.py": "what a process of its own reads and prints",
}
"""Files that may open files or call parsers themselves, and why."""

FILE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "touch"}
PARSERS = {
    "json": {"load", "loads", "dump"},
    "os": {"open", "fdopen"},
    "csv": {"reader", "writer", "DictReader"},
}


def direct_access(tree: ast.AST) -> Iterator[str]:
    """Calls that open, read or write files, or parse their text, past `explorer.base.files`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
            )
            yield from (
                name for name in names if name.split(".")[0] in ("yaml", "tomllib", "pickle", "shelve")
            )
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open"
        if isinstance(node.func, ast.Attribute):
            owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            if node.func.attr in PARSERS.get(owner, ()):
                yield f"{owner}.{node.func.attr}"
            elif node.func.attr in FILE_METHODS and owner != "files":
                yield node.func.attr
            elif node.func.attr == "open" and node.args and isinstance(node.args[0], ast.Constant):
                yield "Path.open"


SOURCES = sorted(path for package in ("explorer", "widgets") for path in (ROOT / package).rglob("*.py"))


def test_files_are_read_and_written_in_one_place() -> None:
    found = {
        str(path.relative_to(ROOT)): sorted(set(calls))
        for path in SOURCES
        if (calls := list(direct_access(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert set(found) <= set(OUTSIDE_THE_READER), "use explorer.base.files and explorer.base.formats"
    assert set(OUTSIDE_THE_READER) <= set(found), "these need no exception"


@pytest.mark.parametrize(
    "text",
    [
        "open('a')", "import yaml", "from yaml import safe_load", "json.loads(x)", "Path('a').read_text()",
        "p.open('rb')", "csv.reader(x)", "os.open(x, 0)", "import tomllib", "import pickle",
    ],
)  # fmt: skip
def test_the_check_sees_direct_access(text: str) -> None:
    assert list(direct_access(ast.parse(text)))


def test_the_check_lets_the_reader_pass() -> None:
    text = "read_text(p); files.read_bytes(p); json.dumps(x); transport.open(a, b)"
    assert not list(direct_access(ast.parse(text)))


KEPT_BY_HAND = {
    "explorer/simulation/one_job.py": "lowered programs, limited by tasks, shared by threads",
    "widgets/history/saving.py": "who writes which file: no cache",
}
"""Modules with a cache that is neither an owner's memo nor `remembered`, and why."""

CONTAINERS = {
    "dict",
    "OrderedDict",
    "defaultdict",
    "IdentityCache",
    "WeakKeyDictionary",
    "WeakValueDictionary",
}


def kept_by_hand(tree: ast.Module) -> list[str]:
    """Private mappings that a module starts empty, to fill them later; caches of an owner's memo are not."""
    found = []
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value = node.value
        empty = isinstance(value, ast.Dict) and not value.keys
        made = (
            isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in CONTAINERS
        )
        if isinstance(target, ast.Name) and target.id.startswith("_") and (empty or made):
            found.append(target.id)
    return found


def functools_caches(tree: ast.AST) -> list[str]:
    """Functions under `functools.cache` or `lru_cache` that take a graph, cluster, strategy or program."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = {ast.unparse(item).partition("(")[0].rpartition(".")[2] for item in node.decorator_list}
            given = [
                item.annotation for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            ]
            types = {word for item in given if item for word in re.findall(r"\w+", ast.unparse(item))}
            if names & {"cache", "lru_cache"} and types & OWNERS:
                found.append(node.name)
    return found


OWNERS = {
    "LayerGraph",
    "Cluster",
    "JobStrategy",
    "Strategy",
    "Stage",
    "Program",
    "Tasks",
    "Sharding",
    "ndarray",
}
"""What is large: it keeps its own results, or `remembered` finds it by identity."""


def test_there_are_two_kinds_of_caches() -> None:
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    by_hand = {name for name, tree in trees.items() if kept_by_hand(tree)}
    assert by_hand == set(KEPT_BY_HAND), "use the owner's memo or explorer.base.caching.remembered"
    assert not {name: found for name, tree in trees.items() if (found := functools_caches(tree))}


def test_the_check_sees_a_cache() -> None:
    text = "_A: dict[int, int] = {}\n_B = OrderedDict()\n_C = IdentityCache(3)\n_D = {1: 2}\nKINDS = {}"
    assert kept_by_hand(ast.parse(text)) == ["_A", "_B", "_C"]
    text = "@lru_cache(maxsize=3)\ndef f(g: LayerGraph): ...\n@functools.cache\ndef h(*, c: Cluster): ...\n"
    assert functools_caches(ast.parse(text + "@cache\ndef k(n: int): ...")) == ["f", "h"]


def test_exploring_leaves_the_checkout_alone(tmp_path: Path) -> None:
    """`make explore` opens a copy that git ignores, and keeps the user's."""
    for name in ("scripts", "notebooks", "venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "explore.sh", tmp_path / "scripts")
    original = tmp_path / "notebooks" / "explore.ipynb"
    original.write_text("as committed")
    jupyter = tmp_path / "venv" / "bin" / "jupyter"
    jupyter.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    jupyter.chmod(0o755)

    def explore() -> str:
        command = ["bash", "scripts/explore.sh", "venv", "--port=9"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    opened = re.search(r"default_url=/lab/tree/(\S+)", explore())
    assert opened
    copy = tmp_path / opened[1]
    assert copy.read_text() == "as committed"
    assert copy != original
    copy.write_text("with outputs")
    assert "newer" not in explore()
    assert copy.read_text() == "with outputs"
    os.utime(original, (copy.stat().st_mtime + 5,) * 2)
    assert "newer" in explore()
    assert (copy.read_text(), original.read_text()) == ("with outputs", "as committed")
    if (ROOT / ".git").exists():
        asked = ["git", "check-ignore", "--quiet", str(copy.relative_to(tmp_path))]
        assert subprocess.run(asked, cwd=ROOT, check=False).returncode == 0
