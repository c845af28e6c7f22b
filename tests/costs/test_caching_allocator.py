"""What a caching allocator reserves, by sequences whose result is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from explorer.base.units import MIB
from explorer.costs.caching_allocator import CachingAllocator


def test_small_requests_share_a_segment() -> None:
    allocator = CachingAllocator()
    for _ in range(4096):
        assert allocator.allocate(500) is not None
    assert (allocator.allocated, allocator.reserved) == (2 * MIB, 2 * MIB)
    allocator.allocate(1)
    assert (allocator.allocated, allocator.reserved) == (2 * MIB + 512, 4 * MIB)


def test_requests_in_the_middle_share_segments_of_twenty_and_large_ones_have_their_own() -> None:
    allocator = CachingAllocator()
    for _ in range(4):
        allocator.allocate(5 * MIB)
    assert allocator.reserved == 20 * MIB
    allocator.allocate(11 * MIB + 1)
    assert allocator.reserved == 32 * MIB
    assert allocator.allocated == 20 * MIB + 12 * MIB  # a rest of less than 1 MiB is not split off


def test_the_best_fit_is_taken_and_the_rest_split_off() -> None:
    allocator = CachingAllocator()
    large, small = allocator.allocate(64 * MIB), allocator.allocate(32 * MIB)
    assert large is not None
    assert small is not None
    allocator.release(large)
    allocator.release(small)
    allocator.allocate(30 * MIB)  # of the 32
    allocator.allocate(40 * MIB)  # of the 64
    allocator.allocate(24 * MIB)  # of what is left of the 64
    assert allocator.reserved == 96 * MIB


def test_free_neighbours_are_joined() -> None:
    allocator = CachingAllocator()
    parts = [allocator.allocate(5 * MIB) for _ in range(4)]
    for number in (1, 3, 0, 2):
        handle = parts[number]
        assert handle is not None
        allocator.release(handle)
    assert allocator.allocate(9 * MIB) is not None
    assert allocator.allocate(9 * MIB) is not None
    assert allocator.reserved == 20 * MIB


def test_room_in_pieces_fits_nothing_large() -> None:
    """Every second of eight blocks is free: 40 MiB, but no 10 of them in a row."""
    allocator = CachingAllocator()
    parts = [allocator.allocate(10 * MIB) for _ in range(8)]
    for handle in parts[::2]:
        assert handle is not None
        allocator.release(handle)
    assert (allocator.allocated, allocator.reserved) == (40 * MIB, 80 * MIB)
    allocator.allocate(20 * MIB)
    assert allocator.reserved == 100 * MIB


def test_free_segments_are_given_back_before_it_fails() -> None:
    allocator = CachingAllocator(capacity=100 * MIB)
    first = allocator.allocate(60 * MIB)
    assert first is not None
    allocator.release(first)
    assert allocator.allocate(80 * MIB) is not None
    assert (allocator.reserved, allocator.retries) == (80 * MIB, 1)
    assert allocator.allocate(40 * MIB) is None


@given(st.lists(st.tuples(st.integers(1, 80 * MIB), st.booleans()), max_size=60))
def test_blocks_never_overlap_and_everything_can_be_freed(steps: list[tuple[int, bool]]) -> None:
    allocator, live = CachingAllocator(), []
    for size, frees in steps:
        handle = allocator.allocate(size)
        assert handle is not None
        live.append(handle)
        if frees:
            allocator.release(live.pop(0))
        assert allocator.allocated <= allocator.reserved
    for handle in live:
        allocator.release(handle)
    assert allocator.allocated == 0
    allocator.capacity = 0  # every segment is free as a whole, and goes back
    assert allocator.allocate(2 * 80 * MIB) is None
    assert allocator.reserved == 0


def test_a_segment_that_grows_holds_what_follows_in_the_place_of_what_was_freed() -> None:
    for expandable, reserved in ((False, 220 * MIB), (True, 120 * MIB)):
        allocator = CachingAllocator(expandable=expandable)
        first = allocator.allocate(100 * MIB)
        assert first is not None
        allocator.release(first)
        allocator.allocate(120 * MIB)
        assert allocator.reserved == reserved


def test_pages_inside_of_what_is_free_are_given_back_for_want_of_room() -> None:
    allocator = CachingAllocator(capacity=100 * MIB, expandable=True)
    first, last = allocator.allocate(50 * MIB), allocator.allocate(30 * MIB)
    assert first is not None
    assert last is not None
    allocator.release(first)
    assert allocator.reserved == 80 * MIB
    assert allocator.allocate(60 * MIB) is not None  # 40 of the 50 are unmapped: 10 and 30 stay
    assert (allocator.reserved, allocator.retries) == (100 * MIB, 1)
    assert allocator.allocate(20 * MIB) is None


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(1, 64 * MIB)), max_size=60))
def test_a_growing_segment_holds_what_is_allocated(steps: list[tuple[bool, int]]) -> None:
    allocator, known = CachingAllocator(capacity=400 * MIB, expandable=True), list[int]()
    for free, size in steps:
        if free and known:
            allocator.release(known.pop(size % len(known)))
        elif (handle := allocator.allocate(size)) is not None:
            known.append(handle)
        assert allocator.allocated <= allocator.reserved <= allocator.capacity
    for handle in known:
        allocator.release(handle)
    assert allocator.allocated == 0
