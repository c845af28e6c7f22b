"""OwnLayers: the user's own layers on a rank.

The module is captured again for every number of samples that occurs; a section's layers are one torch module
(`layer_modules`). Weights are drawn from a seed for each parameter's name and data from one for each sample's
number, so that every way of cutting the model and the batch works on the same numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from explorer.base.errors import InputError
from explorer.models._stacks import reduced
from explorer.models.captured_program import CapturedProgram, capture_program, per_sample
from explorer.run.own.criterion import output_loss, token_loss
from explorer.run.own.double import lifted_call
from explorer.run.own.layer_modules import LABELS, TOTAL, LayerModule, layer_module
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_source import dtype_of, open_own
from explorer.run.own.placed import beside_host
from explorer.run.own.sample_values import int_bounds
from explorer.run.ranks.mixed import wide_type
from explorer.run.ranks.modules import Made, Samples, Weights

LOSS_KEY = -1


@lru_cache(maxsize=4)
def own_layers(model: OwnModel) -> OwnLayers:
    """Return the layers of a model, made once: several cases of a launch compute the same."""
    return OwnLayers(model)


class OwnLayers:
    """The units of an `OwnModel` (see `explorer.run.ranks.units.Units`)."""

    def __init__(self, model: OwnModel) -> None:
        self.model, self.loss = model, LOSS_KEY
        self.source, self.keep = open_own(model)
        self.dtype = dtype_of(model)
        self.shapes = {name: item.shape for name, item in self.source.module.named_parameters()}
        self._drawn: dict[str, torch.Tensor] = {}
        self._programs: dict[int, CapturedProgram] = {}
        self._modules: dict[tuple[int, tuple[int, ...], torch.device], LayerModule] = {}
        self._shared: dict[torch.device, Samples] = {}
        producer, number = self.program(1).graph.producer, {name: i for i, name in enumerate(model.layers)}
        self.writer = [number[producer[tensor.name]] for tensor in model.tensors]
        """Layer that writes each tensor."""

    def program(self, samples: int) -> CapturedProgram:
        """Return the captured program for a number of samples.

        Raises:
            InputError: the module has other layers than those that the run was made from.
        """
        if samples not in self._programs:
            one = self.program(1) if samples != 1 else None
            made = capture_program(self.source, samples=samples, keep=self.keep, one=one)
            names = tuple(layer.name for layer in made.graph.layers)
            if names != self.model.layers:
                raise InputError(
                    f"{self.model.reference} has other layers here than where the run was made",
                    key="model", found=len(names), allowed=f"the same {len(self.model.layers)} layers",
                )  # fmt: skip
            self._programs[samples] = made
        return self._programs[samples]

    def weights(self, units: Iterable[int], device: torch.device) -> Weights:
        """Return the initial weights of some layers."""
        names = self.model.parameters_of(units)
        for name in names:
            if name not in self._drawn:
                self._drawn[name] = self.initial(name)
        return {
            name: self._drawn[name].to(device, copy=True).requires_grad_() for name in names
        }  # fmt: skip

    def forget(self) -> None:
        """Give drawn weights back; they are drawn again where they are asked for."""
        self._drawn = {}

    def initial(self, name: str) -> torch.Tensor:
        """Draw a parameter: kernels keep the size of what they multiply, matrices halve it.

        Scores that are not divided by a root (T5) would else be so large that one rounding decides a softmax.
        Those of a run in bf16 are those of fp32, rounded.
        """
        generator = torch.Generator().manual_seed(zlib.crc32(f"{self.model.seed}:{name}".encode()))
        shape = self.shapes[name]
        value = torch.randn(shape, generator=generator, dtype=wide_type(self.dtype))
        if len(shape) > 1:
            value.div_(prod(shape[1:]) ** 0.5 * (2 if len(shape) == 2 else 1))
        else:
            value.mul_(0.02).add_(1.0 if name.endswith("weight") else 0.0)
        return value.to(self.dtype)

    # -- data -------------------------------------------------------------------------------------

    def samples(self, low: int, high: int, device: torch.device) -> Samples:
        """Return the inputs of some samples: floats from a normal distribution, numbers within bounds."""
        program = self.program(1)
        examples = {name: item for name, item in program.inputs.items() if per_sample(item)}
        if program.loss:
            shape = tuple(map(round, program.graph.tensor[LABELS].shape))
            examples[LABELS] = torch.zeros(1, *shape, dtype=torch.long)
        bounds = int_bounds(program)
        return {
            name: torch.cat(
                [self._value(name, item, bounds.get(name, 0), n) for n in range(low, high)]
            ).to(device)
            for name, item in examples.items()
        }  # fmt: skip

    def _value(self, name: str, example: torch.Tensor, bound: int, number: int) -> torch.Tensor:
        """Return one sample of an input; numbers of which no bound is known are those of the example."""
        seed = zlib.crc32(f"{self.model.seed}:{name}:{number}".encode())
        generator = torch.Generator().manual_seed(seed)
        if example.dtype.is_floating_point:
            return torch.randn(example.shape, generator=generator, dtype=torch.float64).to(example.dtype)
        if not bound:
            return example
        return torch.randint(bound, example.shape, generator=generator).to(example.dtype)

    # -- layers -----------------------------------------------------------------------------------

    def run(
        self,
        units: Iterable[int],
        weights: Mapping[str, torch.Tensor],
        outside: Mapping[int, torch.Tensor],
        samples: Samples,
    ) -> Made:
        """Run layers; keys are tensors."""
        layers = tuple(units)
        if not layers:
            return {}
        first = next(iter(samples.values()))
        count = first.shape[0]
        module = self._module(count, layers, first.device)
        tensors = {**self.of_all(first.device), **samples}
        for name in module.reads:
            if name in self.model.number_of:
                tensors[name] = self._arrived(self.model.number_of[name], outside)
        made = module(tensors, weights)
        found = {
            self.model.number_of[name]: self._leaving(self.model.number_of[name], value, count)
            for name, value in made.items()
            if name != TOTAL
        }
        return {**found, LOSS_KEY: made[TOTAL]} if TOTAL in made else found

    def of_all(self, device: torch.device) -> Samples:
        """Return the inputs that are the same for all samples."""
        if device not in self._shared:
            inputs = self.program(1).inputs.items()
            self._shared[device] = {name: x.to(device) for name, x in inputs if not per_sample(x)}
        return self._shared[device]

    def prepare(self, units: Iterable[int], samples: int, device: torch.device) -> None:
        """Make the module of some layers before it is timed."""
        self._module(samples, tuple(units), device)

    def _module(self, samples: int, layers: tuple[int, ...], device: torch.device) -> LayerModule:
        key = (samples, layers, device)
        if key not in self._modules:
            names = [self.model.layers[unit] for unit in layers]
            self._modules[key] = layer_module(self.program(samples), names, device=beside_host(device))
        return self._modules[key]

    def _arrived(self, key: int, outside: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Return a tensor as it is computed with, from its way between layers."""
        tensor, rows = self.model.tensors[key], outside[key]
        if tensor.axis < 0:
            return rows[0]
        rows = rows.flatten(0, 1) if tensor.rows > 1 else rows
        return rows.movedim(0, tensor.axis) if tensor.axis else rows

    def _leaving(self, key: int, value: torch.Tensor, samples: int) -> torch.Tensor:
        """Return a tensor for its way between layers."""
        tensor = self.model.tensors[key]
        if tensor.axis < 0:
            return value.unsqueeze(0).expand(samples, *value.shape)
        rows = value.movedim(tensor.axis, 0) if tensor.axis else value
        return rows.reshape(samples, tensor.rows, *rows.shape[1:]) if tensor.rows > 1 else rows

    def first(self, units: Iterable[int]) -> list[int]:
        """List layers that read nothing of others (embeddings, biases by position)."""
        return [unit for unit in units if not self.model.reads[unit]]

    def reads(self, units: Iterable[int]) -> list[int]:
        """List the tensors that layers read of others."""
        own = set(units)
        read = {key for unit in own for key in self.model.reads[unit]}
        return sorted(key for key in read if self.writer[key] not in own)

    def blank(self, key: int, samples: int, device: torch.device) -> torch.Tensor:
        """Make a tensor without values."""
        tensor = self.model.tensors[key]
        return torch.empty((samples, *tensor.shape), dtype=getattr(torch, tensor.dtype), device=device)

    def differentiable(self, key: int) -> bool:
        """Tell whether a gradient comes back for a tensor."""
        return self.model.tensors[key].gradient

    def whole(self, weights: Mapping[str, torch.Tensor], samples: Samples) -> torch.Tensor | None:
        """Return the loss by the module's own forward, without dropout."""
        source, program = self.source, self.program(1)
        device = next(iter(samples.values())).device
        flat, tree = tree_flatten((source.args, dict(source.kwargs)))
        names = iter(program.inputs)
        given = [
            samples.get(next(names), item).to(device) if hasattr(item, "shape") else item for item in flat
        ]
        args, kwargs = tree_unflatten(given, tree)
        named = self._as_it_stands(weights)
        # modules that make masks or positions without a device make them on the present default
        there = nullcontext() if beside_host(device) is None else device
        with there, reduced(source.module, self._stacks()), _AsItRuns(in_fp64=program.is_in_fp64):
            source.module.train(program.training)
            named = {**self._buffers_on(device), **named}
            made = torch.func.functional_call(source.module, named, args, kwargs, tie_weights=True)
        outputs = _outputs(made)
        if program.loss:
            return token_loss(outputs[0], samples[LABELS])
        count = next(iter(samples.values())).shape[0]
        kept = [i for i, item in enumerate(outputs) if item.requires_grad]
        total = torch.zeros((), dtype=wide_type(self.dtype), device=device)
        for i in kept:
            total = total + output_loss(outputs[i], i, count)
        return total

    def _buffers_on(self, device: torch.device) -> dict[str, torch.Tensor]:
        """Return the module's buffers where they lie elsewhere, on a device."""
        buffers = self.source.module.named_buffers()
        return {name: item.to(device) for name, item in buffers if item.device != device}

    def _stacks(self) -> Sequence[Any]:
        chosen = {item.path: item for item in self.keep}
        return [chosen.get(item.path, item) for item in self.source.blocks()]

    def _as_it_stands(self, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return weights by the names that they have in the module while it is reduced."""
        known = {id(item): name for name, item in self.source.module.named_parameters()}
        with reduced(self.source.module, self._stacks()):
            now = {id(item): name for name, item in self.source.module.named_parameters()}
        return {now[key]: weights[name] for key, name in known.items() if name in weights and key in now}


def _outputs(made: Any) -> list[torch.Tensor]:
    """List the tensors that a module returns, in the order of a capture."""
    flat = made.to_tuple() if hasattr(made, "to_tuple") else made
    return [item for item in tree_flatten(flat)[0] if isinstance(item, torch.Tensor)]


class _AsItRuns(TorchFunctionMode):
    """Lets no dropout drop anything, wherever a module calls one, and in fp64 no cast fall to fp32."""

    def __init__(self, *, in_fp64: bool) -> None:
        super().__init__()
        self.in_fp64 = in_fp64

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function with its dropout at 0."""
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"):
            return args[0] if args else named["input"]
        if named.get("dropout_p"):
            named["dropout_p"] = 0.0
        return lifted_call(func, args, named) if self.in_fp64 else func(*args, **named)
