"""Trust: a file never decides what code runs. It may name data; code runs only if a person names it.

A model reference `module.path:factory` imports a module and calls a function of it. On the command line
(`--model`) and in a cell (`load_model`) a person names it. In a plan, session, config or upload it is
refused, unless the person trusts that file (`--trust`, `trust=True`), or has named the very same reference
along with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TypeAlias

from explorer.base.errors import InputError

Trust: TypeAlias = bool | Collection[str]
"""Code that a file may name: any (True), none (False), or these references, which a person named."""

_CODE = re.compile(r"^(?!hf:)(?:[A-Za-z_][\w.]*|.*\.py):[A-Za-z_][\w.]*$", re.DOTALL)


def runs_code(reference: str) -> bool:
    """Tell whether a model reference names code: `module.path:factory` or `file.py:factory`.

    >>> runs_code("subprocess:getoutput"), runs_code("./model.py:make"), runs_code("hf:folder")
    (True, True, False)
    """
    return _CODE.match(reference) is not None


def require_trust(reference: str, settings: Mapping[str, str], trust: Trust) -> None:
    """Refuse code that no person named.

    A file may use a reference that a person named along with it, but with no arguments of the file's own.

    Args:
        reference: the model reference, which names code or standard input.
        settings: arguments that the file gives it.
        trust: the references that a person named.

    Raises:
        InputError: nobody named it.
    """
    named = trust if isinstance(trust, bool) else reference in trust and not settings
    if not named:
        with_settings = " with settings" if settings else ""
        raise InputError(
            f"a file names {reference!r}{with_settings}, which runs code",
            key="model",
            found=reference,
            allowed="in files a zoo name, a data file or hf:PATH; code is run if you name it yourself:"
            " --model on the command line, load_model or Explorer(model=...) in a cell, or if you trust"
            " the whole file: --trust, trust=True",
        )
