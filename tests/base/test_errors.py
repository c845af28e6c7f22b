"""Messages stay short whatever stood in a file."""

from __future__ import annotations

from explorer.base.errors import LONGEST_MESSAGE, LONGEST_VALUE, InputError, PlanError, cut


def test_values_are_cut_where_a_message_repeats_them() -> None:
    value = "x" * 200_000
    error = InputError(f"{value!r} is no name, as we said", key=value, found=value, allowed=value)
    assert str(error).count("x") <= 3 * LONGEST_MESSAGE
    assert "is no name, as we said" in str(error)
    told = error.as_dict()
    assert len(told["found"]) == LONGEST_VALUE
    assert len(told["key"]) == LONGEST_VALUE
    assert error.found == value, "programs have the value itself"


def test_lists_numbers_and_bytes() -> None:
    for found in (list(range(100_000)), 10**5000, b"x" * 5000, {"a": "y" * 5000}):
        error = InputError("this is wrong", found=found)
        assert len(error.as_dict()["found"]) <= LONGEST_VALUE
    assert len(str(InputError("a" * 100_000))) == LONGEST_MESSAGE


def test_within_keeps_what_is_cut() -> None:
    error = InputError("x" * 5000, key="k" * 500).within(file="f")
    assert str(error).startswith("f: kkk")
    assert cut("abc", 3) == "abc"


def test_many_problems_are_all_kept() -> None:
    error = PlanError([f"problem {i}" for i in range(300)])
    assert len(error.problems) == 300
    assert "problem 299" in str(error)
