"""Repeated blocks of a module: where they are, which are equal, and a module with only some of them.

A *stack* is a ModuleList some of whose items are equal in structure. The first two items of every structure
are kept for the export (the second shows what a block reads from the previous block and what from elsewhere:
T5's position bias always comes from the first). The last item is kept as well if its structure is not that of
the last one kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

COUNTS = frozenset({
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "num_encoder_layers",
    "decoder_layers", "encoder_layers", "depth",
})  # fmt: skip
"""Configuration keys that give the number of blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A ModuleList with equal items."""

    path: str
    """Dotted path of the list."""
    kinds: tuple[int, ...]
    """Structure of every item: equal numbers are equal structures."""

    @property
    def keep(self) -> tuple[int, ...]:
        """Items that are exported."""
        found: list[int] = []
        for kind in dict.fromkeys(self.kinds):
            found += [i for i, other in enumerate(self.kinds) if other == kind][:2]
        found.sort()
        last = len(self.kinds) - 1
        if self.kinds[found[-1]] != self.kinds[last]:
            found.append(last)
        return tuple(found)

    def block(self, index: int) -> str:
        """Return the path of an item."""
        return f"{self.path}.{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBlocks:
    """A ModuleList of which someone chose the items to keep."""

    path: str
    """Dotted path of the list."""
    count: int
    """Number of its items."""
    keep: tuple[int, ...]
    """Items to keep, in their order."""

    @property
    def kinds(self) -> tuple[int, ...]:
        """Structure of every item, which nobody asks for here: all are of their own."""
        return tuple(range(self.count))

    def block(self, index: int) -> str:
        """Return the path of an item."""
        return f"{self.path}.{index}"


def find_stacks(module: Any) -> tuple[Stack, ...]:
    """Find the outermost ModuleLists some of whose items are equal in structure."""
    from torch import nn

    found: list[Stack] = []

    def visit(item: Any, path: str) -> None:
        if isinstance(item, nn.ModuleList) and len(item) > 1:
            kinds = _kinds(list(item), _nearest_config(module, path))
            if len(set(kinds)) < len(kinds):
                found.append(Stack(path=path, kinds=kinds))
                return
        for name, child in item.named_children():
            visit(child, f"{path}.{name}" if path else name)

    visit(module, "")
    return tuple(found)


def _nearest_config(module: Any, path: str) -> Any:
    config, found = getattr(module, "config", None), module
    for part in filter(None, path.split(".")):
        found = getattr(found, part)
        config = getattr(found, "config", config)
    return config


def _kinds(items: Sequence[Any], config: Any) -> tuple[int, ...]:
    """Give every item a number, equal for equal structures: classes, shapes, settings and listed kinds."""
    described = [_structure(item) for item in items]
    listed = [
        values for values in _per_layer(config, len(items)).values() if not _is_index(dict(enumerate(values)))
    ]
    paths = dict.fromkeys(path for parts in described for path in parts)
    index = {
        path
        for path in paths
        if _is_index({i: parts[path] for i, parts in enumerate(described) if path in parts})
    }
    numbers: dict[Any, int] = {}
    kinds = []
    for i, parts in enumerate(described):
        settled = tuple(pair for pair in parts.items() if pair[0] not in index)
        kinds.append(numbers.setdefault((settled, tuple(repr(value[i]) for value in listed)), len(numbers)))
    return tuple(kinds)


def _per_layer(config: Any, count: int) -> dict[str, Sequence[Any]]:
    """Return the lists of a configuration with one entry per item."""
    values = vars(config) if config is not None and hasattr(config, "__dict__") else {}
    return {k: v for k, v in values.items() if isinstance(v, (list, tuple)) and len(v) == count}


def _structure(item: Any) -> dict[str, Any]:
    """Return everything that can change the program of a module, by path."""
    found: dict[str, Any] = {}
    for path, module in item.named_modules():
        found[path] = type(module).__qualname__
        for name, value in vars(module).items():
            if isinstance(value, (bool, int, str)) and name != "training":
                found[f"{path}.{name}"] = value
            elif isinstance(value, float):
                # A rate changes the program only by being 0 or not (stochastic depth grows by layer).
                found[f"{path}.{name}"] = value != 0
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            found[f"{path}:{name}"] = None if tensor is None else (tuple(tensor.shape), tensor.requires_grad)
    return found


def _is_index(values: Mapping[int, Any]) -> bool:
    """Tell whether a setting of some items is just their position (layer_idx), which changes no shape."""
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values.values()):
        return False
    return len({value - i for i, value in values.items()}) == 1


@contextmanager
def reduced(module: Any, stacks: Sequence[Stack | ChosenBlocks]) -> Iterator[None]:
    """Reduce `module`, inside the context, to the items that are kept, and its configuration accordingly."""
    from torch import nn

    undo: list[tuple[Any, str, Any]] = []

    def change(target: Any, name: str, value: Any) -> None:
        undo.append((target, name, getattr(target, name)))
        setattr(target, name, value)

    try:
        for stack in stacks:
            owner_path, _, name = stack.path.rpartition(".")
            owner = module.get_submodule(owner_path)
            items, count = getattr(owner, name), len(stack.kinds)
            config = _nearest_config(module, stack.path)
            for key, value in _per_layer(config, count).items():
                change(config, key, [value[i] for i in stack.keep])
            for key in COUNTS & set(vars(config) if config is not None else ()):
                if getattr(config, key) == count:
                    change(config, key, len(stack.keep))
            change(owner, name, nn.ModuleList(items[i] for i in stack.keep))
        yield
    finally:
        for target, name, value in reversed(undo):
            setattr(target, name, value)
