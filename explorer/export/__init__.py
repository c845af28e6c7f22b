"""Export and import: a neutral plan as files of other programs, and their configs as plans.

One file per target, found by its decorator, which takes an `Exporter`: what the target can express, what else
it refuses, how its files are read back and how much of a plan then comes back. It registers
``write(resolved) -> {file name: text}``.

>>> from explorer.export import EXPORTERS
>>> "plan" in EXPORTERS.names()
True
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError, PlanError
from explorer.base.registry import Registry
from explorer.base.trust import Trust
from explorer.export._files import write_files
from explorer.export._launchers import job_files
from explorer.export._support import Support
from explorer.export.features import FEATURES, FeatureUse, uses
from explorer.export.spec import Exporter
from explorer.importing import IMPORTERS, import_file, source_text
from explorer.plan import Resolved
from explorer.simulation.check import check

__all__ = [
    "EXPORTERS",
    "Exporter",
    "capability_rows",
    "export",
    "import_config",
    "notes",
    "preview",
    "readable",
    "refusals",
]

EXPORTERS: Registry[Exporter] = Registry("exporter", "explorer.export")


def export(resolved: Resolved, name: str, directory: Path, *, launcher: str = "") -> list[Path]:
    """Write a plan for the target called `name` into a directory, which is made if it is missing.

    Files there are replaced only if an earlier export wrote them and nobody changed them since. `launcher`
    names a scheduler for which a job is written as well.

    Returns:
        The files of the target, in the order in which it names them.

    Raises:
        InputError: the target is unknown, or the directory cannot be written or holds somebody's files.
        PlanError: everything that is wrong with the plan, or everything that the target cannot express.
    """
    return write_files(directory, name, preview(resolved, name, launcher=launcher))


def preview(resolved: Resolved, name: str, *, launcher: str = "") -> dict[str, str]:
    """Return file name -> text of what `export` would write.

    Raises:
        InputError: the target is unknown, or has no such launcher.
        PlanError: as `export`.
    """
    entry = EXPORTERS.get(name)
    graphs = dict(resolved.graphs) if len(resolved.graphs) > 1 else next(iter(resolved.graphs.values()))
    if problems := check(graphs, resolved.cluster, resolved.plan.workload, resolved.plan.strategy):
        raise PlanError(problems)
    if problems := refusals(resolved, name):
        raise PlanError(problems)
    files = dict(entry.function(resolved))
    return files | (job_files(resolved, name, launcher, files) if launcher else {})


def refusals(resolved: Resolved, name: str) -> list[str]:
    """Return what the target cannot express of a plan, each with a way out; [] if it can express all."""
    entry = EXPORTERS.get(name)
    found = [
        f"{name} cannot express {use.feature} ({use.where}): {support.how}"
        for use, support in _supports(resolved, entry)
        if not support.covers(use)
    ]
    if len(resolved.plan.strategy.jobs) == 1:
        found += entry.problems(resolved)
    return found


def notes(resolved: Resolved, name: str) -> list[str]:
    """Return everything in a plan that the target expresses only approximately, and how."""
    return [
        f"{use.feature} ({use.where}): {support.how}"
        for use, support in _supports(resolved, EXPORTERS.get(name))
        if support.covers(use) and not support.exact
    ]


def capability_rows(name: str) -> list[dict[str, Any]]:
    """Return the capability table of a target as plain rows: feature, title, supported, exact, how."""
    table = EXPORTERS.get(name).capabilities
    return [
        {
            "feature": feature.name,
            "title": feature.title,
            "supported": table[feature.name].supported,
            "exact": table[feature.name].exact,
            "how": table[feature.name].how,
        }
        for feature in FEATURES
    ]


def import_config(
    path: Path, source: str, *, model: str | None, cluster: str | None, trust: Trust = False
) -> Resolved:
    """Read a config of the target called `source` as a plan.

    Args:
        path: a file, a folder that an export made, or `-` for standard input; code in it is never run.
        source: name of the target.
        model: model, needed if the config does not name one; otherwise it overrides.
        cluster: cluster to place it on, needed if the config does not name one; otherwise it overrides.
        trust: whether the config may name code as its model, which is then run: no; yes; or these references,
            which you name yourself. The `model` that you name may be code.

    Raises:
        InputError: the target is unknown or write-only, or the config cannot be read as a plan or names
            code.
    """
    if source in IMPORTERS.names():
        return import_file(path, source, model=model, cluster=cluster, trust=trust).resolved
    entry = EXPORTERS.get(source)
    if entry.read is None:
        raise InputError(
            f"configs of {source!r} cannot be read back",
            key="--from",
            found=source,
            allowed=", ".join(sorted({*IMPORTERS.names(), *(item.name for item in EXPORTERS if item.read)})),
        )
    found = replace(source_text(path, entry.main, model, cluster), trusted=trust)
    try:
        resolved = entry.read(found)
    except PlanError as error:
        raise PlanError(error.problems, file=error.file or found.name) from None
    except InputError as error:
        raise error.within(file=found.name) from None
    return resolved


def readable(name: str) -> bool:
    """Tell whether files of a target can be read as plans, by itself or by an importer of its name."""
    return name in IMPORTERS.names() or EXPORTERS.get(name).read is not None


def _supports(resolved: Resolved, exporter: Exporter) -> list[tuple[FeatureUse, Support]]:
    return [(use, exporter.capabilities[use.name]) for use in uses(resolved)]
