"""Make the models of the plans in this folder: `python tests/plans/make_inputs.py`.

Graphs are small and synthetic, in seconds and bytes per sample, so that every outcome can be worked out by
hand. The files beside the plans are what the plans load; `tests/test_plans.py` holds that this script
still makes them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from explorer.graph import Defaults, Dim, Layer, LayerGraph, Measured, Parameter, Tensor, Use
from explorer.models.saved import to_json
from explorer.models.synthetic import branches, chain, tied

FOLDER = Path(__file__).parent / "models"


def with_occupancy(graph: LayerGraph, occupancy: float) -> LayerGraph:
    """The graph with every layer taking that share of a device."""
    layers = tuple(replace(layer, occupancy=occupancy) for layer in graph.layers)
    return replace(graph, name=f"{graph.name}-{occupancy:g}", layers=layers)


def with_lora(graph: LayerGraph, adapted: int) -> LayerGraph:
    """Every weight frozen, and a small trainable adapter in the layers from `adapted` on."""
    layers = tuple(
        replace(layer, parameters=(*layer.parameters, Use(name=f"lora{i}"))) if i >= adapted else layer
        for i, layer in enumerate(graph.layers)
    )
    frozen = tuple(replace(item, trainable=False) for item in graph.parameters)
    adapters = tuple(
        Parameter(name=f"lora{i}", shape=(1.0,), dtype="fp32") for i in range(adapted, len(layers))
    )
    return replace(graph, name="lora", layers=layers, parameters=(*frozen, *adapters))


def wide() -> LayerGraph:
    """Three layers of which the middle one can be cut along its output dimension `out`.

    ```
    x -> before -> t0 -> middle -> t1 (out) -> after -> t2
    ```
    `middle` reads all of t0 and writes t1 along `out`; `after` reads t1 whole.
    """
    out = Dim(name="out", size=8)

    def layer(name: str, reads: str, writes: Use, *, dims: tuple[Dim, ...] = (), forward_s: float) -> Layer:
        return Layer(
            name=name,
            dims=dims,
            reads=(Use(name=reads),),
            writes=(writes,),
            parameters=(Use(name=f"{name}.weight", dims=("out",) if dims else ()),),
            measured=(Measured(forward_s=forward_s, input_grad_s=forward_s, weight_grad_s=forward_s),),
        )

    return LayerGraph(
        name="wide",
        layers=(
            layer("before", "x", Use(name="t0"), forward_s=1.0),
            layer("middle", "t0", Use(name="t1", dims=("out",)), dims=(out,), forward_s=1.0),
            layer("after", "t1", Use(name="t2"), forward_s=1.0),
        ),
        tensors=(
            Tensor(name="x", shape=(0.0,), dtype="byte", backward=False),
            Tensor(name="t0", shape=(6.0,), dtype="byte"),
            Tensor(name="t1", shape=(8.0,), dtype="byte"),
            Tensor(name="t2", shape=(0.0,), dtype="byte"),
        ),
        parameters=(
            Parameter(name="before.weight", shape=(4.0,), dtype="fp32"),
            Parameter(name="middle.weight", shape=(8.0,), dtype="fp32"),
            Parameter(name="after.weight", shape=(4.0,), dtype="fp32"),
        ),
        defaults=Defaults(precision="fp32", optimizer="none"),
    )


def tables() -> LayerGraph:
    """A sparse embedding table of 800 bytes of which a step touches a quarter, then dense weights of 100."""
    graph = chain([1.0, 1.0], backward_s=1.0, parameter_bytes=(800.0, 100.0), name="tables")
    table = replace(graph.parameters[0], name="table", density=0.25)
    first = replace(graph.layers[0], parameters=(Use(name="table"),))
    return replace(graph, layers=(first, graph.layers[1]), parameters=(table, graph.parameters[1]))


def short() -> LayerGraph:
    """One layer of 1 s forward and 1 s back."""
    return chain([1.0], backward_s=1.0, name="short")


def long() -> LayerGraph:
    """Two layers: 1 s and 4 s forward, 5 s and 2 s back."""
    return chain([1.0, 4.0], backward_s=[2.0, 5.0], name="long")


MODELS: dict[str, LayerGraph] = {
    "chain4-equal": chain([1.0] * 4, backward_s=1.0, parameter_bytes=4.0, saved_bytes=1.0),
    "chain4-double": chain([1.0] * 4, backward_s=2.0, parameter_bytes=4.0, saved_bytes=1.0),
    "graphpipe": branches((1, 1), forward_s=1.0, backward_s=2.0, activation_bytes=3.0, skip=True),
    "chain2": chain([1.0, 1.0], backward_s=2.0, activation_bytes=6.0, parameter_bytes=12.0, saved_bytes=1.0),
    "pipedream": chain([3.0, 2.0], backward_s=[6.0, 4.0], parameter_bytes=4.0),
    "wap": chain(
        [2.0, 2.0, 1.0],
        backward_s=[4.0, 4.0, 1.0],
        activation_bytes=[5.0, 1.0, 0.0],
        parameter_bytes=[4.0, 4.0, 100.0],
    ),
    "wide": wide(),
    "tied": tied([1.0] * 4, backward_s=1.0, activation_bytes=2.0, parameter_bytes=8.0),
    "lora": with_lora(tied([1.0] * 4, backward_s=1.0, activation_bytes=2.0, parameter_bytes=8.0), 2),
    "tables": tables(),
    "short-light": with_occupancy(short(), 0.4),
    "long-light": with_occupancy(long(), 0.4),
    "short-heavy": short(),
    "long-heavy": long(),
    "swarm": chain([0.25, 0.25], backward_s=0.75),
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, graph in MODELS.items():
        (FOLDER / f"{name}.json").write_text(to_json(graph), encoding="utf-8")
