"""The five things that can go wrong, each saying what was given, the rule, and the way out.

`ExplorerError` is the base. The command line turns each into one line and an exit status; the
notebook into a visible strip. None of our code uses `assert` to check what a user gave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LONGEST_VALUE = 200
"""Letters of a value that a message repeats at most."""
LONGEST_MESSAGE = 2000
"""Letters of a message at most: nobody reads more, and a wrong file may consist of one long line."""


def cut(text: str, most: int = LONGEST_VALUE) -> str:
    """Return the text, its end replaced by dots beyond `most` letters.

    >>> cut("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text_of(value: object) -> str:
    try:
        return str(value)
    except ValueError:  # a whole number of more than some thousand digits
        return "a number of very many digits"


def _with_short_value(message: str, found: object) -> str:
    """Return the message with the value found cut wherever the message repeats it."""
    if len(message) > LONGEST_VALUE and found is not None:
        for text in (repr(found), _text_of(found)) if isinstance(found, (str, bytes)) else (_text_of(found),):
            if len(text) > LONGEST_VALUE:
                message = message.replace(text, cut(text))
    return message


class ExplorerError(Exception):
    """Base of all errors a user can cause or meet; `exit_status` is the exit status of the command line."""

    exit_status = 2

    def as_dict(self) -> dict[str, Any]:
        """Return the `error` object of `--json`: message, file, key, found, allowed."""
        return {"message": str(self), "file": None, "key": None, "found": None, "allowed": None}


class InputError(ExplorerError):
    """A wrong profile, model, plan or option.

    Values that the message repeats are cut to `LONGEST_VALUE` letters, and the message to `LONGEST_MESSAGE`.

    Attributes:
        file: the file that holds the value; None if it came from no file.
        key: the path of the value inside the file (`nodes[0].count`); None if unknown.
        found: the value found.
        allowed: what would be accepted, in words.
    """

    longest_message = LONGEST_MESSAGE

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        key: str | None = None,
        found: object = None,
        allowed: str | None = None,
    ) -> None:
        message = cut(_with_short_value(message, found), self.longest_message)
        super().__init__(message)
        self.message, self.file, self.found = message, file, found
        self.key = cut(key) if key else key
        self.allowed = cut(allowed, LONGEST_MESSAGE) if allowed else allowed

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.file, self.key) if part)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text} (allowed: {self.allowed})" if self.allowed else text

    def within(self, *, file: str | None = None, key: str | None = None) -> InputError:
        """Return the same error with its file or key filled in if they were not yet known."""
        return InputError(
            self.message,
            file=self.file or file,
            key=self.key or key,
            found=self.found,
            allowed=self.allowed,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the error object with file, key, found and allowed as fields of their own."""
        return {
            "message": self.message,
            "file": self.file,
            "key": self.key,
            "found": None if self.found is None else cut(_text_of(self.found)),
            "allowed": self.allowed,
        }


class PlanError(InputError):
    """A strategy that cannot be run as written; `problems` lists everything that is wrong."""

    longest_message = 10 * LONGEST_MESSAGE

    def __init__(self, problems: Sequence[str], *, file: str | None = None) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = self.problems[0] if count == 1 else f"{count} problems: " + "; ".join(self.problems)
        super().__init__(head, file=file, key="strategy")

    def as_dict(self) -> dict[str, Any]:
        """Return the object of `InputError` with the list of problems."""
        return {**InputError.as_dict(self), "problems": list(self.problems)}


class DeadlockError(PlanError):
    """A cycle in program order and dependencies; `cycle` names the actions on it, each before the next."""

    def __init__(self, cycle: Sequence[str]) -> None:
        self.cycle = tuple(cycle)
        chain = " -> ".join((*self.cycle, self.cycle[0]))
        super().__init__([f"deadlock: each has to run before the next: {chain}"])


class InfeasibleError(ExplorerError):
    """No strategy fits: names the device, by how much it overflows, and the cheapest change that fits."""

    exit_status = 3


class RunError(ExplorerError):
    """A real run that failed; `rank` is the one that failed first, `log` its last lines."""

    exit_status = 4

    def __init__(self, message: str, *, rank: int | None = None, log: str = "") -> None:
        super().__init__(message)
        self.rank, self.log = rank, log
