"""Graphs kept on disk: data only (JSON, gzip), found by a hash of everything they were made from.

A graph of a thousand layers mostly repeats a few dimensions and names, so uses and dimensions are numbered in
tables. A file that cannot be read is ignored and written anew.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from explorer.base.errors import InputError
from explorer.base.files import cache_folder, make_folder, read_bytes, unpack, write_bytes
from explorer.base.formats import parse_json
from explorer.graph import Defaults, Dim, Layer, LayerGraph, Parameter, Tensor, Use, Work

T = TypeVar("T")

FORMAT = 1

MOST_UNPACKED = 256 * 2**20
"""Longest graph that is read, in bytes unpacked."""

_READER = (
    "_axes", "_cache", "_counting", "_emission", "_grouping", "_hooks", "_layouts", "_naming", "_operators",
    "_pretrained", "_program", "_reading", "_repeat", "_stacks", "torch_export",
)  # fmt: skip
"""Files that decide what a graph looks like."""


UNREADABLE = (OSError, EOFError, zlib.error, ValueError, KeyError, IndexError, TypeError, InputError)
"""Errors that `decode` raises if the data are no graph."""


def key(content: Mapping[str, Any]) -> str:
    """Return the name under which a graph made from `content` (plain data) is kept.

    The reader's own files are part of it, so a graph made by another version of them is never used.
    """
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for stem in _READER:
        digest.update(read_bytes(Path(__file__).parent / f"{stem}.py"))
    return digest.hexdigest()


def load(name: str) -> LayerGraph | None:
    """Load the graph kept under `name`; None if there is none or it cannot be read."""
    try:
        return decode(read_bytes(cache_folder() / f"{name}.json.gz"))
    except UNREADABLE:
        return None


def save(name: str, data: bytes) -> None:
    """Keep an encoded graph; a cache that cannot be written is no reason to fail."""
    with contextlib.suppress(InputError):
        make_folder(cache_folder())
        write_bytes(cache_folder() / f"{name}.json.gz", data)


class _Table:
    """Numbers for repeated values."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))


def encode(graph: LayerGraph) -> bytes:
    """Encode `graph` as compressed JSON.

    Only the fields that readers of torch models fill are kept.
    """
    names, uses, dims, works = _Table(), _Table(), _Table(), _Table()

    def use(item: Use) -> int:
        return uses((names(item.name), item.dims))

    def work(item: Work) -> int:
        return works((item.flops, item.moved_elements))

    layers = [
        [
            names(layer.name), layer.kind, layer.block,
            [dims((d.name, d.size, d.splittable)) for d in layer.dims],
            [use(item) for item in layer.reads],
            [use(item) for item in layer.writes],
            [use(item) for item in layer.parameters],
            [work(layer.forward), work(layer.input_grad), work(layer.weight_grad)],
            [names(name) for name in layer.saves],
            layer.trips,
        ]
        for layer in graph.layers
    ]  # fmt: skip
    tensors = [[names(t.name), t.shape, t.dtype, t.backward] for t in graph.tensors]
    parameters = [[names(p.name), p.shape, p.dtype, p.trainable] for p in graph.parameters]
    stated = graph.defaults
    data = {
        "format": FORMAT,
        "name": graph.name,
        "source": graph.source,
        "defaults": [stated.global_batch, stated.sequence_length, stated.precision, stated.optimizer],
        "layers": layers,
        "tensors": tensors,
        "parameters": parameters,
        "names": list(names.numbers),
        "uses": list(uses.numbers),
        "dims": list(dims.numbers),
        "works": list(works.numbers),
    }
    return gzip.compress(json.dumps(data, separators=(",", ":")).encode(), compresslevel=3, mtime=0)


def decode(data: bytes) -> LayerGraph:
    """Decode a graph that `encode` wrote.

    Raises:
        OSError, EOFError, zlib.error, ValueError, KeyError, IndexError, TypeError, InputError: the data are
        no such graph.
    """
    found = parse_json(unpack(data, most=MOST_UNPACKED), ours=False)
    if found["format"] != FORMAT:
        raise ValueError(f"format {found['format']}")
    names: list[str] = found["names"]
    uses = [Use(name=names[name], dims=tuple(dims)) for name, dims in found["uses"]]
    dims = [Dim(name=name, size=size, splittable=free) for name, size, free in found["dims"]]
    works = [Work(flops=flops, moved_elements=moved) for flops, moved in found["works"]]
    batch, length, precision, optimizer = found["defaults"]
    return LayerGraph(
        name=found["name"],
        source=found["source"],
        defaults=Defaults(
            global_batch=batch, sequence_length=length, precision=precision, optimizer=optimizer
        ),
        layers=tuple(_layer(row, names, uses, dims, works) for row in found["layers"]),
        tensors=tuple(
            Tensor(name=names[name], shape=tuple(shape), dtype=dtype, backward=backward)
            for name, shape, dtype, backward in found["tensors"]
        ),
        parameters=tuple(
            Parameter(name=names[name], shape=tuple(shape), dtype=dtype, trainable=trainable)
            for name, shape, dtype, trainable in found["parameters"]
        ),
    )


def _layer(row: list[Any], names: list[str], uses: list[Use], dims: list[Dim], works: list[Work]) -> Layer:
    name, kind, block, dim, reads, writes, parameters, work, saves, trips = row
    pick: Callable[[list[T], list[int]], tuple[T, ...]] = lambda table, rows: tuple(table[i] for i in rows)  # noqa: E731
    forward, input_grad, weight_grad = pick(works, work)
    return Layer(
        name=names[name],
        kind=kind,
        block=block,
        dims=pick(dims, dim),
        reads=pick(uses, reads),
        writes=pick(uses, writes),
        parameters=pick(uses, parameters),
        forward=forward,
        input_grad=input_grad,
        weight_grad=weight_grad,
        saves=pick(names, saves),
        trips=trips,
    )
