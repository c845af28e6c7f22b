"""Rows of neighbours: what a window needs, against a convolution of ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from explorer.run.sharded.halos import Window, rows_sent, window_of
from explorer.sharding.states import runs

WINDOWS = st.builds(
    lambda kernel, stride, padding: Window(kernel, stride, min(padding, kernel // 2)),
    st.integers(1, 7), st.integers(1, 3), st.integers(0, 3),
)  # fmt: skip


@given(WINDOWS, st.integers(8, 40), st.integers(2, 4))
def test_rows_are_those_that_a_window_touches(window: Window, before: int, n: int) -> None:
    after = (before + 2 * window.padding - window.kernel) // window.stride + 1
    if after < n:
        return
    read, made = runs(before, n), runs(after, n)
    touched = [
        {row * window.stride - window.padding + k for row in range(*made[i]) for k in range(window.kernel)}
        & set(range(before))
        for i in range(n)
    ]
    fed = [{row for row in range(after) if touches(window, row) & set(range(*read[i]))} for i in range(n)]
    forward = sum(span(rows, read[i]) for i, rows in enumerate(touched))
    backward = sum(span(rows, made[i]) for i, rows in enumerate(fed))
    assert rows_sent(window, read, made) == (forward, backward)


def touches(window: Window, row: int) -> set[int]:
    first = row * window.stride - window.padding
    return set(range(first, first + window.kernel))


def span(rows: set[int], own: tuple[int, int]) -> int:
    """Rows from the first to the last of those wanted that are outside of the own ones."""
    if not rows:
        return 0
    return max(0, own[0] - min(rows)) + max(0, max(rows) + 1 - own[1])


@given(st.integers(1, 3), st.integers(1, 3), st.integers(8, 60))
def test_windows_follow_from_sizes(half: int, stride: int, before: int) -> None:
    window = Window(2 * half + 1, stride, half)
    after = (before + 2 * half - window.kernel) // stride + 1
    found = window_of(before, after, window.kernel)
    assert (before + 2 * found.padding - found.kernel) // found.stride + 1 == after
    if before % stride == 0 or stride == 1:
        assert found.stride == stride


def test_half_a_window_each_way_at_a_stride_of_1() -> None:
    assert rows_sent(Window(3, 1, 1), runs(12, 3), runs(12, 3)) == (4, 4)
    assert rows_sent(Window(3, 2, 1), runs(12, 3), runs(6, 3)) == (2, 2)
    assert rows_sent(Window(1, 2, 0), runs(12, 3), runs(6, 3)) == (0, 0)
