"""Loading an export back: its files are written to a temporary folder and read as `import_config` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from explorer.base.errors import ExplorerError
from explorer.base.trust import Trust
from explorer.export import import_config, readable
from explorer.export._files import write_files
from explorer.export._order import order_of
from explorer.plan import Resolved
from explorer.strategies.differences import compare_strategies

SAME, ORDER, DIFFERENT, UNREADABLE, WRITE_ONLY = "same", "order", "different", "unreadable", "write only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """Result of loading an export back."""

    outcome: str
    """`same` strategy, `order` alone (if a file holds no more), `different`, `unreadable`, `write only`."""
    differences: tuple[str, ...] = ()
    """Differences, or the reason why it cannot be read."""
    given: bool = False
    """Whether the reader had to be given the model and the cluster because the files do not name them."""


def load_back(resolved: Resolved, name: str, files: Mapping[str, str]) -> Back:
    """Read the files of a target back and compare them with the plan of one job that they were made from.

    Raises:
        InputError: the target is unknown.
    """
    if not readable(name):
        return Back(outcome=WRITE_ONLY)
    with TemporaryDirectory(prefix="explorer-export-") as folder:
        write_files(Path(folder), name, files)
        try:
            found, given = _read(resolved, name, Path(folder))
        except ExplorerError as error:
            text = str(error).replace(f"{folder}/", "")
            return Back(outcome=UNREADABLE, differences=(text,))
    if found.plan.strategy == resolved.plan.strategy:
        return Back(outcome=SAME, given=given)
    try:
        if given and _orders(found) == _orders(resolved):
            return Back(outcome=ORDER, given=given)
    except ExplorerError as error:
        return Back(outcome=UNREADABLE, differences=(str(error),), given=given)
    said = compare_strategies(resolved.plan.strategy.job, found.plan.strategy.job)
    return Back(outcome=DIFFERENT, differences=tuple(said), given=given)


def _own(resolved: Resolved) -> Trust:
    """Return the plan's models: they are loaded already, and an export does not bring in others."""
    return tuple(item.reference for _, item in resolved.plan.models)


def _read(resolved: Resolved, name: str, folder: Path) -> tuple[Resolved, bool]:
    """Return the plan in the folder, and whether model and cluster had to be named."""
    try:
        return import_config(folder, name, model=None, cluster=None, trust=_own(resolved)), False
    except ExplorerError as error:
        if getattr(error, "key", None) not in ("--model", "--cluster"):
            raise
    plan = resolved.plan
    model = plan.models[0][1].reference
    return import_config(folder, name, model=model, cluster=plan.cluster.reference), True


def _orders(resolved: Resolved) -> set[str]:
    """Return what each lane does in a step, without updates."""
    order, _ = order_of(resolved)
    return {" ".join(str(a) for a in lane if a.op != "U") for lane in order.lanes}
