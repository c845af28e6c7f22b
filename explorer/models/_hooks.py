"""A graph per module, for models that cannot be exported: they are run once under fake tensors and watched.

This is coarser than an export: one layer per repeated block, or per module without submodules outside the
blocks, in the order of their calls, each reading what the previous one wrote. FLOPs are FlopCounterMode's;
what is kept is what autograd really packs. Dimensions have no names, so such layers cannot be split.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.base.errors import InputError
from explorer.graph import Dim, Layer, Parameter, Tensor, Use, Work
from explorer.models._emission import GraphParts
from explorer.models._stacks import find_stacks


@dataclass(slots=True, kw_only=True)
class _Call:
    """One call of a watched module."""

    path: str
    """Dotted path of the module; empty for what the model does outside all watched modules."""
    flops: float = 0.0
    """Forward FLOPs."""
    kept_elements: int = 0
    """Scalars that autograd packs."""
    shape: tuple[int, ...] = ()
    """Sizes of the first tensor it returns; () if it returns none."""


def run(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], parameter_name: Callable[[str], str]
) -> GraphParts:
    """Run `module` on fakes of its inputs and return the layers, tensors and parameters seen.

    Raises:
        InputError: no watched module returned a tensor.
    """
    blocks = {f"{stack.path}.{i}" for stack in find_stacks(module) for i in range(len(stack.kinds))}
    watched = _watched(module, blocks)
    # Names are looked up before the run, which replaces the parameters.
    canonical = {name: parameter_name(name) for name, _ in module.named_parameters(remove_duplicate=False)}
    calls = _Watcher(module).run(watched, args, kwargs)
    if not calls:
        raise InputError("no module of the model returned a tensor", key="model", allowed="an nn.Module")
    return _chain(module, calls, canonical, blocks)


def _watched(module: Any, blocks: set[str]) -> dict[str, Any]:
    """Return the blocks, and the modules without submodules outside the blocks."""
    return {
        path: item
        for path, item in module.named_modules()
        if path in blocks
        or not (any(item.children()) or any(path.startswith(block + ".") for block in blocks))
    }


class _Watcher:
    """Watcher that runs a module once under fake tensors and notes the calls of some of its submodules."""

    def __init__(self, module: Any) -> None:
        from torch.utils.flop_counter import FlopCounterMode

        self.module = module
        self.calls: list[_Call] = []
        self.open: list[_Call] = []
        self.counter = FlopCounterMode(display=False)
        self.weights: set[int] = set()

    def run(self, watched: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[_Call]:
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils._pytree import tree_map_only

        mode = FakeTensorMode(allow_non_fake_inputs=True)
        packing = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)
        handles = [item.register_forward_pre_hook(self._before(path)) for path, item in watched.items()]
        handles += [item.register_forward_hook(self._after) for item in watched.values()]
        try:
            with mode, self.counter, packing, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given, named = tree_map_only(torch.Tensor, _fake, (tuple(args), dict(kwargs)))
                state = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
                fakes = {name: _fake(item) for name, item in state.items()}
                self.weights = {id(item) for item in fakes.values()}
                torch.func.functional_call(self.module, fakes, given, named)
        finally:
            for handle in handles:
                handle.remove()
        return self._finished()

    def _finished(self) -> list[_Call]:
        found = [call for call in self.calls if call.shape]
        rest = self.counter.get_total_flops() - sum(call.flops for call in found)
        return [*found, _Call(path="", flops=rest, shape=found[-1].shape)] if found and rest else found

    def _before(self, path: str) -> Callable[[Any, Any], None]:
        def hook(_: Any, __: Any) -> None:
            call = _Call(path=path, flops=-float(self.counter.get_total_flops()))
            self.calls.append(call)
            self.open.append(call)

        return hook

    def _after(self, _: Any, __: Any, output: Any) -> None:
        call = self.open.pop()
        call.flops += self.counter.get_total_flops()
        tensor = _first_tensor(output)
        call.shape = () if tensor is None else tuple(tensor.shape)

    def _pack(self, tensor: Any) -> Any:
        own = {id(tensor), id(tensor._base)} & self.weights
        if self.open and not own:
            self.open[-1].kept_elements += tensor.numel()
        return tensor


def _fake(tensor: Any) -> Any:
    """Make a fake tensor on the CPU: it may know the values that models ask for and meta tensors refuse."""
    import torch

    made = torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
    return made.requires_grad_(tensor.requires_grad)


def _first_tensor(output: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_leaves

    return next((leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)), None)


def _chain(module: Any, calls: Sequence[_Call], canonical: Mapping[str, str], blocks: set[str]) -> GraphParts:
    own = dict(module.named_modules(remove_duplicate=False))
    known = dict(module.named_parameters())
    layers: list[Layer] = []
    tensors = [Tensor(name="input", shape=(1.0,), backward=False)]
    for call in calls:
        taken = {layer.name for layer in layers}
        base = call.path or "model"
        name = next(n for n in (base, *(f"{base}_{k}" for k in range(2, len(calls) + 2))) if n not in taken)
        prefix = f"{call.path}." if call.path else ""
        inner = own[call.path].named_parameters() if call.path or len(own) == 1 else ()
        names = [canonical[prefix + item] for item, _ in inner]
        read, out = tensors[-1], Tensor(name=name, shape=tuple(float(s) for s in call.shape if s != 1))
        layers.append(_layer(call, name, base if base in blocks else "", read, out, names, known))
        if call.kept_elements:
            kept = (float(call.kept_elements),)
            tensors.append(Tensor(name=f"{name}.kept", shape=kept, backward=False))
        tensors.append(out)
    used = dict.fromkeys(use.name for layer in layers for use in layer.parameters)
    parameters = tuple(
        Parameter(name=n, shape=tuple(map(float, known[n].shape)), trainable=known[n].requires_grad)
        for n in used
    )
    return GraphParts(tuple(layers), tuple(tensors), parameters, {}, {})


def _layer(
    call: _Call,
    name: str,
    block: str,
    read: Tensor,
    out: Tensor,
    parameters: Sequence[str],
    known: Mapping[str, Any],
) -> Layer:
    moved = math.prod(read.shape) + math.prod(out.shape) + 2.0 * call.kept_elements
    # Without operators only the sum of both gradients is known, twice the forward: split in halves.
    work = Work(flops=call.flops, moved_elements=moved)
    saves = (f"{name}.kept",) if call.kept_elements else ()
    return Layer(
        name=name,
        kind="linear" if call.flops else "other",
        block=block,
        dims=(Dim(name="all", size=math.prod(out.shape), splittable=False),),
        reads=(Use(name=read.name),),
        writes=(Use(name=out.name), *(Use(name=item) for item in saves)),
        parameters=tuple(Use(name=item) for item in dict.fromkeys(parameters)),
        saves=saves,
        forward=work,
        input_grad=work,
        weight_grad=work if any(known[item].requires_grad for item in parameters) else Work(),
    )
