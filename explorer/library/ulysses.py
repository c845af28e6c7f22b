"""DeepSpeed-Ulysses: everything by sequence, attention by heads, all-to-alls in between."""

from __future__ import annotations

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.sharding import megatron_layout, shard, ulysses_layout

WIDTH, HEADS, TOKENS = 12288, 96, 2048


def _elements(tokens: int, devices: int, *, megatron: bool = False) -> int:
    """Return the elements that go into the collectives of one block's forward, at each device."""
    settings = {"layers": "2", "embed": str(WIDTH), "heads": str(HEADS), "positions": str(tokens)}
    graph = load_model("gpt", sequence_length=tokens, settings=settings)
    layout = megatron_layout("context", sequence_parallel=True) if megatron else ulysses_layout()
    found = shard(graph, graph.blocks["layers.1"], layout=layout, sizes={"context": devices})
    return sum(item.elements_per_sample for item in found.forward)  # type: ignore[misc]


@SYSTEMS.add(
    System(
        name="ulysses",
        title="Sequence parallelism by all-to-alls around attention",
        paper="Jacobs et al., DeepSpeed Ulysses: System Optimizations for Enabling Training of Extreme"
        " Long Sequence Transformer Models, 2023",
        year=2023,
        uses=Uses(options=("all-to-all layout",)),
        claims=(
            *(
                Claim(
                    text=f"a block's forward sends 4 N h/P elements a device: N = {tokens}, h = {WIDTH},"
                    f" P = {devices}",
                    published=4 * tokens * WIDTH / devices,
                    unit="elements",
                    measure=lambda n=tokens, p=devices: _elements(n, p),  # type: ignore[misc]
                    why="as the paper counts, with the part that stays on the device",
                )
                for tokens, devices in ((TOKENS, 4), (2 * TOKENS, 8))
            ),
            Claim(
                text=f"Megatron's sequence parallelism 4 N h, however many devices: N = {2 * TOKENS}, P = 8",
                published=4 * 2 * TOKENS * WIDTH,
                unit="elements",
                measure=lambda: _elements(2 * TOKENS, 8, megatron=True),
                why="as the paper counts, with the part that stays on the device",
            ),
        ),
    )
)
def example() -> Example:
    """Llama 3 8B with its sequence over eight A100."""
    return Example(
        model="llama3-8b",
        cluster="dgx-a100",
        global_batch=8,
        shape={
            "context": 8, "context_exchange": "all_to_all", "microbatch_size": 1, "zero": 3,
            "recompute": "full",
        },
    )  # fmt: skip
