"""Opening a trainer's config: the job that somebody runs today, as a state of the workbench."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.base.errors import InputError
from explorer.importing import Imported, SourceText, import_text
from explorer.importing.spec import NO_EFFECT
from widgets.opening import plan_point
from widgets.session import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A config as a state, with everything that the state does not say."""

    point: Point
    """State of the plan that the config means."""
    remarks: tuple[str, ...]
    """What was assumed, and the keys for which a plan has no word, one sentence each."""


def open_config(source: SourceText, now: Point | None) -> Opened:
    """Read a trainer's config, on the model and cluster shown where it does not tell its own.

    Args:
        source: the config; it is never run.
        now: state shown; None if there is none yet.

    Raises:
        InputError: it shows no trainer, or cannot be read as a plan.
        PlanError: keys that contradict each other, or what a plan cannot express.
    """
    shown = {} if now is None else {"model": now.inputs.model.reference, "cluster": now.inputs.cluster_name}
    taken: list[str] = []
    while True:
        try:
            found = import_text(source)
        except InputError as error:
            key = (error.key or "").removeprefix("--")
            if key not in shown or getattr(source, key):
                raise
            own = shown[key]
            source = replace(source, model=own) if key == "model" else replace(source, cluster=own)
            taken.append(f"{key} {own}, the one shown: the config does not tell its own")
        else:
            return Opened(point=plan_point(found.resolved), remarks=(*taken, *_remarks(found)))


def _remarks(found: Imported) -> list[str]:
    """Say what was assumed and what has no word in a plan; keys that do not matter in one sentence."""
    quiet = [item.key for item in found.unknown if item.assumed == NO_EFFECT]
    said = [*found.assumed, *(str(item) for item in found.unknown if item.assumed != NO_EFFECT)]
    return [*said, *([f"{NO_EFFECT}: {', '.join(quiet)}"] if quiet else [])]
