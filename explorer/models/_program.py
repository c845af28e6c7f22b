"""What an exported program is read into: operations on values; views, constants and casts fall away.

What stays is what costs: every `Operation` reads *values* (whole tensors; a view of one is that one), uses
parameters, and writes values. Whatever depends neither on an input nor on a parameter (masks, positions,
rotary tables) is the same for every sample and on every device, and is no part of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.models._axes import Axes, Shape

VALUE, PARAMETER, CONSTANT = "value", "parameter", "constant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A tensor as an operator sees it: a view of a value, of a parameter, or a constant."""

    kind: str
    """value, parameter or constant."""
    name: str
    """Which value, parameter or constant."""
    axes: Shape
    """Axes of the view."""
    sizes: tuple[int, ...]
    """Their sizes."""
    dtype: str = "compute"
    """`compute` for floating point, else int64, int32, bool."""
    gradient: bool = False
    """Whether a gradient is wanted for it."""
    weight: bool = False
    """Whether it is made of parameters (and constants) alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor that exists: an input of the model or the result of an operation."""

    name: str
    """Unique in the program."""
    axes: Shape
    """Its axes as written."""
    elements: int
    """Scalars."""
    dtype: str
    """As `Ref.dtype`."""
    gradient: bool
    """Whether a gradient is wanted for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call of an operator."""

    op: str
    """Operator without overload (`linear`)."""
    category: str
    """See `operators.category`."""
    owner: str
    """Dotted path of the innermost module that called it."""
    owner_class: str
    """Class name of that module."""
    refs: tuple[Ref, ...]
    """Tensor arguments, constants included."""
    writes: tuple[str, ...]
    """Values."""
    forward_flops: float = 0.0
    """FLOPs."""
    input_grad_flops: float = 0.0
    """FLOPs of the gradient with respect to the values it reads."""
    weight_grad_flops: float = 0.0
    """FLOPs of the gradient with respect to weights."""
    keeps: tuple[str, ...] = ()
    """Values autograd keeps."""
    mask: bool = False
    """Whether it keeps a boolean mask of its result (dropout)."""

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
class Program:
    """Everything read from one exported program."""

    axes: Axes
    """What is known about all axes."""
    values: dict[str, Value] = field(default_factory=dict)
    """By name."""
    parameters: dict[str, Ref] = field(default_factory=dict)
    """By name: their axes."""
    operations: list[Operation] = field(default_factory=list)
    """In program order."""
    inputs: list[str] = field(default_factory=list)
    """Values that the caller gives."""
    outputs: list[str] = field(default_factory=list)
    """Values that the caller gets."""
