"""ResNet-50: a stem and four stages of bottleneck blocks, stride in the 3x3 convolution (version 1.5)."""

from __future__ import annotations

from explorer.base.registry import Option
from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models._decoders import check_sizes
from explorer.models.builder import GraphBuilder, Value
from explorer.models.vgg import IMAGENET_SAMPLES, refuse_sequence

PAPER = "He et al. 2015, Deep Residual Learning for Image Recognition, arXiv:1512.03385, table 1"
_STAGES = ((1, 3), (2, 4), (4, 6), (8, 3))
"""(inner channels over those of the stem, blocks) of every stage."""
_EXPANSION = 4
_EPOCHS = (
    (1632, 35.0), (3264, 35.2), (4096, 40.0), (8192, 42.0), (13056, 45.4), (32768, 56.0), (49152, 68.0),
    (58880, 79.9), (65536, 84.5), (67840, 85.9),
)  # fmt: skip
_EPOCHS_SOURCE = (
    "MLPerf's reference convergence points (mlcommons/logging, training_4.0.0/rcps_resnet.json): means of 10"
    " to 28 runs with LARS to 75.9 % top-1; below a batch of 1,632 as at 1,632"
)


def _normalised(b: GraphBuilder, name: str, x: Value, channels: int, kernel: int, stride: int = 1) -> Value:
    """Add a convolution without bias that keeps the size at stride 1, and batch normalisation."""
    y = b.conv2d(f"conv{name}", x, channels, kernel, stride=stride, padding=kernel // 2)
    return b.batch_norm(f"bn{name}", y)


def _bottleneck(b: GraphBuilder, x: Value, width: int, stride: int) -> Value:
    y = b.activation("relu1", _normalised(b, "1", x, width, 1), saves="output")
    y = b.activation("relu2", _normalised(b, "2", y, width, 3, stride), saves="output")
    y = _normalised(b, "3", y, _EXPANSION * width, 1)
    if x.shape != y.shape:
        x = _normalised(b, "_skip", x, _EXPANSION * width, 1, stride)
    return b.activation("relu3", b.add("add", y, x), saves="output")


@SOURCES.add(
    "resnet50", title="ResNet-50", paper=PAPER, family="resnet", parameters=25_557_032,
    options=(
        Option(name="image", default=224, help="height and width of images"),
        Option(name="width", default=64, help="channels of the stem, the unit of all others"),
        Option(name="classes", default=1000, help="classes of images"),
    ),
)  # fmt: skip
def resnet50(*, image: int, width: int, classes: int, sequence_length: int | None = None) -> LayerGraph:
    """Build ResNet-50; its defaults are for images of 3 x 224 x 224 and 1000 classes.

    Raises:
        InputError: a size below 1, images too small for five halvings, or a sequence length.
    """
    refuse_sequence("resnet50", sequence_length)
    check_sizes("resnet50", {"width": width, "classes": classes})
    check_sizes("resnet50", {"image": image}, least=32)
    # Batch 256 and momentum as in the paper, section 3.4. LARS of the epochs keeps one state too.
    defaults = Defaults(
        global_batch=256, precision="fp32", optimizer="momentum", samples_per_epoch=IMAGENET_SAMPLES,
        epochs=_EPOCHS, epochs_source=_EPOCHS_SOURCE,
    )  # fmt: skip
    b = GraphBuilder("resnet50", defaults=defaults, source=PAPER)
    x = b.input("images", {"channels": 3, "height": image, "width": image})
    x = b.activation("relu", _normalised(b, "1", x, width, 7, 2), saves="output")
    x = b.max_pool("pool", x, 3, stride=2, padding=1)
    for stage, (times, count) in enumerate(_STAGES, start=1):
        for i in range(count):
            with b.block(f"stage{stage}.{i}"):
                x = _bottleneck(b, x, times * width, 2 if stage > 1 and i == 0 else 1)
    features = b.mean("mean", x).seen_as("embed")
    b.loss(
        "loss",
        b.linear("head", features, {"vocab": classes}, bias=True),
        b.input("targets", {}, dtype="int64"),
    )
    return b.build()
