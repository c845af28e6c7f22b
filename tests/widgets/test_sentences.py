"""Every sentence that the page can say: collected whole, listed currently, and worded by a few rules."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "sentences_page.py"))
FOUND: dict[str, list[str]] = MADE["found"]()

COUNTED = re.compile(
    r"\{(len|length|count|n|rounds|chunks|tensor|devices|runs|there|more|fixed|jobs|size|inside)\}"
    r" ([a-z]+ )?(?!axes|less|across|process|plus)[a-z]{2,}s\b(?! \{)"
)
"""A number with a noun in the plural, which would be wrong of one."""
NEVER_ONE = {
    "the plan has {len} jobs; the workbench shows one",
    "{len} jobs; the workbench shows one",
    "{tensor} devices share a layer",
    "{chunks} chunks",
    ", {rounds} rounds",
    "placement: {len} of {len} layers on other devices ({join}{more})",
    "{get} of {len} rows",
    "{len} schedules, {counted} counted",
    "1 to {count} devices",
    "{len} searchers",
    "{len} values",
    "{len} of {wanted} values simulated",
    "The cluster has {there} devices: more cannot be applied.",
    "Over {rounds} rounds the middle half of the errors lies within {…} %. {double} rounds would take about twice as long and narrow the uncertainty of their median by about 30 %.",  # noqa: E501
    "80 % band from {runs} runs of the history on this kind of machine",
    "({count} lanes do not fit)",
    "{said}, and all {count} devices together have {bytes}; use larger devices, or {least} of them or more",
    "interleave {chunks} chunks a device{under}",
    "The plan uses {devices} of {there} devices.",
    "make {len} moves",
    "{noun} on {sum} of {len} stages",
    "{length} lanes",
    "{length} blocks, {whole} to {whole}",
    "part of {name}, {count} of {length} layers",
    "{length} lanes would be over.",
    "**Would not fit.** {name}: {bytes} over capacity and {away}.{length}{way}",
    "{name} opened: {length} layers",
    "{inside} layers",
    "{fixed} layers, the first {length}:",
    "{fixed} points",
    "{caption}: first {length} of {total} rows",
    "{fixed} of its layers selected",
    "{fixed} layers with layouts of their own",
}
"""Sentences that are only said of several, or in which the noun is a part of something."""
OURS = re.compile(
    r"\b(broken runs?|backwards into|when less else|slept|lowered|chip colours?|counted by)\b|cannot be[.*]"
)
"""Words that only we use, or that are no English."""


def every() -> list[tuple[str, str]]:
    return [(file, text) for file, items in FOUND.items() for text in items]


def test_the_page_is_current() -> None:
    text = (ROOT / "docs" / "sentences.md").read_text("utf-8")
    assert text == MADE["page"](), "run python scripts/sentences_page.py"


def test_numbers_agree_with_their_nouns() -> None:
    wrong = [text for _, text in every() if COUNTED.search(text) and text not in NEVER_ONE]
    assert not wrong, "use `counted` or `plural`, or list it under NEVER_ONE if it is never said of one"


@pytest.mark.parametrize(
    ("rule", "pattern"),
    [
        ("a space before the unit", r"[\d}]%|\d(GiB|MiB|ms)\b"),
        ("one space", r"(?<=\w)  +(?=\w)"),
        ("no word twice", r"\b(the|a|of|to|is|in|on|and) \1\b"),
        ("three dots are one sign", r"\w\.\.\."),
        ("a plural is made by hand", r"\w\(s\)"),
    ],
)
def test_how_it_is_set(rule: str, pattern: str) -> None:
    assert not [item for item in every() if re.search(pattern, item[1])], rule


def test_no_words_of_our_own() -> None:
    assert not [item for item in every() if OURS.search(item[1])]


def test_python_texts_are_found() -> None:
    code = '''
"""A docstring of several words."""
class A:
    x = Dict(help="not shown to anybody")
    """Also a docstring."""
    def f(self, n):
        raise ValueError("a mistake of the code")
        return (
            f"{n} {'lane' if n == 1 else 'lanes'} over capacity by {format_bytes(n)}"
            f" ({counted(n, 'block')})", "Pin", "moved", {"a key here": "a value here"},
        )
'''
    assert list(MADE["sentences_of"](ast.parse(code))) == [
        "{n} ⟨lane/lanes⟩ over capacity by {bytes} ({counted block})",
        "Pin",
        "a value here",
    ]


def test_javascript_texts_are_found() -> None:
    code = r"""
// a comment of several words: "not this"
const x = h("div", { class: "t-text two-words", text: "Said to everybody" });
const y = /a pattern "of words" here/.test(x)
  ? `Moved ${plural(n, "layer")} to ${lane.name}${n > 1 ? "; all of them" : ""}` : 'so it is';
root.querySelector("nothing to see");
"""
    assert list(MADE["literals_of"](code)) == [
        "Said to everybody",
        "; all of them",
        "Moved {counted layer} to {name}⟨; all of them/⟩",
        "so it is",
    ]


def test_the_sentences_of_the_page_are_among_them() -> None:
    """Some that are known to be there, of every kind of place."""
    texts = {text for _, text in every()}
    for text in (
        "Keep the plan as it is (Esc)",
        "**The board did not start.** Everything else goes on as usual.",
        "Choose a model and a cluster, for example **llama3-8b** on **dgx-a100**.",
        "{lead} There is no {kind} to try.",
        "Undo",
    ):
        assert text in texts
