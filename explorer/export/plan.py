"""The plan itself as YAML: input of `explorer simulate --plan`, the board and every other command."""

from __future__ import annotations

from typing import Any

from explorer.base.formats import yaml_text
from explorer.base.plain_data import parse_document
from explorer.export import EXPORTERS
from explorer.export._carried import carried
from explorer.export._support import yes
from explorer.export.features import FEATURES
from explorer.export.spec import Exporter
from explorer.importing._source import SourceText
from explorer.plan import Resolved, from_document, to_document

FILE = "plan.yaml"


def read_plan(source: SourceText) -> Resolved:
    """Read a plan from YAML (or JSON) text.

    Raises:
        InputError: the text is not a plan, or its model or cluster cannot be loaded.
    """
    data: Any = parse_document(source.text, json_text=source.name.endswith(".json"))
    if isinstance(data, dict) and source.cluster:
        data = {**data, "cluster": {"reference": source.cluster}}
    if isinstance(data, dict) and source.model and isinstance(data.get("models"), dict):
        data = {**data, "models": {key: {"reference": source.model} for key in data["models"]}}
    return from_document(data, folder=source.folder, file=source.name, trust=source.trust)


@EXPORTERS.add(
    Exporter(
        name="plan",
        title="The plan itself (YAML), with the model and cluster files it refers to",
        capabilities={feature.name: yes("as it is") for feature in FEATURES},
        read=read_plan,
        main=FILE,
    )
)
def write(resolved: Resolved) -> dict[str, str]:
    """Write `plan.yaml`, and copies of the files that it refers to."""
    return plan_files(resolved)


def plan_files(resolved: Resolved) -> dict[str, str]:
    """Return `plan.yaml` and the files it needs, for targets that keep the plan next to their own files."""
    plan, files = carried(resolved)
    data = to_document(plan, resolved.graphs)
    return {FILE: yaml_text(data), **files}
