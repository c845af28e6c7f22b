"""Factories `module.path:factory`, `file.py:factory`: models from the user's Python. **They run that code.**

The factory is called without arguments (or with `sequence_length`, if it has a parameter of that name) and
returns a `LayerGraph`, or a module with example inputs of one sample:

    def factory():
        return nn.Linear(8, 8), (torch.zeros(1, 8),)          # positional inputs
        return model, {"input_ids": torch.zeros(1, 64).long()}  # inputs by name

The module is captured on shapes alone (`torch_export`), so its parameters may be on the meta device.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.graph import Defaults, LayerGraph

if TYPE_CHECKING:
    from torch import nn

logger = logging.getLogger(__name__)

_RESULT = "a LayerGraph, or (torch.nn.Module, tuple or dict of example inputs for one sample)"


def load(
    reference: str,
    *,
    sequence_length: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> LayerGraph:
    """Load the graph of what `module.path:factory` returns.

    Runs code: the module is imported (from the working directory, too) and the factory called; a warning on
    this module's logger says so.

    Args:
        reference: dotted module path and name of a callable in it.
        sequence_length: passed on if the factory accepts it.
        settings: passed on by name, as text.

    Raises:
        InputError: no such module or callable, an error raised by it, or a result of another kind.
    """
    result = _made(reference, sequence_length, settings)
    return result if isinstance(result, LayerGraph) else _captured(result, reference, sequence_length)


def load_module(
    reference: str,
    *,
    sequence_length: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Load the module that `module.path:factory` returns, with its example inputs by position and by name.

    Runs code and raises as `load`; a factory that returns a LayerGraph has no module.
    """
    result = _made(reference, sequence_length, settings)
    if isinstance(result, LayerGraph):
        raise InputError(
            f"{reference} returned a LayerGraph, which has no code to run",
            key=reference,
            found="LayerGraph",
            allowed="(torch.nn.Module, inputs), or --engine likeness",
        )
    return _module_of(result, reference)


def _made(reference: str, sequence_length: int | None, settings: Mapping[str, str] | None) -> Any:
    factory = _find(reference)
    options: dict[str, Any] = {**(settings or {})}
    if sequence_length is not None:
        options["sequence_length"] = sequence_length
    _check_options(factory, options, reference)
    logger.warning("running the code of %s", reference)
    try:
        return factory(**options)
    except Exception as error:
        raise _failed(reference, "calling it", error) from error


def _find(reference: str) -> Callable[..., Any]:
    path, _, name = reference.partition(":")
    logger.warning("importing %s, which runs its code", path)
    # As `python -m` does, and `python file.py`, but only while importing.
    here = str(Path(path).resolve().parent if path.endswith(".py") else Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Any = _imported_file(path) if path.endswith(".py") else importlib.import_module(path)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise _failed(reference, "importing it", error) from error
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise InputError(
            f"{reference!r} is no function",
            key="model",
            found=type(found).__name__,
            allowed=f"a callable that returns {_RESULT}",
        )
    factory: Callable[..., Any] = found
    return factory


def _imported_file(path: str) -> ModuleType:
    """Import a file by its path, under its own name, leaving other modules of that name alone."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _failed(reference: str, doing: str, error: Exception) -> InputError:
    text = " ".join(str(error).split())[:200]
    return InputError(
        f"{doing} raised {type(error).__name__}: {text}",
        key=reference,
        found=reference,
        allowed="module.path:factory or file.py:factory that can be imported and called",
    )


def _check_options(factory: Callable[..., Any], options: dict[str, Any], reference: str) -> None:
    """Refuse options that the factory does not take."""
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError:
        return
    if any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        return
    for key in [key for key in options if key not in parameters]:
        raise InputError(
            f"{reference} takes no {key!r}",
            key=key,
            found=options[key],
            allowed=", ".join(parameters) or "no arguments",
        )


def _captured(result: Any, reference: str, sequence_length: int | None) -> LayerGraph:
    from explorer.models.torch_export import capture

    module, args, kwargs = _module_of(result, reference)
    return capture(
        module,
        args,
        kwargs,
        name=reference.rpartition(":")[2],
        source=f"factory {reference}",
        defaults=Defaults(sequence_length=sequence_length or 0),
    )


def _module_of(result: Any, reference: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    from torch import nn

    parts = list(result) if isinstance(result, tuple) else []
    module, inputs = parts if len(parts) == 2 else (None, None)
    if not isinstance(module, nn.Module):
        raise InputError(
            f"{reference} returned {_kind(result)}",
            key=reference,
            found=_kind(result),
            allowed=_RESULT,
        )
    if not isinstance(inputs, (tuple, list, dict)):
        raise InputError(
            f"{reference} returned example inputs of type {type(inputs).__name__}",
            key=reference,
            found=type(inputs).__name__,
            allowed="a tuple (positional) or a dict (by name) of tensors for one sample",
        )
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), {})
    _check_one_sample([*args, *kwargs.values()], reference)
    return module, args, kwargs


def _kind(result: Any) -> str:
    if isinstance(result, tuple):
        return f"({', '.join(type(item).__name__ for item in result)})"
    return type(result).__name__


def _check_one_sample(inputs: list[Any], reference: str) -> None:
    for item in inputs:
        shape: tuple[int, ...] = tuple(getattr(item, "shape", ()))
        if len(shape) > 1 and shape[0] != 1:
            raise InputError(
                f"an example input of {reference} has {shape[0]} samples",
                key=reference,
                found=shape,
                allowed="a first axis of size 1: one sample",
            )
