"""Models of torchtitan 0.3.0 that a graph may match, and the module of each layer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.graph import LayerGraph

VERSION = "0.3.0"

EMBEDDINGS, NORM, HEAD = "tok_embeddings", "norm", "lm_head"
_NUMBERED = re.compile(r"^(.*?)(\d+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """One model of torchtitan."""

    module: str
    """Its folder in `torchtitan.models`."""
    name: str
    """Its flavor."""
    layers: int
    """Transformer blocks."""
    parameters: int
    """Scalars, tied ones counted once."""
    zoo: str = ""
    """Its name in our zoo; empty if only a Hugging Face config gives it."""
    assets: str = ""
    """Folder of its tokenizer, as torchtitan's own configs name it."""
    learning_rate: float = 3e-4
    """Learning rate, as in torchtitan's own configs."""

    @property
    def function(self) -> str:
        """Name for a config function: `llama3_8b`."""
        return re.sub(r"\W", "_", f"{self.module}_{self.name}".lower())


FLAVORS: tuple[Flavor, ...] = tuple(
    Flavor(
        module=module, name=name, layers=layers, parameters=parameters, zoo=zoo,
        assets=assets, learning_rate=rate,
    )
    for module, name, layers, parameters, zoo, assets, rate in (
        ("llama3", "1B", 16, 1_235_814_400, "", "Llama-3.2-1B", 3e-4),
        ("llama3", "3B", 28, 3_212_749_824, "", "Llama-3.2-3B", 3e-4),
        ("llama3", "8B", 32, 8_030_261_248, "llama3-8b", "Llama-3.1-8B", 3e-4),
        ("llama3", "70B", 80, 70_553_706_496, "llama3-70b", "Llama-3.1-70B", 1.5e-4),
        ("llama3", "405B", 126, 405_853_388_800, "llama3-405b", "Llama-3.1-405B", 8e-5),
        ("qwen3", "0.6B", 28, 596_049_920, "", "Qwen3-0.6B", 3e-4),
        ("qwen3", "1.7B", 28, 1_720_574_976, "", "Qwen3-1.7B", 3e-4),
        ("qwen3", "4B", 36, 4_022_468_096, "", "Qwen3-4B", 3e-4),
        ("qwen3", "8B", 36, 8_190_735_360, "", "Qwen3-8B", 3e-4),
        ("qwen3", "14B", 40, 14_768_307_200, "", "Qwen3-14B", 3e-4),
        ("qwen3", "32B", 64, 32_762_123_264, "", "Qwen3-32B", 3e-4),
    )
)  # fmt: skip
"""Flavors by module and name; the counts were taken from torchtitan's modules built on the meta device."""


def flavor_of(graph: LayerGraph) -> Flavor | None:
    """Return the model that has exactly a graph's parameters and blocks; None if torchtitan lacks it."""
    size = (graph.parameter_count, len(block_numbers(graph)))
    return next((item for item in FLAVORS if (item.parameters, item.layers) == size), None)


def flavor_named(module: str, name: str) -> Flavor | None:
    """Return the model that a config names; None if unknown."""
    return next(
        (item for item in FLAVORS if (item.module, item.name.lower()) == (module, name.lower())), None
    )


def block_numbers(graph: LayerGraph) -> dict[str, int]:
    """Return the number of each transformer block of a graph: those of the most frequent numbered name.

    >>> from explorer.models import load_model
    >>> block_numbers(load_model("llama3-8b"))["layers.31"]
    31
    """
    stacks: dict[str, list[str]] = {}
    for block in dict.fromkeys(layer.block for layer in graph.layers if layer.block):
        if match := _NUMBERED.match(block):
            stacks.setdefault(match[1], []).append(block)
    longest = max(stacks.values(), key=len, default=[])
    return {block: i for i, block in enumerate(longest)}


def module_names(graph: LayerGraph) -> dict[str, str]:
    """Return layer -> its module in a torchtitan decoder: `tok_embeddings`, `layers.N`, `norm` or `lm_head`.

    Layers before the first block (embedding, positions) belong to the embeddings; behind the last block
    norms are `norm`, and everything else (head, loss) is `lm_head`.

    Raises:
        InputError: the model is not a stack of blocks.
    """
    numbers = block_numbers(graph)
    if not numbers:
        raise InputError(
            f"model {graph.name!r} is not a stack of numbered blocks",
            key="model",
            found=graph.name,
            allowed="a decoder such as llama3-8b",
        )
    found = {}
    reached = False
    for layer in graph.layers:
        if layer.block in numbers:
            reached = True
            found[layer.name] = f"layers.{numbers[layer.block]}"
        elif not reached:
            found[layer.name] = EMBEDDINGS
        else:
            found[layer.name] = NORM if layer.kind == "norm" else HEAD
    return found
