"""Files that a plan refers to, carried along, so an exported folder works on another machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from explorer.base.files import read_text
from explorer.base.formats import yaml_text
from explorer.base.plain_data import SUFFIXES, to_plain
from explorer.cluster_profiles import SCHEMA, cluster_names
from explorer.plan import Plan, Reference, Resolved, carried_name

HF = "hf:"
CONFIG = "config.json"


def carried(resolved: Resolved) -> tuple[Plan, dict[str, str]]:
    """Return the plan with references to files made relative to the export folder, and those files.

    Names of bundled models and clusters and `module:factory` stay as they are.
    """
    files: dict[str, str] = {}
    plan, folder = resolved.plan, resolved.folder or Path()
    models = tuple((key, _carry(item, folder, files)) for key, item in plan.models)
    return replace(plan, models=models, cluster=_carry_cluster(resolved, files)), files


def _carry_cluster(resolved: Resolved, files: dict[str, str]) -> Reference:
    """Write out a cluster that is not bundled in full: its file may extend others."""
    reference = resolved.plan.cluster
    if reference.reference in cluster_names():
        return reference
    name = _free(f"{Path(reference.reference).stem or 'cluster'}.yaml", files)
    data = {"schema": SCHEMA, **to_plain(resolved.cluster)}
    files[name] = yaml_text(data)
    return replace(reference, reference=name)


def _carry(reference: Reference, folder: Path, files: dict[str, str]) -> Reference:
    hub = reference.reference.startswith(HF)
    path = folder / reference.reference.removeprefix(HF)
    if hub and path.is_dir():
        path /= CONFIG
    if not path.is_file() or not (hub or path.suffix in (*SUFFIXES, ".txt")):
        return reference
    # an HF config must keep its name, hence a folder of its own
    name = _free(carried_name(reference.reference, folder).removeprefix(HF) if hub else path.name, files)
    name = f"{name}/{CONFIG}" if hub else name
    files[name] = read_text(path)
    return replace(reference, reference=f"{HF}{Path(name).parent.as_posix()}" if hub else name)


def _free(name: str, files: dict[str, str]) -> str:
    """Return the name, with a number in front if it is taken."""
    taken = {used.partition("/")[0] for used in files} | {"plan.yaml"}
    return next(n for n in (name, *(f"{i}-{name}" for i in range(2, len(taken) + 3))) if n not in taken)
