"""What an export does to a directory: makes it, replaces its own files, touches nobody else's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.export import export
from explorer.export._files import MANIFEST, write_files
from tests.export.samples import uniform


def test_makes_the_directory_and_a_list_of_what_is_ours(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "a" / "b", "x", {"one.txt": "1\n", "sub/two.sh": "2\n"})
    assert [path.read_text() for path in paths] == ["1\n", "2\n"]
    assert paths[1].stat().st_mode & stat.S_IXUSR
    assert not paths[0].stat().st_mode & stat.S_IXUSR
    assert (tmp_path / "a" / "b" / MANIFEST).exists()


def test_replaces_its_own_and_removes_what_is_left_over(tmp_path: Path) -> None:
    write_files(tmp_path, "x", {"kept": "old", "left": "over"})
    write_files(tmp_path, "y", {"other": "target"})
    write_files(tmp_path, "x", {"kept": "new"})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["kept", "other", MANIFEST])
    assert (tmp_path / "kept").read_text() == "new"


def test_leaves_foreign_files_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "plan.yaml").write_text("mine too")
    with pytest.raises(InputError, match=r"plan\.yaml there is not from an export") as caught:
        export(uniform("1f1b"), "plan", tmp_path)
    assert caught.value.key == "--output"
    assert (tmp_path / "plan.yaml").read_text() == "mine too"
    (tmp_path / "plan.yaml").unlink()
    export(uniform("1f1b"), "plan", tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_changed_file_is_somebodys_work(tmp_path: Path) -> None:
    export(uniform("1f1b"), "torchtitan", tmp_path)
    config = tmp_path / "explorer_plan.py"
    config.write_text(config.read_text().replace("lr=", "lr=2 * "))
    with pytest.raises(InputError, match=r"explorer_plan\.py there is not from an export, or was changed"):
        export(uniform("1f1b"), "torchtitan", tmp_path)
    assert "lr=2 * " in config.read_text()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "other"}', '{"schema": "explorer.export/1"}'])
def test_a_foreign_list_is_not_overwritten(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match=MANIFEST):
        write_files(tmp_path, "x", {"one": "1"})
    assert (tmp_path / MANIFEST).read_text() == text


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_directory_that_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write there") as caught:
        write_files(tmp_path / name, "x", {"one": "1"})
    assert "\n" not in str(caught.value)
    assert caught.value.file == str(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot write there: Permission denied"):
        write_files(tmp_path, "x", {"one": "1"})
