"""Restoring saved sessions as states. Models and clusters are loaded again; changes in them are reported."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.base.errors import ExplorerError, InputError
from explorer.cluster.memory_room import under_settings
from explorer.cluster_profiles import load_cluster
from explorer.explain.names import counted
from explorer.framework_files import load_framework
from explorer.models import load_model_and_cluster
from explorer.plan import fingerprint, range_layers, spelt_out
from explorer.strategies.moves import DeviceGroup
from explorer.strategy import Stage, Strategy
from widgets.holds import Holds
from widgets.inputs import Inputs, shared
from widgets.session import Figures, Point, lazy_point

from .file import SavedInputs, SavedSession, SavedState, job_strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """States of a saved session."""

    points: tuple[Point, ...]
    """States, not simulated yet."""
    times_s: tuple[float, ...]
    """When each was made, in seconds since 1970, UTC."""
    at: int
    """Position of the one to be shown."""
    remarks: tuple[str, ...]
    """What is not as it was, in words."""


def restore(session: SavedSession, *, known: Inputs | None = None) -> Restored:
    """Restore the states of a session; those whose model or cluster cannot be loaded are left out and
    reported.

    Args:
        session: the session read.
        known: inputs that are loaded already. A model that is made by running code is only taken from here:
            a file never decides what code runs.

    Raises:
        InputError: none of its states can be restored.
    """
    reader = _Reader(session, known)
    points: list[Point] = []
    times_s: list[float] = []
    at = 0
    for number, state in enumerate(session.states):
        point = reader.point(state)
        if number <= session.at and (point is not None or not points):
            at = len(points)
        if point is not None:
            points.append(point)
            times_s.append(state.made_s)
    if not points:
        why = "; ".join(reader.remarks) or "it holds no states"
        raise InputError(f"nothing of the session can be opened: {why}", key="session")
    lost = len(session.states) - len(points)
    remarks = [*reader.remarks, *([f"{counted(lost, 'state')} left out"] if lost else [])]
    return Restored(
        points=tuple(points), times_s=tuple(times_s), at=min(at, len(points) - 1), remarks=tuple(remarks)
    )


class _Reader:
    """Reader of the rows of a session, which makes each value once."""

    def __init__(self, session: SavedSession, known: Inputs | None) -> None:
        self._session, self._known = session, known
        self.remarks: list[str] = []
        self._inputs = [self._load(row) for row in session.inputs]
        self._stages: dict[tuple[int, int], Stage] = {}
        self._strategies: dict[tuple[int, int], Strategy] = {}
        self._others: dict[int, Point | None] = {}

    def point(self, state: SavedState) -> Point | None:
        """Return a state; None, with a remark, if it cannot be restored."""
        inputs = self._inputs[state.inputs]
        if inputs is None:
            return None
        try:
            return self._made(state, inputs)
        except ExplorerError as error:
            self._remark(str(error))
            return None

    def _made(self, state: SavedState, inputs: Inputs) -> Point:
        session, number = self._session, state.inputs
        groups = [
            DeviceGroup(meshes=row.meshes, template=self._stage(number, inputs, row.template))
            for row in (session.groups[i] for i in state.groups)
        ]
        figures = Figures(
            step_time_s=state.step_time_s, peak_fraction=state.peak_fraction, over_bytes=state.over_bytes
        )
        point = lazy_point(
            inputs,
            self._strategy(number, inputs, state.strategy),
            groups,
            figures=figures,
            note=state.note,
            maker=state.maker,
        )
        other = None if state.other is None else self._other(state.other)
        return replace(point, holds=self._holds(inputs, state.holds), other=other)

    def _other(self, number: int) -> Point | None:
        if number not in self._others:
            self._others[number] = None  # a plan B has no plan B of its own, whatever the file says
            self._others[number] = self.point(self._session.others[number])
        return self._others[number]

    def _holds(self, inputs: Inputs, number: int | None) -> Holds:
        if number is None:
            return Holds()
        row = self._session.holds[number]
        names = range_layers(inputs.graph, row.pinned)
        locked = frozenset(tuple(sorted(devices)) for devices in row.locked)
        return Holds(pinned=frozenset(names), locked=locked)

    def _strategy(self, inputs_number: int, inputs: Inputs, number: int) -> Strategy:
        key = (inputs_number, number)
        if key not in self._strategies:
            row = self._session.strategies[number]
            stages = [self._stage(inputs_number, inputs, i) for i in row.stages]
            self._strategies[key] = Strategy(jobs=(job_strategy(row, stages),))
        return self._strategies[key]

    def _stage(self, inputs_number: int, inputs: Inputs, number: int) -> Stage:
        key = (inputs_number, number)
        if key not in self._stages:
            self._stages[key] = spelt_out(inputs.graph, self._session.stages[number])
        return self._stages[key]

    def _load(self, row: SavedInputs) -> Inputs | None:
        try:
            return self._loaded(row)
        except ExplorerError as error:
            self._remark(str(error))
            return None

    def _loaded(self, row: SavedInputs) -> Inputs:
        known, name, place = self._known, row.model.reference, row.cluster.reference
        software = row.workload.job.framework
        same = known is not None and software == known.job.framework
        if known is not None and same and replace(row.model, fingerprint="") == known.model:
            graph, own = known.graph, None
        else:
            graph, own = load_model_and_cluster(
                name,
                sequence_length=row.model.sequence_length or None,
                settings=dict(row.model.settings),
                framework=load_framework(software),
                trust=() if known is None else (known.model.reference,),
            )
        if known is not None and place == known.cluster_name:
            cluster = known.cluster
        else:
            cluster = own if own is not None and place == name else load_cluster(place)
        cluster = under_settings(cluster, row.cluster.settings)
        for what, reference, value in (("model", row.model, graph), ("cluster", row.cluster, cluster)):
            if reference.fingerprint and reference.fingerprint != fingerprint(value):
                self._remark(f"{what} {reference.reference} has changed since, so its numbers are new")
        return Inputs(
            model=replace(row.model, fingerprint=""), graph=shared(graph), cluster_name=place,
            cluster=shared(cluster), workload=row.workload,
        )  # fmt: skip

    def _remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)
