"""Weight versions and staleness, counted from an order and its read rule; never declared.

A version lives from the U that makes it to its last reader. Version 0 exists from the start; the k-th U
of a stage on a lane makes version k. `delay` is the number of updates between the read of a weight and
the update made from it (0 in synchronous training, p - s - 1 in PipeDream, 1 in 2BW).
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.actions import Action, ReadRule
from explorer.base.errors import PlanError
from explorer.tasks.skeleton import Piece
from explorer.tasks.work import Lowering


def versions_of(work: Lowering) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Per section the most versions alive and the largest delay, over its pieces."""
    count = len(work.sections)
    versions, delay = [1] * count, [0] * count
    if not work.shape.training:
        return tuple(versions), tuple(delay)
    rule = work.order.read_rule
    first_reads: dict[int, int] = {}
    seen: dict[tuple[int, int, int], tuple[int, int, dict[int, int]]] = {}
    for s, section in enumerate(work.sections):
        for copy in range(len(section.rows)):
            for replica in work.kept(s):
                lane = work.lanes.of_piece[Piece(s, copy, replica)][0]
                key = (section.stage, copy, lane)
                if key not in seen:
                    program = [
                        a for a in work.order.lanes[lane] if a.stage == section.stage and a.copy == copy
                    ]
                    seen[key] = count_versions(
                        program,
                        rule,
                        microbatches=work.shape.microbatches[section.stage],
                        first_stage_reads=first_reads if section.stage else None,
                    )
                most, late, reads = seen[key]
                if section.stage == 0:
                    first_reads.update(reads)
                versions[s], delay[s] = max(versions[s], most), max(delay[s], late)
    return tuple(versions), tuple(delay)


def count_versions(
    program: Sequence[Action],
    rule: ReadRule,
    *,
    microbatches: int,
    first_stage_reads: dict[int, int] | None = None,
) -> tuple[int, int, dict[int, int]]:
    """(most versions alive at once, largest delay, version each microbatch's forward read).

    Args:
        program: actions of one stage and copy on one lane, in order.
        rule: the read rule.
        microbatches: microbatches of this stage in one step.
        first_stage_reads: for `vertical`, what the first stage read per microbatch.

    Raises:
        PlanError: an op reads a version that no earlier U made.
    """
    made = 0
    reads: dict[int, int] = {}
    last_read: dict[int, int] = {0: -1}
    born: dict[int, int] = {0: -1}
    delay = 0
    for position, action in enumerate(program):
        if action.op == "U":
            covered = range(action.first_microbatch, action.first_microbatch + action.count)
            read = [reads[n] for n in covered if n in reads]
            if read:
                delay = max(delay, made - min(read))
            made += 1
            born[made] = position
            last_read[made] = position
            continue
        for n in range(action.first_microbatch, action.first_microbatch + action.count):
            version = _read(action, n, rule, made, reads, microbatches, first_stage_reads)
            if version > made:
                raise PlanError(
                    [f"{action} reads version {version} under rule {rule}, but only {made} updates were made"]
                )
            if action.op == "F" or n not in reads:
                reads[n] = version
            last_read[version] = position
    return _most_alive(born, last_read, made), delay, reads


def _read(
    action: Action,
    n: int,
    rule: ReadRule,
    made: int,
    reads: dict[int, int],
    microbatches: int,
    first_stage_reads: dict[int, int] | None,
) -> int:
    if rule.name == "buffered":
        return max(0, n // microbatches - rule.parameter)
    if rule.name == "vertical" and first_stage_reads is not None:
        return first_stage_reads.get(n, made)
    if rule.name in ("stash", "vertical") and action.op != "F":
        return reads.get(n, made)
    return made


def _most_alive(born: dict[int, int], last_read: dict[int, int], made: int) -> int:
    """Most versions alive at once: each lives to its last reader, or till its successor overwrites it."""
    events: list[tuple[int, int]] = []
    for version, start in born.items():
        events.append((start, 1))
        if version < made:
            events.append((max(last_read[version], born[version + 1]), -1))
    most = alive = 0
    for _, change in sorted(events):  # ends (-1) before starts at the same position
        alive += change
        most = max(most, alive)
    return max(1, most)
