"""A session as a file: every state that undo can reach, as data. Pure except for reading and writing the
file.

States share nearly everything with their neighbours, so stages, strategies, device groups and pins stand once
each in tables, and a state is a row of numbers. Predictions are not stored, only the few figures that a list
of states shows; going to a state simulates it. Nothing in a session file is ever run as code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from explorer.base.errors import InputError
from explorer.base.files import write_text
from explorer.base.formats import json_text, yaml_text
from explorer.base.former_files import todays_job
from explorer.base.plain_data import SUFFIXES, read_document, to_fields, to_plain, validate
from explorer.graph import LayerGraph
from explorer.plan import Reference, fingerprint, layer_ranges, reference_to
from explorer.strategies.moves import DeviceGroup, groups_of
from explorer.strategy import Boundary, JobStrategy, Mesh, Stage, Strategy, Sync, UpdateChoice
from explorer.workload import Workload
from widgets.holds import Holds
from widgets.inputs import Inputs
from widgets.session import History, Point

SCHEMA = "explorer.session/1"
"""Format name and version, which every file states."""

SLICE = 25
"""States written per slice, in some 3 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedInputs:
    """A model, a cluster and the workload."""

    model: Reference
    """Reference of the model, with its fingerprint."""
    cluster: Reference
    """Reference of the cluster, with its fingerprint."""
    workload: Workload
    """One job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStrategy:
    """The fields of `JobStrategy`, its stages as positions in the table."""

    stages: tuple[int, ...]
    schedule: str = "1f1b"
    options: tuple[tuple[str, Any], ...] = ()
    sync: tuple[Sync, ...] = ()
    updates: tuple[UpdateChoice, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    transfers: str = ""
    checkpoint_period_s: float = 0.0
    job: str = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedGroup:
    """A lane of the board."""

    meshes: tuple[Mesh, ...]
    """Its devices."""
    template: int
    """Position of a stage on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedHolds:
    """Pins and locks."""

    pinned: tuple[str, ...] = ()
    """Pinned layers, runs as ranges."""
    locked: tuple[tuple[int, ...], ...] = ()
    """Devices of the locked lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """One state; whole numbers are positions in the tables."""

    inputs: int
    strategy: int
    groups: tuple[int, ...] = ()
    """Lanes, if they are not those of the strategy."""
    holds: int | None = None
    other: int | None = None
    """Plan B, as a position in `others`."""
    note: str = ""
    maker: str = "board"
    made_s: float = 0.0
    """When it was made, in seconds since 1970, UTC."""
    step_time_s: float = 0.0
    peak_fraction: float = 0.0
    over_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How the workbench is looked at, which is part of no state."""

    searcher: str = ""
    search_budget_s: float = 0.0
    selection: tuple[str, ...] = ()
    expanded: tuple[str, ...] = ()
    """Blocks shown as layers."""
    collapsed: tuple[str, ...] = ()
    """Lane groups folded to a row."""
    opened: tuple[str, ...] = ()
    """Modules open in the layer graph."""
    toured: bool = False
    """Whether the tour was taken, or declined for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSession:
    """A whole session."""

    version: str
    """Version of this package."""
    saved_s: float
    """When it was saved, in seconds since 1970, UTC."""
    inputs: tuple[SavedInputs, ...]
    stages: tuple[Stage, ...]
    """Stages, with layers as ranges."""
    strategies: tuple[SavedStrategy, ...]
    states: tuple[SavedState, ...]
    """States in the order they were made."""
    at: int
    """Position of the one shown."""
    groups: tuple[SavedGroup, ...] = ()
    holds: tuple[SavedHolds, ...] = ()
    others: tuple[SavedState, ...] = ()
    """Plans B."""
    look: Look = field(default_factory=Look)

    @property
    def changes(self) -> int:
        """Number of states after the first."""
        return len(self.states) - 1


Value = TypeVar("Value")


class _Table:
    """Rows in order of first use, each once."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._position: dict[Any, int] = {}
        self._kept: list[Any] = []

    def add(self, value: Value, make: Callable[[Value], Any], *more: object) -> int:
        """Return the position of what `make(value)` gives; the same object is made into a row once."""
        identity = (id(value), *map(id, more))
        found = self._position.get(identity)
        if found is None:
            row = make(value)
            text = json.dumps(row, sort_keys=True)
            found = self._position.setdefault(text, len(self.rows))
            if found == len(self.rows):
                self.rows.append(row)
            self._position[identity] = found
            self._kept.append((value, more))  # kept alive, so that identities stay theirs
        return found


class Recorder:
    """Maker of the document of a history; it keeps what it wrote for a stage for the next time."""

    def __init__(self) -> None:
        self._stages: dict[tuple[int, int], tuple[LayerGraph, Stage, dict[str, Any]]] = {}

    def document(self, history: History, look: Look, *, version: str) -> dict[str, Any]:
        """Return plain data for a file, with the history's own time."""
        slices = self.slices(history, look, version=version)
        while True:
            try:
                next(slices)
            except StopIteration as end:
                made: dict[str, Any] = end.value
                return made

    def slices(self, history: History, look: Look, *, version: str) -> Generator[None, None, dict[str, Any]]:
        """Make the same in short slices, from the history as it was at the first; gestures may come in
        between.
        """
        points, times_s, at = list(history.points), list(history.times_s), history.at
        used: dict[tuple[int, int], tuple[LayerGraph, Stage, dict[str, Any]]] = {}
        tables = {name: _Table() for name in ("inputs", "stages", "strategies", "groups", "holds", "others")}
        write = _Writer(tables, self._stages, used)
        states = []
        for number, (point, made_s) in enumerate(zip(points, times_s, strict=True), 1):
            states.append(write.state(point, made_s))
            if number % SLICE == 0:
                yield
        self._stages = used
        return {
            "schema": SCHEMA,
            "version": version,
            "saved_s": history.clock(),
            "at": at,
            "look": to_plain(look),
            **{name: table.rows for name, table in tables.items()},
            "states": states,
        }


class _Writer:
    """Rows of one document."""

    def __init__(self, tables: Mapping[str, _Table], known: Any, used: Any) -> None:
        self._tables, self._known, self._used = tables, known, used

    def state(self, point: Point, made_s: float) -> dict[str, Any]:
        graph, tables, figures = point.inputs.graph, self._tables, point.figures
        own = point.groups if point.groups != groups_of(point.strategy.job) else ()
        strategy = tables["strategies"].add(point.strategy, lambda s: self._strategy(graph, s), graph)
        row = SavedState(
            inputs=tables["inputs"].add(point.inputs, _saved_inputs),
            strategy=strategy,
            groups=tuple(tables["groups"].add(item, lambda g: self._group(graph, g), graph) for item in own),
            holds=tables["holds"].add(point.holds, lambda h: _saved_holds(graph, h), graph)
            if point.holds
            else None,
            other=tables["others"].add(point.other, lambda other: self.state(other, made_s))
            if point.other is not None
            else None,
            note=point.note,
            maker=point.maker,
            made_s=made_s,
            step_time_s=figures.step_time_s,
            peak_fraction=figures.peak_fraction,
            over_bytes=figures.over_bytes,
        )
        plain: dict[str, Any] = to_plain(row)
        return plain

    def _strategy(self, graph: LayerGraph, strategy: Strategy) -> dict[str, Any]:
        job = strategy.job
        rest = {item.name: getattr(job, item.name) for item in fields(job) if item.name != "stages"}
        saved = SavedStrategy(stages=tuple(self._stage(graph, stage) for stage in job.stages), **rest)
        plain: dict[str, Any] = to_plain(saved)
        return plain

    def _group(self, graph: LayerGraph, group: DeviceGroup) -> dict[str, Any]:
        saved = SavedGroup(meshes=group.meshes, template=self._stage(graph, group.template))
        plain: dict[str, Any] = to_plain(saved)
        return plain

    def _stage(self, graph: LayerGraph, stage: Stage) -> int:
        key = (id(graph), id(stage))
        found = self._used.get(key) or self._known.get(key)
        if found is None:
            row = to_plain(stage)
            if stage.layers:
                row["layers"] = layer_ranges(graph, stage.layers)
            found = (graph, stage, row)
        self._used[key] = found
        return self._tables["stages"].add(stage, lambda _: found[2], graph)


def _saved_inputs(inputs: Inputs) -> dict[str, Any]:
    model = Reference(
        reference=inputs.model.reference,
        fingerprint=fingerprint(inputs.graph),
        sequence_length=inputs.model.sequence_length,
        settings=inputs.model.settings,
    )
    cluster = reference_to(inputs.cluster_name, inputs.cluster)
    plain: dict[str, Any] = to_plain(SavedInputs(model=model, cluster=cluster, workload=inputs.workload))
    return plain


def _saved_holds(graph: LayerGraph, holds: Holds) -> dict[str, Any]:
    names = sorted(holds.pinned, key=lambda name: (graph.index.get(name, -1), name))
    saved = SavedHolds(pinned=tuple(layer_ranges(graph, names)), locked=tuple(sorted(holds.locked)))
    plain: dict[str, Any] = to_plain(saved)
    return plain


def write_session(document: Mapping[str, Any], path: Path) -> None:
    """Write a session; the existing file stays whole until the new one is.

    Raises:
        InputError: the file cannot be written, or has another suffix.
    """
    if path.suffix not in SUFFIXES:
        allowed = ", ".join(SUFFIXES)
        raise InputError(
            f"unknown kind of file {path.suffix!r}", file=str(path), found=path.suffix, allowed=allowed
        )
    text = _json_text(document) if path.suffix == ".json" else yaml_text(dict(document))
    write_text(path, text, what="session")


def _json_text(document: Mapping[str, Any]) -> str:
    """Write one row of a table a line: quick to write, and a difference of two files can be read."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            lines = ",\n  ".join(json_text(row, indent=None) for row in value)
            parts.append(f" {json.dumps(key)}: [\n  {lines}\n ]" if value else f" {json.dumps(key)}: []")
        else:
            parts.append(f" {json.dumps(key)}: {json_text(value, indent=None)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read_session(path: Path) -> SavedSession:
    """Read a session from its file.

    Raises:
        InputError: the file cannot be read, or is something else.
    """
    return parse_session(read_document(path), file=str(path))


def parse_session(raw: Any, *, file: str) -> SavedSession:
    """Read a session from plain data.

    Raises:
        InputError: the data is something else, or damaged.
    """
    try:
        if not isinstance(raw, Mapping) or raw.get("schema") != SCHEMA:
            found = raw.get("schema") if isinstance(raw, Mapping) else type(raw).__name__
            raise InputError("not a session", key="schema", found=found, allowed=SCHEMA)
        own = {key: value for key, value in raw.items() if key != "schema"}
        if isinstance(own.get("strategies"), list):
            own["strategies"] = [todays_job(row) for row in own["strategies"]]
        session = validate(to_fields(own, SavedSession), SavedSession)
        _check(session)
    except InputError as error:
        raise error.within(file=file) from None
    return session


def _check(session: SavedSession) -> None:
    """Check that every position exists.

    Raises:
        InputError: the first position that does not exist.
    """
    _position("at", session.at, session.states)
    for key, states in (("states", session.states), ("others", session.others)):
        for i, state in enumerate(states):
            place = f"{key}[{i}]"
            _position(f"{place}.inputs", state.inputs, session.inputs)
            _position(f"{place}.strategy", state.strategy, session.strategies)
            for number in state.groups:
                _position(f"{place}.groups", number, session.groups)
            if state.holds is not None:
                _position(f"{place}.holds", state.holds, session.holds)
            if state.other is not None:
                _position(f"{place}.other", state.other, session.others)
    for i, strategy in enumerate(session.strategies):
        for number in strategy.stages:
            _position(f"strategies[{i}].stages", number, session.stages)
    for i, group in enumerate(session.groups):
        _position(f"groups[{i}].template", group.template, session.stages)


def _position(key: str, number: int, rows: Sequence[object]) -> None:
    if not 0 <= number < len(rows):
        allowed = f"0 to {len(rows) - 1}" if rows else "nothing: the table is empty"
        raise InputError(f"no row {number}", key=key, found=number, allowed=allowed)


def job_strategy(saved: SavedStrategy, stages: Sequence[Stage]) -> JobStrategy:
    """Return the strategy of a row, given its stages."""
    rest = {item.name: getattr(saved, item.name) for item in fields(saved) if item.name != "stages"}
    return JobStrategy(stages=tuple(stages), **rest)
