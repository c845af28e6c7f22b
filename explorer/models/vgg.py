"""VGG-16 and VGG-19: 3x3 convolutions with bias in five groups, three fully connected layers, no dropout.

VGG-16 has thirteen convolutions (configuration D), VGG-19 sixteen: one more in each of the last three groups
(configuration E).
"""

from __future__ import annotations

from explorer.base.errors import InputError
from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder

PAPER = "Simonyan and Zisserman 2014, Very Deep Convolutional Networks, arXiv:1409.1556"
_CHANNELS = (64, 128, 256, 512, 512)
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


def _vgg(name: str, counts: tuple[int, ...], paper: str) -> LayerGraph:
    """Build a VGG with so many convolutions in each group, for images of 3 x 224 x 224 and 1000 classes."""
    # Section 3.1: batch 256, momentum, 370K iterations (74 epochs), fp32.
    defaults = Defaults(
        global_batch=256, precision="fp32", optimizer="momentum", samples_per_epoch=IMAGENET_SAMPLES,
        epochs=((256, 74.0),), epochs_source="the paper, section 3.1: 74 epochs",
    )  # fmt: skip
    b = GraphBuilder(name, defaults=defaults, source=paper)
    x = b.input("images", {"channels": 3, "height": 224, "width": 224})
    for group, (channels, count) in enumerate(zip(_CHANNELS, counts, strict=True), start=1):
        for i in range(1, count + 1):
            x = b.conv2d(f"conv{group}_{i}", x, channels, 3, padding=1, bias=True)
            x = b.activation(f"relu{group}_{i}", x, saves="output")
        x = b.max_pool(f"pool{group}", x, 2, stride=2)
    x = b.linear("fc6", x, {"ffn": 4096}, over=("channels", "height", "width"), bias=True)
    x = b.linear("fc7", b.activation("relu6", x, saves="output"), {"embed": 4096}, over=("ffn",), bias=True)
    logits = b.linear("head", b.activation("relu7", x, saves="output"), {"vocab": 1000}, bias=True)
    b.loss("loss", logits, b.input("targets", {}, dtype="int64"))
    return b.build()


_D, _E = f"{PAPER}, configuration D", f"{PAPER}, configuration E"


@SOURCES.add("vgg16", title="VGG-16", paper=_D, family="vgg", parameters=138_357_544)
def vgg16(*, sequence_length: int | None = None) -> LayerGraph:
    """Build VGG-16: thirteen convolutions."""
    refuse_sequence("vgg16", sequence_length)
    return _vgg("vgg16", (2, 2, 3, 3, 3), _D)


@SOURCES.add("vgg19", title="VGG-19", paper=_E, family="vgg", parameters=143_667_240)
def vgg19(*, sequence_length: int | None = None) -> LayerGraph:
    """Build VGG-19: sixteen convolutions."""
    refuse_sequence("vgg19", sequence_length)
    return _vgg("vgg19", (2, 2, 4, 4, 4), _E)
