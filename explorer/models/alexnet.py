"""AlexNet as in torchvision: five convolutions in one tower, three fully connected layers, no dropout.

Two architectures have this name. That of 2012 (60,965,224 parameters) has two towers and 96 filters in the
first layer; this one, of 2014, has one tower, 64 filters and 61,100,840 parameters, and is what benchmarks
train.
"""

from __future__ import annotations

from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder
from explorer.models.vgg import IMAGENET_SAMPLES, refuse_sequence

PAPER = "Krizhevsky 2014, One weird trick for parallelizing convolutional neural networks, arXiv:1404.5997"
# channels, kernel, stride, padding, and whether a pool of 3 with stride 2 follows
_CONVOLUTIONS = (
    (64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)  # fmt: skip


@SOURCES.add("alexnet", title="AlexNet", paper=PAPER, family="alexnet", parameters=61_100_840)
def alexnet(*, sequence_length: int | None = None) -> LayerGraph:
    """Build AlexNet for 3 x 224 x 224 images, 1000 classes; torchvision's adaptive pool changes nothing."""
    refuse_sequence("alexnet", sequence_length)
    # Batch 128, momentum and 90 epochs (Krizhevsky et al. 2012, section 5; 2014, section 5); fp32.
    defaults = Defaults(
        global_batch=128, precision="fp32", optimizer="momentum", samples_per_epoch=IMAGENET_SAMPLES,
        epochs=((128, 90.0),), epochs_source="Krizhevsky et al. 2012, section 5: about 90 epochs",
    )  # fmt: skip
    b = GraphBuilder("alexnet", defaults=defaults, source=PAPER)
    x = b.input("images", {"channels": 3, "height": 224, "width": 224})
    for i, (channels, kernel, stride, padding, pooled) in enumerate(_CONVOLUTIONS, start=1):
        x = b.conv2d(f"conv{i}", x, channels, kernel, stride=stride, padding=padding, bias=True)
        x = b.activation(f"relu{i}", x, saves="output")
        x = b.max_pool(f"pool{i}", x, 3, stride=2) if pooled else x
    x = b.linear("fc6", x, {"ffn": 4096}, over=("channels", "height", "width"), bias=True)
    x = b.linear("fc7", b.activation("relu6", x, saves="output"), {"embed": 4096}, over=("ffn",), bias=True)
    logits = b.linear("head", b.activation("relu7", x, saves="output"), {"vocab": 1000}, bias=True)
    b.loss("loss", logits, b.input("targets", {}, dtype="int64"))
    return b.build()
