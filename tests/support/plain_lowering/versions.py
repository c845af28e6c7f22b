"""Weight versions and staleness, counted from an order, its read rule and the update rules; never declared.

A version lives from the U that makes it to its last reader. Version 0 exists from the start; the k-th U
of a stage on a lane makes version k. `delay` is the number of updates between the read of a weight and
the update made from it (0 in synchronous training, p - s - 1 in PipeDream, 1 in 2BW).
"""

from __future__ import annotations

from explorer.actions import NAMED
from explorer.tasks.skeleton import Piece
from explorer.tasks.versions import Counted, count_versions
from explorer.updates import rule_of
from tests.support.plain_lowering.work import Lowering


def versions_of(work: Lowering) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return per section the most versions that take memory and the largest delay, over its pieces.

    An update rule that applies gradients late adds to the delay.
    """
    count = len(work.sections)
    versions, delay = [1] * count, [0] * count
    if not work.shape.training:
        return tuple(versions), tuple(delay)
    rule = work.order.read_rule
    first_reads: dict[int, int] = {}
    seen: dict[tuple[int, int, int], Counted] = {}
    for s, section in enumerate(work.sections):
        for copy in range(len(section.rows)):
            for replica in work.kept(s):
                lane = work.lanes.of_piece[Piece(s, copy, replica)][0]
                key = (section.stage, copy, lane)
                if key not in seen:
                    program = [
                        a
                        for a in work.order.lanes[lane]
                        if a.op not in NAMED and a.stage == section.stage and a.copy == copy
                    ]
                    seen[key] = count_versions(
                        program,
                        rule,
                        microbatches=work.shape.microbatches[section.stage],
                        first_stage_reads=first_reads if section.stage else None,
                    )
                found = seen[key]
                if section.stage == 0:
                    first_reads.update(found.forward)
                versions[s], delay[s] = max(versions[s], found.most), max(delay[s], found.delay)
    late = [0] * count
    for group in work.skeleton.holders:
        for piece in group.pieces:
            late[piece.section] = max(late[piece.section], rule_of(group.update).delay)
    return tuple(versions), tuple(map(sum, zip(delay, late, strict=True)))
