"""Request of a strategy: the one layout in which all its stages run, or why they cannot."""

from __future__ import annotations

from explorer.base.errors import InputError
from explorer.sharding import overrides_of, uneven_of
from explorer.sharding.stage import Request
from explorer.strategy import REPLICA, JobStrategy


def request_of(strategy: JobStrategy, *, apart: bool = False) -> Request:
    """Return the layout, the mesh axes and the exceptions of a strategy's lanes.

    Args:
        strategy: the strategy.
        apart: leave layers over devices of several lanes out, rather than refuse them.

    Raises:
        InputError: stages of unlike layouts, or layers over devices of several lanes.
    """
    found: dict[Request, str] = {}
    for s, stage in enumerate(strategy.stages):
        sizes = tuple((name, size) for name, size in stage.meshes[0].axes if name != REPLICA and size > 1)
        overrides = overrides_of(stage)
        outside = [item for item in overrides if any(pair not in sizes for pair in item.sizes or ())]
        overrides = tuple(item for item in overrides if item not in outside)
        for item in outside:
            if not apart:
                raise InputError(
                    f"layers {', '.join(item.layers)} of stage {s} run over devices of several lanes",
                    key=f"stages[{s}].shardings",
                    found=str(dict(item.sizes or ())),
                    allowed="mesh axes of the stage itself",
                )
        found.setdefault(Request(stage.layout, sizes, overrides, uneven_of(stage, 0)), str(s))
    if len(found) > 1:
        raise InputError(
            f"stages {' and '.join(list(found.values())[:2])} are laid out differently",
            key="stages.layout",
            found=len(found),
            allowed="one layout, one mesh and the same exceptions for all stages",
        )
    return next(iter(found))
