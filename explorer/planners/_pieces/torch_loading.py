"""Loading torch on a thread of its own without holding up the others.

An import holds the interpreter while the system loads a library, of which torch's largest takes a fifth of a
second of work. A foreign function does not hold it, so one loads that library first, and the import finds it.
"""

from __future__ import annotations

import ctypes
import os
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = (("libtorch_global_deps.so", getattr(os, "RTLD_GLOBAL", 0)), ("libtorch_cpu.so", 0))
"""In the order and way in which torch itself loads them; none of them knows Python."""


def load_torch_libraries() -> list[str]:
    """Load torch's largest libraries, where the system can, and return the names of those it loaded."""
    spec = find_spec("torch")
    if os.name != "posix" or spec is None or not spec.origin:
        return []
    load = ctypes.CDLL(None).dlopen
    load.argtypes, load.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    folder = Path(spec.origin).parent / "lib"
    return [name for name, how in LIBRARIES if load(os.fsencode(folder / name), os.RTLD_NOW | how)]
