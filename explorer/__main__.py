"""The programs `explorer` and `python -m explorer`: how the process begins and ends.

Ctrl-C and the signals by which systems end a process (TERM, HUP) interrupt a command, which tidies up; while
modules are still being imported there is nothing to tidy. Exit status: 128 + the signal, as shells count.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def main() -> int:
    """Run the command line; the exit status."""
    if threading.current_thread() is not threading.main_thread():
        return _command()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDING)}
    received: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        received.append(number)
        raise KeyboardInterrupt

    usual = [number for number in _ENDING if before[number] is signal.SIG_DFL]  # others: nohup, a caller's
    for number in (signal.SIGINT, *usual):
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, _leave)
    try:
        import explorer.cli.main  # noqa: F401 - takes most of the time
    finally:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        for number in usual:
            signal.signal(number, interrupt)
    status = _command()
    return 128 + received[0] if received and status == 128 + signal.SIGINT else status


def _command() -> int:
    from explorer.cli.main import main as run

    return run()


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, b"explorer: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
