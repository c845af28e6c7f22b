"""Reading is bounded and never waits; writing leaves the old file or the new one, and nothing else."""

from __future__ import annotations

import errno
import gzip
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from explorer.base import files
from explorer.base.errors import InputError


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_comes_back(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a", "schön\r\nund\rgut")
    assert files.read_text(tmp_path / "a") == "schön\nund\ngut"
    assert files.read_bytes(tmp_path / "a") == "schön\r\nund\rgut".encode()
    files.write_bytes(tmp_path / "a", b"")
    assert files.read_bytes(tmp_path / "a", most=0) == b""
    assert names(tmp_path) == {"a"}


def test_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert files.read_bytes(tmp_path / "a", most=10) == b"x" * 10
    with pytest.raises(InputError, match="too long") as caught:
        files.read_bytes(tmp_path / "a", most=9)
    assert "up to 9 bytes" in str(caught.value)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * 10_000))
    assert len(files.read_packed(tmp_path / "a.gz", most=10_000)) == 10_000
    with pytest.raises(InputError, match="too long"):
        files.read_packed(tmp_path / "a.gz", most=9_999)


def test_only_regular_files_are_read_and_nothing_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero"), Path("/dev/full")):
        with pytest.raises(InputError, match="a device or a pipe"):
            files.read_bytes(path)
        with pytest.raises(InputError, match="a device or a pipe"):
            files.append_line(path, b"x\n")
    with pytest.raises(InputError, match="Is a directory"):
        files.read_text(tmp_path)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_text(tmp_path / "plan.yaml", "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="cannot write the plan: No space left on device") as caught:
        files.write_text(tmp_path / "plan.yaml", "new", what="plan")
    assert caught.value.file == str(tmp_path / "plan.yaml")
    assert files.read_text(tmp_path / "plan.yaml") == "old"
    assert names(tmp_path) == {"plan.yaml"}


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_text(tmp_path / "a", "old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_text(tmp_path / "a", "new")
    assert files.read_text(tmp_path / "a") == "old"
    assert names(tmp_path) == {"a"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has this device")
def test_devices_are_written_to_and_stay_devices() -> None:
    with pytest.raises(InputError, match="No space left"):
        files.write_text("/dev/full", "x" * 100_000)
    files.write_text("/dev/null", "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_modes_and_links_stay(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "link").symlink_to("a")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    files.write_bytes(tmp_path / "run.sh", b"", executable=True)
    assert os.access(tmp_path / "run.sh", os.X_OK)


def test_folders_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "no" / "a", tmp_path / "file" / "a", tmp_path, tmp_path / ("n" * 300)):
        with pytest.raises(InputError, match="cannot write the file") as caught:
            files.write_text(path, "x")
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot make the folder"):
        files.make_folder(tmp_path / "file" / "below")


def test_lines_are_added_whole(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: files.append_line(tmp_path / "a", b"%d\n" % i), range(50)))
    assert {int(line) for line in files.read_text(tmp_path / "a").split()} == set(range(50))
    (tmp_path / "b").write_bytes(b"broken")
    files.append_line(tmp_path / "b", b"whole\n")
    assert files.read_bytes(tmp_path / "b") == b"broken\nwhole\n"
    assert files.read_tail(tmp_path / "b", start=7, most=3) == b"who"


def test_names_inside_a_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "dangling").symlink_to(tmp_path / "nowhere")
    folder = tmp_path / "in"
    assert files.inside(folder, "a/b.json") == folder / "a" / "b.json"
    for name in (
        "",
        "..",
        "../a",
        "a/../../b",
        "/etc/passwd",
        "link",
        "link/a",
        "dangling",
        "a//b",
        "..\\a",
        ".",
    ):
        assert files.inside(folder, name) is None, name


def test_names_that_no_file_can_have() -> None:
    for name in ("a\0b", "n" * 5000):
        assert not files.exists(name)
        assert not files.is_folder(name)
        with pytest.raises(InputError):
            files.read_text(name)
        with pytest.raises(InputError):
            files.write_text(name, "")
