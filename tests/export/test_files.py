"""What an export does to a directory: makes it, replaces its own files, touches nobody else's."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.export import export
from explorer.export._files import MANIFEST, SCHEMA, write_files
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


def listed(folder: Path, names: tuple[str, ...], text: str) -> None:
    """A list of files that says of them that an export wrote them."""
    entry = {"to": "x", "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps({"schema": SCHEMA, "files": dict.fromkeys(names, entry)}))


def test_what_a_list_says_of_other_places_is_left_alone(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    victims = [tmp_path / "victim", elsewhere / "victim"]
    for victim in victims:
        victim.write_text("content")
    (folder / "sub").symlink_to(elsewhere)
    (folder / "link").symlink_to(victims[0])
    absolute = str(victims[0])
    (folder / "own").write_text("content")
    listed(folder, ("own", "../victim", absolute, "sub/victim", "link", "sub/../../victim"), "content")
    write_files(folder, "x", {"one": "1"})
    assert not (folder / "own").exists(), "an earlier export wrote it"
    assert [victim.read_text() for victim in victims] == ["content", "content"]
    assert (folder / "link").is_symlink()
    assert (folder / "one").read_text() == "1"


@pytest.mark.parametrize("name", ["one", "sub/one", MANIFEST])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    folder, target = tmp_path / "out", tmp_path / "target"
    folder.mkdir()
    first = name.split("/", maxsplit=1)[0]
    (folder / first).symlink_to(target)
    if "/" in name:
        target.mkdir()
    with pytest.raises(InputError, match="not from an export"):
        write_files(folder, "x", {"one" if name == MANIFEST else name: "1"})
    assert (folder / first).is_symlink()
    assert not list(target.iterdir()) if target.is_dir() else not target.exists()
