"""LayerGraph of any torch module, captured with `torch.export` on shapes alone.

The module may live on the meta device: nothing is computed and no weight is needed. Repeated blocks are
exported once per structure and repeated (`_repeat`); the operators become layers (`_program`, `_grouping`);
dimension names follow from what the operators do with them (`_axes`, `_naming`). If the export fails, the
module is run under fake tensors and read block by block (`_hooks`), and the graph's `source` says so.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.graph import Defaults, Dim, Layer, LayerGraph, Parameter, Tensor, Use, Work
from explorer.models._emission import GraphParts, emit
from explorer.models._grouping import group, group_modules
from explorer.models._program import TracedProgram
from explorer.models._reading import read_program
from explorer.models._repeat import NotRepeatable, repeat
from explorer.models._stacks import ChosenBlocks, Stack, find_stacks, reduced

if TYPE_CHECKING:
    from torch import nn

UNUSED = "unused"
"""Layer that holds the parameters no output depends on: they cost memory and nothing else."""


def capture(
    module: nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str,
    source: str,
    defaults: Defaults | None = None,
    loss: bool = False,
    shorten: bool = True,
) -> LayerGraph:
    """Capture the layers of `module` when called with `args` and `kwargs`.

    Args:
        module: any module, with real parameters or on the meta device.
        args: positional example inputs for one sample; their first axis has size 1.
        kwargs: example inputs by name.
        name: name of the graph.
        source: origin of the module.
        defaults: workload that the model states.
        loss: append a cross entropy over the last axis of the first output.
        shorten: export each distinct block once; False exports all blocks.

    Raises:
        InputError: the module cannot be run on its inputs, or parameters were lost on the way.
    """
    request = Request(module, tuple(args), dict(kwargs or {}))
    stacks = tuple(s for s in find_stacks(module) if len(s.keep) < len(s.kinds)) if shorten else ()
    graph, note = _first_that_works(request, stacks, name, defaults or Defaults())
    graph = replace(graph, source=f"{source}{note}")
    graph = _with_unused(graph, request)
    _check_parameters(graph, request)
    return with_loss(graph) if loss else graph


class Request:
    """A module with its inputs and the canonical names of its parameters."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.parameters = dict(module.named_parameters())
        self._names: dict[int, str] = {id(item): name for name, item in self.parameters.items()}

    def trainable(self, name: str) -> bool:
        """Tell whether a parameter gets a gradient."""
        return bool(self.parameters[name].requires_grad)

    def parameter_name(self, path: str) -> str:
        """Return the canonical name of the parameter at `path` of the module as it is now."""
        found = self.module
        for part in path.split("."):
            found = getattr(found, part)
        return self._names[id(found)]


def _first_that_works(
    request: Request, stacks: Sequence[Stack], name: str, defaults: Defaults
) -> tuple[LayerGraph, str]:
    """Try training mode before evaluation mode, repeated before full depth, exported before run."""
    problem: Exception | None = None
    for training, chosen in ((True, stacks), (False, stacks), (True, ()), (False, ())):
        if chosen != stacks and not stacks:
            continue
        try:
            graph = _exported(request, chosen, name, defaults, training=training)
        except NotRepeatable:
            continue
        except Exception as error:  # noqa: BLE001 - whatever a foreign model raises, the next way may work
            problem = problem or error
            continue
        return graph, "" if training else " (captured in evaluation mode: dropout is not in it)"
    from explorer.models import _hooks

    try:
        parts = _hooks.run(request.module, request.args, request.kwargs, request.parameter_name)
    except Exception as error:
        first = str(problem or error).strip().splitlines()
        kind = type(problem or error).__name__
        raise InputError(
            f"the model {name!r} cannot be captured: {kind}: {first[0][:200] if first else ''}",
            key="model",
            found=name,
            allowed="a module that torch.export accepts, or that runs under FakeTensorMode",
        ) from error
    graph = LayerGraph(
        name=name, layers=parts.layers, tensors=parts.tensors, parameters=parts.parameters, defaults=defaults
    )
    return graph, " (torch.export failed: read per module under FakeTensorMode)"


def _exported(
    request: Request, stacks: Sequence[Stack], name: str, defaults: Defaults, *, training: bool
) -> LayerGraph:
    with exporting(request.module, stacks, training=training):
        _, parts = read_layers(request, stacks, export(request))
    return ordered(repeat(graph_of_parts(name, parts, defaults), stacks))


@contextmanager
def exporting(module: Any, stacks: Sequence[Stack | ChosenBlocks], *, training: bool) -> Iterator[None]:
    """Bring a module, inside the context, into the state in which it is exported and read."""
    with _mode(module, training=training), reduced(module, stacks), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def export(request: Request) -> Any:
    """Export the module of a request, as it is now, as a `torch.export.ExportedProgram`."""
    import torch

    return torch.export.export(request.module, request.args, request.kwargs, strict=False)


def read_layers(
    request: Request, stacks: Sequence[Stack | ChosenBlocks], program: Any, *, by_module: bool = False
) -> tuple[TracedProgram, GraphParts]:
    """Read an exported program as layers, named as at full depth; `by_module`: every leaf module is one."""
    module, path = request.module, original_path(stacks)
    read = read_program(program, parameter_name=request.parameter_name, trainable=request.trainable)
    leaves = {item for item, child in module.named_modules() if not any(child.children())}
    blocks = _blocks(module, stacks)

    def block_of(item: str) -> str:
        return path(_block_of(item, blocks))

    if by_module:
        groups = group_modules(read, block_of=block_of)
    else:
        groups = group(read, leaves=leaves, block_of=block_of)
    return read, emit(read, groups, path=path, trainable=request.trainable)


def graph_of_parts(name: str, parts: GraphParts, defaults: Defaults) -> LayerGraph:
    """Make the graph of layers that were read."""
    return LayerGraph(
        name=name, layers=parts.layers, tensors=parts.tensors, parameters=parts.parameters, defaults=defaults
    )


def ordered(graph: LayerGraph) -> LayerGraph:
    """Sort tensors and parameters by first use, however the graph was made."""
    tensors = dict.fromkeys(use.name for layer in graph.layers for use in (*layer.reads, *layer.writes))
    parameters = dict.fromkeys(use.name for layer in graph.layers for use in layer.parameters)
    return replace(
        graph,
        tensors=tuple(graph.tensor[name] for name in tensors),
        parameters=tuple(graph.parameter[name] for name in parameters),
    )


@contextmanager
def _mode(module: Any, *, training: bool) -> Iterator[None]:
    before = {item: item.training for item in module.modules()}
    module.train(training)
    try:
        yield
    finally:
        for item, mode in before.items():
            item.training = mode


def original_path(stacks: Sequence[Stack | ChosenBlocks]) -> Callable[[str], str]:
    """Return a function from module paths to those with the item numbers at full depth."""
    tables = [(stack.path + ".", stack.keep) for stack in stacks]

    def path(name: str) -> str:
        # A module that is called again is told apart by a suffix in the program.
        name = re.sub(r"@\d+", "", name)
        for prefix, keep in tables:
            if name.startswith(prefix):
                number, dot, rest = name[len(prefix) :].partition(".")
                return f"{prefix}{keep[int(number)]}{dot}{rest}"
        return name

    return path


def _blocks(module: Any, stacks: Sequence[Stack | ChosenBlocks]) -> list[str]:
    """Return the paths (as exported) of all items of stacks, found again in the module as it is now."""
    paths = [stack.path for stack in stacks] or [stack.path for stack in find_stacks(module)]
    return [f"{path}.{i}" for path in paths for i in range(len(module.get_submodule(path)))]


def _block_of(path: str, blocks: Sequence[str]) -> str:
    bare = re.sub(r"@\d+", "", path)
    return next((block for block in blocks if bare == block or bare.startswith(block + ".")), "")


def _with_unused(graph: LayerGraph, request: Request) -> LayerGraph:
    missing = [name for name in request.parameters if name not in graph.parameter]
    if not missing:
        return graph
    parameters = tuple(
        Parameter(
            name=name,
            shape=tuple(float(size) for size in request.parameters[name].shape),
            trainable=request.trainable(name),
        )
        for name in missing
    )
    layer = Layer(name=UNUSED, parameters=tuple(Use(name=name) for name in missing))
    return replace(graph, layers=(*graph.layers, layer), parameters=(*graph.parameters, *parameters))


def _check_parameters(graph: LayerGraph, request: Request) -> None:
    """Check that every parameter of the full model is there with as many elements, and no other."""
    expected = {name: item.numel() for name, item in request.parameters.items()}
    found = {item.name: round(item.elements) for item in graph.parameters}
    wrong = sorted({*expected.items()} ^ {*found.items()})
    if wrong:
        name = wrong[0][0]
        raise InputError(
            f"parameter {name!r} of {graph.name!r} has {found.get(name, 0):,} elements in the graph",
            key=name,
            found=f"{sum(found.values()):,} in all",
            allowed=f"{expected.get(name, 0):,}, {sum(expected.values()):,} in all",
        )


def with_loss(graph: LayerGraph) -> LayerGraph:
    """Append a cross entropy over the last axis of the first tensor that a layer makes and nobody reads."""
    kept = {name for layer in graph.layers for name in layer.saves if not graph.tensor[name].backward}
    ends = [
        use
        for layer in graph.layers
        for use in layer.writes
        if use.dims and use.name not in graph.consumers and use.name not in kept
    ]
    if not ends:
        return graph
    logits, dims = graph.tensor[ends[0].name], ends[0].dims
    sizes = zip(dims, logits.shape, strict=True)
    added = (
        Tensor(name="labels", shape=logits.shape[:-1], dtype="int64", backward=False),
        Tensor(name="loss.log_softmax", shape=logits.shape, dtype="fp32", backward=False),
        Tensor(name="loss", shape=(), dtype="fp32"),
    )
    moved = Work(moved_elements=2 * math.prod(logits.shape))
    layer = Layer(
        name="loss",
        kind="loss",
        dims=tuple(Dim(name=d, size=s, splittable=d != dims[-1]) for d, s in sizes),
        reads=(Use(name=logits.name, dims=dims), Use(name="labels", dims=dims[:-1])),
        writes=(Use(name="loss"), Use(name="loss.log_softmax", dims=dims)),
        saves=("loss.log_softmax", "labels"),
        forward=moved,
        input_grad=moved,
    )
    end = graph.index.get(UNUSED, len(graph.layers))
    layers = (*graph.layers[:end], layer, *graph.layers[end:])
    return replace(graph, layers=layers, tensors=(*graph.tensors, *added))
