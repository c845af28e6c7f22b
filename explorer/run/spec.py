"""RunSpec: everything a launch needs, as plain JSON. Nothing in it can run code.

A *case* is one lowered program to be run: the skeleton, shape and order it is lowered from again on every
rank (lowering is deterministic, so all ranks agree), and either a runnable model or seconds to sleep.
One launch runs many cases, in rounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from explorer.actions import Action, Edge, Order, Place, ReadRule, Shape, few_enough, parse_action
from explorer.base.errors import InputError
from explorer.base.files import read_text, write_text
from explorer.base.formats import json_text, parse_json
from explorer.run.lane_layout import LaneLayout
from explorer.run.model import ModelSpec, Unit
from explorer.run.own.own_model import OwnModel
from explorer.run.own.sliced_model import as_own
from explorer.run.sharded.layout_model import LayoutModel, layout_data, layout_model
from explorer.tasks.lower import lower
from explorer.tasks.placement import Flow, Holders, Piece, SectionShape, Skeleton
from explorer.tasks.program import Program
from explorer.updates import Chosen

SCHEMA = "explorer.run/1"
MOST_BYTES = 2**30
"""Most bytes of a specification that are read."""
REAL, DRY = "real", "dry"
FAULTS = ("raise", "exit", "kill", "hang", "memory", "stop")
"""Kinds of faults: raise an error, os._exit(3), SIGKILL, sleep for ever, ask for more memory than there is,
SIGSTOP.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failure on purpose. Used only by tests."""

    rank: int
    """Rank that fails."""
    kind: str
    """One of `FAULTS`."""
    action: int = 0
    """Action of that rank's program before which it fails."""
    case: int = 0
    """Case in which it fails."""

    def __post_init__(self) -> None:
        if self.kind not in FAULTS:
            raise InputError("unknown fault", key="faults.kind", found=self.kind, allowed=", ".join(FAULTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCase:
    """One program to run."""

    name: str
    """Unique in the launch."""
    skeleton: Skeleton
    """Sections, flows and holders."""
    shape: Shape
    """Shape that the schedule was given."""
    order: Order
    """Order that it returned; all its steps are run."""
    kind: str = REAL
    """`real`, or `dry`, which sleeps instead of computing."""
    seconds: tuple[float, ...] = ()
    """Per slot of the program: predicted seconds, for which a dry case sleeps and which the watchdog
    expects.
    """
    model: ModelSpec | OwnModel | LayoutModel | None = None
    """For a real case: the model to compute."""
    sections: tuple[tuple[int, ...], ...] = ()
    """For a real case, per section: its units."""
    flow_units: tuple[tuple[int, ...], ...] = ()
    """For a real case, per flow: the keys of what it carries (see `explorer.run.ranks.units`)."""
    optimizer: str = "sgd"
    """sgd, momentum, adam, adamw or none."""
    learning_rate: float = 0.05
    """Learning rate of the optimizer."""
    everywhere: bool = False
    """Whether every rank runs the one lane of this program at once, each for itself."""
    check: bool = False
    """Whether to compare gradients and weights with a plain emulation in one process."""
    once: bool = False
    """Whether to run it before all rounds, once, untimed (the numerics)."""
    count_bytes: bool = False
    """Whether to count the peak bytes of tensors, which takes too long to time the run as well."""
    hosted: tuple[int, ...] = ()
    """Sections whose activations are in host memory from forward to backward."""
    again: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """Per section: the units of each block that its backward makes again, though it keeps others; () is of
    every section none.
    """
    engine: str = "interpreter"
    """`interpreter` or `torch` (DistributedDataParallel, torch.distributed.pipelining)."""

    @property
    def lane_ranks(self) -> int:
        """Ranks of a lane."""
        return self.model.lane_ranks if isinstance(self.model, LaneLayout) else 1

    @property
    def is_sharded(self) -> bool:
        """Whether weights are over the ranks of a lane or over lanes (ZeRO), or activations on the host."""
        zero = any(section.zero and section.shards > 1 for section in self.skeleton.sections)
        return zero or self.over_ranks or bool(self.hosted)

    @property
    def over_ranks(self) -> bool:
        """Whether several ranks compute a layer together, and wait for each other inside tasks."""
        spread = isinstance(self.model, LaneLayout) and bool(self.model.spread)
        return spread or self.lane_ranks > 1

    def lowered(self) -> Program:
        """Lower the program again."""
        return lower(self.skeleton, self.shape, self.order)


class FlatGroup(NamedTuple):
    """One size of flat weights that ranks shard among them (ZeRO, HSDP)."""

    elements: int
    """Parameters, each scalar once."""
    level: int
    """ZeRO level."""
    parts: int
    """Ranks that have a part each."""
    copies: int
    """Ranks that have the same part."""


class Cut(NamedTuple):
    """One way in which a case cuts its model into sections."""

    sections: tuple[tuple[int, ...], ...]
    """Units of each section; together all units."""
    samples: int
    """Samples of a microbatch."""
    split: tuple[int, ...] = ()
    """Sections whose backward is split into gradients of inputs and of weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What every rank times in each round, all at the same time."""

    model: ModelSpec | OwnModel | LayoutModel
    """Model whose units are timed one by one, forward and backward."""
    samples: tuple[int, ...]
    """Numbers of samples to time."""
    cuts: tuple[Cut, ...] = ()
    """Ways to cut the model into sections, which are timed as one."""
    message_bytes: tuple[int, ...] = ()
    """Bytes of the point-to-point messages to the next rank."""
    reduce_bytes: tuple[int, ...] = ()
    """Bytes of the all-reduces over all ranks."""
    optimizer: str = "sgd"
    """Optimizer whose update of all parameters is timed."""
    flat_groups: tuple[FlatGroup, ...] = ()
    """Sizes of flat weights whose exchanges are timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What every rank measures of its machine in each round, all ranks at the same time."""

    precisions: tuple[str, ...]
    """Precisions of matrix products, attention and convolutions: fp32, tf32, fp16 or bf16."""
    products: tuple[tuple[int, int, int], ...] = ()
    """Rows, columns and depth of matrix products."""
    thin: tuple[tuple[int, int, int], ...] = ()
    """Rows, columns and depth of linear layers of few rows, whose three products are timed as one."""
    attentions: tuple[tuple[int, int, int], ...] = ()
    """Heads of all samples, tokens and head size of causal attention."""
    convolutions: tuple[tuple[int, ...], ...] = ()
    """Samples, channels and edge in pixels of 3 x 3 convolutions; a fourth number is another edge
    of the kernel."""
    moved_bytes: tuple[int, ...] = ()
    """Bytes that an operator reads and writes, together."""
    updated: tuple[int, ...] = ()
    """Scalars that a step of Adam updates."""
    message_bytes: tuple[int, ...] = ()
    """Bytes of the point-to-point messages between neighbours."""
    reduce_bytes: tuple[int, ...] = ()
    """Bytes of the all-reduces over all ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One launch.

    Raises:
        InputError: no rank, neither a case nor a survey, or names that repeat.
    """

    ranks: int
    """Number of processes."""
    cases: tuple[RunCase, ...] = ()
    """Cases, run in this order in every round."""
    rounds: int = 1
    """Number of measured rounds."""
    warmup_rounds: int = 0
    """Number of rounds before them that are discarded."""
    calibration: Calibration | None = None
    """Calibration timed at the start of every round; None for none."""
    survey: Survey | None = None
    """Survey measured at the end of every round; None for none."""
    faults: tuple[Fault, ...] = ()
    """Failures on purpose."""
    group_timeout_s: float = 600.0
    """Seconds after which a rank that waits for others gives up; the launcher's watchdog is faster."""
    patience_s: float = 5.0
    """Seconds after which a stopped rank is told; a run may show no sign of life for twice as long, or for
    five times its longest task.
    """
    quiet_share: float = 0.0
    """Share of a core below which a rank is crowded: only one round is run if some rank is before the first
    one; 0 runs all of them.
    """
    pin: bool = False
    """Whether every rank gets a core of its own."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda if there is a device for every rank."""
    plan: str = ""
    """Mark of the plan it validates, by which its results are known elsewhere; empty if they stay here."""

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        if self.ranks < 1 or self.rounds < 1:
            raise InputError("a run needs a rank and a round", key="ranks", found=self.ranks, allowed=">= 1")
        if not (self.cases or self.survey) or len(set(names)) != len(names):
            raise InputError("a run needs cases of different names", key="cases", found=names)
        for case in self.cases:
            if (needed := len(case.order.lanes) * case.lane_ranks) > self.ranks:
                each = f" of {case.lane_ranks} ranks" if case.lane_ranks > 1 else ""
                raise InputError(
                    f"case {case.name!r} has {len(case.order.lanes)} lanes{each} for {self.ranks} ranks",
                    key="ranks",
                    found=self.ranks,
                    allowed=f">= {needed}",
                )


def write_spec(spec: RunSpec, path: Path) -> None:
    """Write the JSON that the worker reads."""
    write_text(path, json_text(to_data(spec), indent=None))


def read_spec(path: Path) -> RunSpec:
    """Read a specification that `write_spec` wrote.

    Raises:
        InputError: the file is not a specification, or holds a wrong value.
    """
    try:
        return from_data(parse_json(read_text(path, most=MOST_BYTES)))
    except InputError as error:
        raise error.within(file=str(path)) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(f"is not a run specification: {error!r}", file=str(path), allowed=SCHEMA) from None


def as_read(spec: RunSpec) -> RunSpec:
    """Return a specification as ranks read it, with numbers as its file has them: so its mark is theirs."""
    return from_data(parse_json(json_text(to_data(spec), indent=None)))


def mark_of(spec: RunSpec) -> str:
    """Hash a specification, 16 hex digits: results of equal marks are of the same run."""
    text = json_text(to_data(spec), indent=None)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def to_data(spec: RunSpec) -> dict[str, Any]:
    """Return a specification as plain data."""
    data = {item.name: getattr(spec, item.name) for item in fields(spec)}
    data["schema"] = SCHEMA
    data["cases"] = [_case_data(case) for case in spec.cases]
    data["faults"] = [asdict(fault) for fault in spec.faults]
    timed = spec.calibration
    data["calibration"] = timed and {
        **{item.name: getattr(timed, item.name) for item in fields(timed)}, "model": _model_data(timed.model)
    }  # fmt: skip
    data["survey"] = asdict(spec.survey) if spec.survey else None
    return data


def from_data(data: Mapping[str, Any]) -> RunSpec:
    """Make a specification from plain data."""
    if data.get("schema") != SCHEMA:
        raise InputError("not a run specification", key="schema", found=data.get("schema"), allowed=SCHEMA)
    values = {key: value for key, value in data.items() if key != "schema"}
    values["cases"] = tuple(_case(item) for item in data["cases"])
    values["faults"] = tuple(Fault(**item) for item in data["faults"])
    timed = data["calibration"]
    values["calibration"] = timed and Calibration(
        **{
            **_tuples(timed),
            "model": _model(timed["model"]),
            "cuts": tuple(Cut(*item) for item in _tuples(timed).get("cuts", ())),
            "flat_groups": tuple(FlatGroup(*item) for item in timed.get("flat_groups", ())),
        }
    )
    asked = data["survey"]
    values["survey"] = asked and Survey(**_tuples(asked))
    return RunSpec(**values)


def _case_data(case: RunCase) -> dict[str, Any]:
    data = {item.name: getattr(case, item.name) for item in fields(case)}
    order, shape = case.order, case.shape
    data["order"] = {
        "lanes": [" ".join(map(str, lane)) for lane in order.lanes],
        "steps": order.steps,
        "read_rule": [order.read_rule.name, order.read_rule.parameter, order.read_rule.horizons],
        "flush": order.flush,
        "lag": order.lag,
        "edges": [[str(edge.before), str(edge.after)] for edge in order.edges],
        "blocking": order.blocking,
        "paired": order.paired,
        "options": dict(order.options),
    }
    data["shape"] = {item.name: getattr(shape, item.name) for item in fields(shape)}
    skeleton = case.skeleton
    data["skeleton"] = {item.name: getattr(skeleton, item.name) for item in fields(skeleton) if item.init}
    data["model"] = _model_data(case.model) if case.model else None
    return data


def _model_data(model: ModelSpec | OwnModel | LayoutModel) -> dict[str, Any]:
    return layout_data(model) if isinstance(model, LayoutModel) else asdict(model)


def _case(data: Mapping[str, Any]) -> RunCase:
    values = dict(_tuples(data))
    order, shape, skeleton = data["order"], _tuples(data["shape"]), _tuples(data["skeleton"])
    values["order"] = Order(
        lanes=tuple(_actions(lane) for lane in order["lanes"]),
        steps=order["steps"],
        read_rule=_read_rule(*order["read_rule"]),
        flush=order["flush"],
        lag=tuple(order["lag"]),
        edges=tuple(Edge(parse_action(before), parse_action(after)) for before, after in order["edges"]),
        blocking=order["blocking"],
        paired=order["paired"],
        options=order["options"],
    )
    shape["lanes"] = tuple(tuple(Place(*place) for place in lane) for lane in shape["lanes"])
    values["shape"] = Shape(**shape)
    values["skeleton"] = Skeleton(
        sections=tuple(SectionShape(*item) for item in skeleton["sections"]),
        flows=tuple(Flow(*item) for item in skeleton["flows"]),
        holders=tuple(
            Holders(tuple(Piece(*piece) for piece in item[0]), item[1], item[2], Chosen(*item[3]), *item[4:])
            for item in skeleton["holders"]
        ),
        updates=skeleton["updates"],
    )
    values["model"] = _model(data["model"]) if data["model"] else None
    return RunCase(**values)


def _read_rule(name: str, parameter: int, horizons: list[list[int]]) -> ReadRule:
    pairs = tuple((forward, backward) for forward, backward in horizons)
    return ReadRule(name=name, parameter=parameter, horizons=pairs)


def _actions(text: str) -> tuple[Action, ...]:
    return few_enough(map(parse_action, text.split()))


def _model(data: Mapping[str, Any]) -> ModelSpec | OwnModel | LayoutModel:
    if "reference" in data:
        return as_own(_nested_tuples(data))
    if "layout" in data:
        return layout_model(data)
    values = dict(data)
    values["units"] = tuple(Unit(**_tuples(item)) for item in data["units"])
    return ModelSpec(**values)


def _nested_tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping with every list in it as a tuple, except for those inside of mappings."""
    values = _tuples(data)
    values["tensors"] = tuple(_tuples(item) for item in data["tensors"])
    return values


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping with every list in it, at any depth of lists, as a tuple."""

    def convert(value: Any) -> Any:
        return tuple(map(convert, value)) if isinstance(value, (list, tuple)) else value

    return {key: convert(value) for key, value in data.items()}


__all__ = [
    "Calibration",
    "Cut",
    "Fault",
    "FlatGroup",
    "RunCase",
    "RunSpec",
    "Survey",
    "as_read",
    "mark_of",
    "read_spec",
    "write_spec",
]
