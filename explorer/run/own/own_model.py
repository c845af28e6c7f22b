"""OwnModel: the user's model as a run takes it: where it comes from, what it keeps and what flows, as data.

Torch is not needed here. What it says of layers and tensors was read from a capture (`own_source`); ranks
capture the module again and compute it (`own_layers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.base.errors import InputError
from explorer.base.units import dtype_bytes
from explorer.run.lane_layout import LaneLayout
from explorer.run.model import PRECISIONS
from explorer.run.own.planned_layers import Planned

OWN_PRECISIONS = (*PRECISIONS, "bf16")
"""Data types in which own layers run: with bf16 main weights and states of the optimizer are in fp32."""
MIXED = ("bf16", "fp32")
"""Weights that are computed with, and gradients that are added up in a wider data type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTensor:
    """A tensor that one layer passes to another.

    On its way it has the samples as its first axis. A tensor that does not depend on the samples (a bias by
    position) is sent once for each of them, as a cost model counts it.
    """

    name: str
    """Name in the captured graph."""
    shape: tuple[int, ...]
    """Shape of one sample on its way."""
    dtype: str
    """Data type as torch prints it, without `torch.`."""
    axis: int = 0
    """Axis of the samples where it is computed; -1 if it has none."""
    rows: int = 1
    """Places along that axis for each sample."""
    gradient: bool = True
    """Whether a gradient comes back for it."""


@dataclass(frozen=True, kw_only=True)
class OwnModel(LaneLayout):
    """A model whose own layers run.

    Raises:
        InputError: an unknown data type.
    """

    reference: str
    """Model reference, as for `load_model`."""
    settings: tuple[tuple[str, str], ...] = ()
    """What `--set` gave."""
    sequence_length: int | None = None
    """Tokens of a sample; None for the model's own."""
    keep: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    """Lists of blocks that are shortened: path, number of blocks, and those that stay."""
    layers: tuple[str, ...] = ()
    """Layers in the order of the captured graph: the units of the run."""
    parameters: tuple[tuple[str, ...], ...] = ()
    """Per layer: its parameters."""
    tensors: tuple[OwnTensor, ...] = ()
    """What layers pass on."""
    reads: tuple[tuple[int, ...], ...] = ()
    """Per layer: the tensors that it reads of others."""
    planned: tuple[Planned, ...] = ()
    """What layers take over from the plan's graph, whose names of dimensions its layout speaks of."""
    elements: int = 0
    """Scalars of all parameters."""
    dtype: str = "fp32"
    """fp32, fp64 or bf16: of the weights that are computed with and of activations."""
    gradient_dtype: str = ""
    """Data type in which gradients are added up and reduced, bf16 or fp32; empty for that of the weights."""
    seed: int = 0
    """Seed of weights and data."""

    def __post_init__(self) -> None:
        if self.dtype not in OWN_PRECISIONS:
            raise InputError(
                "data type of a run", key="dtype", found=self.dtype, allowed=", ".join(OWN_PRECISIONS)
            )
        if self.gradient_dtype not in ("", self.dtype) and (self.dtype, self.gradient_dtype) != MIXED:
            raise InputError(
                f"gradients in {self.gradient_dtype} of weights in {self.dtype}", key="gradient_dtype",
                found=self.gradient_dtype, allowed="that of the weights, or fp32 of weights in bf16",
            )  # fmt: skip

    @property
    def units(self) -> Sequence[str]:
        """What a section's numbers count."""
        return self.layers

    @property
    def element_bytes(self) -> int:
        """Bytes of one scalar."""
        return round(dtype_bytes(self.dtype))

    def parameters_of(self, units: Iterable[int]) -> tuple[str, ...]:
        """Return the parameters of some layers, each once."""
        return tuple(dict.fromkeys(name for unit in units for name in self.parameters[unit]))

    @cached_property
    def number_of(self) -> dict[str, int]:
        """Tensors by name."""
        return {tensor.name: i for i, tensor in enumerate(self.tensors)}

    def keys_of(self, tensors: Iterable[str], layers: Iterable[int]) -> tuple[int, ...]:
        """Return what a flow carries, as numbers: the tensors."""
        del layers
        return tuple(sorted(self.number_of[name] for name in tensors))


def own_model(data: dict[str, object]) -> OwnModel:
    """Make a model from plain data whose lists are tuples."""
    tensors = tuple(OwnTensor(**item) for item in data["tensors"])  # type: ignore[attr-defined]
    return OwnModel(**{**data, "tensors": tensors})  # type: ignore[arg-type]
