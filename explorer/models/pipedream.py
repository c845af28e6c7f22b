"""PipeDream profiles (``graph.txt``): measured seconds and bytes per operator of one minibatch.

Nodes are lines without a leading tab, edges lines with one::

    node2 -- Conv2d(3, 64) -- forward_compute_time=3.0, backward_compute_time=9.0, activation_size=8.0, ...
    <TAB>node1 -- node2

Times are milliseconds and activation bytes of one minibatch (a list ``[a; b]`` counts its sum), parameters
fp32 bytes. A profile does not say how many samples its minibatch had: one, unless the setting
`samples_per_microbatch` says so. It gives one backward time, halved here into input and weight gradient and
marked so. Narayanan et al. 2019, PipeDream: Generalized Pipeline Parallelism for DNN Training, section 3.1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from explorer.base.errors import InputError
from explorer.base.files import read_text
from explorer.base.registry import Option, Spec
from explorer.base.units import MS
from explorer.graph import Defaults, Layer, LayerGraph, Measured, Parameter, Tensor, Use
from explorer.models._order import topological

_NUMBER = r"[^,;\]\s]+"
_NODE = re.compile(
    rf"^(?P<id>\S+) -- (?P<what>.*) -- forward_compute_time=(?P<forward>{_NUMBER}), "
    rf"backward_compute_time=(?P<backward>{_NUMBER}), activation_size=(?P<activation>\[[^\]]*\]|{_NUMBER}), "
    rf"parameter_size=(?P<parameters>{_NUMBER})(?: -- stage_id=\d+)?\s*$"
)
_EDGE = re.compile(r"^\t(?P<source>\S+) -- (?P<target>\S+)\s*$")
_NODE_FORM = (
    "ID -- DESCRIPTION -- forward_compute_time=F, backward_compute_time=B, "
    "activation_size=A, parameter_size=P"
)
_EDGE_FORM = "a tab, then SOURCE -- TARGET"

KINDS = {
    "Conv": "conv", "Linear": "linear", "Classifier": "linear", "BatchNorm": "norm", "LayerNorm": "norm",
    "Embedding": "embedding", "MaxPool": "pool", "AvgPool": "pool", "AdaptiveAvgPool": "pool",
    "AdaptiveMaxPool": "pool", "ReLU": "elementwise", "Dropout": "elementwise", "Add": "elementwise",
    "Concat": "elementwise", "LSTM": "recurrent", "EmuBidirLSTM": "recurrent", "GRU": "recurrent",
    "RecurrentAttention": "recurrent", "Input": "input", "__getitem__": "getitem",
}  # fmt: skip
"""Kind of a layer by the start of its description, without trailing digits; others are ``other``."""

OPTIONS = (
    Option(name="samples_per_microbatch", default=1, help="samples of the profiled minibatch"),
    Option(
        name="inputs",
        default="drop",
        help="drop: leave out input sources (their time is data loading) and unused __getitem__ sinks, as"
        " PipeDream's optimizer does; keep: everything",
        choices=("keep", "drop"),
    ),
)
"""Settings that `--set` accepts for a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """One node line, in seconds and bytes of one minibatch."""

    name: str
    what: str
    forward_s: float
    backward_s: float
    activation_bytes: float
    parameter_bytes: float


MOST = 1e24
"""Largest number of milliseconds or bytes that is accepted."""


def looks_like(text: str) -> bool:
    """Tell whether a text looks like a profile at all."""
    return " -- " in text


def load(path: str | Path, *, samples_per_microbatch: int = 1) -> LayerGraph:
    """Load the graph of a profile, with every node.

    Raises:
        InputError: no such file, or a line that cannot be read.
    """
    return read(
        read_text(str(path)),
        file=str(path),
        settings={"samples_per_microbatch": samples_per_microbatch, "inputs": "keep"},
    )


def read(text: str, *, file: str = "", settings: Mapping[str, object] | None = None) -> LayerGraph:
    """Read the graph that the text of a profile describes.

    Raises:
        InputError: a wrong line (with its number), an unknown or repeated node, a cycle, a wrong setting.
    """
    try:
        chosen = Spec(name="a PipeDream profile", title="", options=OPTIONS).read_options(settings or {})
        samples = chosen["samples_per_microbatch"]
        if samples < 1:
            raise InputError(
                "a microbatch holds a sample", key="samples_per_microbatch", found=samples, allowed=">= 1"
            )
        nodes, edges = _parse(text)
        name = Path(file).name.removesuffix(".txt").removesuffix(".graph") or "profile"
        graph = _graph(name, nodes, edges, samples, source=f"PipeDream profile {Path(file).name}")
        return without_unused(graph) if chosen["inputs"] == "drop" else graph
    except InputError as error:
        raise error.within(file=file) from None


def without_unused(graph: LayerGraph) -> LayerGraph:
    """Return a profile as PipeDream's optimizer sees it.

    It drops every source described as ``Input...`` (its time is data loading), and then every sink described
    as ``__getitem__`` (a part of a tuple that nobody reads), once: a ``__getitem__`` that only becomes a sink
    by that stays.
    """
    dropped = {layer.name for layer in graph.layers if layer.kind == "input" and not layer.reads}
    read = {use.name for layer in graph.layers for use in layer.reads}
    dropped |= {
        layer.name
        for layer in graph.layers
        if layer.kind == "getitem" and not any(use.name in read for use in layer.writes)
    }
    kept = [layer for layer in graph.layers if layer.name not in dropped]
    lost = {use.name for layer in graph.layers if layer.name in dropped for use in layer.writes}
    layers = tuple(
        replace(layer, reads=tuple(use for use in layer.reads if use.name not in lost)) for layer in kept
    )
    used = {use.name for layer in layers for use in layer.parameters}
    return replace(
        graph,
        layers=layers,
        tensors=tuple(tensor for tensor in graph.tensors if tensor.name not in lost),
        parameters=tuple(parameter for parameter in graph.parameters if parameter.name in used),
    )


def _parse(text: str) -> tuple[dict[str, _Node], list[tuple[str, str]]]:
    nodes: dict[str, _Node] = {}
    edges: dict[tuple[str, str], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if line.startswith("\t"):
            edges[_edge(line, number)] = number
            continue
        node = _node(line, number)
        if node.name in nodes:
            raise InputError(
                f"{node.name} stands there twice", key=f"line {number}", found=node.name, allowed="each once"
            )
        nodes[node.name] = node
    for (source, target), number in edges.items():
        for end in (source, target):
            if end not in nodes:
                raise InputError(
                    f"unknown node {end!r}", key=f"line {number}", found=end, allowed="a node of the file"
                )
    return nodes, list(edges)


def _edge(line: str, number: int) -> tuple[str, str]:
    match = _EDGE.match(line)
    if match is None:
        raise InputError(
            f"{line.strip()[:60]!r} is no edge", key=f"line {number}", found=line.strip(), allowed=_EDGE_FORM
        )
    return match["source"], match["target"]


def _node(line: str, number: int) -> _Node:
    match = _NODE.match(line)
    if match is None:
        raise InputError(
            f"{line[:60]!r} is no node", key=f"line {number}", found=line.strip(), allowed=_NODE_FORM
        )
    parts = match["activation"].strip("[]").split(";")
    return _Node(
        name=match["id"],
        what=match["what"],
        forward_s=_quantity(match["forward"], "forward_compute_time", number) * MS,
        backward_s=_quantity(match["backward"], "backward_compute_time", number) * MS,
        activation_bytes=sum(_quantity(part, "activation_size", number) for part in parts),
        parameter_bytes=_quantity(match["parameters"], "parameter_size", number),
    )


def _quantity(text: str, key: str, number: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST:
        raise InputError(
            f"{key} is {text.strip()!r}",
            key=f"line {number}",
            found=text.strip(),
            allowed=f"a number from 0 to {MOST:g}",
        )
    return value


def _graph(
    name: str, nodes: Mapping[str, _Node], edges: list[tuple[str, str]], samples: int, *, source: str
) -> LayerGraph:
    by_number = sorted(nodes, key=lambda item: (int(re.sub(r"\D", "", item)[:18] or 0), item))
    before: dict[str, list[str]] = {item: [] for item in nodes}
    for start, end in edges:
        before[end].append(start)
    order = topological(by_number, edges)
    return LayerGraph(
        name=name,
        layers=tuple(_layer(nodes[item], before[item], samples) for item in order),
        tensors=tuple(_tensor(nodes[item], samples) for item in order),
        parameters=tuple(
            Parameter(name=f"{item}.weight", shape=(nodes[item].parameter_bytes / 4,), dtype="fp32")
            for item in order
            if nodes[item].parameter_bytes
        ),
        defaults=Defaults(global_batch=samples, precision="fp32", optimizer="momentum"),
        source=source,
    )


def _kind(what: str) -> str:
    word = re.match(r"\w*", what)
    return KINDS.get(re.sub(r"\d+d?$", "", word[0]) if word else "", "other")


def _tensor(node: _Node, samples: int) -> Tensor:
    flows = _kind(node.what) != "input"
    return Tensor(name=node.name, shape=(node.activation_bytes / samples,), dtype="byte", backward=flows)


def _layer(node: _Node, before: list[str], samples: int) -> Layer:
    half = node.backward_s / 2
    measured = Measured(
        forward_s=node.forward_s, input_grad_s=half, weight_grad_s=half, batch=samples, halves=True
    )
    return Layer(
        name=node.name,
        kind=_kind(node.what),
        reads=tuple(Use(name=item) for item in before),
        writes=(Use(name=node.name),),
        parameters=(Use(name=f"{node.name}.weight"),) if node.parameter_bytes else (),
        # PipeDream's memory model: every output stays until its minibatch's backward.
        saves=(node.name,),
        measured=(measured,),
    )
