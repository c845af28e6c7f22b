"""ModelSpec: a small model that can really be run, as plain data, and its LayerGraph.

A model is a DAG of *units* that pass one tensor of (samples, seq, d_model) each: token embedding,
transformer block, MLP, convolution over the sequence, and the head with its loss. A unit is one layer of
the graph, so that a stage of any strategy is a list of units. Torch is not needed here; the modules are
in `explorer.run.ranks.modules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.graph import Defaults, Layer, LayerGraph, Measured, Parameter, Tensor, Use, Work

EMBED, BLOCK, MLP, CONV, HEAD = UNIT_KINDS = ("embed", "block", "mlp", "conv", "head")
PRECISIONS = ("fp32", "fp64")
KERNEL = 3
"""Width of the convolution unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One module of a runnable model.

    Raises:
        InputError: an unknown kind, or a width below 1.
    """

    name: str
    """Unique in the model; also seeds its weights, so that every partition starts from the same ones."""
    kind: str
    """embed, block, mlp, conv or head."""
    ffn: int = 1
    """Hidden width of a block, mlp or conv: what its time grows with."""
    reads: tuple[int, ...] = ()
    """Earlier units whose outputs are summed to form its input; the embedding reads the tokens."""
    tied: bool = False
    """For the head: whether it uses the embedding's table as its own weight."""

    def __post_init__(self) -> None:
        if self.kind not in UNIT_KINDS:
            raise InputError(
                f"unknown unit {self.kind!r}", key="kind", found=self.kind, allowed=", ".join(UNIT_KINDS)
            )
        if self.ffn < 1:
            raise InputError(f"unit {self.name!r} has width {self.ffn}", key="ffn", found=self.ffn)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A runnable model.

    Raises:
        InputError: sizes below 1, heads that do not divide the width, or a unit that reads a later one.
    """

    units: tuple[Unit, ...]
    """In a topological order; the last one is the head."""
    d_model: int = 32
    """Width of every tensor between units."""
    heads: int = 2
    """Attention heads."""
    seq: int = 8
    """Tokens of a sample."""
    vocab: int = 32
    """Distinct tokens."""
    dtype: str = "fp32"
    """fp32 or fp64."""
    seed: int = 0
    """Seed of weights and data."""

    def __post_init__(self) -> None:
        sizes = (self.d_model, self.heads, self.seq, self.vocab)
        if min(sizes) < 1 or self.d_model % self.heads:
            raise InputError(
                "sizes of a runnable model", key="model", found=sizes, allowed="d_model % heads == 0"
            )
        if self.dtype not in PRECISIONS:
            raise InputError(
                "data type of a run", key="dtype", found=self.dtype, allowed=", ".join(PRECISIONS)
            )
        late = [unit.name for i, unit in enumerate(self.units) if any(not 0 <= r < i for r in unit.reads)]
        if late or not self.units:
            raise InputError("a unit reads a later one", key="units", found=late, allowed="topological order")

    @property
    def element_bytes(self) -> int:
        """Bytes of one scalar."""
        return 8 if self.dtype == "fp64" else 4

    def parameters_of(self, units: Iterable[int]) -> tuple[str, ...]:
        """Return the parameters of some units, each once."""
        names = (name for u in units for name in parameter_names(self, self.units[u]).values())
        return tuple(dict.fromkeys(names))

    def keys_of(self, tensors: Iterable[str], layers: Iterable[int]) -> tuple[int, ...]:
        """Return what a flow carries, as numbers: the units that made it."""
        del tensors
        return tuple(sorted(layers))


def transformer(
    blocks: int,
    *,
    d_model: int = 32,
    heads: int = 2,
    ffn: int = 0,
    seq: int = 8,
    vocab: int = 32,
    dtype: str = "fp32",
    tied: bool = False,
    seed: int = 0,
) -> ModelSpec:
    """Make a model of embedding, equal blocks and head, one after the other.

    >>> [unit.name for unit in transformer(1).units]
    ['embed', 'layers.0', 'head']
    """
    inner = [Unit(name=f"layers.{i}", kind=BLOCK, ffn=ffn or 4 * d_model, reads=(i,)) for i in range(blocks)]
    head = Unit(name="head", kind=HEAD, reads=(blocks,), tied=tied)
    return ModelSpec(
        units=(Unit(name="embed", kind=EMBED), *inner, head),
        d_model=d_model, heads=heads, seq=seq, vocab=vocab, dtype=dtype, seed=seed,
    )  # fmt: skip


def parameter_shapes(model: ModelSpec, unit: Unit) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a unit's parameters, in the order its module declares them; a tied head has no
    table.
    """
    d, f = model.d_model, unit.ffn
    norm: dict[str, tuple[int, ...]] = {"norm.weight": (d,), "norm.bias": (d,)}
    if unit.kind == EMBED:
        return {"table": (model.vocab, d), "positions": (model.seq, d)}
    if unit.kind == HEAD:
        return norm if unit.tied else {**norm, "table": (model.vocab, d)}
    if unit.kind == CONV:
        return {**norm, "up": (f, d, KERNEL), "down": (d, f)}
    wide = {"up": (f, d), "down": (d, f)}
    if unit.kind == MLP:
        return {**norm, **wide}
    attention = {"qkv": (3 * d, d), "proj": (d, d), "norm2.weight": (d,), "norm2.bias": (d,)}
    return {**norm, **attention, **wide}


def parameter_names(model: ModelSpec, unit: Unit) -> dict[str, str]:
    """Return own name of a parameter -> its name in the model: a tied table is the embedding's."""
    names = {name: f"{unit.name}.{name}" for name in parameter_shapes(model, unit)}
    if unit.tied:
        source = next(item.name for item in model.units if item.kind == EMBED)
        names["table"] = f"{source}.table"
    return names


def forward_flops(model: ModelSpec, unit: Unit) -> float:
    """Return the FLOPs of one sample's forward, 2mnk."""
    d, f, s = model.d_model, unit.ffn, model.seq
    if unit.kind == EMBED:
        return 0.0
    if unit.kind == HEAD:
        return 2.0 * s * d * model.vocab
    if unit.kind == CONV:
        return 2.0 * s * d * f * (KERNEL + 1)
    attention = 8.0 * s * d * d + 4.0 * s * s * d if unit.kind == BLOCK else 0.0
    return attention + 4.0 * s * d * f


Times = Mapping[tuple[str, int], tuple[float, float]]
"""(unit name, samples) -> seconds of the forward and of the backward of so many samples."""


def model_graph(
    model: ModelSpec,
    *,
    name: str = "runnable",
    defaults: Defaults = Defaults(),  # noqa: B008 - frozen
    times: Times | None = None,
) -> LayerGraph:
    """Make the LayerGraph of a runnable model, one layer per unit, with measured seconds if given."""
    shape = (float(model.seq), float(model.d_model))
    tensors = [
        Tensor(name=part, shape=(model.seq,), dtype="int64", backward=False) for part in ("tokens", "targets")
    ]
    tensors += [Tensor(name=unit.name, shape=shape) for unit in model.units if unit.kind != HEAD]
    tensors += [Tensor(name=unit.name, shape=(1.0,)) for unit in model.units if unit.kind == HEAD]
    parameters: dict[str, Parameter] = {}
    layers = []
    for unit in model.units:
        sizes = parameter_shapes(model, unit)
        names = parameter_names(model, unit)
        for own, full in names.items():
            if own in sizes:
                parameters[full] = Parameter(name=full, shape=tuple(map(float, sizes[own])))
        layers.append(_layer(model, unit, tuple(names.values()), _measured(unit, times)))
    return LayerGraph(
        name=name, layers=tuple(layers), tensors=tuple(tensors), parameters=tuple(parameters.values()),
        defaults=defaults, source="built to be run",
    )  # fmt: skip


def _layer(
    model: ModelSpec, unit: Unit, parameters: tuple[str, ...], measured: tuple[Measured, ...]
) -> Layer:
    reads = [Use(name=model.units[i].name) for i in unit.reads]
    if unit.kind in (EMBED, HEAD):
        reads.append(Use(name="tokens" if unit.kind == EMBED else "targets"))
    flops = forward_flops(model, unit)
    moved = 2.0 * model.seq * (model.d_model + unit.ffn)
    once, nothing = Work(flops=flops, moved_elements=moved), Work()
    kinds = {EMBED: "embedding", BLOCK: "attention", MLP: "linear", CONV: "conv", HEAD: "loss"}
    return Layer(
        name=unit.name,
        kind=kinds[unit.kind],
        block=unit.name,
        reads=tuple(reads),
        writes=(Use(name=unit.name),),
        parameters=tuple(Use(name=item) for item in parameters),
        forward=once,
        input_grad=nothing if unit.kind == EMBED else once,
        weight_grad=once,
        saves=tuple(use.name for use in reads),
        measured=measured,
    )


def _measured(unit: Unit, times: Times | None) -> tuple[Measured, ...]:
    found = sorted((samples, pair) for (name, samples), pair in (times or {}).items() if name == unit.name)
    return tuple(
        Measured(
            forward_s=forward,
            input_grad_s=0.0 if unit.kind == EMBED else backward / 2,
            weight_grad_s=backward if unit.kind == EMBED else backward / 2,
            batch=float(samples),
            halves=unit.kind != EMBED,
        )
        for samples, (forward, backward) in found
    )
