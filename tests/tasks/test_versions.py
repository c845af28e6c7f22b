"""Weight versions and staleness, counted from order and read rule."""

from __future__ import annotations

import pytest

from explorer.actions import ReadRule, parse_action
from explorer.base.errors import PlanError
from explorer.tasks.versions import count_versions


def counted(text: str, rule: str, k: int = 0, *, microbatches: int = 1) -> tuple[int, int]:
    program = [parse_action(word) for word in text.split()]
    found = count_versions(program, ReadRule(name=rule, parameter=k), microbatches=microbatches)
    return found.most, found.delay


PIPEDREAM = "0F0 0F1 0B0 0U0 0F2 0B1 0U1 0F3 0B2 0U2 0B3 0U3"  # two in flight


@pytest.mark.parametrize(
    ("text", "rule", "expected"),
    [
        ("0F0 0B0 0U0 0F1 0B1 0U1", "latest", (1, 0)),
        ("0F0 0F1 0B0 0B1 0U0-1", "latest", (1, 0)),
        (PIPEDREAM, "stash", (2, 1)),
        # one version, and the gradient is applied one update after its forward's read
        (PIPEDREAM, "latest", (1, 1)),
        # four in flight: p versions, p - 1 updates between read and apply
        (
            "0F0 0F1 0F2 0F3 0B0 0U0 0F4 0B1 0U1 0F5 0B2 0U2 0F6 0B3 0U3 0B4 0U4 0B5 0U5 0B6 0U6",
            "stash",
            (4, 3),
        ),
    ],
)
def test_counts(text: str, rule: str, expected: tuple[int, int]) -> None:
    assert counted(text, rule) == expected


def test_buffered_reads_the_step_before() -> None:
    text = "0F0 0F1 0B0 0B1 0U0-1 0F2 0F3 0B2 0B3 0U2-3 0F4 0F5 0B4 0B5 0U4-5"
    assert counted(text, "buffered", 1, microbatches=2) == (2, 1)
    assert counted(text, "buffered", 0, microbatches=2) == (1, 0)


def test_a_version_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match=r"0F2 reads version 1 under rule buffered\(1\), but only 0 updates"):
        counted("0F0 0F1 0F2 0F4 0B0 0B1 0U0-1", "buffered", 1, microbatches=1)
