"""Text that parsers choke on is refused before or after them; what is plain comes back as it was."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.base.formats import (
    DEEPEST,
    MOST_WHOLE,
    check_data,
    csv_text,
    json_text,
    parse_csv,
    parse_json,
    parse_toml,
    parse_yaml,
    yaml_text,
)

NUMBERS = st.integers(-MOST_WHOLE, MOST_WHOLE) | st.floats(-1e30, 1e30).filter(
    lambda x: not 0 < abs(x) < 1e-100
)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_data_comes_back(data: Any) -> None:
    assert parse_json(json_text(data)) == data
    assert parse_yaml(yaml_text(data)) == data


@given(st.lists(st.lists(NAMES, min_size=1, max_size=4).filter(any), max_size=4))
def test_cells_come_back(rows: list[list[str]]) -> None:
    assert list(parse_csv(csv_text(rows))) == rows


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("spoilt", ["", '"]]]]]]]]", ', '"\\"[[[[" , '])
def test_json_may_be_as_deep_as_stated_and_no_deeper(opening: str, spoilt: str) -> None:
    def text(depth: int) -> str:
        closing = "]" if opening == "[" else "}"
        inner = f"[{spoilt}1]" if opening == "[" else "1"
        levels = depth - (opening == "[")
        return opening * levels + inner + closing * levels

    assert parse_json(text(DEEPEST)) == json.loads(text(DEEPEST))
    with pytest.raises(InputError, match="nested too deeply"):
        parse_json(text(DEEPEST + 1))


def test_brackets_in_strings_are_no_depth() -> None:
    words = ["[" * 500, "]" * 300, '"{{{{', "\\"]
    assert parse_json(json.dumps(words)) == words
    assert parse_yaml(yaml.safe_dump(words)) == words


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[{"])
def test_deep_yaml_ends_no_process(opening: str) -> None:
    with pytest.raises(InputError, match="nested too deeply"):
        parse_yaml(opening * 60_000)


def test_yaml_may_be_as_deep_as_stated() -> None:
    text = "[" * DEEPEST + "]" * DEEPEST
    assert parse_yaml(text) == json.loads(text)
    with pytest.raises(InputError, match="nested too deeply"):
        parse_yaml(f"[{text}]")


@pytest.mark.parametrize(
    "text",
    ["a: !!timestamp foo", "a: !!bool foo", "a: !!int ''", "a: !!float ''", "a: !!binary x", "? [a]\n: c"],
)
def test_tags_that_do_not_fit_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_yaml(text)


def test_aliases() -> None:
    assert parse_yaml("a: &x [1, 2]\nb: [*x, *x]") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}
    with pytest.raises(InputError, match="contains itself"):
        parse_yaml("a: &x [1, *x]")
    bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 10)}]\n" for i in range(12)
    )
    with pytest.raises(InputError, match="too many values"):
        parse_yaml(bomb)
    chain = "a0: &a0 [1]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}]\n" for i in range(3000))
    with pytest.raises(InputError, match="nested too deeply"):
        parse_yaml(chain)


@pytest.mark.parametrize(
    "number",
    ["9" * 5000, "1e308", "-1e31", "1e400", "1e-200", str(MOST_WHOLE + 1), f"-{'9' * 30}", ".inf", ".nan"],
)
def test_numbers_out_of_range(number: str) -> None:
    number = (
        number if "e" not in number else number.replace("e", ".0e").replace("e3", "e+3").replace("e4", "e+4")
    )
    with pytest.raises(InputError) as caught:
        parse_yaml(f"a: [1, {number}]")
    assert len(str(caught.value)) < 300
    if not number.startswith("."):
        with pytest.raises(InputError):
            parse_json(f'{{"a": [1, {number}]}}')
        with pytest.raises(InputError):
            parse_toml(f"a = [1, {number}]")


def test_numbers_in_range_stay_exact() -> None:
    for number in (0.0, 1e-100, 1e30, float(MOST_WHOLE), math.pi):
        assert parse_json(json_text({"a": number})) == {"a": number}
    assert parse_json('{"a": 1e-06}') == {"a": 1e-06}


def test_keys_stand_once() -> None:
    for parse, text in ((parse_json, '{"a": 1, "a": 2}'), (parse_yaml, "a: 1\na: 2")):
        with pytest.raises(InputError, match="'a' is given twice"):
            parse(text)
    assert parse_json('{"a": 1, "a": 2}', ours=False) == {"a": 2}


def test_what_python_takes_for_numbers_is_no_json() -> None:
    with pytest.raises(InputError, match="NaN is no number"):
        parse_json("[NaN]")
    assert parse_json("[Infinity]", ours=False, number=False) == [math.inf]
    with pytest.raises(InputError):
        json_text([math.nan])


def test_data_that_contains_itself() -> None:
    data: list[Any] = [1]
    data.append(data)
    with pytest.raises(InputError, match="contains itself"):
        check_data(data)
