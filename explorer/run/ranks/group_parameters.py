"""Parameters of holders groups: which weights pieces on several lanes add up together."""

from __future__ import annotations

from collections import defaultdict

from explorer.run.spec import RunCase
from explorer.tasks.skeleton import Skeleton


def group_parameters(case: RunCase, skeleton: Skeleton) -> list[tuple[str, ...]]:
    """Return, per holders group, its parameters: those that all its sections have and no others share.

    Args:
        case: a case with a model.
        skeleton: its sections and groups.
    """
    if case.model is None:
        return [() for _ in skeleton.holders]
    users: dict[str, set[int]] = defaultdict(set)
    for section in range(len(skeleton.sections)):
        for name in case.model.parameters_of(case.sections[section]):
            users[name].add(section)
    return [
        tuple(name for name, found in users.items() if found == {piece.section for piece in group.pieces})
        for group in skeleton.holders
    ]


__all__ = ["group_parameters"]
