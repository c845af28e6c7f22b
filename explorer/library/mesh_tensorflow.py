"""Mesh-TensorFlow: named dimensions of tensors, split over named dimensions of a mesh of processors."""

from __future__ import annotations

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.builder import GraphBuilder
from explorer.sharding import shard
from explorer.sharding.reshard import wire_factor

HIDDEN, FFN, K = 1024, 4096, 4


def _all_reduced(layout: tuple[tuple[str, str], ...]) -> float:
    """Return the elements per sample a device sends for two products forward, by ring all-reduces."""
    b = GraphBuilder("feed-forward")
    x = b.input("x", {"embed": HIDDEN})
    y = b.linear("down", b.linear("up", x, {"ffn": FFN}), {"embed": HIDDEN}, over=("ffn",))
    b.norm("norm", y, bias=False)  # reads all of the result
    found = shard(b.build(), ("up", "down", "norm"), layout=layout, sizes={"model": K})
    return sum(wire_factor(item.op, K) * item.elements_per_sample for item in found.forward)


@SYSTEMS.add(
    System(
        name="mesh_tensorflow",
        title="Layouts of named dimensions",
        paper="Shazeer et al., Mesh-TensorFlow: Deep Learning for Supercomputers, NeurIPS 2018",
        year=2018,
        uses=Uses(options=("named-dimension layouts",)),
        missing="its layout by integer program",
        claims=(
            Claim(
                text=f"ffn split over k = {K}: the output is all-reduced, 2 (k - 1)/k of it sent by a device",
                published=2 * (K - 1) / K * HIDDEN,
                unit="elements per sample",
                measure=lambda: _all_reduced((("ffn", "model"),)),
            ),
            Claim(
                text="nothing mapped: nothing is sent",
                published=0,
                unit="elements per sample",
                measure=lambda: _all_reduced(()),
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium, heads and feed-forward split over four A100."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-a100",
        global_batch=32,
        shape={"tensor": 4, "replicas": 2, "microbatch_size": 4},
    )
