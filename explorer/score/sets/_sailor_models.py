"""Models of Sailor's plans by their names: `OPT-350`, `GPT-Neo-2.7`, `LLAMA-3-8`.

A name is a family and a size, in millions from 100 on (`OPT-350`) and else in billions (`OPT-1.3`), with or
without `M` or `B`. Published sizes are in tables; of any other the number of blocks is the plan's, and the
width follows from the number of parameters of such decoders, P = 12 L d^2 + V d (attention 4 d^2,
feed-forward 8 d^2, the embedding of V words), to the next multiple of 128.
"""

from __future__ import annotations

import difflib
import math
import re
from typing import NamedTuple

from explorer.base.errors import InputError

OPT_350M = "OPT-350"
"""Model of plans that name none."""
_ENDS = 2  # of a profile, besides the blocks: the embedding and the head


class PlannedModel(NamedTuple):
    """A model of the zoo."""

    name: str
    """Name in the plan."""
    model: str
    """Name of a model source."""
    settings: tuple[tuple[str, str], ...]
    """Its settings."""
    blocks: int
    """Number of its blocks."""

    @property
    def layers(self) -> int:
        """Layers of its profile: the embedding, the blocks, the head."""
        return self.blocks + _ENDS


_VOCAB = {"opt": 50272, "gpt": 50257, "llama": 32000, "llama-3": 128256}
_DECODERS: dict[str, dict[str, tuple[int, int, int]]] = {
    "opt": {
        "125m": (12, 768, 12), "1.3b": (24, 2048, 32), "2.7b": (32, 2560, 32), "6.7b": (32, 4096, 32),
        "13b": (40, 5120, 40), "30b": (48, 7168, 56), "66b": (64, 9216, 72), "175b": (96, 12288, 96),
    },
    "gpt": {
        "124m": (12, 768, 12), "125m": (12, 768, 12), "350m": (24, 1024, 16), "355m": (24, 1024, 16),
        "760m": (24, 1536, 16), "774m": (36, 1280, 20), "1.3b": (24, 2048, 16), "1.5b": (48, 1600, 25),
        "2.7b": (32, 2560, 20), "6b": (28, 4096, 16), "6.7b": (32, 4096, 32), "13b": (40, 5120, 40),
        "20b": (44, 6144, 64), "175b": (96, 12288, 96),
    },
}  # fmt: skip
"""(blocks, width, heads) by family and size: OPT 2022, table 1; GPT-2 2019, GPT-3 2020, GPT-Neo and GPT-J
2021, GPT-NeoX 2022."""
_LLAMAS = {
    "1b": (16, 2048, 32, 8, 8192), "1.1b": (22, 2048, 32, 4, 5632), "3b": (28, 3072, 24, 8, 8192),
    "7b": (32, 4096, 32, 32, 11008), "8b": (32, 4096, 32, 8, 14336), "13b": (40, 5120, 40, 40, 13824),
    "30b": (60, 6656, 52, 52, 17920), "33b": (60, 6656, 52, 52, 17920), "65b": (80, 8192, 64, 64, 22016),
    "70b": (80, 8192, 64, 8, 28672), "405b": (126, 16384, 128, 8, 53248),
}  # fmt: skip
"""(blocks, width, heads, key-value heads, feed-forward width) by size: Llama, Llama 2 2023, Llama 3 2024."""
_OF_LLAMA_3 = ("1b", "3b", "8b", "405b")
_NAME = re.compile(
    r"(?P<family>opt|gpt|(?:tiny-?)?llama)(?P<kind>.*?)[-_]?(?P<size>\d+(?:\.\d+)?)(?P<unit>[mb]?)"
)


def model_of(name: str, layers: int) -> PlannedModel:
    """Return the model of a plan.

    Args:
        name: family and size.
        layers: layers that the plan deals out, embedding and head among them.

    Raises:
        InputError: no such family; the nearest known is named.
    """
    found = _NAME.fullmatch(name.lower())
    if found is None:
        raise InputError(
            f"unknown model {name!r}; the nearest known is {_nearest(name)}", key="model", found=name,
            allowed="OPT, GPT or LLAMA with a size: OPT-350, GPT-2.7, LLAMA-3-8",
        )  # fmt: skip
    family, kind = found["family"].removeprefix("tiny").strip("-"), found["kind"]
    size = _size(float(found["size"]), found["unit"])
    if family == "opt" and size == "350m":
        return PlannedModel(name, "opt-350m", (), 24)
    if family == "llama":
        return _llama(name, size, third="3" in kind or size in _OF_LLAMA_3, layers=layers)
    blocks, embed, heads = _DECODERS[family].get(size) or _by_rule(size, layers, _VOCAB[family])
    settings = {"layers": blocks, "embed": embed, "heads": heads, "vocab": _VOCAB[family], "positions": 2048}
    return PlannedModel(name, "gpt", _texts(settings), blocks)


def _llama(name: str, size: str, *, third: bool, layers: int) -> PlannedModel:
    vocab = _VOCAB["llama-3" if third else "llama"]
    if size in _LLAMAS:
        blocks, embed, heads, kv_heads, ffn = _LLAMAS[size]
    else:
        blocks, embed, heads = _by_rule(size, layers, 2 * vocab)
        kv_heads, ffn = heads, 128 * round(embed * 8 / 3 / 128)
    settings = {
        "layers": blocks, "embed": embed, "heads": heads, "kv_heads": kv_heads, "ffn": ffn, "vocab": vocab,
        "head": embed // heads,
    }  # fmt: skip
    return PlannedModel(name, "llama", _texts(settings), blocks)


def _size(number: float, unit: str) -> str:
    """Return a size as the tables have it.

    >>> _size(350, ""), _size(1.3, ""), _size(1300, "m")
    ('350m', '1.3b', '1.3b')
    """
    millions = number if unit == "m" or (not unit and number >= 100) else 1000 * number
    return f"{millions:g}m" if millions < 1000 else f"{millions / 1000:g}b"


def _by_rule(size: str, layers: int, vocab: int) -> tuple[int, int, int]:
    """Return blocks, width and heads of a decoder with that many parameters."""
    parameters = float(size[:-1]) * (1e9 if size.endswith("b") else 1e6)
    blocks = max(1, layers - _ENDS)
    width = (math.sqrt(vocab**2 + 48 * blocks * parameters) - vocab) / (24 * blocks)
    embed = max(128, 128 * round(width / 128))
    return blocks, embed, embed // (128 if embed >= 2048 else 64)


def _texts(settings: dict[str, int]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in settings.items())


def _nearest(name: str) -> str:
    known = [
        OPT_350M,
        *(f"{family.upper()}-{size[:-1]}" for family, sizes in _DECODERS.items() for size in sizes),
    ]
    known += [f"LLAMA-{size[:-1]}" for size in _LLAMAS]
    return difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.0)[0]
