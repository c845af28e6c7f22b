"""Preview of an export: files, what the target expresses differently or not at all, and the reading back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from explorer.base.errors import ExplorerError, PlanError
from explorer.plan import Resolved
from explorer.simulation.check import check as check_plan
from explorer.views.export_answers import COUNTING, answer_rows
from explorer.views.export_changes import changes_view

MOST_CHARACTERS = 20_000
"""Most characters of one file that are shown; the download has them all."""
YES, NOTE, NO = "yes", "note", "no"
_BACK = {
    "same": (True, "Loads back to the same strategy"),
    "order": (True, "Loads back to the same order of actions, which is all that this file says"),
    "different": (False, "Loads back to another strategy"),
    "unreadable": (False, "Does not load back"),
    "write only": (None, "Cannot be read back: this target can only be written"),
}
_GIVEN = "; model and cluster have to be named, as the file does not"


def export_view(
    resolved: Resolved, target: str, *, check: bool = True, before: tuple[Resolved, str] | None = None
) -> dict[str, Any]:
    """Return `ExportView.view` of a plan for one target, without what has to be simulated for it.

    Args:
        resolved: the plan with its inputs.
        target: name of an exporter.
        check: whether to read the files back, which loads the model again.
        before: an earlier plan to say the change from, and what it is in words; None to say none.

    Raises:
        InputError: an unknown target.
    """
    from explorer.export import EXPORTERS, notes, preview, readable

    entry = EXPORTERS.get(target)
    files: Mapping[str, str] = {}
    plan, graphs = resolved.plan, resolved.graphs
    models = dict(graphs) if len(graphs) > 1 else resolved.graph
    refused = list(check_plan(models, resolved.cluster, plan.workload, plan.strategy))
    wrong = bool(refused)
    rows = [] if wrong else capability_table(resolved)
    if not wrong:
        try:
            files = preview(resolved, target)
        except PlanError as error:
            refused = list(error.problems)
        except ExplorerError as error:
            refused = [str(error)]
    return {
        "state": "refused" if refused else "ready",
        "pending": False,
        "plan": str(resolved.plan.provenance.note or resolved.plan.provenance.searcher),
        "targets": [_target(entry.name, entry.title, rows) for entry in EXPORTERS],
        "target": target,
        "files": file_rows(files),
        "notes": [] if refused else notes(resolved, target),
        "refusals": [_split(target, text) for text in refused],
        "back": _back(resolved, target, files) if files and check else None,
        "can_check": bool(files) and readable(target),
        "capabilities": rows,
        "documentation": entry.documentation,
        "answers": [] if wrong else answer_rows(resolved, target, refused),
        "nearest": COUNTING if refused and not wrong else None,
        "changes": changes_view(before[0], resolved, target, before[1]) if before and files else None,
    }


def capability_table(resolved: Resolved) -> list[dict[str, Any]]:
    """Return what each target makes of every feature this plan uses: rows of features, answers by target."""
    from explorer.export import EXPORTERS, refusals
    from explorer.export.features import uses

    found: dict[str, dict[str, Any]] = {}
    for use in uses(resolved):
        row = found.setdefault(use.name, {"feature": use.feature, "where": [], "answers": {}})
        row["where"].append(use.where)
        for entry in EXPORTERS:
            support = entry.capabilities[use.name]
            answer = NO if not support.covers(use) else YES if support.exact else NOTE
            before = row["answers"].get(entry.name, {"answer": YES})["answer"]
            worst = max(before, answer, key=(YES, NOTE, NO).index)
            row["answers"][entry.name] = {"answer": worst, "how": support.how}
    rows = [row | {"where": ", ".join(row["where"])} for row in found.values()]
    others = {entry.name: _others(entry.name, refusals(resolved, entry.name), rows) for entry in EXPORTERS}
    if any(others.values()):
        answers = {
            name: {"answer": NO if said else YES, "how": "; ".join(said) or "nothing else prevents it"}
            for name, said in others.items()
        }
        where = "the model, its samples"
        rows.append({"feature": "everything else", "where": where, "answers": answers})
    return rows


def _others(target: str, refused: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """List the refusals of a target that are not about a feature."""
    lead = f"{target} cannot express "
    known = tuple(f"{lead}{row['feature']} (" for row in rows)
    return [text.removeprefix(lead) for text in refused if not text.startswith(known)]


def file_rows(files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Describe files as `[{name, text, shown, omitted, bytes}]`; `shown` counts the characters to preview.

    >>> file_rows({"plan.yaml": "schema: explorer.plan/1"})[0]["omitted"] is None
    True
    """
    return [_file(name, text) for name, text in files.items()]


def _file(name: str, text: str) -> dict[str, Any]:
    rest = len(text) - MOST_CHARACTERS
    return {
        "name": name,
        "text": text,
        "shown": min(len(text), MOST_CHARACTERS),
        "omitted": f"{rest} more characters: the download has them all" if rest > 0 else None,
        "bytes": len(text.encode()),
    }


def _target(name: str, title: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    answers = [row["answers"][name]["answer"] for row in rows]
    return {"name": name, "title": title, "notes": answers.count(NOTE), "refused": answers.count(NO)}


def _split(target: str, text: str) -> dict[str, str | None]:
    """Split a refusal into problem and way out, which follows a colon; a plan check has only the problem."""
    lead = f"{target} cannot express "
    if not text.startswith(lead):
        return {"what": text, "way_out": None}
    what, _, way = text.removeprefix(lead).partition(": ")
    return {"what": what, "way_out": way or None}


def _back(resolved: Resolved, target: str, files: Mapping[str, str]) -> dict[str, Any]:
    from explorer.export.roundtrip import load_back

    found = load_back(resolved, target, files)
    ok, text = _BACK[found.outcome]
    if found.differences:
        text += f": {'; '.join(found.differences[:3])}"
    return {"ok": ok, "text": text + (_GIVEN if found.given and ok else "") + "."}
