"""Write docs/sentences.md: every sentence that the workbench can say, to be read as a table.

    python scripts/sentences_page.py           # write the page
    python scripts/sentences_page.py --check   # exit 1 if it is not what the code says

Sentences are the texts in the code of what the page shows: of Python by its syntax tree, of JavaScript by
its literals. What is put into a sentence stands in braces; of two ways to say a word, both.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "sentences.md"
PYTHON = ("widgets", "explorer/views", "explorer/explain")
"""Packages whose texts reach the page."""
JAVASCRIPT = "widgets/js/src"
HEAD = """# What the workbench can say

Made by `python scripts/sentences_page.py` from the code; a test keeps it current. Read it as a table when
you add a sentence: plain English of the field, numbers that agree with their nouns, the same word for the
same thing everywhere. In braces stands what is put in; of two ways to say a word, both. What models,
clusters, schedules, searchers and exporters say of themselves is on their own pages.
"""
NOT_SHOWN = {"help", "doc", "class_", "key", "default", "style"}
"""Arguments by name whose texts are for cells and code."""
FOR_CODE = {"ValueError", "TypeError", "KeyError", "RuntimeError", "AssertionError", "NotImplementedError"}
"""Errors that a mistake in the code raises, which no gesture does."""


def sentences_of(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of Python code that a reader could see, in order."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            _skip_docstrings(node.body, skipped)
        elif isinstance(node, ast.Call):
            skipped |= {id(item.value) for item in node.keywords if item.arg in NOT_SHOWN}
            if isinstance(node.func, ast.Name) and node.func.id in FOR_CODE:
                skipped |= {id(item) for item in node.args}
        elif isinstance(node, ast.Dict):
            skipped |= {id(key) for key in node.keys if key is not None}
    yield from _texts(tree, skipped)


def _skip_docstrings(body: Iterable[ast.stmt], skipped: set[int]) -> None:
    """Skip texts that stand alone: of a module, class or function, or below what they describe."""
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            skipped.add(id(statement.value))


def _texts(node: ast.AST, skipped: set[int]) -> Iterator[str]:
    if id(node) in skipped:
        return
    if isinstance(node, ast.Constant | ast.JoinedStr):
        found = _shown(node)
        if _reads(found):
            yield found
        if isinstance(node, ast.Constant):
            return
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant):
            continue  # a piece of the sentence
        yield from _texts(child, skipped)


def _shown(node: ast.expr) -> str:
    """Return a text with what is put into it in braces."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_shown(item) for item in node.values)
    if isinstance(node, ast.FormattedValue):
        return _put_in(node.value)
    return _put_in(node)


def _put_in(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.IfExp):
        ways = [_shown(item) if isinstance(item, ast.Constant | ast.JoinedStr) else _put_in(item)
                for item in (value.body, value.orelse)]  # fmt: skip
        return f"⟨{'/'.join(ways)}⟩"
    return f"{{{_named(value)}}}"


def _named(value: ast.expr) -> str:
    if isinstance(value, ast.Name):
        return value.id.strip("_")
    if isinstance(value, ast.Attribute):
        return value.attr.strip("_")
    if isinstance(value, ast.Call):
        name = _named(value.func)
        words = [
            item.value
            for item in value.args
            if isinstance(item, ast.Constant) and isinstance(item.value, str)
        ]
        return f"{name} {words[0]}" if words and name in ("counted", "many") else name.removeprefix("format_")
    return "…"


STRING = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`"""
    r"""|(?<=[(,=:[!&|?{};+\n])\s*/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*""",
    re.DOTALL,
)
"""A comment, a text, the beginning of a template, or a pattern of JavaScript."""
NO_TEXT = re.compile(
    r"(class(Name)?|viewBox|d|points|font|transform|style|src|type|dash)\s*[:=]\s*$|(querySelector(All)?|closest|matches|wait|getPropertyValue|import|from|font|\$?\$|toggle|add|remove)\(?\s*$"
)
"""What stands before a text that nobody reads."""


def literals_of(code: str) -> Iterator[str]:
    """Yield the texts of JavaScript code that a reader could see, in order."""
    at = 0
    while (hit := STRING.search(code, at)) is not None:
        found, before = hit.group(), code[max(0, hit.start() - 40) : hit.start()]
        at = hit.end()
        if found == "`":
            text, inner, at = _template(code, at)
            for part in inner:
                yield from literals_of(part)
        elif found.lstrip()[0] in "\"'":
            text = found[1:-1].replace('\\"', '"').replace("\\u00a0", " ").replace("\\u202f", " ")
        else:
            continue
        if _reads(text) and not NO_TEXT.search(before):
            yield text


def _template(code: str, at: int) -> tuple[str, list[str], int]:
    """Return a template's text, the code put into it, and where it ends."""
    text, inner = "", []
    while code[at] != "`":
        if code[at] == "\\":
            text += {"u": " "}.get(code[at + 1], code[at + 1])
            at += 6 if code[at + 1] == "u" else 2
        elif code.startswith("${", at):
            end = _closing(code, at + 2)
            inner.append(code[at + 2 : end])
            text += _short(code[at + 2 : end])
            at = end + 1
        else:
            text += code[at]
            at += 1
    return text, inner, at + 1


def _closing(code: str, at: int) -> int:
    """Return where the brace that was opened before `at` is closed."""
    depth = 1
    while True:
        if code[at] in "\"'":
            quote, at = code[at], at + 1
            while code[at] != quote:
                at += 2 if code[at] == "\\" else 1
        elif code[at] == "`":
            at = _template(code, at + 1)[2] - 1
        elif code[at] == "{":
            depth += 1
        elif code[at] == "}":
            depth -= 1
            if not depth:
                return at
        at += 1


def _short(code: str) -> str:
    """Return what is put into a template in few letters: a name, or both ways to say a word."""
    ways = re.fullmatch(r"""[^?]*\?\s*"([^"]*)"\s*:\s*"([^"]*)"\s*""", code, re.DOTALL)
    if ways:
        return f"⟨{ways[1]}/{ways[2]}⟩"
    plural = re.match(r"""plural\((.*),\s*"([^"]+)"\s*[,)]""", code, re.DOTALL)
    if plural:
        return f"{{counted {plural[2]}}}"
    name = re.match(r"[\w.]*", code.strip()).group()  # type: ignore[union-attr]
    return f"{{{name.split('.')[-1] or '…'}}}"


WORDS = re.compile(r"[A-Za-z]{2}[^\s]*[ /]+[^\s]*[A-Za-z\d{⟨(]|[}⟩,.:;%…–&>] *[^\s]*[A-Za-z]{2}")
"""Two words, or one beside what is put in."""
ONE_WORD = re.compile(r"[A-Z][a-z]+…?")
"""A word that stands alone on the page: a heading or a button."""
KEYS = {"Escape", "Enter", "Tab", "Home", "End", "Space", "Backspace"}
"""Names of keys, which the page is told and does not say."""
SHAPES = (
    r"^\s*[<.#@\[\\]",  # a selector, markup
    r"^\s*\(?[a-z]+-[a-z-]+[:)]|--|[;{]\s*$|^[\w-]+: ?[\w#-]+;",  # a style
    r"\d(px|fr|em)\b|\bcalc\b|\{width|^row wrap$",  # a size
    r"=>|::|\w\(\w|%Y|^\s*\(<tr",  # code, a pattern
    r"^[MmLl] ?[\d{]|^(top|middle|bottom) (left|right|center)$",  # a drawing, a place in a chart
    r"^[a-z]{1,3}-[a-z][\w-]*( |$)|^(sx|xp)\b",  # classes
    r"\{[A-Z_]{3,}\}-|^[\w{}.-]+/[\w{}./-]+$|\.(js|css|json|ya?ml|html)$",  # a file
    r"default-src|http:|noopener|charset",  # what a browser is told
    r"^[\w{}]+(\[[^\]]*\])?\.\w+$|^(change|msg|lane|group|to|style)[:.]",  # a key, an event
    r"^(views|names|board|blocks)\.",  # the name of a value that is kept
)
FOR_MACHINES = re.compile("|".join(SHAPES))
"""What a text looks like that is no sentence."""


def _reads(text: str) -> bool:
    """Tell whether a text is read by people: of several words, or a word that begins with a capital."""
    if FOR_MACHINES.search(text) or not re.search("[A-Za-z]{2}", re.sub(r"\{[^}]*\}", " ", text)):
        return False
    return bool((ONE_WORD.fullmatch(text) and text not in KEYS) or WORDS.search(text))


def found() -> dict[str, list[str]]:
    """Return the sentences of every file that has some."""
    python = [path for name in PYTHON for path in sorted((ROOT / name).rglob("*.py"))]
    scripts = sorted((ROOT / JAVASCRIPT).rglob("*.js"))
    texts = {path: sentences_of(ast.parse(path.read_text("utf-8"))) for path in python}
    texts |= {path: literals_of(path.read_text("utf-8")) for path in scripts}
    made = {
        path.relative_to(ROOT).as_posix(): list(dict.fromkeys(map(_one_line, items)))
        for path, items in texts.items()
    }
    return {name: items for name, items in made.items() if items}


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for name, items in found().items():
        rows = "\n".join(f"| {item.replace('|', chr(92) + '|').replace('<', '&lt;')} |" for item in items)
        parts.append(f"## {name}\n\n| sentence |\n|---|\n{rows}\n")
    return "\n".join(parts)


def main() -> int:
    """Write or check the page; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare only")
    text = page()
    if parser.parse_args().check:
        current = PAGE.exists() and PAGE.read_text("utf-8") == text
        if not current:
            print(f"{PAGE.name} is not what the code says; run python scripts/sentences_page.py")
        return 0 if current else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
