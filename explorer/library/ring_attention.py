"""Ring attention: keys and values go round the devices behind the attention on the block at hand."""

from __future__ import annotations

from explorer.graph import LayerGraph
from explorer.library._one_stage import devices_of, forward_s
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.sharding import context_layout

DEVICES, WIDTH, FLOPS = 4, 1024, 1e12
"""Devices of the ring, width of BERT large, FLOPs per second of a device."""


def _collectives_s(graph: LayerGraph, flops: float, bandwidth: float) -> float:
    """Return the seconds of a forward that only collectives take."""
    cluster = devices_of(DEVICES, flops, bandwidth)
    return forward_s(graph, cluster, "context", layout=context_layout(ring=True))[1]


def _hidden_share(times: float) -> float:
    """Return the share of the passes that attention of BERT large hides if F/B is `times` c."""
    graph = load_model("bert-large")
    block = (graph.defaults.sequence_length or 0) / DEVICES
    bandwidth = FLOPS / (times * block)
    layers = sum(layer.kind == "attention" for layer in graph.layers)
    passes_s = layers * (DEVICES - 1) * 4 * block * WIDTH / bandwidth
    # devices that compute in no time hide nothing
    seen, hidden_none = (_collectives_s(graph, flops, bandwidth) for flops in (FLOPS, 1e30))
    return (hidden_none - seen) / passes_s


@SYSTEMS.add(
    System(
        name="ring_attention",
        title="Context parallelism as a ring of keys and values",
        paper="Liu, Zaharia and Abbeel, Ring Attention with Blockwise Transformers for Near-Infinite"
        " Context, ICLR 2024",
        year=2023,
        uses=Uses(options=("ring layout",)),
        missing="feed-forward blocks behind the passes",
        claims=tuple(
            Claim(
                text=f"attention hides passes of c >= F/B tokens: share hidden at c = {words}",
                published=min(1.0, 1 / times),
                unit="",
                measure=lambda times=times: _hidden_share(times),  # type: ignore[misc]
                why="" if times == 1 else "worked out by hand from the paper's condition",
            )
            for times, words in ((1.0, "F/B"), (2.0, "F/(2 B)"), (4.0, "F/(4 B)"))
        ),
    )
)
def example() -> Example:
    """Llama 3 8B with its sequence over four A100."""
    return Example(
        model="llama3-8b",
        cluster="dgx-a100",
        global_batch=8,
        shape={
            "context": 4, "replicas": 2, "context_exchange": "ring", "microbatch_size": 1, "zero": 3,
            "recompute": "full",
        },
    )  # fmt: skip
