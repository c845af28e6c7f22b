"""VGG-16: thirteen 3x3 convolutions with bias in five groups, three fully connected layers, no dropout."""

from __future__ import annotations

from explorer.base.errors import InputError
from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder

PAPER = "Simonyan and Zisserman 2014, Very Deep Convolutional Networks, arXiv:1409.1556, configuration D"
_GROUPS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
IMAGENET_SAMPLES = 1_281_167
"""Number of training images of ILSVRC-2012."""


def refuse_sequence(name: str, sequence_length: int | None) -> None:
    """Refuse a sequence length if samples (images, clicks) are no sequences.

    Raises:
        InputError: a sequence length was asked for.
    """
    if sequence_length is not None:
        raise InputError(
            f"samples of {name} are not sequences",
            key="sequence_length",
            found=sequence_length,
            allowed="none given",
        )


@SOURCES.add("vgg16", title="VGG-16", paper=PAPER, family="vgg", parameters=138_357_544)
def vgg16(*, sequence_length: int | None = None) -> LayerGraph:
    """Build VGG-16 for images of 3 x 224 x 224 and 1000 classes."""
    refuse_sequence("vgg16", sequence_length)
    # Section 3.1: batch 256, momentum, 370K iterations (74 epochs), fp32.
    defaults = Defaults(
        global_batch=256, precision="fp32", optimizer="momentum", samples_per_epoch=IMAGENET_SAMPLES,
        epochs=((256, 74.0),), epochs_source="the paper, section 3.1: 74 epochs",
    )  # fmt: skip
    b = GraphBuilder("vgg16", defaults=defaults, source=PAPER)
    x = b.input("images", {"channels": 3, "height": 224, "width": 224})
    for group, (channels, count) in enumerate(_GROUPS, start=1):
        for i in range(1, count + 1):
            x = b.conv2d(f"conv{group}_{i}", x, channels, 3, padding=1, bias=True)
            x = b.activation(f"relu{group}_{i}", x, saves="output")
        x = b.max_pool(f"pool{group}", x, 2, stride=2)
    x = b.linear("fc6", x, {"ffn": 4096}, over=("channels", "height", "width"), bias=True)
    x = b.linear("fc7", b.activation("relu6", x, saves="output"), {"embed": 4096}, over=("ffn",), bias=True)
    logits = b.linear("head", b.activation("relu7", x, saves="output"), {"vocab": 1000}, bias=True)
    b.loss("loss", logits, b.input("targets", {}, dtype="int64"))
    return b.build()
