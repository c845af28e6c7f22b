"""Selective recomputation and sequence parallelism: activations of a transformer block, to the byte."""

from __future__ import annotations

from explorer.costs.memory import stage_memory
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.sharding import megatron_layout, shard

S, H, A, T = 2048, 12288, 96, 8
"""Tokens, width and heads of GPT-3 175B, and its tensor parallel size."""
PAIRS = 5 * A * S * S
"""Bytes of attention's inner part: 5 a s^2 b."""


def _kept(*, tensor: int = 1, sequence: bool = False, recompute: str = "none") -> float:
    """Return the bytes that one block keeps of one sample on one device, in 16 bit."""
    settings = {
        "layers": "2", "embed": str(H), "heads": str(A), "positions": str(S),
        "attention": "unfused", "dropout": "true",
    }  # fmt: skip
    graph = load_model("gpt", sequence_length=S, settings=settings)
    layers = graph.blocks["layers.1"]
    layout = megatron_layout(sequence_parallel=sequence)
    sharded = shard(graph, layers, layout=layout, sizes={"tensor": tensor})
    return stage_memory(
        graph, layers, sharded, precision="fp16", optimizer="adam", zero=0, replicas=1,
        recompute=recompute, training=True,
    ).activation_bytes_per_sample  # fmt: skip


@SYSTEMS.add(
    System(
        name="korthikanti",
        title="Sequence parallelism and selective recomputation",
        paper="Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, MLSys 2023",
        year=2022,
        uses=Uses(options=("sequence-parallel layout", "selective recomputation")),
        claims=(
            Claim(
                text="one block without parallelism keeps s b h (34 + 5 a s/h) bytes, GPT-3 175B",
                published=34 * S * H + PAIRS,
                unit="bytes",
                measure=_kept,
            ),
            Claim(
                text=f"tensor parallelism of {T}: s b h (10 + 24/t + 5 a s/(h t)) bytes",
                published=S * H * (10 + 24 / T) + PAIRS / T,
                unit="bytes",
                measure=lambda: _kept(tensor=T),
            ),
            Claim(
                text="with sequence parallelism: s b h/t (34 + 5 a s/h) bytes",
                published=(34 * S * H + PAIRS) / T,
                unit="bytes",
                measure=lambda: _kept(tensor=T, sequence=True),
            ),
            Claim(
                text="and selective recomputation: 34 s b h/t bytes",
                published=34 * S * H / T,
                unit="bytes",
                measure=lambda: _kept(tensor=T, sequence=True, recompute="selective"),
            ),
            Claim(
                text="full recomputation keeps the block's input: 2 s b h bytes",
                published=2 * S * H,
                unit="bytes",
                measure=lambda: _kept(recompute="full"),
            ),
        ),
    )
)
def example() -> Example:
    """GPT-3 175B on 64 A100 with selective recomputation."""
    return Example(
        model="gpt3-175b",
        cluster="dgx-a100-128",
        global_batch=64,
        shape={"stages": 8, "tensor": 8, "microbatch_size": 1, "recompute": "selective"},
    )
