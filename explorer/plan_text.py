"""Plan as one short text: packed data with its version and a checksum, to be sent in a message or a link.

A text is ``explorer-plan:1:CHECKSUM:DATA``, where DATA is the plan file's content as JSON, deflated, in the
letters that addresses allow (RFC 4648, base64url). It is data only: nothing in it is ever run. A text that
stands behind the ``#`` of an address, in angle brackets or over several lines of a mail is the same text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from typing import Any

from explorer.base.errors import InputError, cut
from explorer.base.files import MOST_BYTES
from explorer.base.formats import json_text, parse_json

SCHEME = "explorer-plan"
VERSION = 1
"""Version of the text's own format; the plan inside states the version of its own."""

LINK = 2000
"""Most characters of an address that every browser and chat takes."""

_CHECKED = 8
"""Hex digits of the checksum."""
_START = re.compile(rf"(?:^|#){SCHEME}:(\d{{1,9}}):")
_ALPHABET = re.compile(r"[A-Za-z0-9_-]+")
_WAY_OUT = "the whole text, from explorer-plan: to its end"


def packed(document: Any) -> str:
    """Write the plain data of a plan file as a short text.

    >>> unpacked(packed({"schema": "explorer.plan/1"}))
    {'schema': 'explorer.plan/1'}
    """
    text = json_text(document, indent=None).encode()
    body = base64.urlsafe_b64encode(zlib.compress(text, 9)).decode().rstrip("=")
    return f"{SCHEME}:{VERSION}:{_checksum(body)}:{body}"


def is_packed(text: str) -> bool:
    """Tell whether a text says that it is a packed plan, whole or damaged.

    >>> is_packed(" <explorer-plan:1:00000000:eJw> "), is_packed("explorer-plan.yaml")
    (True, False)
    """
    return _START.search(_bare(text[:MOST_BYTES])) is not None


def unpacked(text: str) -> Any:
    """Return the plain data of a packed plan.

    Raises:
        InputError: it is no packed plan, is of another version, or has been damaged on its way.
    """
    bare = _bare(text)
    found = _START.search(bare)
    if found is None:
        raise InputError("not the text of a plan", found=cut(text.strip(), 40), allowed=_WAY_OUT)
    if int(found[1]) != VERSION:
        raise InputError(
            f"the text of a plan is of version {found[1]}, this release reads version {VERSION}",
            found=found[1], allowed="a release that writes the same version, or the plan as a file",
        )  # fmt: skip
    checksum, _, body = bare[found.end() :].partition(":")
    if not _ALPHABET.fullmatch(body) or checksum != _checksum(body):
        raise InputError(
            "the text of a plan is damaged: characters are missing or changed",
            found=f"{len(bare)} characters", allowed=_WAY_OUT,
        )  # fmt: skip
    return parse_json(_inflated(body))


def _bare(text: str) -> str:
    """Return a text without what a mail or a sentence puts around it and between its lines."""
    return "".join(text.split()).strip("<>\"'`()[]")


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:_CHECKED]


def _inflated(body: str) -> bytes:
    """Unpack the data, up to the size that a plan file may have.

    Raises:
        InputError: it is no such data, or longer.
    """
    unpacker = zlib.decompressobj()
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        text = unpacker.decompress(raw, MOST_BYTES)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise InputError(f"the text of a plan cannot be unpacked: {error}", allowed=_WAY_OUT) from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise InputError(
            "the text of a plan cannot be unpacked: it is cut short, or too long",
            allowed=f"a whole text, of at most {MOST_BYTES >> 20} MiB when it is unpacked",
        )  # fmt: skip
    return text
