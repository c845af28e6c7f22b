"""A pretended accelerator: tensors that say they lie on another device, with their values on the host.

Operators refuse to mix them with tensors of the host as those of a GPU are refused, so that whatever a rank
makes on the wrong device is found on a machine without any other. The device calls itself `meta`, for which
autograd needs no driver either; without a backward it may call itself `cuda`.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE, HOST = torch.device("meta"), torch.device("cpu")
_aten = torch.ops.aten
_ACROSS = {_aten.copy_.default, _aten._to_copy.default}
"""What may have tensors of both places."""
_INDEXED = {_aten.index.Tensor, _aten.index_put_.default, _aten.index_put.default}
"""What takes indices of the host on any device."""


class Pretended(torch.Tensor):
    """A tensor on the pretended device."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor, device: torch.device = DEVICE) -> Self:
        """Wrap values of the host."""
        made: Self = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, layout=inner.layout, device=device,
        )  # fmt: skip
        made.inner = inner
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Pretended({self.inner!r})"

    def tolist(self) -> Any:
        """Return the values, as tensors of any device do."""
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _called(func, args, kwargs or {})


class Pretending(TorchDispatchMode):
    """The context in which the device exists."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _called(func, args, kwargs or {})


def made_here_first(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
    """Stand in for `torch.tensor`, which would ask the device itself for memory."""
    found = _TENSOR(data, **options)
    return found if device is None else found.to(device)


_TENSOR = torch.tensor


def _called(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call an operator on values of the host, and say of its results where they lie."""
    flat = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
    there = [x for x in flat if isinstance(x, Pretended)]
    device = kwargs.get("device")
    at = torch.device(device) if device is not None else there[0].device if there else HOST
    if there and func not in _ACROSS:
        asked = flat[:1] if func in _INDEXED else flat
        if wrong := [x for x in asked if not isinstance(x, Pretended) and x.dim()]:
            raise RuntimeError(f"{func} mixes devices: {tuple(wrong[0].shape)} {wrong[0].dtype} of the host")
    if device is not None:
        kwargs = {**kwargs, "device": "cpu"}
    plain_args, plain_kwargs = tree_map(lambda x: x.inner if isinstance(x, Pretended) else x, (args, kwargs))
    made = func(*plain_args, **plain_kwargs)
    if func is _aten.copy_.default:
        return args[0]
    known = {id(x.inner): x for x in there}

    def outside(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or at.type == HOST.type:
            return x
        return known[id(x)] if id(x) in known else Pretended(x, at)

    return tree_map(outside, made)
