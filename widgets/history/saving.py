"""Autosave: the session of a workbench in a file next to the notebook, and what that file held before.

A file belongs to the workbench that writes it: another kernel takes the next name, and of two workbenches of
one kernel the later takes the name over (a cell that is run again). Nothing is written before something
changes, and what a file held before is renamed, never overwritten.
"""

from __future__ import annotations

import atexit
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Any, Protocol
from weakref import WeakValueDictionary

from explorer import __version__
from explorer.base.errors import InputError
from widgets.jobs import Idle, at_once
from widgets.parts import Parts
from widgets.session import History
from widgets.showing import Showing

from .file import Look, Recorder, SavedSession, read_session, write_session
from .filelock import FileLock
from .load import Restored
from .opened import restored_of
from .places import forget_oldest, make_session_folder, moment, names, place, renamed

REST_S = 0.8
"""Seconds from the first unsaved change until it is saved."""

_OWNERS: WeakValueDictionary[Path, Saving] = WeakValueDictionary()
"""Workbenches of this kernel by the file they write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A session that can be reopened."""

    path: Path
    """Its file."""
    session: SavedSession
    """The session it holds."""

    def words(self, now_s: float) -> str:
        """Say when it was saved, and how much it holds."""
        count = self.session.changes
        return f"{moment(self.session.saved_s, now_s)} with {count} change{'' if count == 1 else 's'}"


class Saved(Protocol):
    """The workbench as its autosave sees it."""

    lock: RLock
    """Lock held by all code that touches the workbench."""
    history: History
    """States to be saved."""
    parts: Parts
    """Parts of the page that show where it is saved."""
    showing: Showing
    """Part of the page that shows errors."""

    def look(self) -> Look:
        """Return what is not part of a state."""
        ...

    def resume(self, restored: Restored, look: Look) -> None:
        """Restore a saved session."""
        ...

    def reopens(self) -> None:
        """Tell the page that the session is saved."""
        ...

    def say(self, verdict: Mapping[str, Any] | None) -> None:
        """Put a sentence under the tiles."""
        ...


class Saving:
    """Writes the session of one workbench soon after every change, and reopens the one before."""

    def __init__(self, bench: Saved) -> None:
        self._bench = bench
        self._recorder = Recorder()
        self._idle = Idle(bench.lock, self._failed, rest_s=REST_S)
        self._lock: FileLock | None = None
        self._dirty = self._waiting = self._mine = False
        self._told = 0
        self.first: Path | None = None
        """The name that was asked for; None if nothing is to be saved."""
        self.path: Path | None = None
        """File in which the session is written; None while it is not."""
        self.offer: Offer | None = None
        """The earlier session in this file, until it is reopened."""
        self.former: SavedSession | None = None
        """What the file held at the beginning, even if nothing of it can be reopened; None if nothing."""
        self.saved_s: float | None = None
        """When it was last written, in seconds since 1970."""
        self.remarks: list[str] = []
        """What is worth knowing about the file, in words."""
        self.problem = ""
        """Why it could not be written last time; empty if it was."""

    # -- the beginning ----------------------------------------------------------------------------

    def start(self, *, session: str | Path | bool | None, asked: Mapping[str, Any], reopen: bool) -> None:
        """Find the file, and the session that it held before.

        Args:
            session: the file; True for one in `.explorer`, if a notebook asks; None or False for none.
            asked: arguments of the workbench, which name its file.
            reopen: continue that session at once.

        Raises:
            InputError: a file of another kind, or nothing to reopen.
        """
        hidden = session is True
        self.first = place(session=session, asked=asked)
        if self.first is not None:
            self._claim(self.first, aside=hidden)
            atexit.register(self.flush)
        if reopen:
            self.reopen()
        elif self.offer is not None:
            self._bench.say(self._offered())
        self._tell()

    def _claim(self, first: Path, *, aside: bool) -> None:
        """Take the first name that is free, and read what is there."""
        taken = 0
        for path in names(first):
            owner = _OWNERS.get(path.absolute())
            if owner is not None:
                owner.give_way()
            lock = FileLock.take(path)
            if lock is None:
                taken += 1
                continue
            self._lock, self.path = lock, path
            if taken:
                who = "another workbench" if taken == 1 else f"{taken} other workbenches"
                self.remarks.append(f"{first.name} is in use by {who}, so this one is saved as {path.name}")
                taken = 0
            if not path.exists():
                break
            try:
                found = read_session(path)
            except InputError as error:
                self.remarks.append(f"{path} is not a session that can be opened ({error.message})")
                if aside:
                    kept = renamed(path, "unreadable")
                    self.remarks.append(f"it is kept as {kept.name}")
                    break
                self.remarks.append("it was left as it is")
                lock.release()
                self._lock = self.path = None
                continue
            self.former = found
            if found.changes > 0:
                self.offer = Offer(path=path, session=found)
            break
        if self.path is not None:
            _OWNERS[self.path.absolute()] = self

    def give_way(self) -> None:
        """Give the file up to a later workbench of this kernel; further changes go to another file."""
        self.flush()
        if self._lock is not None:
            self._lock.release()
        if self.path is not None:
            _OWNERS.pop(self.path.absolute(), None)
        self._lock, self.path, self._mine = None, None, False

    # -- changes ----------------------------------------------------------------------------------

    def changed(self, *, even_the_first: bool = False) -> None:
        """Write a change in a quiet moment, or at once if there is no event loop.

        Args:
            even_the_first: write even if no state was added yet, unless an earlier session stands there.
        """
        if self.first is None or self._bench.history.now is None:
            return
        forced = even_the_first and self.offer is None
        if not self._mine and len(self._bench.history.points) < 2 and not forced:
            return  # nothing was done yet: the existing file stays
        self._dirty = True
        if not self._waiting:
            self._waiting = self._idle.later(self._work)
            if not self._waiting:
                self._write_now()

    def flush(self) -> None:
        """Write what is not written yet."""
        if self._dirty or self._waiting:
            self._idle.cancel()
            self._write_now()

    def _write_now(self) -> None:
        try:
            at_once(self._work)
        except InputError as error:  # the edit itself is fine
            self._failed(error)

    def close(self) -> None:
        """Write the rest and release the file."""
        atexit.unregister(self.flush)
        self.give_way()
        self.first = None

    def _work(self) -> Generator[None, None, None]:
        """Write the session, in slices."""
        try:
            self._dirty = False
            path = self._own_file()
            document = yield from self._recorder.slices(
                self._bench.history, self._bench.look(), version=__version__
            )
            write_session(document, path)
            self.saved_s, self.problem = document["saved_s"], ""
            self._bench.reopens()
        finally:
            self._waiting = False
        if self._dirty:
            self.changed()

    def _own_file(self) -> Path:
        """Return the file, with folder and lock, after moving aside what was in it."""
        assert self.first is not None
        make_session_folder(self.first.parent)
        if self._lock is None or not self._lock.held:  # the folder is new, or another workbench has the file
            self._take_next(self.first)
        assert self.path is not None
        if not self._mine and self.path.exists() and not self._trivial():
            kept = renamed(self.path, "earlier")
            self.remarks.append(f"the session before is kept as {kept.name}")
            if self.offer is not None and self.offer.path == self.path:
                self.offer = replace(self.offer, path=kept)
            forget_oldest(self.path)
        self._mine = True
        return self.path

    def _trivial(self) -> bool:
        """Tell whether the file holds a session in which nothing was changed."""
        return self.former is not None and self.former.changes == 0

    def _take_next(self, first: Path) -> None:
        """Take the first name if it is still free, else the next free one."""
        for path in names(first):
            if path != self.path and (path.absolute() in _OWNERS or path.exists()):
                continue
            lock = FileLock.take(path)
            if lock is not None:
                if path != first:
                    self.remarks.append(f"{first} belongs to another workbench; this one is in {path.name}")
                    self._tell()
                self._lock, self.path = lock, path
                _OWNERS[path.absolute()] = self
                return
        raise InputError("no free name for the session", file=str(first), allowed="another `session=`")

    def _tell(self) -> None:
        """Tell the page what happened to files, once."""
        fresh = self.remarks[self._told :]
        self._told = len(self.remarks)
        if fresh:
            self._bench.parts.controls.notice = {"level": "info", "text": f"Session: {'; '.join(fresh)}."}

    def _failed(self, error: Exception) -> None:
        """Report once why it is not saved; the edit itself is fine, and the next one tries again."""
        if str(error) != self.problem:
            self.problem = str(error)
            self._bench.showing.failed(error)

    # -- going on ---------------------------------------------------------------------------------

    def reopen(self) -> None:
        """Restore the session that was here before; what was done since is kept in a file.

        Raises:
            InputError: there is none, or nothing of it can be restored; nothing is changed then.
        """
        self.flush()  # may rename the very file that is to be reopened
        taken = self.offer
        if taken is None:
            raise InputError("there is no session to reopen", key="session", allowed="a saved session")
        self.reopen_session(taken.session, path=taken.path)
        self.offer = None

    def reopen_session(
        self, session: SavedSession, *, path: Path | None = None, restored: Restored | None = None
    ) -> None:
        """Restore any session, from the file `path` or from elsewhere.

        Args:
            session: the session.
            path: file that it was read from; None for elsewhere.
            restored: its states, if they were restored already.

        Raises:
            InputError: nothing of it can be restored; nothing is changed then.
        """
        restored = restored or restored_of(session, self._bench.history.now)
        self.flush()
        if path is not None and path == self.path:
            self._mine = True  # it is this very session that continues
        else:
            self._set_aside_own()
        self._bench.resume(restored, session.look)
        self.remarks += restored.remarks
        self._tell()
        self.changed()

    def _set_aside_own(self) -> None:
        """Move aside the few changes made before an earlier session was reopened."""
        if self._mine and self.path is not None and self.path.exists():
            kept = renamed(self.path, "earlier")
            self.remarks.append(f"what you did before reopening is kept as {kept.name}")

    def dismiss(self) -> None:
        """Withdraw the offer of the earlier session; its file stays."""
        self.offer = None

    def _offered(self) -> dict[str, Any]:
        """Return the sentence under the tiles."""
        assert self.offer is not None
        when = self.offer.words(self._bench.history.clock())
        return {
            "level": "none",
            "text": f"**You were here {when}.** Reopen goes on from there; Start afresh keeps it aside.",
            "actions": [
                {"action": "reopen", "label": "Reopen", "suggested": True,
                 "title": "All states, pins, plan B and the selection as they were"},
                {"action": "start_afresh", "label": "Start afresh",
                 "title": "The file stays; History can still open it"},
            ],
        }  # fmt: skip


# -- where ----------------------------------------------------------------------------------------
