"""Results that came back from elsewhere: the same validation, run on a cluster from an exported folder.

`explorer export --to torchrun` writes the specification that `exported` makes; every rank leaves its result
with the marks of plan and specification. Here they are gathered, refused if they are of another plan, and
compared as if they had been run here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError, PlanError
from explorer.base.files import is_folder, read_text
from explorer.base.formats import parse_json
from explorer.cluster import Cluster
from explorer.plan import Resolved, carried_name, fingerprint
from explorer.run.experiment import Experiment
from explorer.run.instruments import make_experiment
from explorer.run.judging.compare import Comparison
from explorer.run.launching.launch import RESULT_BYTES, RunResult
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_scale import Elsewhere
from explorer.run.spec import RunSpec, as_read, mark_of

ROUNDS = 5
"""Measured rounds; each runs the strategy and, for comparison, one process alone."""
REACHED = 0.25
"""Share of its lowest peak that a device is assumed to reach."""
_RESULT, _EVENTS = "result-*.json", "events"


def exported(resolved: Resolved, *, profile: Cluster | None = None) -> Experiment:
    """Make the launch that an exported folder runs, against one process: what a validation on the plan's own
    devices runs.

    Args:
        resolved: the plan.
        profile: profile of a machine it runs on, to compare with.

    Raises:
        InputError: the plan cannot be run.
    """
    rows = _rows(resolved)
    made = make_experiment(
        resolved,
        rounds=ROUNDS,
        ranks=sum(map(len, rows)),
        baseline="single",
        profile=profile,
        elsewhere=_rank_of(resolved, rows),
    )
    spec = replace(_carried(made.spec, resolved), plan=plan_mark(resolved))
    return replace(made, spec=as_read(spec))


def devices_of(resolved: Resolved, ranks: int) -> list[int]:
    """Return the device of each rank: all of the lanes, or the first of each where a lane is one rank.

    Raises:
        PlanError: another number of ranks.
    """
    rows = _rows(resolved)
    for devices in ([device for row in rows for device in row], [row[0] for row in rows]):
        if len(devices) == ranks:
            return devices
    raise PlanError([f"torchrun cannot run {len(rows)} lanes on {ranks} ranks"])


def _rows(resolved: Resolved) -> list[tuple[int, ...]]:
    """Return the devices of each lane of a plan, in the order of the ranks."""
    stages = resolved.plan.strategy.job.stages
    return list(dict.fromkeys(row for stage in stages for mesh in stage.meshes for row in mesh.rows))


def _rank_of(resolved: Resolved, rows: list[tuple[int, ...]]) -> Elsewhere:
    """Return what the weakest rank has on the plan's devices."""
    kinds = [kind for _, kind, _ in resolved.cluster.kinds_among([d for row in rows for d in row])]
    return Elsewhere(
        memory_bytes=min(kind.memory_bytes for kind in kinds),
        flops_per_s=REACHED * min(flops for kind in kinds for _, flops in kind.peak_flops_per_s),
    )


def _carried(spec: RunSpec, resolved: Resolved) -> RunSpec:
    """Return a specification that names its model as the folder does, wherever that lies."""

    def named(model: Any) -> Any:
        if not isinstance(model, OwnModel):
            return model
        return replace(model, reference=carried_name(model.reference, resolved.folder))

    timed = spec.calibration
    return replace(
        spec,
        cases=tuple(replace(case, model=named(case.model)) for case in spec.cases),
        calibration=timed and replace(timed, model=named(timed.model)),
    )


def plan_mark(resolved: Resolved) -> str:
    """Hash a plan with its inputs, 16 hex digits."""
    plan = resolved.plan
    parts = [*map(fingerprint, resolved.graphs.values()), fingerprint(resolved.cluster)]
    parts += [fingerprint(plan.workload), fingerprint(plan.strategy)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


def validate_results(resolved: Resolved, folder: Path, *, profile: Cluster | None = None) -> Comparison:
    """Compare a plan with what its exported folder measured.

    Args:
        resolved: the plan.
        folder: the exported folder, its `out`, or wherever the `nodeN` of all nodes were copied to.
        profile: profile of a machine that the ranks ran on, to compare with.

    Raises:
        InputError: no results, not of all ranks, or of another plan.
    """
    experiment = exported(resolved, profile=profile)
    return experiment.finish(read_results(folder, experiment))


def read_results(folder: Path, experiment: Experiment) -> RunResult:
    """Gather the results of all ranks.

    Raises:
        InputError: as `validate_results`.
    """
    if not is_folder(folder):
        raise InputError(
            "there is no such folder", file=str(folder), key="--from", allowed="a folder of results"
        )
    places = [
        folder,
        *(path for depth in ("*", "*/*") for path in sorted(folder.glob(depth)) if path.is_dir()),
    ]
    found: dict[int, Mapping[str, Any]] = {}
    events: list[dict[str, Any]] = []
    for path in (path for place in places for path in sorted(place.glob(_RESULT))):
        result = read_result(path, experiment)
        rank = path.stem.removeprefix("result-")
        if rank.isdigit():
            found[int(rank)] = result
    spec = experiment.spec
    if missing := [rank for rank in range(spec.ranks) if rank not in found]:
        raise InputError(
            f"{_some(missing)} of {spec.ranks} ranks left no result there",
            file=str(folder), key="--from", allowed="the results of all nodes in one folder",
        )  # fmt: skip
    for place in places:
        events += _events(place / _EVENTS)
    return RunResult(
        ranks=tuple(dict(found[rank]) for rank in range(spec.ranks)), events=tuple(events), wall_s=0.0
    )


def read_result(path: Path, experiment: Experiment) -> Mapping[str, Any]:
    """Read one rank's result, which must be of this run.

    Raises:
        InputError: as `validate_results`.
    """
    result = parse_json(read_text(path, most=RESULT_BYTES), ours=False)
    if not isinstance(result, dict) or not isinstance(result.get("cases"), dict):
        raise InputError("is not the result of a rank", file=str(path))
    own = experiment.spec
    if result.get("plan") != own.plan:
        raise InputError(
            "is the result of another plan",
            file=str(path), key="plan", found=result.get("plan"), allowed=own.plan,
        )  # fmt: skip
    if result.get("spec") != mark_of(own):
        raise InputError(
            "is of this plan, but another version of the package exported it; export and run again",
            file=str(path), key="spec", found=result.get("spec"), allowed=mark_of(own),
        )  # fmt: skip
    return result


def _events(path: Path) -> Iterable[dict[str, Any]]:
    """Read what the ranks of a node said of their devices."""
    if not path.is_file():
        return []
    lines = read_text(path, most=RESULT_BYTES).splitlines()
    return [event for event in (parse_json(line, ours=False) for line in lines) if isinstance(event, dict)]


def _some(ranks: list[int]) -> str:
    named = ", ".join(map(str, ranks[:4]))
    return f"rank{'s' * (len(ranks) > 1)} {named}" + (f" and {len(ranks) - 4} more" if len(ranks) > 4 else "")
