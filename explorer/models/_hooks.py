"""A graph per module, for models that cannot be exported: run once under fake tensors and watched.

Coarser than an export: one layer per repeated block, or per module without submodules outside of them, in
the order of their calls, each reading what the one before wrote. FLOPs are FlopCounterMode's; what is kept
is what autograd really packs. Dimensions have no names, so such layers cannot be split.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.errors import InputError
from explorer.graph import Dim, Layer, Parameter, Tensor, Use, Work
from explorer.models._emission import Parts
from explorer.models._stacks import find_stacks


@dataclass(slots=True, kw_only=True)
class _Call:
    """One call of a watched module."""

    path: str
    flops: float = 0.0
    kept_elements: int = 0
    shape: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    depth: list[float] = field(default_factory=list)


def run(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], parameter_name: Callable[[str], str]
) -> Parts:
    """Layers, tensors and parameters of `module`, watched while it runs on fakes of its inputs.

    Raises:
        InputError: no module was called, or none gave a tensor.
    """
    calls = _watch(module, args, kwargs, parameter_name)
    if not any(call.shape for call in calls):
        raise InputError("no module of the model returned a tensor", key="model", allowed="an nn.Module")
    return _chain(module, calls, parameter_name)


def _watched(module: Any) -> dict[str, Any]:
    blocks = {
        f"{stack.path}.{i}": item
        for stack in find_stacks(module)
        for i, item in enumerate(module.get_submodule(stack.path))
    }
    found = dict(blocks)
    for path, item in module.named_modules():
        inside = any(path.startswith(block + ".") for block in blocks)
        if not inside and path not in blocks and not any(item.children()):
            found[path] = item
    return found


def _watch(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], parameter_name: Callable[[str], str]
) -> list[_Call]:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import tree_map_only
    from torch.utils.flop_counter import FlopCounterMode

    calls: list[_Call] = []
    open_calls: list[_Call] = []
    counter = FlopCounterMode(display=False)
    weights = {id(item) for item in module.parameters()}

    def before(path: str) -> Callable[..., None]:
        def hook(item: Any, _: Any) -> None:
            names = [f"{path}.{name}" if path else name for name, _ in item.named_parameters()]
            call = _Call(path=path, parameters=tuple(dict.fromkeys(map(parameter_name, names))))
            call.flops = -float(counter.get_total_flops())
            calls.append(call)
            open_calls.append(call)

        return hook

    def after(_: Any, __: Any, output: Any) -> None:
        call = open_calls.pop()
        call.flops += counter.get_total_flops()
        tensor = _first_tensor(output)
        call.shape = () if tensor is None else tuple(tensor.shape)

    def pack(tensor: Any) -> Any:
        if open_calls and id(tensor) not in weights:
            open_calls[-1].kept_elements += tensor.numel()
        return tensor

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    handles = []
    for path, item in _watched(module).items():
        handles += [item.register_forward_pre_hook(before(path)), item.register_forward_hook(after)]
    try:
        with (
            mode,
            counter,
            torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            given, named = tree_map_only(torch.Tensor, _fake(torch), (tuple(args), dict(kwargs)))
            weights_of = {name: _fake(torch)(item) for name, item in _state(module).items()}
            torch.func.functional_call(module, weights_of, given, named)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _state(module: Any) -> dict[str, Any]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _fake(torch: Any) -> Callable[[Any], Any]:
    # On the CPU: many models ask for values, which a meta tensor refuses and a fake one may know.
    def make(tensor: Any) -> Any:
        made = torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
        return made.requires_grad_(tensor.requires_grad)

    return make


def _first_tensor(output: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_leaves

    return next((leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)), None)


def _chain(module: Any, calls: Sequence[_Call], parameter_name: Callable[[str], str]) -> Parts:
    layers: list[Layer] = []
    tensors = [Tensor(name="input", shape=(1.0,), backward=False)]
    blocks = {f"{stack.path}.{i}" for stack in find_stacks(module) for i in range(len(stack.kinds))}
    trainable = {parameter_name(name): item.requires_grad for name, item in module.named_parameters()}
    shapes = {parameter_name(name): tuple(map(float, item.shape)) for name, item in module.named_parameters()}
    taken: set[str] = set()
    for call in calls:
        if not call.shape:
            continue
        base = name = call.path or "model"
        number = 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        read, out = tensors[-1], Tensor(name=name, shape=tuple(float(s) for s in call.shape if s != 1))
        layers.append(_layer(call, name, base if base in blocks else "", read, out, trainable))
        if call.kept_elements:
            kept = Tensor(name=f"{name}.kept", shape=(float(call.kept_elements),), backward=False)
            tensors.append(kept)
        tensors.append(out)
    used = dict.fromkeys(use.name for layer in layers for use in layer.parameters)
    parameters = tuple(Parameter(name=n, shape=shapes[n], trainable=trainable[n]) for n in used)
    return Parts(tuple(layers), tuple(tensors), parameters)


def _layer(
    call: _Call, name: str, block: str, read: Tensor, out: Tensor, trainable: Mapping[str, bool]
) -> Layer:
    moved = math.prod(read.shape) + math.prod(out.shape) + 2.0 * call.kept_elements
    learning = any(trainable[item] for item in call.parameters)
    work = Work(flops=call.flops, moved_elements=moved)
    # Without operators only the sum of both gradients is known, twice the forward: halves.
    saves = (f"{name}.kept",) if call.kept_elements else ()
    return Layer(
        name=name,
        kind="linear" if call.flops else "other",
        block=block,
        dims=(Dim(name="all", size=math.prod(out.shape), splittable=False),),
        reads=(Use(name=read.name),),
        writes=(Use(name=out.name), *(Use(name=item) for item in saves)),
        parameters=tuple(Use(name=item) for item in call.parameters),
        saves=saves,
        forward=work,
        input_grad=work,
        weight_grad=work if learning else Work(),
    )
