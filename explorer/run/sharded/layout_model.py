"""LayoutModel: layers of a graph as a run takes them, cut over the ranks of a lane by named dimensions.

Torch is not needed here. Every rank computes the same kinds of layers (`run.sharded.kinds`) on its own
pieces; one process computes them whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from explorer.base.errors import InputError
from explorer.base.plain_data import to_plain
from explorer.graph import COMPUTE, Layer, LayerGraph
from explorer.models.saved import SCHEMA, read
from explorer.run.lane_layout import LaneLayout
from explorer.run.model import PRECISIONS

ELEMENT_BYTES = {"fp32": 4, "fp64": 8}
TRANSFERS, STAGES, PADDING = "transfer", "stages", "padding"
"""Operation and axis under which messages between lanes are counted."""
ROUTING, ROUTED = "routing", "routed"
"""Operations under which is counted how many tokens go to each rank, and for which expert each of them is."""


@dataclass(frozen=True, kw_only=True)
class LayoutModel(LaneLayout):
    """A graph whose layers run on lanes of several ranks.

    Raises:
        InputError: an unknown data type.
    """

    graph: LayerGraph
    """The layers."""
    dtype: str = "fp32"
    """fp32 or fp64."""
    seed: int = 0
    """Seed of weights and data."""

    def __post_init__(self) -> None:
        if self.dtype not in PRECISIONS:
            raise InputError(
                "data type of a run", key="dtype", found=self.dtype, allowed=", ".join(PRECISIONS)
            )

    @property
    def units(self) -> Sequence[Layer]:
        """What a section's numbers count."""
        return self.graph.layers

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers."""
        return tuple(layer.name for layer in self.graph.layers)

    @property
    def element_bytes(self) -> int:
        """Bytes of one scalar."""
        return ELEMENT_BYTES[self.dtype]

    @cached_property
    def number_of(self) -> dict[str, int]:
        """Tensors by name."""
        return {tensor.name: i for i, tensor in enumerate(self.graph.tensors)}

    def parameters_of(self, units: Iterable[int]) -> tuple[str, ...]:
        """Return the parameters of some layers, each once."""
        return tuple(dict.fromkeys(use.name for unit in units for use in self.graph.layers[unit].parameters))

    def keys_of(self, tensors: Iterable[str], layers: Iterable[int]) -> tuple[int, ...]:
        """Return what a flow carries, as numbers: the tensors."""
        del layers
        return tuple(sorted(self.number_of[name] for name in tensors))

    def bounds(self) -> dict[str, int]:
        """Return, per input of whole numbers, how many different ones its readers know."""
        found: dict[str, int] = {}
        for layer in self.graph.layers:
            for use in layer.reads:
                if use.name in self.graph.producer or self.graph.tensor[use.name].dtype == COMPUTE:
                    continue
                count = _classes(layer)
                found[use.name] = min(found.get(use.name, count), count)
        return found


def _classes(layer: Layer) -> int:
    """Return how many numbers a layer tells apart: rows of its table, or classes of its loss."""
    known = {dim.name: int(dim.size) for dim in layer.dims}
    if layer.parameters and layer.kind == "embedding":
        rows = [dim for dim in layer.parameters[0].dims if dim == "vocab"]
        return known[rows[0]] if rows else 1
    fixed = [int(dim.size) for dim in layer.dims if not dim.splittable]
    return fixed[0] if fixed else known.get("vocab", 1)


def layout_data(model: LayoutModel) -> dict[str, Any]:
    """Return a model as plain data."""
    return {
        "graph": {"schema": SCHEMA, **to_plain(model.graph)},
        "layout": model.layout, "axes": model.axes, "exceptions": model.exceptions,
        "uneven": model.uneven, "spread": model.spread, "spread_axis": model.spread_axis,
        "tiles": model.tiles, "dtype": model.dtype, "seed": model.seed,
    }  # fmt: skip


def layout_model(data: Mapping[str, Any]) -> LayoutModel:
    """Make a model from plain data.

    Raises:
        InputError: a graph that is none.
    """
    values = {key: _tuples(value) for key, value in data.items() if key != "graph"}
    return LayoutModel(graph=read(data["graph"], file="model"), **values)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
