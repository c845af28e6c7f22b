"""Vision transformer: patches of an image as tokens, an encoder, and a classifier on the first token."""

from __future__ import annotations

from explorer.graph import Defaults, LayerGraph, Work
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder, Value
from explorer.models.gpt import attention_half, feed_forward_half
from explorer.models.vgg import IMAGENET_SAMPLES, refuse_sequence

PAPER = "Dosovitskiy et al. 2020, An Image is Worth 16x16 Words, arXiv:2010.11929, table 1"
_LAYERS, _EMBED, _HEADS, _PATCH, _IMAGE, _CLASSES = 24, 1024, 16, 16, 224, 1000


def _tokens(b: GraphBuilder, patches: Value) -> Value:
    """Put patches in a row behind the learned class token and add learned positions."""
    seq = int(patches.size("height") * patches.size("width")) + 1
    weights = [
        b.parameter("tokens.first", {"embed": _EMBED}),
        b.parameter("tokens.positions", {"seq": seq, "embed": _EMBED}),
    ]
    y = b.output("tokens", {"seq": seq, "embed": _EMBED}, [patches], weights)
    moved = Work(moved_elements=2 * y.elements)
    b.layer(
        "tokens", "embedding", reads=[patches.seen_as("embed", "", "")], writes=[y], weights=weights,
        forward=moved, input_grad=moved, weight_grad=Work(moved_elements=y.elements),
    )  # fmt: skip
    return y


@SOURCES.add("vit-l16", title="ViT-L/16", paper=PAPER, family="vit", parameters=304_326_632)
def vit_l16(*, sequence_length: int | None = None) -> LayerGraph:
    """Build ViT-L/16: 24 blocks of width 1024 on images of 3 x 224 x 224, 1000 classes, without dropout.

    The count is torchvision's `vit_l_16`, whose head is one linear layer.
    """
    refuse_sequence("vit-l16", sequence_length)
    # Appendix B.1: batch 4096, Adam, 300 epochs of ImageNet alone.
    defaults = Defaults(
        global_batch=4096, precision="bf16", optimizer="adam", samples_per_epoch=IMAGENET_SAMPLES,
        epochs=((4096, 300.0),), epochs_source="the paper, appendix B.1: 300 epochs of ImageNet alone",
    )  # fmt: skip
    b = GraphBuilder("vit-l16", defaults=defaults, source=PAPER)
    images = b.input("images", {"channels": 3, "height": _IMAGE, "width": _IMAGE})
    x = _tokens(b, b.conv2d("patches", images, _EMBED, _PATCH, stride=_PATCH, bias=True))
    for i in range(_LAYERS):
        with b.block(f"layers.{i}"):
            h = attention_half(b, b.norm("attention.norm", x), _HEADS, causal=False)
            x = b.add("attention.add", h, x)
            x = b.add("mlp.add", feed_forward_half(b, b.norm("mlp.norm", x)), x)
    first = b.first_token("first", b.norm("norm", x))
    logits = b.linear("head", first, {"vocab": _CLASSES}, bias=True)
    b.loss("loss", logits, b.input("targets", {}, dtype="int64"))
    return b.build()
