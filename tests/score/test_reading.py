from __future__ import annotations

from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.score.reading import count, positive, read_table, reference_folder, use_reference


def table(tmp_path: Path, data: bytes) -> tuple[list[tuple[int, dict[str, str]]], list[tuple[int, str]]]:
    path = tmp_path / "rows.csv"
    path.write_bytes(data)
    records, problems = read_table(path, ["a", "b c"])
    return [(r.line, dict(r.cells)) for r in records], [(p.line, p.message) for p in problems]


@pytest.mark.parametrize(
    "data",
    [
        b"a,b c\n1,2\n",
        b"\xef\xbb\xbfA,B  C\r\n1,2\r\n",
        b"a,b c\r1,2",
        b" a ,b c\n1,2\n\n , \n",
    ],
)
def test_marks_line_ends_case_and_blank_lines_are_no_faults(tmp_path: Path, data: bytes) -> None:
    records, problems = table(tmp_path, data)
    assert records == [(2, {"a": "1", "b c": "2"})]
    assert not problems


def test_wrong_lines_are_named_and_the_others_stay(tmp_path: Path) -> None:
    records, problems = table(tmp_path, b"a,b c\n1\n1,2,3\n1,\xff\n3,4\n")
    assert [line for line, _ in records] == [5]
    assert [line for line, _ in problems] == [2, 3, 4]
    assert "UTF-8" in problems[2][1]


def test_a_quote_left_open_spoils_one_line(tmp_path: Path) -> None:
    records, problems = table(tmp_path, b'a,b c\n1,2\n"3,4\n5,6\n7,"8\n"\n9,0')
    assert [line for line, _ in records] == [2, 4, 5, 7]
    assert records[2][1] == {"a": "7", "b c": "8\n"}, "a cell may go over lines where it is closed"
    assert [line for line, _ in problems] == [3]


def test_a_cell_out_of_all_measure_spoils_one_line(tmp_path: Path) -> None:
    records, problems = table(tmp_path, b"a,b c\n1," + b"9" * 200_000 + b"\n3,4\n")
    assert [line for line, _ in records] == [3]
    assert [line for line, _ in problems] == [2]


@pytest.mark.parametrize("data", [b"", b"a,b\n1,2\n", b"a,a,b c\n", b"a,b c\n\0,1\n"])
def test_a_file_that_is_no_such_table_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError):
        table(tmp_path, data)


@pytest.mark.parametrize("value", ["", "x", "0", "-1", "1.5", "nan", "inf", "1e9", "1_0", True, None, [1]])
def test_counts_that_are_none(value: object) -> None:
    with pytest.raises(InputError, match="whole number"):
        count(value, "GPUs")


@pytest.mark.parametrize("value", ["", "x", "0", "-1", "nan", "inf", "1_0", True, None, "1e-300", "1e300"])
def test_quantities_that_are_none(value: object) -> None:
    with pytest.raises(InputError, match="above 0"):
        positive(value, "ms")


def test_numbers_are_read() -> None:
    assert (count(" 8 ", "x"), count("8.0", "x"), count(8, "x"), positive("2.5", "x")) == (8, 8, 8, 2.5)


def test_where_measurements_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPLORER_REFERENCE", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="--reference DIR"):
        reference_folder()
    monkeypatch.setenv("EXPLORER_REFERENCE", str(tmp_path))
    assert reference_folder() == tmp_path
    other = tmp_path / "other"
    other.mkdir()
    use_reference(other)
    try:
        assert reference_folder() == other
    finally:
        use_reference(None)
