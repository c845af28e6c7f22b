"""From a model reference to what a run needs: the captured graph, and the model as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from explorer.base.errors import InputError
from explorer.base.trust import Trust
from explorer.graph import LayerGraph
from explorer.models._stacks import ChosenBlocks
from explorer.models.captured_program import CapturedProgram, Capturing, capture_program
from explorer.models.module_source import open_module
from explorer.run.own.operator_work import eager_graph
from explorer.run.own.own_model import OwnModel, OwnTensor

if TYPE_CHECKING:
    import torch


class OwnSource(NamedTuple):
    """A model that can be run with its own layers."""

    model: OwnModel
    """As plain data."""
    graph: LayerGraph
    """Its captured graph, for one sample."""
    source: Capturing
    """The module."""
    eager: LayerGraph
    """The graph with the work of eager operators, by which a profile prices it."""


def dtype_of(model: OwnModel) -> torch.dtype:
    """Return the floating point type of a run's parameters."""
    import torch

    return {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16}[model.dtype]


def open_own(model: OwnModel, *, trust: Trust = True) -> tuple[Capturing, tuple[ChosenBlocks, ...]]:
    """Make the module of a model, and the blocks of it that are kept."""
    source = open_module(
        model.reference, sequence_length=model.sequence_length, settings=dict(model.settings),
        dtype=dtype_of(model), trust=trust,
    )  # fmt: skip
    keep = tuple(ChosenBlocks(path=path, count=count, keep=kept) for path, count, kept in model.keep)
    return source, keep


def own_source(
    reference: str,
    *,
    settings: Mapping[str, str] | None = None,
    sequence_length: int | None = None,
    keep: Sequence[tuple[str, int, tuple[int, ...]]] = (),
    dtype: str = "fp32",
    seed: int = 0,
    trust: Trust = True,
    opened: Capturing | None = None,
) -> OwnSource:
    """Capture a model for a run.

    Args:
        reference: as for `load_model`; it must have code.
        settings: what `--set` gave.
        sequence_length: tokens of a sample; None for the model's own.
        keep: lists of blocks that are shortened.
        dtype: fp32, fp64 or bf16.
        seed: seed of weights and data.
        trust: whether code that `reference` names may be run.
        opened: its module, if it has been made already.

    Raises:
        InputError: a model without code, or one that cannot be captured or cut.
    """
    from explorer.run.own.layer_modules import check_repeatable  # imports torch

    bare = OwnModel(
        reference=reference, settings=tuple(sorted((settings or {}).items())), dtype=dtype, seed=seed,
        sequence_length=sequence_length, keep=tuple(keep),
    )  # fmt: skip
    source, chosen = (opened, _chosen(keep)) if opened is not None else open_own(bare, trust=trust)
    program = capture_program(source, samples=2, keep=chosen)
    check_repeatable(program)
    graph, numbers = program.graph, {}
    tensors: list[OwnTensor] = []
    for name in _passed_on(graph):
        numbers[name] = len(tensors)
        tensors.append(_tensor(program, name))
    layers = graph.layers
    model = OwnModel(
        reference=bare.reference, settings=bare.settings, sequence_length=sequence_length, keep=bare.keep,
        layers=tuple(layer.name for layer in layers),
        parameters=tuple(tuple(use.name for use in layer.parameters) for layer in layers),
        tensors=tuple(tensors),
        reads=tuple(
            tuple(numbers[use.name] for use in layer.reads if use.name in numbers) for layer in layers
        ),
        elements=round(graph.parameter_count),
        dtype=dtype, seed=seed,
    )  # fmt: skip
    return OwnSource(model, graph, source, eager_graph(program))


def _chosen(keep: Sequence[tuple[str, int, tuple[int, ...]]]) -> tuple[ChosenBlocks, ...]:
    return tuple(ChosenBlocks(path=path, count=count, keep=kept) for path, count, kept in keep)


def _passed_on(graph: LayerGraph) -> list[str]:
    """List the tensors that one layer writes and another reads."""
    written = [use.name for layer in graph.layers for use in layer.writes]
    return [name for name in written if graph.consumers.get(name)]


def _tensor(program: CapturedProgram, name: str) -> OwnTensor:
    """Describe a tensor by its values for one and for two samples."""
    one, two = program.shapes[name], program.shapes_for_several[name]
    dtype = program.dtype_at(name)
    gradient = program.graph.tensor[name].backward
    different = [axis for axis, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
    if not different:
        return OwnTensor(name=name, shape=one, dtype=dtype, axis=-1, gradient=gradient)
    axis = different[0]
    if len(different) > 1 or two[axis] != 2 * one[axis]:
        raise InputError(
            f"{name!r} of {program.graph.name} is {one} for one sample and {two} for two",
            key="model", found=two, allowed="tensors with one axis that grows with the samples",
        )  # fmt: skip
    rows, rest = one[axis], (*one[:axis], *one[axis + 1 :])
    shape = rest if rows == 1 else (rows, *rest)
    return OwnTensor(name=name, shape=shape, dtype=dtype, axis=axis, rows=rows, gradient=gradient)
