"""3D U-Net of Çiçek et al.: down four resolutions of a volume and up again, joined by skips.

Of the two architectures of that name this is the paper's (19,069,955 parameters, a tile of 132 x 132 x 116
voxels that shrinks to 44 x 44 x 28, because convolutions have no padding), not MLPerf's (five resolutions,
instance normalisation). Its count has one bias for every filter of 3 x 3 x 3 or 1 x 1 x 1 and none for the
up-convolutions; the batch normalisation is Caffe's, which learns nothing.
"""

from __future__ import annotations

from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder, Value
from explorer.models.vgg import refuse_sequence

PAPER = "Cicek et al. 2016, 3D U-Net, arXiv:1606.06650, figure 2"
_DOWN = ((32, 64), (64, 128), (128, 256), (256, 512))
_UP = (256, 128, 64)
_CLASSES = 3


def _pair(b: GraphBuilder, x: Value, first: int, second: int) -> Value:
    """Add, twice, a convolution of 3 x 3 x 3, batch normalisation and relu."""
    for i, channels in enumerate((first, second), start=1):
        x = b.batch_norm(f"bn{i}", b.conv3d(f"conv{i}", x, channels, 3, bias=True), affine=False)
        x = b.activation(f"relu{i}", x, saves="output")
    return x


@SOURCES.add("unet-3d", title="3D U-Net", paper=PAPER, family="unet", parameters=19_069_955)
def unet_3d(*, sequence_length: int | None = None) -> LayerGraph:
    """Build the network for volumes of 3 x 132 x 132 x 116 and 3 classes of voxels."""
    refuse_sequence("unet-3d", sequence_length)
    # Section 3: stochastic gradient descent. Its batch is not published: a tile on each of 8 devices assumed.
    defaults = Defaults(global_batch=8, precision="fp32", optimizer="momentum")
    b = GraphBuilder("unet-3d", defaults=defaults, source=PAPER)
    x = b.input("volume", {"channels": 3, "depth": 132, "height": 132, "width": 116})
    seen: list[Value] = []
    for i, (first, second) in enumerate(_DOWN):
        with b.block(f"down.{i}"):
            if i:
                seen.append(x)
                x = b.max_pool("pool", x, 2, stride=2)
            x = _pair(b, x, first, second)
    for i, channels in enumerate(_UP):
        with b.block(f"up.{i}"):
            x = b.up_conv("up", x, int(x.size("channels")), 2)
            x = _pair(b, b.concat("concat", x, seen.pop(), axis="channels"), channels, channels)
    scores = b.conv3d("head", x, _CLASSES, 1, bias=True)
    space = dict(zip(scores.dims[1:], scores.shape[1:], strict=True))
    targets = b.input("targets", space, dtype="int64")
    b.loss("loss", scores.seen_as("vocab", *space), targets)
    return b.build()
