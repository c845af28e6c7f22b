"""Print torchtitan configs, one line of JSON each, loaded by torchtitan's own command line parser.

usage: python tests/support/titan_config.py --module MODULE --config FUNCTION [torchtitan override...]
A lone comma begins another config; importing torchtitan takes ten seconds, loading a config almost none.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from types import ModuleType
from typing import Any


class _Kernels(ModuleType):
    """Stands for torchtitan's Triton kernels, which import triton: 1 GB that nothing here runs."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries, anything else JSON does not know by its name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | int | float | str | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def main() -> None:
    kernels = "torchtitan.distributed.minimal_async_ep.kernels"
    sys.modules[kernels] = _Kernels(kernels)
    from torchtitan.config import ConfigManager

    groups: list[list[str]] = [[]]
    for argument in sys.argv[1:]:
        if argument == ",":
            groups.append([])
        else:
            groups[-1].append(argument)
    for group in groups:
        print(json.dumps(plain(ConfigManager().parse_args(group))))


if __name__ == "__main__":
    main()
