"""Placements: at which pipeline position each copy of a stage runs.

A pipeline has p *positions*, each a group of devices that works as one (its replicas and tensor group). A
placement is a pure function from stage and copy to a position; strategies, pickers, searchers and tests
all ask it. Stages at the positions 0 to 3, by copy (``'`` is the second copy, whose data flow the other way):

    line                 0    1    2    3        one stage each, as GPipe and 1F1B
    loop, 2 chunks       0 4  1 5  2 6  3 7      round and round, as interleaved 1F1B
    vee                  0 7  1 6  2 5  3 4      there and back, as ZB-V
    snake, 4 chunks      0 7  1 6  2 5  3 4      there and back, and again: two waves of Hanayo
                         8 F  9 E  A D  B C
    bidirectional        0 3' 1 2' 2 1' 3 0'     a second copy the other way, as Chimera
    bidirectional_4      0 3' 1 2' 2 1' 3 0'     and a second pair, half of the positions further on
                         2"1* 3"0* 0"3* 1"2*     (`"` and `*` are the third and fourth copy)
    bidirectional_vee    0 7  1 6  2 5  3 4      two opposite vees, as BitPipe
                         3'4' 2'5' 1'6' 0'7'
    workers, 2 chunks    0 1  0'1' ...           every position one whole copy, as cyclic data parallelism
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from explorer.actions import Place, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What a placement is laid over."""

    positions: int
    """Pipeline positions p."""
    chunks: int = 1
    """Stages of one copy at each position that has any."""
    copies: int = 1
    """Copies of every stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A rule from stages and copies to pipeline positions."""

    name: str
    """Short name, as `explorer list schedules` shows it."""
    text: str
    """The rule in words: "stage i at position i mod p"."""
    rule: Callable[[int, int, Grid], int]
    """Function from (stage, copy) to its position."""
    copies: int = 1
    """Copies of every stage by default; 0 is one per position."""
    chunks: int = 1
    """Chunks by default; 0 is as many as positions."""
    several: bool = True
    """Whether it is made for several chunks per position."""
    whole: bool = False
    """Whether every position holds all stages of its copy."""

    def grid(self, positions: int, chunks: int | None = None, copies: int | None = None) -> Grid:
        """Return a grid of so many positions; chunks and copies are the placement's own by default."""
        return Grid(
            positions=positions,
            chunks=chunks or self.chunks or positions,
            copies=copies or self.copies or positions,
        )

    def stages(self, grid: Grid) -> int:
        """Return the number of stages of one copy."""
        return grid.chunks if self.whole else grid.positions * grid.chunks

    def position(self, stage: int, copy: int, grid: Grid) -> int:
        """Return the pipeline position that runs a copy of a stage.

        >>> grid = SNAKE.grid(4, chunks=4)
        >>> [SNAKE.position(stage, 0, grid) for stage in range(SNAKE.stages(grid))]
        [0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0]
        """
        return self.rule(stage, copy, grid)

    def held(self, grid: Grid) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return the (stage, copy) pairs at every position, by stage.

        >>> BIDIRECTIONAL.held(BIDIRECTIONAL.grid(2))
        (((0, 0), (1, 1)), ((0, 1), (1, 0)))
        """
        held: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for stage in range(self.stages(grid)):
            for copy in range(grid.copies):
                held[self.position(stage, copy, grid)].append((stage, copy))
        return tuple(tuple(held[position]) for position in range(grid.positions))

    def shape(self, grid: Grid, microbatches: int, *, training: bool = True) -> Shape:
        """Return the shape of a chain of stages with one device per position."""
        stages = self.stages(grid)
        return Shape(
            stages=stages,
            edges=tuple((stage, stage + 1) for stage in range(stages - 1)),
            lanes=tuple(tuple(Place(stage, copy, 0) for stage, copy in held) for held in self.held(grid)),
            microbatches=(microbatches,) * stages,
            copies=grid.copies,
            training=training,
        )


def _loop(stage: int, _copy: int, grid: Grid) -> int:
    return stage % grid.positions


def _snake(stage: int, _copy: int, grid: Grid) -> int:
    turn, position = divmod(stage, grid.positions)
    return grid.positions - 1 - position if turn % 2 else position


def _opposed(rule: Callable[[int, int, Grid], int]) -> Callable[[int, int, Grid], int]:
    """Return a rule for pairs of copies: even ones run in the given direction, odd ones in the opposite one.

    Pair i of k starts i p/k positions further on, so that the pairs' first stages do not meet (Chimera,
    section 3.6: 2 k pipelines).
    """

    def position(stage: int, copy: int, grid: Grid) -> int:
        pair, opposite = divmod(copy, 2)
        at = rule(stage, 0, grid)
        turned = pair * grid.positions // max(1, grid.copies // 2)
        return ((grid.positions - 1 - at if opposite else at) + turned) % grid.positions

    return position


LINE = Placement(name="line", text="stage i at position i mod p", rule=_loop, several=False)
LOOP = Placement(name="loop", text="stage i at position i mod p", rule=_loop)
VEE = Placement(name="vee", text="stages 0 to p-1 there, p to 2p-1 back", rule=_snake, chunks=2)
SNAKE = Placement(name="snake", text="every p stages there, the next p back", rule=_snake, chunks=2)
BIDIRECTIONAL = Placement(
    name="bidirectional",
    text="odd copies run in the opposite direction",
    rule=_opposed(_loop),
    copies=2,
    several=False,
)
BIDIRECTIONAL_4 = Placement(
    name="bidirectional_4",
    text="two pairs of opposite copies, the second half of the positions further on",
    rule=_opposed(_loop),
    copies=4,
    several=False,
)
BIDIRECTIONAL_VEE = Placement(
    name="bidirectional_vee",
    text="stages there and back, odd copies in the opposite direction",
    rule=_opposed(_snake),
    copies=2,
    chunks=2,
)
WORKERS = Placement(
    name="workers",
    text="every position holds all stages of one copy",
    rule=lambda _stage, copy, _grid: copy,
    copies=0,
    chunks=0,
    whole=True,
)
ANY = Placement(name="any", text="whatever the plan says", rule=_loop)

PLACEMENTS = (LINE, LOOP, VEE, SNAKE, BIDIRECTIONAL, BIDIRECTIONAL_4, BIDIRECTIONAL_VEE, WORKERS, ANY)
"""Every placement that has a name."""
