"""Shell scripts as the words that their commands get: read by substitution alone, never run.

What is understood: comments, quotes, lines that go on, `NAME=value`, `NAME+=...`, arrays, `$NAME`,
`${NAME:-default}`, `"${NAME[@]}"`, and whole-number arithmetic `$((...))`. Both ways of an `if` are read, the
later one counts. A value that only a run would tell (`$(...)`, `$1`) stays as it is written.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

LITERAL = "\ue000"
"""Sign in place of a `$` inside single quotes, where nothing is substituted."""
_DEEPEST = 20
_MOST_WORDS = 20_000
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_VARIABLE = re.compile(
    r"\$(?:\{([A-Za-z_]\w*|[0-9@*#?])(?:\[[@*]\])?(:?[-=+?][^{}]*)?\}|([A-Za-z_]\w*|[0-9@*#?]))"
)
_PLAIN_ARITHMETIC = re.compile(r"\$\(\(([^()$]*(?:\([^()$]*\)[^()$]*)*)\)\)")
_PARTS = re.compile(r"(?:\$\([^()]*\)|`[^`]*`|\S)+")
"""Words of a text; what a command in it would print is part of its word."""
_DECLARING = frozenset({"export", "local", "declare", "readonly", "typeset", ":"})
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?=([^{}]*)\}")
_CHOOSING = frozenset({"if", "elif", "else", "case", "for", "while", "until"})


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command."""

    text: str
    """Text without its quotes."""
    line: int
    """Line on which it begins, counted from 1."""


@dataclass(slots=True)
class Script:
    """Commands of a script with everything substituted."""

    commands: list[list[Word]] = field(default_factory=list)
    """Words of every command, in order."""
    variables: dict[str, str] = field(default_factory=dict)
    """Values of variables at the end; items of arrays with blanks in between."""
    choices: list[Word] = field(default_factory=list)
    """Words that choose (`if`, `for`): what they decide is not followed."""


def read_script(text: str) -> Script:
    """Return the commands of a shell script, its variables substituted."""
    script = Script()
    for statement in _statements(text):
        _take(script, statement)
    return script


def _take(script: Script, words: list[Word]) -> None:
    """Note the assignments at the start of a statement, and its command with everything substituted."""
    while words and (words[0].text in _DECLARING or words[0].text in ("then", "do", "{", "time")):
        defaults = _DEFAULT.fullmatch(words[1].text) if len(words) > 1 else None
        if words[0].text == ":" and defaults:
            script.variables.setdefault(defaults[1], _expanded(defaults[2], script.variables))
        words = words[1:]
    if words and words[0].text in _CHOOSING:
        script.choices.append(words[0])
        words = words[1:]
    while words and (match := _ASSIGNMENT.match(words[0].text)):
        value, words = words[0].text[match.end() :], words[1:]
        if value == "(":
            items: list[str] = []
            while words and words[0].text != ")":
                items.append(words[0].text)
                words = words[1:]
            value, words = " ".join(items), words[1:]
        value = _expanded(value, script.variables)
        before = script.variables.get(match[1], "") if match[2] else ""
        script.variables[match[1]] = f"{before} {value}".strip() if match[2] else value
    if words:
        script.commands.append(list(_substituted(words, script.variables)))


def _substituted(words: list[Word], variables: dict[str, str]) -> Iterator[Word]:
    for count, word in enumerate(words):
        if count > _MOST_WORDS:
            return
        if "$" in word.text:
            parts = _PARTS.findall(_expanded(word.text, variables))
            yield from (Word(part.replace(LITERAL, "$"), word.line) for part in parts)
        else:
            yield Word(word.text.replace(LITERAL, "$"), word.line)


def _expanded(text: str, variables: dict[str, str]) -> str:
    """Substitute variables and whole-number arithmetic until nothing changes."""

    def value(match: re.Match[str]) -> str:
        name, rule = match[1] or match[3], match[2] or ""
        if name in ("@", "*"):
            return ""
        found = variables.get(name)
        if rule and rule.lstrip(":")[0] in "-=":
            return found or rule.lstrip(":")[1:].strip("\"'")
        return match[0] if found is None else found

    for _ in range(_DEEPEST):
        made = _VARIABLE.sub(value, text)
        made = _PLAIN_ARITHMETIC.sub(lambda match: _number(match[1], match[0]), _named(made, variables))
        if made == text or len(made) > 1_000_000:
            break
        text = made
    return text


def _named(text: str, variables: dict[str, str]) -> str:
    """Substitute bare names inside of `$((...))`."""
    if "$((" not in text:
        return text
    return re.sub(
        r"\$\(\(.*?\)\)",
        lambda match: re.sub(r"[A-Za-z_]\w*", lambda name: variables.get(name[0], name[0]), match[0]),
        text,
    )


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _number(text: str, written: str) -> str:
    """Return the value of whole-number arithmetic, or what is written if it is anything else."""
    try:
        return str(_value(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError, KeyError):
        return written


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 10**12:
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if max(abs(left), abs(right)) < 10**15:
            return _OPERATORS[type(node.op)](left, right)
    raise ValueError


def _statements(text: str) -> Iterator[list[Word]]:
    """Yield the words of each statement: they end at a line's end, `;`, `&`, `|`, but not inside `(...)`."""
    words: list[Word] = []
    inside = False
    for word in _tokens(text):
        if word.text == "\n":
            if not inside and words:
                yield words
                words = []
            continue
        if word.text == "(" and words and words[-1].text.endswith("="):
            words[-1] = Word(words[-1].text + "(", words[-1].line)
            inside = True
            continue
        if word.text == ")":
            inside = False
        words.append(word)
    if words:
        yield words


def _tokens(text: str) -> Iterator[Word]:
    """Yield words, brackets and ends of statements (as a newline), one letter after the other."""
    at, line, end = 0, 1, len(text)
    made: list[str] = []
    begun = 0  # line of the word that is being read; 0 if there is none
    while at < end:
        letter = text[at]
        if letter == "\\" and at + 1 < end:
            if text[at + 1] == "\n":
                line += 1
            else:
                begun = begun or line
                made.append(text[at + 1])
            at += 2
            continue
        if letter in " \t\r\n;&|()" or (letter == "#" and not begun):
            if begun:
                yield Word("".join(made), begun)
                made, begun = [], 0
            if letter == "#":
                at = text.find("\n", at)
                at = end if at < 0 else at
                continue
            if letter in "()":
                yield Word(letter, line)
            elif letter in "\n;&|":
                yield Word("\n", line)
            line += letter == "\n"
            at += 1
            continue
        begun = begun or line
        piece, at = _piece(text, at)
        line += text.count("\n", at - len(piece[1]), at)
        made.append(piece[0])
    if begun:
        yield Word("".join(made), begun)


def _piece(text: str, at: int) -> tuple[tuple[str, str], int]:
    """Return what a quote, a substitution or a letter stands for, and as it is written; and where it ends."""
    letter = text[at]
    if letter == "'":
        stop = text.find("'", at + 1)
        stop = len(text) - 1 if stop < 0 else stop
        return (text[at + 1 : stop].replace("$", LITERAL), text[at : stop + 1]), stop + 1
    if letter == '"':
        stop = at + 1
        while stop < len(text) and text[stop] != '"':
            stop += 2 if text[stop] == "\\" else 1
        inner = text[at + 1 : stop].replace("\\\n", " ").replace('\\"', '"').replace("\\$", LITERAL)
        return (inner, text[at : stop + 1]), min(stop + 1, len(text))
    if letter in "$`" and at + 1 < len(text):
        stop = _substitution_end(text, at)
        return (text[at:stop], text[at:stop]), stop
    return (letter, letter), at + 1


def _substitution_end(text: str, at: int) -> int:
    """Return where `${...}`, `$(...)` or a command in backquotes ends."""
    if text[at] == "`":
        stop = text.find("`", at + 1)
        return len(text) if stop < 0 else stop + 1
    pairs = {"{": "}", "(": ")"}
    opening = text[at + 1]
    if opening not in pairs:
        return at + 1
    depth, stop = 0, at + 1
    while stop < len(text):
        depth += (text[stop] == opening) - (text[stop] == pairs[opening])
        stop += 1
        if not depth:
            return stop
    return len(text)
