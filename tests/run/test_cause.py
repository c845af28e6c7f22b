"""Why a run failed: from the end of its processes and what was printed, without any process."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.run.launching.cause import SHOWN_LINES, Evidence, cause_of

LOST = "[rank1]: RuntimeError: Connection closed by peer [127.0.0.1]:4711"
ENDS = "failed (exitcode: {code}) local_rank: 0 (pid: 71) of binary: python"
BEGUN = [{"event": "start", "rank": 0, "pid": 71}, {"event": "start", "rank": 1, "pid": 72}]
ECHO = {"event": "fault", "rank": 1, "echo": True, "at": "2F0", "message": "closed by peer", "log": "its log"}


def cause(log: str = "", seen: list[dict[str, Any]] | None = None, **known: Any) -> tuple[str, int | None]:
    given: dict[str, Any] = {
        "torchrun": 70, "status": 1, "log": log, "seen": BEGUN if seen is None else seen, "found": {},
        "disk_is_full": False, "doing": lambda rank: f"{rank}F0", "lives": lambda _pid: True,
    }  # fmt: skip
    error = cause_of(Evidence(**(given | known)))
    return str(error), error.rank


@pytest.mark.parametrize(
    "words",
    [
        "cannot allocate memory for thread-local data: ABORT",
        "error while loading shared libraries: libm.so.6: failed to map segment: Cannot allocate memory",
        "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ],
)
def test_want_of_memory_is_found_however_much_others_print_behind_it(words: str) -> None:
    """Here the loader left with status 127, and the other rank filled the end of the log."""
    behind = [LOST, *["  a line of a traceback"] * 2 * SHOWN_LINES, ENDS.format(code=127)]
    text, rank = cause("\n".join([words, *behind]), [*BEGUN, ECHO])
    assert rank == 0
    assert text == f"rank 0 left with exit status 127 (out of memory: {words}) during 0F0"


def test_a_rank_that_says_why_is_believed() -> None:
    said = {"event": "fault", "rank": 1, "echo": False, "at": "1F0", "message": "ValueError: no", "log": "l"}
    assert cause(seen=[*BEGUN, ECHO | {"rank": 0}, said]) == ("rank 1 failed at 1F0: ValueError: no", 1)


def test_a_signal_to_torchrun_is_the_cause_of_the_ends_of_its_ranks() -> None:
    assert cause(status=-9)[0].startswith("torchrun was killed by SIGKILL")
    assert cause("Process 70 got signal: 15") == ("torchrun was ended by SIGTERM", None)
    assert "torchrun" not in cause("Process 71 got signal: 15", [*BEGUN, ECHO])[0]


def test_the_rank_of_another_end_than_sigterm_was_first() -> None:
    log = f"{ENDS.format(code=-15)}\nexitcode  : -11 (pid: 72)"
    assert cause(log) == ("rank 1 was killed by SIGSEGV during 1F0", 1)
    crash = [
        "Fatal Python error: Segmentation fault",
        "",
        "Thread 0x00007f (most recent call first):",
        '  File "/somewhere/threading.py", line 982 in run',
        "",
        "Current thread 0x00008f (most recent call first):",
        '  File "/somewhere/explorer/run/ranks/transport.py", line 88 in send',
        '  File "/somewhere/explorer/run/worker.py", line 50 in main',
    ]
    found, _ = cause("\n".join([*crash, log]))
    assert found == "rank 1 was killed by SIGSEGV (in send, line 88 of transport.py) during 1F0"


def test_a_connection_that_broke_is_said_when_nobody_ended() -> None:
    assert cause(seen=[*BEGUN, ECHO]) == ("rank 1 lost its connection at 2F0: closed by peer", 1)


def test_ranks_that_never_began() -> None:
    text, rank = cause("RendezvousError: no\n======", [], status=1)
    assert (text, rank) == (
        "the ranks did not start: torchrun left with exit status 1: RendezvousError: no",
        None,
    )
    assert "its disk is full" in cause("no", [], disk_is_full=True)[0]
