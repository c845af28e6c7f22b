"""FLOPs of the zoo against torch's FlopCounterMode on the same architecture, forward and backward.

Transformers come from the `transformers` package with eager attention (matrix products, causal not halved);
blocks are equal, so that two shallow models give any depth: f(L) = f(1) + (L - 1) (f(2) - f(1)).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from explorer.graph import LayerGraph
from explorer.models import load_model

torch = pytest.importorskip("torch")
nn = torch.nn

TOLERANCE = 0.01


def count(build: Callable[[], tuple[Any, Callable[[Any], Any]]]) -> tuple[float, float]:
    """FLOPs of forward and backward of one sample, with no weight allocated."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    with warnings.catch_warnings(), FakeTensorMode():
        warnings.simplefilter("ignore")  # the packages' own deprecations
        model, run = build()
        with FlopCounterMode(display=False) as forward:
            loss = run(model)
        with FlopCounterMode(display=False) as backward:
            loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()


def agree(graph: LayerGraph, forward: float, backward: float) -> None:
    assert graph.flops_per_sample == pytest.approx(forward, rel=TOLERANCE)
    ours = sum((item.input_grad.flops + item.weight_grad.flops) * item.trips for item in graph.layers)
    assert ours == pytest.approx(backward, rel=TOLERANCE)


def hugging_face(kind: str, seq: int, **config: Any) -> Callable[[], tuple[Any, Callable[[Any], Any]]]:
    def build() -> tuple[Any, Callable[[Any], Any]]:
        transformers = pytest.importorskip("transformers")
        settings = getattr(transformers, f"{kind}Config")(
            attn_implementation="eager", use_cache=False, **config
        )
        head = "Model" if kind == "Bert" else "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
        model = getattr(transformers, f"{kind}{head}")(settings)
        if kind == "Mixtral":
            model.set_experts_implementation("batched_mm")
        tokens = torch.zeros(1, seq, dtype=torch.long)
        return model, lambda m: sum(out.sum() for out in m(input_ids=tokens).to_tuple() if out is not None)

    return build


def gpt2(layers: int, embed: int, heads: int, positions: int = 1024) -> tuple[str, int, dict[str, Any]]:
    return "GPT2", layers, {"n_embd": embed, "n_head": heads, "n_positions": positions}


def llama(layers: int, embed: int, heads: int, ffn: int) -> tuple[str, int, dict[str, Any]]:
    sizes = {"hidden_size": embed, "num_attention_heads": heads, "intermediate_size": ffn}
    return "Llama", layers, {**sizes, "num_key_value_heads": 8, "vocab_size": 128256}


MIXTRAL = {
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
}  # fmt: skip
BERT = {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
TRANSFORMERS = {
    "gpt2-small": gpt2(12, 768, 12),
    "gpt2-medium": gpt2(24, 1024, 16),
    "gpt2-xl": gpt2(48, 1600, 25),
    "gpt3-175b": gpt2(96, 12288, 96, 2048),
    "llama3-8b": llama(32, 4096, 32, 14336),
    "llama3-70b": llama(80, 8192, 64, 28672),
    "llama3-405b": llama(126, 16384, 128, 53248),
    "mixtral-8x7b": ("Mixtral", 32, MIXTRAL),
    "bert-large": ("Bert", 24, BERT),
    "bert-48": ("Bert", 48, BERT),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers(name: str) -> None:
    kind, layers, config = TRANSFORMERS[name]
    depth = "n_layer" if kind == "GPT2" else "num_hidden_layers"
    seq = 256
    one = count(hugging_face(kind, seq, **config, **{depth: 1}))
    two = count(hugging_face(kind, seq, **config, **{depth: 2}))
    forward, backward = (a + (layers - 1) * (b - a) for a, b in zip(one, two, strict=True))
    agree(load_model(name, sequence_length=seq), forward, backward)


def vgg(counts: tuple[int, ...]) -> tuple[Any, Callable[[Any], Any]]:
    layers: list[Any] = []
    before = 3
    for channels, number in zip((64, 128, 256, 512, 512), counts, strict=True):
        for _ in range(number):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU()]
            before = channels
        layers.append(nn.MaxPool2d(2))
    sizes = [nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    model = nn.Sequential(*layers, nn.Flatten(), *sizes)
    return model, lambda m: m(torch.zeros(1, 3, 224, 224)).sum()


def vgg16() -> tuple[Any, Callable[[Any], Any]]:
    return vgg((2, 2, 3, 3, 3))


def vgg19() -> tuple[Any, Callable[[Any], Any]]:
    return vgg((2, 2, 4, 4, 4))


class Bottleneck(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        changed = stride > 1 or before != 4 * width
        skip = [nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)]
        self.skip = nn.Sequential(*skip) if changed else nn.Identity()

    def forward(self, x: Any) -> Any:
        return torch.relu(self.main(x) + self.skip(x))


def resnet50() -> tuple[Any, Callable[[Any], Any]]:
    layers: list[Any] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    before = 64
    for width, number in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(number):
            layers.append(Bottleneck(before, width, 2 if width > 64 and i == 0 else 1))
            before = 4 * width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    return model, lambda m: m(torch.zeros(1, 3, 224, 224)).sum()


@pytest.mark.parametrize("build", [vgg16, vgg19, resnet50])
def test_images(build: Callable[[], tuple[Any, Callable[[Any], Any]]]) -> None:
    graph = load_model(build.__name__)
    agree(graph, *count(build))
    with torch.device("meta"):
        model, _ = build()
    assert sum(p.numel() for p in model.parameters()) == graph.parameter_count
