"""Measurements as people type them: a number with its unit."""

from __future__ import annotations

import re

from explorer.base.errors import InputError
from explorer.base.units import parse_quantity

_NUMBER = re.compile(r"\s*[-+.\deE_]+\s*")
_UNITS = {"s": "s, ms", "bytes": "GiB, GB"}


def typed_quantity(text: str, dimension: str, key: str) -> float:
    """Return a quantity with its unit: "2.31s", "840 ms", "41.5GiB".

    Args:
        text: as typed.
        dimension: `s` or `bytes`.
        key: flag or field, for errors.

    Raises:
        InputError: it is none, or lacks its unit.
    """
    if _NUMBER.fullmatch(text):
        raise InputError(
            f"{text.strip()} of what unit?", key=key, found=text,
            allowed=f"a number with {_UNITS[dimension]}",
        )  # fmt: skip
    try:
        return parse_quantity(text, dimension)
    except InputError as error:
        raise error.within(key=key) from None
