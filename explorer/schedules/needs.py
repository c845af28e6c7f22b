"""Needs: which shapes a schedule can order, as data that can be asked before anything is tried.

`Needs.unmet` alone decides. `make_order` refuses by it, a plan's check lists it, pickers
and searchers ask it of the shape that they are about to make, and tests draw their shapes by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from explorer.actions import Shape
from explorer.base.errors import InputError
from explorer.schedules._common import turns
from explorer.schedules.placements import Grid, Placement

_FAR = 256
"""Numbers of microbatches tried on either side of one that does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The numbers of a shape that rules on microbatches use."""

    positions: int
    """Pipeline positions p: different sets of (stage, copy) on a lane."""
    chunks: int
    """Stages of one copy at a position."""
    microbatches: int
    """Microbatches m that one replica of one copy runs in a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """One need that a shape does not meet."""

    text: str
    """What was found, and the rule."""
    key: str
    """Field to change: stages, chunks, copies, microbatches, microbatch_samples or replicas."""
    found: object
    """Its value."""
    allowed: str
    """Values that would do; the nearest ones if they are numbers."""

    def __str__(self) -> str:
        return f"{self.text} (found {self.found}; allowed: {self.allowed})"

    def error(self) -> InputError:
        """Return the error that refuses the shape."""
        return InputError(self.text, key=self.key, found=self.found, allowed=self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiple:
    """A rule that the microbatches of a copy and replica are a multiple of something."""

    text: str
    """Rule in words: "microbatches a multiple of p"."""
    of: Callable[[Size], int]
    """Number that must divide them."""


PER_POSITION = Multiple(text="microbatches a multiple of p", of=lambda size: size.positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """A rule that a step has at least so many microbatches."""

    text: str
    """Rule in words: "as many microbatches as are in flight"."""
    of: Callable[[Shape], Sequence[int]]
    """Least number for every stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Requirements of a schedule on a shape; the default is any stage DAG in any number of copies."""

    chain: bool = False
    """Whether the stages must form a chain."""
    copies: tuple[int, ...] = ()
    """Allowed numbers of copies; () is any."""
    placed: bool = False
    """Whether the lanes must hold the stages as the placement says."""
    equal_microbatches: bool = False
    """Whether all stages must have one microbatch size."""
    whole_microbatches: bool = False
    """Whether replicas must take whole microbatches instead of splitting each."""
    split_microbatches: bool = False
    """Whether replicas must split each microbatch."""
    equal_turns: bool = False
    """Whether the replicas that take turns must be equally many on every stage and divide the
    microbatches.
    """
    multiple: Multiple | None = None
    """Number that must divide the microbatches of a copy and replica; None for no such rule."""
    least: Least | None = None
    """Least microbatches of a step; None for 1."""
    stage_multiple: int = 1
    """Number that must divide the stages."""
    chunk_multiple: int = 1
    """Number that must divide the chunks at a position."""
    most_chunks: int | None = None
    """Most chunks at a position; None for any."""

    def unmet(self, shape: Shape, placement: Placement, name: str) -> tuple[Unmet, ...]:
        """Return everything that the schedule called `name` lacks in a shape; () if it can order it."""
        return tuple(_unmet(self, shape, placement, name))

    def words(self) -> str:
        """Write the needs in a few words, as `explorer list schedules` shows them; "" for none."""
        return "; ".join(self._words())

    def _words(self) -> Iterator[str]:
        if self.chain:
            yield "a chain of stages"
        if self.copies:
            yield " or ".join(map(str, self.copies)) + (" copies" if self.copies != (1,) else " copy")
        if self.placed:
            yield "stages as placed"
        if self.equal_microbatches:
            yield "equal microbatches"
        if self.whole_microbatches:
            yield "replicas that take whole microbatches"
        if self.split_microbatches:
            yield "replicas that split microbatches"
        if self.equal_turns:
            yield "equally many replicas in turn"
        if self.stage_multiple > 1:
            yield f"stages a multiple of {self.stage_multiple}"
        if self.chunk_multiple > 1:
            yield f"chunks a multiple of {self.chunk_multiple}"
        if self.most_chunks is not None:
            yield f"at most {self.most_chunks} chunk{'s' * (self.most_chunks != 1)}"
        yield from (rule.text for rule in (self.multiple, self.least) if rule)


NO_NEEDS = Needs()
"""Any stage DAG, in any number of copies."""


def nearest(allowed: Callable[[int], bool], wanted: int) -> str:
    """Write the nearest allowed numbers below and above one that is not allowed.

    >>> nearest(lambda number: number % 4 == 0, 6), nearest(lambda number: number == 2, 1)
    ('4 or 8', '2')
    """
    below = next((n for n in range(wanted - 1, max(0, wanted - _FAR), -1) if allowed(n)), None)
    above = next((n for n in range(wanted + 1, wanted + _FAR) if allowed(n)), None)
    return " or ".join(str(number) for number in (below, above) if number is not None)


def positions_of(shape: Shape) -> set[tuple[tuple[int, int], ...]]:
    """Return the different sets of (stage, copy) that lanes hold: one per pipeline position."""
    held = {tuple((place.stage, place.copy) for place in places) for places in shape.lanes if places}
    return {tuple(sorted(set(pairs))) for pairs in held}


def size_of(shape: Shape, placement: Placement) -> Size:
    """Return the numbers of a shape with equal microbatches."""
    positions = max(1, len(positions_of(shape)))
    return Size(
        positions=positions,
        chunks=shape.stages if placement.whole else max(1, shape.stages // positions),
        microbatches=shape.microbatches[0] // shape.copies // turns(shape, 0),
    )


def _unmet(needs: Needs, shape: Shape, placement: Placement, name: str) -> Iterator[Unmet]:
    if structure := [*_stage_problems(needs, shape, name), *_placing_problems(needs, shape, placement, name)]:
        yield from structure
    else:
        yield from _microbatch_problems(needs, shape, placement, name)


def _stage_problems(needs: Needs, shape: Shape, name: str) -> Iterator[Unmet]:
    missing = [s for s in range(shape.stages - 1) if (s, s + 1) not in shape.edges] if needs.chain else []
    if missing:
        yield Unmet(
            text=f"{name} needs a chain of stages: stage {missing[0]} feeds no stage {missing[0] + 1}",
            key="stages",
            found=shape.edges,
            allowed="stages that follow one another, or the schedules 1f1b and gpipe",
        )
    if needs.copies and shape.copies not in needs.copies:
        wanted = " or ".join(map(str, needs.copies))
        yield Unmet(
            text=f"{name} runs {wanted} cop{'y' if needs.copies == (1,) else 'ies'} of every stage,"
            f" not {shape.copies}",
            key="copies",
            found=shape.copies,
            allowed=f"{wanted} meshes per stage",
        )
    if shape.stages % needs.stage_multiple:
        yield Unmet(
            text=f"{name} with {shape.stages} stages needs a multiple of {needs.stage_multiple}",
            key="stages",
            found=shape.stages,
            allowed=nearest(lambda count: count % needs.stage_multiple == 0, shape.stages),
        )
    if needs.whole_microbatches:
        split = [s for s, count in enumerate(shape.replicas) if count > 1 and turns(shape, s) == 1]
        if split:
            yield Unmet(
                text=f"{name} needs replicas that take whole microbatches; stage {split[0]} splits them",
                key="replicas",
                found="split",
                allowed="replicas: round_robin",
            )
    in_turn = sorted({turns(shape, stage) for stage in range(shape.stages)})
    if needs.split_microbatches and in_turn[-1] > 1:
        yield Unmet(
            text=f"{name} needs replicas that split each microbatch; {in_turn[-1]} take turns",
            key="replicas",
            found="round_robin",
            allowed="replicas: split",
        )
    if needs.equal_turns and len(in_turn) > 1:
        yield Unmet(
            text=f"{name} with {', '.join(map(str, in_turn))} replicas taking turns",
            key="replicas",
            found=in_turn,
            allowed="the same number for all stages",
        )


def _placing_problems(needs: Needs, shape: Shape, placement: Placement, name: str) -> Iterator[Unmet]:
    found = positions_of(shape)
    size = size_of(shape, placement)
    grid = Grid(positions=size.positions, chunks=size.chunks, copies=shape.copies)
    if needs.placed and (placement.stages(grid) != shape.stages or found != set(placement.held(grid))):
        yield Unmet(
            text=f"{name} needs {placement.text}, lanes hold stages "
            + ", ".join("+".join(str(stage) for stage, _ in pairs) for pairs in sorted(found)),
            key="stages",
            found=sorted(found),
            allowed=f"the placement {placement.name} with equally many stages at each of {size.positions}"
            " positions; or the schedules 1f1b and gpipe",
        )
        return

    def chunks_do(count: int) -> bool:
        return count % needs.chunk_multiple == 0 and count <= (needs.most_chunks or count)

    if not chunks_do(size.chunks):
        yield Unmet(
            text=f"{name} with {size.chunks} chunk{'s' * (size.chunks != 1)} at a position",
            key="chunks",
            found=size.chunks,
            allowed=nearest(chunks_do, size.chunks),
        )


def _microbatch_problems(needs: Needs, shape: Shape, placement: Placement, name: str) -> Iterator[Unmet]:
    counts = sorted(set(shape.microbatches))
    if needs.equal_microbatches and len(counts) > 1:
        yield Unmet(
            text=f"{name} needs one microbatch size, stages have {', '.join(map(str, counts))} microbatches",
            key="microbatch_samples",
            found=counts,
            allowed="the same for all stages, or the schedules 1f1b and gpipe",
        )
        return
    least = max(needs.least.of(shape)) if needs.least and shape.training else 1
    sharers = [shape.copies * (turns(shape, s) if needs.equal_turns else 1) for s in range(shape.stages)]
    for stage, (count, parts) in enumerate(zip(shape.microbatches, sharers, strict=True)):
        if count % parts:
            yield Unmet(
                text=f"{name} cannot share {count} microbatches of stage {stage} among {parts}"
                + (" copies" if parts == shape.copies else " replicas"),
                key="microbatches",
                found=count,
                allowed=nearest(partial(_multiple_of, parts, least), count) if len(counts) == 1
                else f"a multiple of {parts}",
            )  # fmt: skip
            return
    if needs.multiple:
        yield from _multiple_problems(needs.multiple, shape, placement, name)
    if needs.least and shape.training:
        yield from _least_problems(needs.least, shape, name)


def _multiple_of(parts: int, least: int, count: int) -> bool:
    return count % parts == 0 and count >= least


def _multiple_problems(rule: Multiple, shape: Shape, placement: Placement, name: str) -> Iterator[Unmet]:
    size = size_of(shape, placement)
    parts = shape.microbatches[0] // size.microbatches

    def does(count: int) -> bool:
        share, rest = divmod(count, parts)
        return not rest and share > 0 and share % rule.of(replace(size, microbatches=share)) == 0

    if not does(shape.microbatches[0]):
        yield Unmet(
            text=f"{name} with {shape.microbatches[0]} microbatches at {size.positions} positions"
            f" needs {rule.text}",
            key="microbatches",
            found=shape.microbatches[0],
            allowed=nearest(does, shape.microbatches[0]),
        )


def _least_problems(rule: Least, shape: Shape, name: str) -> Iterator[Unmet]:
    for stage, (count, least) in enumerate(zip(shape.microbatches, rule.of(shape), strict=True)):
        if count < least:
            yield Unmet(
                text=f"{name} with {count} microbatches on stage {stage} needs {rule.text}: {least}",
                key="microbatches",
                found=count,
                allowed=f"{least} or more microbatches per step",
            )
            return
