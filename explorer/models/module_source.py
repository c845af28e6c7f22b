"""The torch module behind a model reference, with parameters that have no values yet.

A module is made without spending memory or seconds on its weights: its parameters are kept on the meta
device while it is built, then get storage that nobody has written to (systems give that only once it is).
Buffers are made as the module makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.base.trust import Trust, require_trust, runs_code
from explorer.models import SOURCES, load_model
from explorer.models.captured_program import Capturing
from explorer.models.modules import MODULES, module_of

if TYPE_CHECKING:
    import torch
    from torch import nn


def has_module(reference: str) -> bool:
    """Tell whether there is code behind a model reference, so that its own layers can run."""
    if reference in SOURCES.names():
        # a family's file is named after it: to ask for registered names would import torch for a yes or no
        return SOURCES.get(reference).family in MODULES.files()
    return reference.startswith("hf:") or runs_code(reference)


def open_module(
    reference: str,
    *,
    sequence_length: int | None = None,
    settings: Mapping[str, str] | None = None,
    dtype: torch.dtype | None = None,
    trust: Trust = True,
) -> Capturing:
    """Make the module that a reference names.

    Args:
        reference: as `load_model`; profiles and saved graphs have no module.
        sequence_length: tokens of one sample; None for the model's own.
        settings: what `--set` gave.
        dtype: floating point type of parameters, buffers and inputs; None for the module's own.
        trust: whether code that `reference` names may be run, as for `load_model`.

    Raises:
        InputError: no module behind the reference, or whatever its source refuses.
    """
    from torch.utils._pytree import tree_map

    given = dict(settings or {})
    with _parameters_aside():
        source = _open(reference, sequence_length, given, trust)
    if dtype is not None:  # before there is memory, which a cast would write
        source.module.to(dtype)
    _give_storage(source.module)

    def real(item: Any) -> Any:
        import torch

        if not isinstance(item, torch.Tensor):
            return item
        made = torch.zeros_like(item, device="cpu") if item.device.type == "meta" else item
        return made.to(dtype) if dtype is not None and made.dtype.is_floating_point else made

    for parameter in source.module.parameters():
        if parameter.dtype.is_floating_point:
            parameter.requires_grad_()  # a run trains them all
    return Capturing(
        module=source.module, args=tree_map(real, source.args), kwargs=tree_map(real, dict(source.kwargs)),
        name=source.name, loss=source.loss, by_module=source.by_module,
    )  # fmt: skip


def _open(reference: str, sequence_length: int | None, settings: dict[str, str], trust: Trust) -> Capturing:
    if reference.startswith("hf:"):
        from explorer.models._pretrained import build
        from explorer.models.hf import read_configuration

        path = reference.removeprefix("hf:")
        built = build(read_configuration(path), sequence_length=sequence_length, file=path)
        return Capturing(module=built.module, kwargs=built.inputs, name=reference, loss=built.loss)
    if reference in SOURCES.names():
        graph = load_model(reference, sequence_length=sequence_length, settings=settings)
        module, inputs = module_of(SOURCES.get(reference).family, graph)
        return Capturing(module=module, kwargs=inputs, name=reference, by_module=True)
    if runs_code(reference):
        require_trust(reference, settings, trust)
        from explorer.models.factory import load_module

        module, args, kwargs = load_module(reference, sequence_length=sequence_length, settings=settings)
        return Capturing(module=module, args=args, kwargs=kwargs, name=reference)
    raise InputError(
        f"{reference!r} is a graph without code",
        key="model",
        found=reference,
        allowed="a zoo model, hf:PATH or module:factory; --engine likeness for any graph",
    )


@contextmanager
def _parameters_aside() -> Iterator[None]:
    """Put every parameter that is registered, inside the context, on the meta device; ties stay ties."""
    from torch import nn

    register = nn.Module.register_parameter

    def aside(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None and param.device.type != "meta":
            param = nn.Parameter(param.detach().to("meta"), requires_grad=param.requires_grad)
        register(module, name, param)

    nn.Module.register_parameter = aside  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


def _give_storage(module: nn.Module) -> None:
    """Give parameters on the meta device storage without values; those that are shared stay shared."""
    import torch
    from torch import nn

    made: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in list(part._parameters.items()):
            if parameter is None or parameter.device.type != "meta":
                continue
            if id(parameter) not in made:
                empty = torch.empty_like(parameter, device="cpu")
                made[id(parameter)] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
            part._parameters[name] = made[id(parameter)]
