"""Random small models with named dimensions: products, norms, sums and branches, weights that are shared."""

from __future__ import annotations

from hypothesis import strategies as st

from explorer.graph import Dim, Layer, LayerGraph, Parameter, Tensor, Use, Work

SIZES = {"seq": 8.0, "embed": 16.0, "ffn": 32.0}
STATES = ("embed", "ffn")
"""What a tensor has besides `seq`."""


@st.composite
def small_models(draw: st.DrawFn, most: int = 9) -> LayerGraph:
    """2 to `most` layers; every tensor but the input is written once and read any number of times."""
    tensors, parameters, layers = [("x", "embed")], {}, []
    for i in range(draw(st.integers(2, most))):
        source, wide = draw(st.sampled_from(tensors[-4:]))
        alike = [name for name, other in tensors if other == wide and name != source]
        kind = draw(st.sampled_from(["linear", "linear", "norm", "elementwise", "add"]))
        reads, out, used = [(source, wide)], wide, []
        if kind == "add" and not alike:
            kind = "elementwise"
        if kind == "add":
            reads.append((draw(st.sampled_from(alike)), wide))
        if kind == "linear":
            out = draw(st.sampled_from(STATES))
            shared = draw(st.sampled_from(["", f"{wide}-{out}"]))
            used = [(f"{shared or i}.weight", (wide, out))]
            if draw(st.booleans()):
                used.append((f"{i}.bias", (out,)))
        if kind == "norm":
            used = [(f"{i}.scale", (wide,))]
        parameters |= dict(used)
        saves = (source,) if kind in ("linear", "norm") or draw(st.booleans()) else ()
        layers.append(_layer(i, kind, reads, out, used, saves))
        tensors.append((f"t{i}", out))
    return LayerGraph(
        name="random",
        layers=tuple(layers),
        tensors=tuple(
            Tensor(name=name, shape=(SIZES["seq"], SIZES[wide]), backward=name != "x")
            for name, wide in tensors
        ),
        parameters=tuple(
            Parameter(name=name, shape=tuple(SIZES[dim] for dim in dims)) for name, dims in parameters.items()
        ),
    )


def _layer(
    i: int,
    kind: str,
    reads: list[tuple[str, str]],
    out: str,
    used: list[tuple[str, tuple[str, ...]]],
    saves: tuple[str, ...],
) -> Layer:
    dims = dict.fromkeys(["seq", *(wide for _, wide in reads), out])
    moved = 2 * SIZES["seq"] * SIZES[out]
    flops = 2.0 * SIZES["seq"] * SIZES[reads[0][1]] * SIZES[out] if kind == "linear" else moved
    work = Work(flops=flops, moved_elements=moved)
    return Layer(
        name=f"layer{i}",
        kind=kind,
        block=f"block{i // 3}",
        dims=tuple(Dim(name=dim, size=SIZES[dim]) for dim in dims),
        reads=tuple(Use(name=name, dims=("seq", wide)) for name, wide in reads),
        writes=(Use(name=f"t{i}", dims=("seq", out)),),
        parameters=tuple(Use(name=name, dims=held) for name, held in used),
        forward=work,
        input_grad=work,
        weight_grad=work if used else Work(),
        saves=saves,
    )
