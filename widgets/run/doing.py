"""What a rank does now, in words in place of the short names of actions."""

from __future__ import annotations

import re

_VERBS = {
    "F": "forward", "B": "backward", "I": "gradients of inputs", "W": "gradients of weights", "U": "update",
    "RECOMPUTE": "recomputation",
}  # fmt: skip
_ACTION = re.compile(r"(\d+)([A-Z_]+)(\d*)(?:-(\d+))?(?:~(\d+))?(?:\^\d+)?(?= |$)")


def in_words(text: str) -> str:
    """Return a rank's report with its action in words; anything else as it is.

    >>> in_words("0F6"), in_words("1U8-11 waits for rank 2"), in_words("the end of its messages")
    ('forward of microbatch 6', 'update, stage 1 waits for rank 2', 'the end of its messages')
    """
    found = _ACTION.match(text)
    if found is None or found[2] not in _VERBS:
        return text
    stage, op, first, last, copy = found.groups()
    if op == "U":
        said = f"update, stage {stage}"
    elif last:
        said = f"{_VERBS[op]} of microbatches {first or 0} to {last}"
    else:
        said = f"{_VERBS[op]} of microbatch {first or 0}"
    return said + (f", copy {copy}" if copy else "") + text[found.end() :]
