"""Actions, orders and shapes: the terms in which schedules speak. They state order, never time.

An action is one step of a stage's work on some microbatches. It prints in torch's notation if torch has one
(``0F3``: stage 0, forward, microbatch 3), with a suffix if not: ``0F3~1`` second copy, ``0W0-7``
microbatches 0 to 7, ``0F3^2`` third sweep.

A lane may name what lowering otherwise places by itself: ``0UNSHARD``, ``0RESHARD`` and ``0REDUCE_GRAD``
(torch's words) gather and give back the sharded weights of a stage and reduce its gradients there;
``0RECOMPUTE3`` makes again what the backward of microbatch 3 needs, ``0OFFLOAD3`` and ``0RELOAD3`` move its
activations to the host and back. Whatever a lane does not name is placed by rules, or not done.

``0OVERLAP3`` joins the forward ``0F3`` before it and the backward after it to one action of two microbatches:
they begin and end together, and the work of one hides the collectives of the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from explorer.base.errors import InputError

IntArray = npt.NDArray[np.int64]

FORWARD, BACKWARD, INPUT_GRAD, WEIGHT_GRAD, UPDATE = OPS = ("F", "B", "I", "W", "U")
NAMED = (UNSHARD, RESHARD, REDUCE_GRAD, RECOMPUTE, OFFLOAD, RELOAD, OVERLAP, FREE) = (
    "UNSHARD", "RESHARD", "REDUCE_GRAD", "RECOMPUTE", "OFFLOAD", "RELOAD", "OVERLAP", "FREE"
)  # fmt: skip
"""Actions that a schedule may leave to lowering."""
WHOLE_STAGE = frozenset({UNSHARD, RESHARD, REDUCE_GRAD})
"""Those among them that concern a whole stage, not microbatches: `first_microbatch` only says in which
step.
"""


class Action(NamedTuple):
    """One step of a stage's work.

    `op`: F forward, B backward, I input gradient, W weight gradient, U optimizer update (which names the
    samples whose gradients it applies, whichever lane computed them), or one of `NAMED`. `first_microbatch`
    runs on over copies and steps and counts in the stage's own microbatch size.
    """

    op: str
    stage: int
    first_microbatch: int
    count: int = 1  # type: ignore[assignment]  # hides tuple.count, which nobody calls
    copy: int = 0
    sweep: int = 0

    def __str__(self) -> str:
        last = f"-{self.first_microbatch + self.count - 1}" if self.count > 1 else ""
        copy = f"~{self.copy}" if self.copy else ""
        sweep = f"^{self.sweep}" if self.sweep else ""
        first = self.first_microbatch or ("" if self.op in WHOLE_STAGE else 0)
        return f"{self.stage}{self.op}{first}{last}{copy}{sweep}"


ALL_OPS = (*OPS, *NAMED)
OP_CODE = {op: code for code, op in enumerate(ALL_OPS)}
"""Numbers that stand for ops in columns."""

new_action: Callable[[tuple[str, int, int, int, int, int]], Action] = partial(tuple.__new__, Action)
"""An action from all its fields, made three times as fast as by the class itself: orders have many
thousands.
"""


class Actions(Sequence[Action]):
    """The actions of a lane as columns of whole numbers, read like a tuple of `Action`.

    An order has hundreds of thousands of actions, which schedules and lowering make and read all at once.

    >>> lane = Actions.of([Action("F", 0, 3), Action("B", 0, 3)])
    >>> str(lane[1]), len(lane), lane == (Action("F", 0, 3), Action("B", 0, 3))
    ('0B3', 2, True)
    """

    __slots__ = ("_hash", "columns")

    def __init__(self, columns: IntArray) -> None:
        self.columns = columns
        """(6, actions): op as in `OP_CODE`, stage, first microbatch, count, copy, sweep."""
        columns.flags.writeable = False
        self._hash: int | None = None

    @classmethod
    def of(cls, actions: Iterable[Action]) -> Actions:
        """Return some actions as columns; those that are columns already unchanged."""
        if isinstance(actions, Actions):
            return actions
        rows = [(OP_CODE[op], *rest) for op, *rest in actions]
        return cls(np.array(rows, dtype=np.int64).reshape(-1, 6).T)

    @classmethod
    def joined(cls, parts: Iterable[Iterable[Action]]) -> Actions:
        """Return several lists of actions as one."""
        columns = [cls.of(part).columns for part in parts]
        return cls(columns[0] if len(columns) == 1 else np.concatenate([_NONE, *columns], axis=1))

    @classmethod
    def spread(
        cls,
        op: int | IntArray,
        stage: int | IntArray,
        first: IntArray,
        count: int | IntArray = 1,
        copy: int | IntArray = 0,
        sweep: int | IntArray = 0,
    ) -> Actions:
        """Return one action per first microbatch; fields that are equal in all are given once."""
        columns = np.empty((6, len(first)), dtype=np.int64)
        for row, values in zip(columns, (op, stage, first, count, copy, sweep), strict=True):
            row[:] = values
        return cls(columns)

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    @overload
    def __getitem__(self, item: int) -> Action: ...
    @overload
    def __getitem__(self, item: slice) -> Actions: ...
    def __getitem__(self, item: int | slice) -> Action | Actions:
        if isinstance(item, slice):
            return Actions(self.columns[:, item])
        op, stage, first, count, copy, sweep = self.columns[:, item].tolist()
        return new_action((ALL_OPS[op], stage, first, count, copy, sweep))

    def __iter__(self) -> Iterator[Action]:
        ops, *rest = self.columns.tolist()
        return map(new_action, zip(map(ALL_OPS.__getitem__, ops), *rest, strict=True))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Actions):
            return self is other or np.array_equal(self.columns, other.columns)
        return isinstance(other, tuple) and len(other) == len(self) and tuple(self) == other

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self))  # that of the tuple it equals
        return self._hash

    def __repr__(self) -> str:
        return f"Actions.of({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Actions, (self.columns,)


class Repeated(Actions):
    """Some actions so many times, each time with the microbatches moved on.

    Args:
        part: the actions.
        times: how many times.
        moved: per action of the part: microbatches from one time to the next.
    """

    __slots__ = ("_whole", "moved", "part", "times")

    def __init__(self, part: Actions, times: int, moved: IntArray) -> None:
        self.part, self.times, self.moved = part, times, moved
        self._whole: IntArray | None = None
        self._hash = None

    @property
    def columns(self) -> IntArray:  # type: ignore[override]
        """Columns of all actions, made when they are first asked for."""
        if self._whole is None:
            whole = np.empty((6, self.times, len(self.part)), dtype=np.int64)
            whole[:] = self.part.columns[:, None, :]
            whole[2] += np.arange(self.times)[:, None] * self.moved
            whole.flags.writeable = False
            self._whole = whole.reshape(6, -1)
        return self._whole

    def __len__(self) -> int:
        return self.times * len(self.part)

    def __reduce__(self) -> tuple[Any, ...]:
        return Repeated, (self.part, self.times, self.moved)


_NONE = np.empty((6, 0), dtype=np.int64)

_PLACE = r"(?:~(\d{1,9}))?(?:\^(\d{1,9}))?$"
_ACTION = re.compile(
    rf"^(\d{{1,9}})([FBIWU]|{RECOMPUTE}|{OFFLOAD}|{RELOAD}|{OVERLAP}|{FREE})(\d{{1,9}})(?:-(\d{{1,9}}))?{_PLACE}"
)
_OF_STAGE = re.compile(rf"^(\d{{1,9}})({'|'.join(sorted(WHOLE_STAGE))})(\d{{0,9}})(){_PLACE}")


def with_free(actions: Iterable[Action]) -> set[int]:
    """Return which actions are an OFFLOAD whose room a FREE gives back: their positions.

    >>> sorted(with_free(map(parse_action, "0OFFLOAD0 0OFFLOAD1 0FREE0 0RELOAD0 0OFFLOAD0".split())))
    [0]
    """
    moving: dict[Action, int] = {}
    found: set[int] = set()
    for at, action in enumerate(actions):
        if action.op == OFFLOAD:
            moving[action] = at
        elif action.op == FREE and (begun := moving.pop(action._replace(op=OFFLOAD), None)) is not None:
            found.add(begun)
    return found


MOST_MICROBATCHES = 1_000_000
"""Most microbatches of one action, and of all actions in a text: a mistyped number must not exhaust the
memory.
"""


def parse_action(text: str) -> Action:
    """Return the action that prints as `text`.

    >>> parse_action("0W0-7~1")
    Action(op='W', stage=0, first_microbatch=0, count=8, copy=1, sweep=0)

    Raises:
        InputError: `text` is not in the notation.
    """
    match = _ACTION.match(text.strip()) or _OF_STAGE.match(text.strip())
    if match is None:
        allowed = "like 0F3, 1B0~1, 0W0-7, 0UNSHARD, 0RECOMPUTE3"
        raise InputError(f"{text!r} is not an action", found=text, allowed=allowed)
    stage, op, first, last, copy, sweep = match.groups()
    first = first or "0"
    count = int(last) - int(first) + 1 if last else 1
    if not 1 <= count <= MOST_MICROBATCHES:
        raise InputError(
            f"{text!r} is of {count} microbatches", found=text, allowed=f"1 to {MOST_MICROBATCHES:,}"
        )
    return Action(op, int(stage), int(first), count, int(copy or 0), int(sweep or 0))


def few_enough(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Check the number of microbatches in a lane's actions, and return the actions unchanged.

    Raises:
        InputError: together they name more than `MOST_MICROBATCHES`.
    """
    lane = tuple(actions)
    total = sum(action.count for action in lane)
    if total > MOST_MICROBATCHES:
        raise InputError(
            f"a lane of {total:,} actions on single microbatches",
            found=total,
            allowed=f"up to {MOST_MICROBATCHES:,}",
        )
    return lane


class Place(NamedTuple):
    """One role of a lane: a replica of a copy of a stage."""

    stage: int
    copy: int
    replica: int


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Everything a schedule may know. Most read only the sizes; greedy ones also read the seconds and
    caps.
    """

    stages: int
    """Number of stages."""
    edges: tuple[tuple[int, int], ...]
    """Stage DAG: pairs (from, to) of different stages."""
    lanes: tuple[tuple[Place, ...], ...]
    """Per lane: the places it holds, by stage, copy, replica."""
    microbatches: tuple[int, ...]
    """Per stage: microbatches in one step."""
    copies: int = 1
    """Copies of every stage inside one pipeline."""
    replicas: tuple[int, ...] = ()
    """Per stage: replicas of each copy."""
    round_robin: tuple[bool, ...] = ()
    """Per stage: whether replicas take whole microbatches in turn (else they split each)."""
    training: bool = True
    """Whether backward and update exist."""
    forward_s: tuple[float, ...] = ()
    """Per stage: seconds of a forward of one microbatch; () if the caller has none."""
    input_grad_s: tuple[float, ...] = ()
    """Per stage: seconds of the input gradient, including what it recomputes."""
    weight_grad_s: tuple[float, ...] = ()
    """Per stage: seconds of the weight gradient."""
    transfer_s: tuple[float, ...] = ()
    """Per edge of `edges`: seconds of one microbatch's transfer, 0 on one device."""
    activation_bytes: tuple[float, ...] = ()
    """Per stage: bytes that a microbatch in flight holds on a device, from its F to its B or I."""
    waiting_bytes: tuple[float, ...] = ()
    """Per stage: those of these bytes that wait from I to W, if the backward is split."""
    host_s: tuple[float, ...] = ()
    """Per stage: seconds in which `activation_bytes` go to the host, or come back; inf if they cannot."""
    memory_cap_bytes: tuple[float, ...] = ()
    """Per lane: bytes of its smallest device that are left for microbatches in flight."""
    tied: tuple[tuple[int, ...], ...] = ()
    """Groups of stages that hold the same parameters, so that their updates wait for the gradients of all of
    them; () if there are none, or the schedule reads no seconds.
    """

    @cached_property
    def depth_to_end(self) -> tuple[int, ...]:
        """Per stage: stages on the longest path from it to a sink, excluding itself."""
        depth = [0] * self.stages
        for source, target in sorted(self.edges, reverse=True):
            depth[source] = max(depth[source], depth[target] + 1)
        return tuple(depth)

    def lane_of(self, place: Place) -> int:
        """Return the lane that holds `place`; the first if several run it together."""
        return next(i for i, places in enumerate(self.lanes) if place in places)


class Edge(NamedTuple):
    """An extra dependency that a schedule adds: `after` waits for `before` (both replica-wide)."""

    before: Action
    after: Action


class Assignment(NamedTuple):
    """A microbatch of one stage given to one of its replicas.

    Forwards read the first forward of the stages before that ran; a second one of the same microbatch repeats
    what was lost. What is sent for assignments goes over every wire in their order.
    """

    action: Action
    """F or B of one microbatch."""
    replica: int
    """Replica of the stage that runs it."""
    after: int = -1
    """Number of an earlier assignment before whose end nothing is sent or done for this one; -1 for none."""
    event: int = -1
    """Number of the cluster's event before which nothing is sent or done for it; -1 for none."""
    sent: tuple[int, ...] | None = None
    """None if it runs. Otherwise its replica left before, and these are the stages from which it was sent a
    tensor by then, one for each tensor.
    """
    lost_at: int = -1
    """Number of assignments made when the replica of a forward that ran left, with all it kept; -1 if it
    stayed until the backward.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRule:
    """Which version of the weights each op reads, and in which form: a rule of `explorer.reads`.

    `latest`: the newest made by an earlier U of that stage. `stash`: B, I and W read what their F
    read (PipeDream). `vertical`: every stage reads the version the first stage read. `buffered(k)`:
    version of step - k, which must exist (2BW: k = 1). `predicted(horizon)`: the latest, extrapolated.
    """

    name: str = "latest"
    """A name in `explorer.reads`."""
    parameter: int = 0
    """For `buffered`: k; for `predicted`: the horizon in updates, if it is the same everywhere."""
    horizons: tuple[tuple[int, int], ...] = ()
    """For `predicted`, per stage: updates to look ahead in forwards and in backwards."""

    def __str__(self) -> str:
        return f"{self.name}({self.parameter})" if self.parameter else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a schedule makes: for every lane its actions over some steps, and the weights they read."""

    lanes: tuple[Sequence[Action], ...]
    """Per lane of the shape, in program order: `Actions`, or tuples."""
    steps: int
    """Steps covered."""
    read_rule: ReadRule = ReadRule()
    """Which weights each op reads."""
    flush: bool = True
    """Whether every step ends with all gradients applied before the next starts (synchronous)."""
    lag: tuple[int, ...] = ()
    """Per sweep: how many sweeps back the neighbours' values come from; () means 0 for all."""
    edges: tuple[Edge, ...] = ()
    """Extra dependencies."""
    blocking: bool = False
    """Whether a transfer occupies both its ends: see `explorer.tasks.blocking_transfers`."""
    paired: bool = False
    """Whether a forward and a backward right behind it share an exchange before and after, if `blocking`."""
    assignments: tuple[Assignment, ...] = ()
    """Which replica works on what, in the order in which it is decided; () leaves it to the rules of the
    stages (split every microbatch, or take them in turn).
    """
    options: Mapping[str, Any] = field(default_factory=dict)
    """Facts for the views (`chunks`)."""


WIRINGS = ("least_wait", "weighted_round_robin")
"""How a dispatch policy chooses among the peers of a stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """What a schedule makes instead of an order if no order exists before time runs.

    The candidates for a forward are the replicas of its stage that are present when it is ready; a backward
    runs where its forward ran, and a forward whose place has left is repeated.
    """

    wiring: str
    """One of `WIRINGS`."""
    in_flight: int
    """Microbatches in flight at once, over all peers."""
    seed: int = 0
    """Seed that breaks ties; 0 takes the first candidate."""
