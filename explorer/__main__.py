"""The programs `explorer` and `python -m explorer`: how the process begins and ends.

Ctrl-C and the signals by which systems end a process (TERM, HUP) interrupt a command, which tidies up; while
modules are still being imported there is nothing to tidy. A second signal does not disturb the tidying, a
third one ends it. Exit status: 128 + the signal, as shells count.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

PATIENT = 2
"""Signals that a command may take to tidy up."""


def main() -> int:
    """Run the command line; the exit status."""
    if threading.current_thread() is not threading.main_thread():
        return _command()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDING)}
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > PATIENT:
            _leave(received[0], frame)
        if len(received) == 1:
            raise KeyboardInterrupt

    usual = [number for number in _ENDING if before[number] is signal.SIG_DFL]  # others: nohup, a caller's
    heard = [number for number in (signal.SIGINT, *usual) if before[number] is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _leave)
    try:
        import explorer.cli.main  # noqa: F401 - takes most of the time
    finally:
        for number in heard:
            signal.signal(number, interrupt)
    status = _command()
    for number in heard if received else ():  # Python itself has still to end
        signal.signal(number, signal.SIG_IGN)
    if received:
        # CPython notes an interrupt inside an exec'd string, as in the making of a dataclass, even if it is
        # caught later, and then kills itself with SIGINT at the end of `python -m`; the next string clears it
        eval("None")
    return 128 + received[0] if received and status == 128 + signal.SIGINT else status


def _command() -> int:
    from explorer.base.files import cache_folder
    from explorer.cli.main import main as run

    # torch makes this folder when it captures a module, else among temporary files, and leaves it there
    folder = cache_folder() / "torchinductor"
    first = next(path for path in (folder, *folder.parents) if path.exists())
    if os.access(first, os.W_OK):
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder))
    return run()


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, b"explorer: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
