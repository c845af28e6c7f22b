"""Plan: a strategy with the model, cluster and workload it is for, as files, boards and runs exchange it.

A file is YAML or JSON, versioned. Models and clusters are references with fingerprints; paths are relative to
the file. Runs of consecutive layers are written ``first .. last``. Large jobs are written in shorthand
(`explorer.plan_shorthand`) in files of version 2; all others are of version 1, which older releases read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.files import STANDARD_INPUT, exists, read_standard_input
from explorer.base.former_files import todays_job
from explorer.base.plain_data import (
    parse_document,
    read_document,
    to_fields,
    to_plain,
    validate,
    write_document,
)
from explorer.base.trust import Trust
from explorer.cluster import Cluster
from explorer.cluster.memory_room import margin_settings, under_settings
from explorer.framework import USUAL, Framework
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.plan_shorthand import shortened, written_out
from explorer.plan_text import is_packed, packed, unpacked
from explorer.strategy import Stage, Strategy
from explorer.workload import Workload

SCHEMA, SHORT_SCHEMA = "explorer.plan/1", "explorer.plan/2"
"""Formats: written out in full, and with runs of devices and the fields stages share. Both are read."""
RANGE = " .. "
SHARED = "shared plan"
"""What stands in messages for the file of a plan that came as a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A model or cluster by name or path."""

    reference: str
    """Argument of `load_model` or `load_cluster`; a relative path is relative to the plan file."""
    fingerprint: str = ""
    """SHA-256 of its content when the plan was made; empty if unknown."""
    sequence_length: int = 0
    """Tokens of one sample that a model is built for; 0 for its default."""
    settings: tuple[tuple[str, str], ...] = ()
    """Further settings of a model (`samples_per_microbatch`), or of a cluster (`memory_margin`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The origin of a plan."""

    searcher: str = ""
    """Name of the searcher; `board` or `hand` for people, `import` for imported plans."""
    seed: int = 0
    """Seed of the searcher."""
    version: str = ""
    """Version of this package."""
    step_time_s: float = 0.0
    """Step time in seconds predicted when the plan was made; 0 if none."""
    note: str = ""
    """Anything else worth keeping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A strategy with the model, cluster and workload it is for."""

    models: tuple[tuple[str, Reference], ...]
    """(key, model) pairs: one entry `model`, or one per key that the jobs name."""
    cluster: Reference
    """Reference to the cluster."""
    workload: Workload
    """Jobs to run."""
    strategy: Strategy
    """Strategy of all jobs."""
    provenance: Provenance = Provenance()
    """Origin of the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A plan with its inputs loaded."""

    plan: Plan
    """The plan, with layer ranges spelt out."""
    graphs: Mapping[str, LayerGraph]
    """Models by key."""
    cluster: Cluster
    """The cluster."""
    mismatches: tuple[str, ...] = field(default=())
    """Differences from what the plan was made for, in words."""
    folder: Path | None = None
    """Folder of its file, from which relative references start; None if the plan has no file."""

    @property
    def graph(self) -> LayerGraph:
        """The only model.

        Raises:
            InputError: there are several.
        """
        if len(self.graphs) != 1:
            raise InputError(f"the plan has {len(self.graphs)} models where one is needed", key="models")
        return next(iter(self.graphs.values()))


def fingerprint(value: LayerGraph | Cluster | Workload | Strategy) -> str:
    """Hash the canonical JSON of a value's fields by SHA-256, first 16 hex digits.

    The result is cached on graphs and clusters, which are large.
    """

    def make() -> str:
        plain = _plain_cluster(value) if isinstance(value, Cluster) else to_plain(value)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    return value.memo("fingerprint", make) if isinstance(value, (LayerGraph, Cluster)) else make()


_COSTS_AFTER = {
    "host_issue_s": ("launch_overhead_s",),
    "backward_issue": ("launch_overhead_s", "host_issue_s"),
    "action_overhead_s": ("launch_overhead_s", "host_issue_s"),
    "cached_fraction": ("reserved_bytes",),
}
"""Costs of software; for each, the fields of a device kind whose sources its own used to follow."""


def _plain_cluster(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster's plain data with software costs among the numbers of its device kinds.

    This is the form from before there were frameworks, so fingerprints in plans and sessions of that time
    still hold.
    """
    plain: dict[str, Any] = to_plain(cluster)
    for kind in plain["device_kinds"]:
        for name in ("like", "maker", "generation"):
            kind.pop(name, None)
        costs = kind.pop("software", {})
        sources = kind.get("sources", [])
        for name, before in _COSTS_AFTER.items():
            own = [source for source in costs.get("sources", []) if source["key"] == name]
            at = [i for i, source in enumerate(sources) if source["key"] in before]
            place = at[-1] + 1 if at else len(sources)
            sources = [*sources[:place], *own, *sources[place:]]
            kind.update({name: costs[name]} if name in costs else {})
        kind.update({"sources": sources} if sources else {})
    return plain


def reference_to(name: str, cluster: Cluster) -> Reference:
    """Return the reference to a cluster as it is: its fingerprint, and its margin of memory."""
    return Reference(reference=name, fingerprint=fingerprint(cluster), settings=margin_settings(cluster))


def make_plan(
    model: str | Reference,
    graph: LayerGraph,
    cluster_reference: str,
    cluster: Cluster,
    workload: Workload,
    strategy: Strategy,
    provenance: Provenance = Provenance(),
) -> Plan:
    """Make a plan of one job with its fingerprints filled in."""
    reference = model if isinstance(model, Reference) else Reference(reference=model)
    return Plan(
        models=(("model", replace(reference, fingerprint=fingerprint(graph))),),
        cluster=reference_to(cluster_reference, cluster),
        workload=workload,
        strategy=strategy,
        provenance=provenance,
    )


def to_document(plan: Plan, graphs: Mapping[str, LayerGraph]) -> dict[str, Any]:
    """Convert a plan to plain data for a file."""
    data = to_plain(plan)
    jobs = data["strategy"]["jobs"]
    for part, job in zip(jobs, plan.strategy.jobs, strict=True):
        graph = _graph_of(plan, graphs, job.job)
        for stage_data, stage in zip(part["stages"], job.stages, strict=True):
            if stage.layers:
                stage_data["layers"] = layer_ranges(graph, stage.layers)
    short = [shortened(part, job) for part, job in zip(jobs, plan.strategy.jobs, strict=True)]
    data["strategy"]["jobs"] = short
    return {"schema": SCHEMA if short == jobs else SHORT_SCHEMA, **data}


def from_document(
    data: Any, *, folder: Path | None = None, file: str | None = None, trust: Trust = False
) -> Resolved:
    """Read a plan and its inputs from plain data.

    Args:
        data: content of the file.
        folder: folder of the file.
        file: its name, for messages.
        trust: code that it may name as its model: none, or see `explorer.base.trust`.

    Raises:
        InputError: a wrong value, a model or cluster that cannot be loaded, or code that no person named.
    """
    try:
        if not isinstance(data, Mapping) or data.get("schema") not in (SCHEMA, SHORT_SCHEMA):
            found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
            raise InputError("not a plan", key="schema", found=found, allowed=f"{SCHEMA}, {SHORT_SCHEMA}")
        raw = {key: value for key, value in data.items() if key != "schema"}
        strategy = raw.get("strategy")
        if isinstance(strategy, Mapping) and isinstance(strategy.get("jobs"), list):
            raw["strategy"] = {**strategy, "jobs": [todays_job(job) for job in strategy["jobs"]]}
        if "strategy" in raw:
            raw["strategy"] = _written_out(raw["strategy"])
        plan = validate(to_fields(raw, Plan), Plan)
    except InputError as error:
        raise error.within(file=file) from None
    return resolve(plan, folder=folder, file=file, trust=trust)


def _written_out(strategy: Any) -> Any:
    if not isinstance(strategy, Mapping) or not isinstance(strategy.get("jobs"), list):
        return strategy
    jobs = [written_out(job, f"strategy.jobs[{i}]") for i, job in enumerate(strategy["jobs"])]
    return {**strategy, "jobs": jobs}


def resolve(
    plan: Plan, *, folder: Path | None = None, file: str | None = None, trust: Trust = False
) -> Resolved:
    """Load what a plan refers to, spell out its layer ranges, and compare fingerprints.

    Raises:
        InputError: as `from_document`.
    """
    from explorer.cluster_profiles import load_cluster
    from explorer.models import load_model

    graphs: dict[str, LayerGraph] = {}
    mismatches: list[str] = []
    plan = replace(plan, workload=_located_frameworks(plan.workload, folder))
    for key, item in plan.models:
        try:
            graph = load_model(
                located(item.reference, folder),
                sequence_length=item.sequence_length or None,
                settings=dict(item.settings),
                framework=_framework_of(plan.workload, key),
                trust=trust,
            )
        except InputError as error:
            raise error.within(file=file) from None
        graphs[key] = graph
        if item.fingerprint and item.fingerprint != fingerprint(graph):
            mismatches.append(f"model {item.reference} has changed since the plan was made")
    cluster = load_cluster(located(plan.cluster.reference, folder))
    try:
        cluster = under_settings(cluster, plan.cluster.settings)
    except InputError as error:
        raise error.within(file=file) from None
    if plan.cluster.fingerprint and plan.cluster.fingerprint != fingerprint(cluster):
        mismatches.append(f"cluster {plan.cluster.reference} has changed since the plan was made")
    jobs = []
    for job in plan.strategy.jobs:
        graph = _graph_of(plan, graphs, job.job)
        try:
            jobs.append(job.with_stages(spelt_out(graph, stage) for stage in job.stages))
        except InputError as error:
            raise error.within(file=file) from None
    full = replace(plan, strategy=Strategy(jobs=tuple(jobs)))
    return Resolved(plan=full, graphs=graphs, cluster=cluster, mismatches=tuple(mismatches), folder=folder)


def _located_frameworks(workload: Workload, folder: Path | None) -> Workload:
    jobs = tuple(replace(job, framework=located(job.framework, folder)) for job in workload.jobs)
    return workload if jobs == workload.jobs else Workload(jobs=jobs)


def _framework_of(workload: Workload, model: str) -> Framework:
    """Return the framework of the first job that runs a model; of several models each job names its own."""
    named = [job for job in workload.jobs if job.graph in ("", model)]
    return load_framework(named[0].framework) if named else USUAL


def load_plan(path: str | Path, *, trust: Trust = False) -> Resolved:
    """Read a plan file (YAML or JSON) with its model and cluster; `-` reads standard input.

    Args:
        path: the file, or the plan itself as a text (`share_text`).
        trust: whether it may name code as its model, which is then run: False, True, or the references that
            you name yourself.

    Raises:
        InputError: as `from_document`, or a file that cannot be read.
    """
    if str(path) == STANDARD_INPUT:
        text = read_standard_input()
        data = unpacked(text) if is_packed(text) else parse_document(text)
        return from_document(data, folder=Path.cwd(), file="standard input", trust=trust)
    if is_packed(str(path)):
        return from_document(unpacked(str(path)), file=SHARED, trust=trust)
    path = Path(path)
    return from_document(read_document(path), folder=path.parent, file=str(path), trust=trust)


def share_text(plan: Plan, graphs: Mapping[str, LayerGraph]) -> str:
    """Return a plan as one short text, which `load_plan` takes in place of a file."""
    return packed(to_document(plan, graphs))


def own_files(plan: Plan) -> list[str]:
    """List the model, cluster and framework that a plan names and does not carry: files, and code."""
    named = [*(item.reference for _, item in plan.models), plan.cluster.reference]
    named += [job.framework for job in plan.workload.jobs]
    return [name for name in dict.fromkeys(named) if name and (":" in name or exists(name))]


def save_plan(plan: Plan, graphs: Mapping[str, LayerGraph], path: str | Path) -> None:
    """Write a plan file; the suffix chooses YAML or JSON."""
    write_document(to_document(plan, graphs), Path(path))


def _graph_of(plan: Plan, graphs: Mapping[str, LayerGraph], job: str) -> LayerGraph:
    keys = {item.name: item.graph for item in plan.workload.jobs}
    key = keys.get(job, "")
    if key in graphs:
        return graphs[key]
    if len(graphs) == 1:
        return next(iter(graphs.values()))
    raise InputError(
        f"job {job!r} names no model of the plan",
        key="workload.jobs",
        found=key,
        allowed=", ".join(graphs),
    )


def located(reference: str, folder: Path | None) -> str:
    """Return a reference, resolved in the plan's folder if its path exists there."""
    if folder is not None and reference:
        prefix, _, rest = reference.rpartition("hf:")
        candidate = folder / (rest if prefix == "" and reference.startswith("hf:") else reference)
        if exists(candidate):
            return f"hf:{candidate}" if reference.startswith("hf:") else str(candidate)
    return reference


def carried_name(reference: str, folder: Path | None) -> str:
    """Return what a reference is called in a folder that carries its file along.

    A Hugging Face configuration keeps its name, `config.json`, in a folder of its own; others stay as they
    are.
    """
    if not reference.startswith("hf:"):
        return reference
    path = Path(located(reference, folder).removeprefix("hf:"))
    home = path if path.is_dir() else path.parent
    return f"hf:{home.resolve().name or 'model'}"


def layer_ranges(graph: LayerGraph, layers: Iterable[str]) -> list[str]:
    """Shorten runs of three or more consecutive layers to `first .. last`; `spelt_out` undoes it."""
    index = graph.index
    runs: list[list[str]] = []
    for name in layers:
        if runs and index.get(name, -1) == index.get(runs[-1][-1], -2) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [text for run in runs for text in ([f"{run[0]}{RANGE}{run[-1]}"] if len(run) > 2 else run)]


def spelt_out(graph: LayerGraph, stage: Stage) -> Stage:
    """Return a stage with ranges of layers replaced by their names.

    Raises:
        InputError: a range that names an unknown layer.
    """
    if not any(RANGE in name for name in stage.layers):
        return stage
    return replace(stage, layers=tuple(range_layers(graph, stage.layers)))


def range_layers(graph: LayerGraph, ranges: Iterable[str]) -> list[str]:
    """List the names of layers, with ranges spelt out.

    Raises:
        InputError: a range that names an unknown layer.
    """
    names: list[str] = []
    for text in ranges:
        first, dots, last = text.partition(RANGE)
        if not dots:
            names.append(text)
            continue
        for name in (first, last):
            if name not in graph.index:
                raise InputError(
                    f"range {text!r} names an unknown layer {name!r}",
                    key="strategy.stages.layers",
                    found=name,
                    allowed=f"a layer of {graph.name}",
                )
        names += [item.name for item in graph.layers[graph.index[first] : graph.index[last] + 1]]
    return names
