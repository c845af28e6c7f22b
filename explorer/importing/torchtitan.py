"""torchtitan's config modules (read, never run) and the TOML files of its older releases."""

from __future__ import annotations

from explorer.base.errors import PlanError
from explorer.importing import IMPORTERS, _titan_read, _titan_toml
from explorer.importing._source import SourceText
from explorer.importing._titan_plan import plan_of, settings_problems
from explorer.importing._titan_unknown import unknown_keys
from explorer.importing.spec import Imported, Importer

_MARKS = ("torchtitan", "Trainer.Config", "[parallelism]", "[activation_checkpoint]")


def sniff(source: SourceText) -> bool:
    """Tell whether a text names torchtitan or has its tables."""
    return any(mark in source.text for mark in _MARKS)


@IMPORTERS.add(
    Importer(
        name="torchtitan",
        title="torchtitan: a config module, or the TOML of an older release",
        paper="torchtitan (Liang et al., 2024), arXiv:2410.06511",
        sniff=sniff,
        main="explorer_plan.py",
        documentation="https://github.com/pytorch/torchtitan/tree/main/docs",
    )
)
def read(source: SourceText) -> Imported:
    """Read a config module (never run, only read) or an older TOML file as a plan.

    Raises:
        InputError: the text is neither, or its model or cluster is unknown.
        PlanError: the config has something that a plan cannot express; lists all of it.
    """
    is_toml = source.name.endswith(".toml") or source.text.lstrip().startswith("[")
    settings = _titan_toml.read(source.text) if is_toml else _titan_read.read(source.text, source.part)
    if problems := settings_problems(settings):
        raise PlanError(problems, file=source.name)
    resolved = plan_of(settings, source)
    unknown = unknown_keys(source.text, toml=is_toml)
    said = resolved.plan.provenance.note.split("; ")[1 + len(settings.notes) :]
    return Imported(resolved=resolved, unknown=unknown, assumed=tuple(said))
