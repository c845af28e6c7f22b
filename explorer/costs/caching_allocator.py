"""A caching allocator as frameworks of accelerators have it: what it reserves, besides what it allocates.

Requests are rounded to 512 bytes. Those of up to 1 MiB share segments of 2 MiB, those below 10 MiB segments
of 20 MiB; larger ones get segments of their own, in whole units of 2 MiB. A free block is found by best fit,
the rest of it is split off (small ones from 512 bytes on, large ones above 1 MiB), and neighbours that are
free are joined. Nothing goes back to the device until a segment cannot be had: then every segment that is
free as a whole does, and the request is tried once more (PyTorch's CUDA caching allocator, by its notes).

An *expandable* segment grows instead (`expandable_segments:True`): small requests share one and large ones
another, of pages of 2 and 20 MiB. What no free block holds is put at its end, where a free rest counts and
only pages that are missing are mapped; for want of room pages inside of free blocks are given back.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from dataclasses import dataclass, field

from explorer.base.units import MIB

ROUND = 512
SMALL, SMALL_SEGMENT = 1 * MIB, 2 * MIB
LARGE, LARGE_SEGMENT = 10 * MIB, 20 * MIB
"""Requests below `LARGE` bytes and above `SMALL` share segments of `LARGE_SEGMENT`."""
_SMALL_GROWING, _LARGE_GROWING = -1, -2
"""Numbers of the segments that grow."""


@dataclass(slots=True, eq=False)
class _Block:
    segment: int
    offset: int
    size: int
    free: bool = True
    before: _Block | None = None
    after: _Block | None = None


@dataclass(slots=True, kw_only=True)
class CachingAllocator:
    """An allocator with its segments; handles are what `allocate` returns."""

    capacity: float = math.inf
    """Bytes that the device gives in all."""
    expandable: bool = False
    """Whether segments grow."""
    allocated: int = 0
    """Bytes in use, rounded."""
    reserved: int = 0
    """Bytes of all segments."""
    most_allocated: int = 0
    """Most of `allocated` so far."""
    most_reserved: int = 0
    """Most of `reserved` so far."""
    retries: int = 0
    """Times that free segments were given back to make room."""
    _free: dict[bool, list[tuple[int, int, int]]] = field(default_factory=lambda: {True: [], False: []})
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _segments: dict[int, int] = field(default_factory=dict)
    _next: int = 0
    _at: dict[tuple[int, int], _Block] = field(default_factory=dict)
    _last: dict[bool, _Block] = field(default_factory=dict)

    def allocate(self, size: float) -> int | None:
        """Return the handle of a block of some bytes; None if there is no room for it."""
        wanted = max(ROUND, -(-math.ceil(size) // ROUND) * ROUND)
        small = wanted <= SMALL
        more = self._grown if self.expandable else self._segment
        block = self._best(wanted, small=small) or more(wanted, small=small)
        if block is None:
            return None
        block.free = False
        rest = block.size - wanted
        if rest >= ROUND if small else rest > SMALL:
            self._split(block, wanted, small=small)
        self.allocated += block.size
        self.most_allocated = max(self.most_allocated, self.allocated)
        self._next += 1
        self._blocks[self._next] = block
        return self._next

    def release(self, handle: int) -> None:
        """Free a block; it is joined with neighbours that are free and stays reserved."""
        block = self._blocks.pop(handle)
        self.allocated -= block.size
        small = self._segments[block.segment] == SMALL_SEGMENT
        block.free = True
        for other in (block.before, block.after):
            if other is not None and other.free:
                self._forget(other, small=small)
                first, second = (other, block) if other is block.before else (block, other)
                first.size += second.size
                first.after = second.after
                if second.after is not None:
                    second.after.before = first
                block = first
        if block.after is None:
            self._last[small] = block
        self._keep(block, small=small)

    def _best(self, wanted: int, *, small: bool) -> _Block | None:
        known = self._free[small]
        at = bisect_left(known, (wanted, -1, -1))
        if at == len(known):
            return None
        _, segment, offset = known.pop(at)
        return self._at.pop((segment, offset))

    def _segment(self, wanted: int, *, small: bool) -> _Block | None:
        unit = SMALL_SEGMENT
        size = SMALL_SEGMENT if small else LARGE_SEGMENT if wanted < LARGE else -(-wanted // unit) * unit
        if self.reserved + size > self.capacity:
            self._give_back()
            self.retries += 1
            if self.reserved + size > self.capacity:
                return None
        self._next += 1
        self._segments[self._next] = size
        self.reserved += size
        self.most_reserved = max(self.most_reserved, self.reserved)
        return _Block(self._next, 0, size)

    def _grown(self, wanted: int, *, small: bool) -> _Block | None:
        """Return a block at the end of the growing segment, pages mapped; None if there is no room."""
        page = SMALL_SEGMENT if small else LARGE_SEGMENT
        size = -(-(wanted - self._free_at_end(small=small)) // page) * page
        if self.reserved + size > self.capacity:
            self._unmap()
            self.retries += 1
            size = -(-(wanted - self._free_at_end(small=small)) // page) * page
            if self.reserved + size > self.capacity:
                return None
        self.reserved += size
        self.most_reserved = max(self.most_reserved, self.reserved)
        last = self._last.get(small)
        if last is not None and last.free:
            self._forget(last, small=small)
            last.size += size
            return last
        key = _SMALL_GROWING if small else _LARGE_GROWING
        self._segments[key] = SMALL_SEGMENT if small else LARGE_SEGMENT
        block = _Block(key, (last.offset + last.size) if last else 0, size, before=last)
        if last is not None:
            last.after = block
        self._last[small] = block
        return block

    def _free_at_end(self, *, small: bool) -> int:
        last = self._last.get(small)
        return last.size if last is not None and last.free else 0

    def _unmap(self) -> None:
        """Give back the whole pages of every free block; what is left of it stays."""
        for small, page in ((True, SMALL_SEGMENT), (False, LARGE_SEGMENT)):
            for size, segment, offset in list(self._free[small]):
                block, pages = self._at[segment, offset], size // page * page
                if not pages:
                    continue
                self._forget(block, small=small)
                self.reserved -= pages
                block.size -= pages
                self._keep(block, small=small)

    def _give_back(self) -> None:
        for small, known in self._free.items():
            for size, segment, offset in list(known):
                if size == self._segments[segment]:
                    known.remove((size, segment, offset))
                    del self._at[segment, offset]
                    self.reserved -= self._segments.pop(segment)
            self._free[small] = known

    def _split(self, block: _Block, wanted: int, *, small: bool) -> None:
        rest = _Block(
            block.segment, block.offset + wanted, block.size - wanted, before=block, after=block.after
        )
        if block.after is not None:
            block.after.before = rest
        else:
            self._last[small] = rest
        block.after, block.size = rest, wanted
        self._keep(rest, small=small)

    def _keep(self, block: _Block, *, small: bool) -> None:
        insort(self._free[small], (block.size, block.segment, block.offset))
        self._at[block.segment, block.offset] = block

    def _forget(self, block: _Block, *, small: bool) -> None:
        known = self._free[small]
        del known[bisect_left(known, (block.size, block.segment, block.offset))]
        del self._at[block.segment, block.offset]
