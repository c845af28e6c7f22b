"""Programs: exported programs read as operations on values, without views, constants and casts.

Everything that costs stays: every `Operation` reads *values* (whole tensors; a view of one counts as that
one), uses parameters, and writes values. What depends neither on an input nor on a parameter (masks,
positions, rotary tables) is the same for every sample and on every device, and is not part of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from explorer.models._axes import Axes, TensorAxes

VALUE, PARAMETER, CONSTANT = "value", "parameter", "constant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A tensor as an operator sees it: a view of a value, of a parameter, or a constant."""

    kind: str
    """One of value, parameter and constant."""
    name: str
    """Name of the value, parameter or constant."""
    axes: TensorAxes
    """Axes of the view."""
    sizes: tuple[int, ...]
    """Sizes of the axes."""
    dtype: str = "compute"
    """`compute` for floating point, else int64, int32 or bool."""
    gradient: bool = False
    """Whether a gradient is wanted for it."""
    weight: bool = False
    """Whether it is made only of parameters (and constants)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedValue:
    """A tensor that exists: an input of the model or the result of an operation."""

    name: str
    """Name, unique in the program."""
    axes: TensorAxes
    """Axes as written."""
    elements: int
    """Number of scalars."""
    dtype: str
    """Data type, as `Ref.dtype`."""
    gradient: bool
    """Whether a gradient is wanted for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of an operator."""

    op: str
    """Operator without overload (`linear`)."""
    category: str
    """Category; see `operators.category`."""
    owner: str
    """Dotted path of the innermost module that called it."""
    owner_class: str
    """Class name of that module."""
    refs: tuple[Ref, ...]
    """Tensor arguments, including constants."""
    writes: tuple[str, ...]
    """Names of the values it writes."""
    forward_flops: float = 0.0
    """FLOPs of the forward."""
    input_grad_flops: float = 0.0
    """FLOPs of the gradient with respect to the values it reads."""
    weight_grad_flops: float = 0.0
    """FLOPs of the gradient with respect to weights."""
    keeps: tuple[str, ...] = ()
    """Values that autograd keeps."""
    mask: bool = False
    """Whether it keeps a boolean mask of its result (dropout)."""
    node: str = ""
    """Node of the exported graph that computes it; for an operator inside a region, the region's."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Values it reads, each once."""
        return tuple(dict.fromkeys(ref.name for ref in self.refs if ref.kind == VALUE))

    @property
    def parameters(self) -> tuple[Ref, ...]:
        """Parameters it uses."""
        return tuple(ref for ref in self.refs if ref.kind == PARAMETER)

    @property
    def uses_weight(self) -> bool:
        """Whether it is a product with something made of parameters."""
        return any(ref.weight and ref.kind != CONSTANT for ref in self.refs if len(ref.sizes) > 1)


@dataclass(slots=True, kw_only=True)
class TracedProgram:
    """Everything read from one exported program."""

    axes: Axes
    """Knowledge about all axes."""
    values: dict[str, TracedValue] = field(default_factory=dict)
    """Values by name."""
    parameters: dict[str, Ref] = field(default_factory=dict)
    """Axes of the parameters, by name."""
    operations: list[Operation] = field(default_factory=list)
    """Operations in program order."""
    inputs: list[str] = field(default_factory=list)
    """Values that the caller passes in."""
    outputs: list[str] = field(default_factory=list)
    """Values that the caller receives."""
    seen: dict[str, Any] = field(default_factory=dict)
    """What every node of the exported graph gives: a `Ref`, several, or a plain value."""
